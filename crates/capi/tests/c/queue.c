/* Queues: submission, completions by waiting and by a descriptor, cancelling, memory. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
#include "expect.h"

#define DEPTH 64

static unsigned char blocks[DEPTH][4096], found[DEPTH][4096];

static void waits(weft_disk *disk)
{
    weft_queue *queue;
    weft_completion done[DEPTH];
    int n, count, left;
    OK(weft_queue_new(disk, DEPTH, &queue));
    for (n = 0; n < DEPTH; n++) {
        memset(blocks[n], n + 1, 4096);
        OK(weft_queue_write(queue, blocks[n], 4096, (uint64_t)n * 4096, 0, (uint64_t)n));
    }
    EXPECT(weft_queue_flush(queue, 99) == -WEFT_ERROR_AGAIN);
    EXPECT(weft_queue_in_flight(queue) == DEPTH);
    EXPECT(weft_queue_wait(queue, done, DEPTH, DEPTH, -1) == DEPTH);
    for (n = 0; n < DEPTH; n++)
        EXPECT(done[n].result == 0 && done[n].flags == 0);
    OK(weft_queue_flush(queue, 99));
    EXPECT(weft_queue_wait(queue, done, DEPTH, DEPTH, -1) == 1 && done[0].user == 99);
    for (n = 0; n < DEPTH; n++)
        OK(weft_queue_read(queue, found[n], 4096, (uint64_t)n * 4096, (uint64_t)n));
    for (left = DEPTH; left > 0; left -= count) {
        struct pollfd waited = {weft_queue_fd(queue), POLLIN, 0};
        EXPECT(poll(&waited, 1, -1) == 1);
        count = weft_queue_reap(queue, done, 5);
        EXPECT(count >= 0);
        for (n = 0; n < count; n++)
            EXPECT(done[n].result == 0 && found[done[n].user][7] == done[n].user + 1);
    }
    EXPECT(weft_queue_reap(queue, done, DEPTH) == 0 && weft_queue_in_flight(queue) == 0);
    OK(weft_queue_read(queue, NULL, 0, 0, 3));
    EXPECT(weft_queue_wait(queue, done, 1, 1, -1) == 1 && done[0].user == 3);
    OK(weft_queue_discard(queue, 4096, 0, 4));
    OK(weft_queue_write_zeroes(queue, 4096, 4096, 0, 5));
    OK(weft_queue_compare_and_write(queue, blocks[5], blocks[6], 4096, 20480, 0, 6));
    EXPECT(weft_queue_wait(queue, done, DEPTH, 3, -1) == 3);
    for (n = 0; n < 3; n++)
        EXPECT(done[n].result == 0);
    OK(weft_queue_compare_and_write(queue, blocks[5], blocks[6], 4096, 20480, 0, 7));
    EXPECT(weft_queue_wait(queue, done, 1, 1, -1) == 1);
    EXPECT(done[0].result == -WEFT_ERROR_DIFFERS);
    EXPECT(weft_close(disk) == -WEFT_ERROR_IN_USE);
    weft_queue_free(queue);
}

static void cancels(void)
{
    weft_disk *disk;
    weft_queue *queue;
    weft_completion done[2];
    OK(weft_open("error:rate=1,kind=timeout,ops=read,ram:1MiB,block=4096", NULL, &disk));
    OK(weft_queue_new(disk, 4, &queue));
    OK(weft_queue_read(queue, found[0], 4096, 0, 1));
    OK(weft_queue_read(queue, found[1], 4096, 0, 2));
    EXPECT(weft_queue_wait(queue, done, 2, 1, 1) == 0);
    OK(weft_queue_cancel(queue, 1));
    EXPECT(weft_queue_wait(queue, done, 2, 1, -1) == 1);
    EXPECT(done[0].user == 1 && done[0].result == -WEFT_ERROR_CANCELLED && done[0].flags == 0);
    /* The other one is given up. */
    weft_queue_free(queue);
    OK(weft_close(disk));
}

/* The sentence about a completion. */
static void sentences(void)
{
    const char *failed = "the operation failed: input or output failed";
    weft_disk *disk;
    weft_queue *queue;
    weft_completion done;
    char text[256];
    OK(weft_open("error:rate=1,kind=media,ops=read,ram:1MiB,block=4096", NULL, &disk));
    OK(weft_queue_new(disk, 4, &queue));
    OK(weft_queue_read(queue, found[0], 4096, 0, 1));
    EXPECT(weft_queue_wait(queue, &done, 1, 1, -1) == 1 && done.result == -WEFT_ERROR_IO);
    EXPECT(weft_completion_message(&done, text, sizeof text) == (int)strlen(text));
    EXPECT(strncmp(text, failed, strlen(failed)) == 0);
    EXPECT(weft_completion_message(&done, text, 5) > 5 && strcmp(text, "the ") == 0);
    EXPECT(weft_completion_message(&done, NULL, 0) > 5);
    EXPECT(weft_completion_message(NULL, text, sizeof text) == -WEFT_ERROR_USAGE);
    weft_queue_free(queue);
    OK(weft_close(disk));
}

static void memory(weft_disk *disk)
{
    static unsigned char own[8192];
    weft_queue *queue;
    weft_memory *made, *registered;
    weft_completion done[2];
    unsigned char *bytes;
    OK(weft_queue_new(disk, 4, &queue));
    OK(weft_memory_new(1 << 20, &made));
    OK(weft_memory_register(own, sizeof own, &registered));
    EXPECT(weft_memory_size(made) == 1 << 20 && weft_memory_data(registered) == own);
    bytes = weft_memory_data(made);
    memset(bytes + 4096, 5, 8192);
    OK(weft_queue_write_from(queue, made, 4096, 8192, 65536, WEFT_FUA, 1));
    EXPECT(weft_queue_wait(queue, done, 2, 1, -1) == 1 && done[0].result == 0);
    OK(weft_queue_read_into(queue, registered, 0, 8192, 65536, 2));
    EXPECT(weft_queue_wait(queue, done, 2, 1, -1) == 1 && done[0].result == 0);
    EXPECT(memcmp(own, bytes + 4096, 8192) == 0);
    EXPECT(weft_queue_read_into(queue, registered, 4096, 8192, 0, 3) == -WEFT_ERROR_USAGE);
    OK(weft_memory_free(registered));
    OK(weft_queue_write_from(queue, made, 0, 1 << 20, 0, 0, 4));
    OK(weft_memory_free(made));
    EXPECT(weft_queue_wait(queue, done, 2, 1, -1) == 1 && done[0].result == 0);
    OK(weft_memory_free(NULL));
    weft_queue_free(queue);
}

/* Registered memory is kept while an operation has it. */
static void held(void)
{
    static unsigned char own[4096];
    weft_disk *disk;
    weft_queue *queue;
    weft_memory *registered;
    weft_completion done;
    OK(weft_open("error:rate=1,kind=timeout,ram:1MiB,block=4096", NULL, &disk));
    OK(weft_queue_new(disk, 4, &queue));
    OK(weft_memory_register(own, sizeof own, &registered));
    OK(weft_queue_read_into(queue, registered, 0, 4096, 0, 1));
    EXPECT(weft_memory_free(registered) == -WEFT_ERROR_IN_USE);
    OK(weft_queue_cancel(queue, 1));
    EXPECT(weft_queue_wait(queue, &done, 1, 1, -1) == 1);
    OK(weft_memory_free(registered));
    weft_queue_free(queue);
    OK(weft_close(disk));
}

/* A file with a time limit, whose operations are copied also from registered memory. */
static void limited(void)
{
    char name[] = "/tmp/libweft-queue-XXXXXX", url[64];
    int file = mkstemp(name);
    weft_options *options;
    weft_disk *disk;
    EXPECT(file >= 0 && ftruncate(file, 1 << 20) == 0);
    sprintf(url, "file:%s,block=4096", name);
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "disk-timeout", "60s"));
    OK(weft_open(url, options, &disk));
    weft_options_free(options);
    memory(disk);
    OK(weft_close(disk));
    OK(weft_open(url, NULL, &disk));
    memory(disk);
    OK(weft_close(disk));
    close(file);
    unlink(name);
}

/* Threads that use one device, and one queue, at the same time. */
static weft_disk *shared_disk;
static weft_queue *shared_queue;

static void *uses(void *argument)
{
    unsigned char block[4096], again[4096];
    uint64_t at = (uint64_t)(size_t)argument * 4096;
    int n;
    for (n = 0; n < 50; n++) {
        weft_completion done[4];
        memset(block, n + (int)at / 4096, sizeof block);
        OK(weft_pwrite(shared_disk, block, sizeof block, at, 0));
        OK(weft_pread(shared_disk, again, sizeof again, at));
        EXPECT(memcmp(block, again, sizeof block) == 0);
        OK(weft_queue_flush(shared_queue, at));
        /* It may be the completion of another thread. */
        EXPECT(weft_queue_wait(shared_queue, done, 1, 1, -1) >= 0);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t all[4];
    weft_completion done[8];
    size_t n;
    OK(weft_open("ram:1MiB,block=4096", NULL, &shared_disk));
    OK(weft_queue_new(shared_disk, 256, &shared_queue));
    for (n = 0; n < 4; n++)
        EXPECT(pthread_create(&all[n], NULL, uses, (void *)n) == 0);
    for (n = 0; n < 4; n++)
        EXPECT(pthread_join(all[n], NULL) == 0);
    while (weft_queue_in_flight(shared_queue) > 0)
        EXPECT(weft_queue_wait(shared_queue, done, 8, 1, -1) > 0);
    weft_queue_free(shared_queue);
    OK(weft_close(shared_disk));
}

int main(void)
{
    weft_disk *disk;
    OK(weft_open("ram:1MiB,block=4096", NULL, &disk));
    waits(disk);
    memory(disk);
    OK(weft_close(disk));
    cancels();
    sentences();
    held();
    limited();
    threads();
    return 0;
}
