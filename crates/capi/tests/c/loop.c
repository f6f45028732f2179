/* Queues on an event loop of this thread: several devices, waits in the library and for a descriptor. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <time.h>
#include "expect.h"

#define DEPTH 32

static const char configuration[] = "listen = [\"nvme+tcp://127.0.0.1:0\"]\n"
                                    "[[subsystem]]\nnqn = \"nqn.2026-01.example:loop\"\n"
                                    "[[subsystem.namespace]]\nnsid = 1\nsource = \"ram:1MiB,block=4096\"\n";

static unsigned char blocks[DEPTH][4096], found[DEPTH][4096];

/* Waits for the descriptor of a loop, and runs it. */
static void waits_outside(weft_loop *own)
{
    struct pollfd waited = {weft_loop_fd(own), POLLIN, 0};
    struct timespec limit;
    int64_t most;
    OK(weft_loop_prepare(own, &most));
    limit.tv_sec = most / 1000000000;
    limit.tv_nsec = most % 1000000000;
    EXPECT(ppoll(&waited, 1, most < 0 ? NULL : &limit, NULL) >= 0);
    OK(weft_loop_run(own, 0));
}

/* Writes by waiting in the library, and reads by waiting outside. */
static void moves(weft_queue *queue, weft_loop *own, int seed)
{
    weft_completion done[DEPTH];
    int n, count, left;
    for (n = 0; n < DEPTH; n++) {
        memset(blocks[n], seed + n, 4096);
        OK(weft_queue_write(queue, blocks[n], 4096, (uint64_t)n * 4096, 0, (uint64_t)n));
    }
    EXPECT(weft_queue_flush(queue, 99) == -WEFT_ERROR_AGAIN);
    EXPECT(weft_queue_wait(queue, done, DEPTH, DEPTH, -1) == DEPTH);
    EXPECT(weft_queue_wait(queue, done, DEPTH, 1, -1) == 0);
    for (n = 0; n < DEPTH; n++)
        OK(weft_queue_read(queue, found[n], 4096, (uint64_t)n * 4096, (uint64_t)n));
    for (left = DEPTH; left > 0; left -= count) {
        count = weft_queue_reap(queue, done, 5);
        EXPECT(count >= 0);
        for (n = 0; n < count; n++)
            EXPECT(done[n].result == 0 && found[done[n].user][7] == seed + (int)done[n].user);
        if (count == 0)
            waits_outside(own);
    }
    EXPECT(weft_queue_in_flight(queue) == 0);
}

static weft_loop *shared_loop;
static weft_queue *shared_queue;

static void *is_refused(void *argument)
{
    weft_completion done;
    int64_t most;
    (void)argument;
    EXPECT(weft_loop_run(shared_loop, 0) == -WEFT_ERROR_USAGE);
    EXPECT(weft_loop_prepare(shared_loop, &most) == -WEFT_ERROR_USAGE);
    EXPECT(weft_loop_fd(shared_loop) == -WEFT_ERROR_USAGE);
    EXPECT(weft_loop_free(shared_loop) == -WEFT_ERROR_USAGE);
    EXPECT(weft_queue_flush(shared_queue, 1) == -WEFT_ERROR_USAGE);
    EXPECT(weft_queue_reap(shared_queue, &done, 1) == -WEFT_ERROR_USAGE);
    weft_queue_free(shared_queue);
    return NULL;
}

/* A queue waits for no longer than it is told, and gives up what a device holds for ever. */
static void limits(weft_loop *own)
{
    weft_options *options;
    weft_disk *disk;
    weft_queue *queue;
    weft_completion done;
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "threads", "off"));
    OK(weft_open("error:rate=1,kind=timeout,ops=read,ram:1MiB,block=4096", options, &disk));
    weft_options_free(options);
    EXPECT(weft_pread(disk, found[0], 4096, 0) == -WEFT_ERROR_USAGE);
    EXPECT(weft_queue_new(disk, 4, &queue) == -WEFT_ERROR_USAGE);
    OK(weft_queue_new_on(disk, own, 4, &queue));
    OK(weft_queue_read(queue, found[0], 4096, 0, 1));
    OK(weft_queue_read(queue, found[1], 4096, 0, 2));
    EXPECT(weft_queue_wait(queue, &done, 1, 1, 1) == 0);
    OK(weft_queue_cancel(queue, 1));
    EXPECT(weft_queue_wait(queue, &done, 1, 1, -1) == 1);
    EXPECT(done.user == 1 && done.result == -WEFT_ERROR_CANCELLED);
    EXPECT(weft_close(disk) == -WEFT_ERROR_IN_USE);
    EXPECT(weft_loop_free(own) == -WEFT_ERROR_IN_USE);
    weft_queue_free(queue);
    OK(weft_close(disk));
}

/* With an argument one of the devices is in the network. */
int main(int count, char **arguments)
{
    char url[256] = "ram:1MiB,block=4096";
    weft_target *target = NULL;
    weft_options *options;
    weft_disk *near, *far;
    weft_queue *first, *second;
    weft_memory *memory;
    weft_completion done;
    weft_loop *own;
    pthread_t thread;
    (void)arguments;
    if (count > 1) {
        OK(weft_target_start(configuration, &target));
        EXPECT(weft_target_url(target, 0, url, sizeof url) > 0);
    }
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "threads", "off"));
    OK(weft_options_set(options, "queues", "2"));
    OK(weft_open("ram:1MiB,block=4096", options, &near));
    OK(weft_open(url, options, &far));
    weft_options_free(options);
    OK(weft_loop_new(&own));
    OK(weft_queue_new_on(near, own, DEPTH, &first));
    OK(weft_queue_new_on(far, own, DEPTH, &second));
    moves(first, own, 1);
    moves(second, own, 50);
    moves(first, own, 100);
    OK(weft_memory_new(8192, &memory));
    memset(weft_memory_data(memory), 9, 8192);
    OK(weft_queue_write_from(second, memory, 0, 4096, 8192, WEFT_FUA, 7));
    EXPECT(weft_queue_wait(second, &done, 1, 1, -1) == 1 && done.result == 0 && done.user == 7);
    OK(weft_queue_read_into(second, memory, 4096, 4096, 0, 8));
    EXPECT(weft_queue_wait(second, &done, 1, 1, -1) == 1 && done.result == 0);
    EXPECT(((unsigned char *)weft_memory_data(memory))[5000] == 50);
    OK(weft_memory_free(memory));
    shared_loop = own;
    shared_queue = second;
    EXPECT(pthread_create(&thread, NULL, is_refused, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    moves(second, own, 3);
    limits(own);
    weft_queue_free(first);
    weft_queue_free(second);
    OK(weft_close(near));
    OK(weft_close(far));
    OK(weft_loop_free(own));
    OK(weft_loop_free(NULL));
    OK(weft_target_stop(target));
    return 0;
}
