/* A child of a process that has used the library is refused; one that forks before may use it. */
#include <sys/wait.h>
#include <unistd.h>
#include "expect.h"

static int status_of(pid_t child)
{
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

int main(void)
{
    weft_disk *disk, *other;
    char block[512];
    pid_t child;
    child = fork();
    if (child == 0) {
        OK(weft_open("ram:1MiB", NULL, &disk));
        OK(weft_pread(disk, block, 512, 0));
        OK(weft_close(disk));
        _exit(7);
    }
    EXPECT(status_of(child) == 7);
    OK(weft_open("ram:1MiB", NULL, &disk));
    child = fork();
    if (child == 0) {
        EXPECT(weft_pread(disk, block, 512, 0) == -WEFT_ERROR_FORKED);
        EXPECT(weft_close(disk) == -WEFT_ERROR_FORKED);
        EXPECT(weft_open("ram:1MiB", NULL, &other) == -WEFT_ERROR_FORKED);
        EXPECT(strstr(weft_last_message(), "forked") != NULL);
        _exit(8);
    }
    EXPECT(status_of(child) == 8);
    OK(weft_pread(disk, block, 512, 0));
    OK(weft_close(disk));
    return 0;
}
