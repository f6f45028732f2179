/* Opening a device of a server that accepts and never answers, until another thread cancels it. */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include "expect.h"

static int listener;

static void *cancels(void *options)
{
    int peer = accept(listener, NULL, NULL);
    EXPECT(peer >= 0);
    OK(weft_options_cancel(options));
    return NULL;
}

int main(void)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    weft_options *options;
    weft_disk *disk;
    pthread_t thread;
    char url[64];
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(listener >= 0 && bind(listener, (struct sockaddr *)&address, size) == 0);
    EXPECT(listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    snprintf(url, sizeof url, "nbd://127.0.0.1:%d/x", ntohs(address.sin_port));
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "connect-timeout", "1h"));
    EXPECT(pthread_create(&thread, NULL, cancels, options) == 0);
    EXPECT(weft_open(url, options, &disk) == -WEFT_ERROR_CANCELLED);
    EXPECT(strcmp(weft_last_message(), "opening was cancelled") == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(weft_open(url, options, &disk) == -WEFT_ERROR_CANCELLED);
    EXPECT(weft_options_cancel(NULL) == -WEFT_ERROR_USAGE);
    weft_options_free(options);
    close(listener);
    return 0;
}
