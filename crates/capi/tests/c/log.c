/* The log: what is told, to whom, and until when. */
#include <pthread.h>
#include <unistd.h>
#include "expect.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int count, worst = 9;
static char last[512];

static void notes(void *argument, int level, const char *text)
{
    pthread_mutex_lock(&lock);
    EXPECT(argument == &count);
    count++;
    worst = level < worst ? level : worst;
    strncpy(last, text, sizeof last - 1);
    pthread_mutex_unlock(&lock);
}

/* A target whose namespace names a file that does not last gives a warning; a host that comes gives a note. */
static void makes_noise(void)
{
    char url[256];
    weft_target *target;
    weft_disk *disk;
    weft_options *options;
    OK(weft_target_start("listen = [\"nvme+tcp://127.0.0.1:0\"]\n[server]\nthreads = 1\n[[subsystem]]\n"
                         "nqn = \"nqn.2026-01.example:log\"\n[[subsystem.namespace]]\nnsid = 1\n"
                         "source = \"ram:1MiB\"\n", &target));
    EXPECT(weft_target_url(target, 0, url, sizeof url) > 0);
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "ctrl-loss-tmo", "0"));
    OK(weft_open(url, options, &disk));
    OK(weft_target_stop(target));
    weft_options_free(options);
    OK(weft_close(disk));
}

static int worst_so_far(void)
{
    int is;
    pthread_mutex_lock(&lock);
    is = worst;
    pthread_mutex_unlock(&lock);
    return is;
}

/* A connection that is lost and comes back is no error in the log; the loss of the device is one. */
static void reconnects(const char *protocol, const char *ctrl_loss, int expected)
{
    static char block[512];
    char text[512], url[256];
    weft_target *target;
    weft_disk *disk;
    weft_options *options;
    int n;
    sprintf(text,
            "listen = [\"%s://127.0.0.1:0\"]\n[server]\nthreads = 1\n[[subsystem]]\n"
            "nqn = \"nqn.2026-01.example:log\"\n[[subsystem.namespace]]\nnsid = 1\nname = \"disk\"\n"
            "source = \"ram:1MiB\"\n", protocol);
    OK(weft_target_start(text, &target));
    EXPECT(weft_target_url(target, 0, url, sizeof url) > 0);
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "ctrl-loss-tmo", ctrl_loss));
    OK(weft_open(url, options, &disk));
    OK(weft_pread(disk, block, sizeof block, 0));
    pthread_mutex_lock(&lock);
    worst = 9;
    pthread_mutex_unlock(&lock);
    OK(weft_target_leave(target));
    OK(weft_target_come_back(target));
    if (expected == WEFT_LOG_ERROR)
        EXPECT(weft_pread(disk, block, sizeof block, 0) < 0);
    else
        OK(weft_pread(disk, block, sizeof block, 0));
    /* The log may come a moment after the operation. */
    for (n = 0; n < 1000 && worst_so_far() > expected; n++)
        usleep(10000);
    EXPECT(worst_so_far() == expected);
    weft_options_free(options);
    OK(weft_close(disk));
    OK(weft_target_stop(target));
}

int main(void)
{
    static const char *protocols[] = {"nvme+tcp", "iscsi", "nbd"};
    int before, n;
    EXPECT(weft_set_log(notes, &count, 0) == -WEFT_ERROR_USAGE);
    EXPECT(weft_set_log(notes, &count, 5) == -WEFT_ERROR_USAGE);
    OK(weft_set_log(notes, &count, WEFT_LOG_DEBUG));
    makes_noise();
    for (n = 0; n < 3; n++) {
        reconnects(protocols[n], "-1", WEFT_LOG_WARNING);
        reconnects(protocols[n], "0", WEFT_LOG_ERROR);
    }
    EXPECT(count > 0 && worst >= WEFT_LOG_ERROR && worst <= WEFT_LOG_DEBUG && last[0] != 0);
    OK(weft_set_log(NULL, NULL, WEFT_LOG_ERROR));
    before = count;
    makes_noise();
    EXPECT(count == before);
    return 0;
}
