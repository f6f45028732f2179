/* dlopen, use, dlclose, many times: threads that are ending run code that is still there. */
#include <dlfcn.h>
#include <stdio.h>
#include "weft.h"

int main(int count, char **arguments)
{
    int n;
    for (n = 0; n < 20; n++) {
        void *library = dlopen(arguments[count - 1], RTLD_NOW | RTLD_LOCAL);
        int (*open)(const char *, const weft_options *, weft_disk **);
        int (*close)(weft_disk *);
        weft_disk *disk;
        if (library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        *(void **)&open = dlsym(library, "weft_open");
        *(void **)&close = dlsym(library, "weft_close");
        if (open("ram:1MiB", NULL, &disk) != 0 || close(disk) != 0)
            return 2;
        dlclose(library);
    }
    return 0;
}
