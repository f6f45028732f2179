/* The times in which a RAM disk of 1 MiB is opened, and in which a thread starts and ends, in
   nanoseconds: the medians of many, measured in turn. */
#include <pthread.h>
#include <time.h>
#include "expect.h"

enum { TIMES = 501 };

static long ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void *nothing(void *argument)
{
    return argument;
}

static int order(const void *a, const void *b)
{
    const long *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

int main(void)
{
    static long opens[TIMES], threads[TIMES];
    weft_disk *disk;
    pthread_t thread;
    int n;
    for (n = 0; n < TIMES; n++) {
        long start = ns();
        OK(weft_open("ram:1MiB", NULL, &disk));
        opens[n] = ns() - start;
        OK(weft_close(disk));
        start = ns();
        EXPECT(pthread_create(&thread, NULL, nothing, NULL) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
        threads[n] = ns() - start;
    }
    qsort(opens, TIMES, sizeof opens[0], order);
    qsort(threads, TIMES, sizeof threads[0], order);
    printf("%ld %ld\n", opens[TIMES / 2], threads[TIMES / 2]);
    return 0;
}
