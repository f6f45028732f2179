/* The time in which a RAM disk of 1 MiB is opened, microseconds: the median of many. */
#include <time.h>
#include "expect.h"

enum { TIMES = 1001 };

static long us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static int order(const void *a, const void *b)
{
    const long *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

int main(void)
{
    static long all[TIMES];
    weft_disk *disk;
    int n;
    for (n = 0; n < TIMES; n++) {
        long start = us();
        OK(weft_open("ram:1MiB", NULL, &disk));
        all[n] = us() - start;
        OK(weft_close(disk));
    }
    qsort(all, TIMES, sizeof all[0], order);
    printf("%ld\n", all[TIMES / 2]);
    return 0;
}
