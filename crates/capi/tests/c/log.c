/* The log: what is told, to whom, and until when. */
#include <pthread.h>
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

int main(void)
{
    int before;
    EXPECT(weft_set_log(notes, &count, 0) == -WEFT_ERROR_USAGE);
    EXPECT(weft_set_log(notes, &count, 5) == -WEFT_ERROR_USAGE);
    OK(weft_set_log(notes, &count, WEFT_LOG_DEBUG));
    makes_noise();
    EXPECT(count > 0 && worst >= WEFT_LOG_ERROR && worst <= WEFT_LOG_DEBUG && last[0] != 0);
    OK(weft_set_log(NULL, NULL, WEFT_LOG_ERROR));
    before = count;
    makes_noise();
    EXPECT(count == before);
    return 0;
}
