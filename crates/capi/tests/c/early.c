/* Reads a buffer before its operation is reaped: Helgrind has to find that. */
#include <poll.h>
#include "expect.h"

static volatile unsigned char block[4096];

int main(void)
{
    weft_disk *disk;
    weft_queue *queue;
    weft_completion done;
    struct pollfd waited = {-1, POLLIN, 0};
    OK(weft_open("ram:1MiB,block=4096", NULL, &disk));
    OK(weft_queue_new(disk, 1, &queue));
    OK(weft_queue_read(queue, (void *)block, sizeof block, 0, 1));
    waited.fd = weft_queue_fd(queue);
    EXPECT(poll(&waited, 1, -1) == 1);
    EXPECT(block[0] == 0);
    EXPECT(weft_queue_reap(queue, &done, 1) == 1);
    EXPECT(block[0] == 0);
    weft_queue_free(queue);
    OK(weft_close(disk));
    return 0;
}
