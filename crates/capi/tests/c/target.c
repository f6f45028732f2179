/* A target in the process, used over NVMe/TCP; faults that are switched; changes; its end under a
 * host. */
#include <signal.h>
#include <unistd.h>
#include "expect.h"

#define CONFIGURATION                         \
    "listen = [\"nvme+tcp://127.0.0.1:0\"]\n" \
    "[server]\n"                             \
    "threads = 1\n"                          \
    "[[subsystem]]\n"                        \
    "nqn = \"nqn.2026-01.example:capi\"\n"   \
    "[[subsystem.namespace]]\n"              \
    "nsid = 1\n"                             \
    "source = \"ram:8MiB,block=4096\"\n"

static const char configuration[] = CONFIGURATION;

static const char smaller[] = CONFIGURATION "size = \"4MiB\"\n";

static unsigned char data[1 << 20], found[1 << 20];

static void uses(weft_target *target, weft_disk *disk)
{
    uint64_t count;
    uint32_t status;
    char text[8];
    memset(data, 3, sizeof data);
    OK(weft_pwrite(disk, data, sizeof data, 4096, 0));
    OK(weft_flush(disk));
    OK(weft_pread(disk, found, sizeof found, 4096));
    EXPECT(memcmp(data, found, sizeof data) == 0);
    OK(weft_target_get_u64(target, "write-bytes", &count));
    EXPECT(count == sizeof data);
    OK(weft_target_get_u64(target, "connections", &count));
    EXPECT(count > 0);
    EXPECT(weft_target_get_u64(target, "colour", &count) == -WEFT_ERROR_NOT_FOUND);
    EXPECT(weft_target_report(target, text, sizeof text) > 100 && text[0] == '{');
    OK(weft_target_set_filters(target, NULL, 1, "error:rate=1,kind=media,ops=read"));
    EXPECT(weft_pread(disk, found, 4096, 0) == -WEFT_ERROR_IO);
    EXPECT(weft_last_status(&status) == WEFT_PROTOCOL_NVME && status != 0);
    OK(weft_pwrite(disk, data, 4096, 0, 0));
    OK(weft_target_set_filters(target, "nqn.2026-01.example:capi", 1, ""));
    OK(weft_pread(disk, found, 4096, 0));
    EXPECT(weft_target_set_filters(target, NULL, 2, "") == -WEFT_ERROR_NOT_FOUND);
    EXPECT(weft_target_set_filters(target, NULL, 1, "readonly:") == -WEFT_ERROR_USAGE);
    OK(weft_target_get_u64(target, "errors", &count));
    EXPECT(count >= 1);
}

static void changes(weft_target *target, const char *url, const weft_options *options)
{
    uint64_t count;
    weft_disk *disk;
    OK(weft_target_apply(target, smaller));
    EXPECT(weft_target_apply(target, "listen = 5") == -WEFT_ERROR_USAGE);
    EXPECT(weft_target_apply(target, "listen = [\"127.0.0.1:0\", \"127.0.0.1:0\"]") < 0);
    OK(weft_open(url, options, &disk));
    OK(weft_get_u64(disk, "size", &count));
    EXPECT(count == 4 << 20);
    OK(weft_target_disconnect(target));
    OK(weft_target_leave(target));
    OK(weft_target_get_u64(target, "connections", &count));
    EXPECT(count == 0);
    EXPECT(weft_pread(disk, found, 4096, 0) < 0);
    OK(weft_close(disk));
    EXPECT(weft_open(url, options, &disk) < 0);
    OK(weft_target_come_back(target));
    OK(weft_target_come_back(target));
    OK(weft_open(url, options, &disk));
    OK(weft_pread(disk, found, 4096, 4096));
    EXPECT(memcmp(data, found, 4096) == 0);
    OK(weft_close(disk));
}

/* Only namespaces with a name are exports of NBD. */
static void nbd_needs_names(void)
{
    static const char nameless[] = "listen = [\"nbd://127.0.0.1:0\"]\n"
                                   "[[subsystem]]\nnqn = \"nqn.2026-01.example:capi\"\n"
                                   "[[subsystem.namespace]]\nnsid = 1\nsource = \"ram:8MiB\"\n";
    char named[sizeof nameless + 32], url[128];
    weft_target *target;
    EXPECT(weft_target_start(nameless, &target) == -WEFT_ERROR_USAGE);
    EXPECT(strstr(weft_last_message(), "no namespace has a name") != NULL);
    sprintf(named, "%sname = \"disk\"\n", nameless);
    OK(weft_target_start(named, &target));
    EXPECT(weft_target_url(target, 0, url, sizeof url) > 0 && strstr(url, "/disk") != NULL);
    OK(weft_target_stop(target));
}

int main(void)
{
    weft_target *target;
    weft_options *options;
    weft_disk *disk;
    char url[256];
    /* As in a program of C: the default would end it. */
    signal(SIGPIPE, SIG_DFL);
    EXPECT(weft_target_start("listen = 5", &target) == -WEFT_ERROR_USAGE);
    EXPECT(weft_target_start("[[subsystem", &target) == -WEFT_ERROR_USAGE);
    nbd_needs_names();
    OK(weft_target_start(configuration, &target));
    EXPECT(weft_target_url(target, 0, url, sizeof url) > 0);
    EXPECT(weft_target_url(target, 7, url, sizeof url) == -WEFT_ERROR_NOT_FOUND);
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "hostnqn", "nqn.2026-01.example:host"));
    OK(weft_options_set(options, "ctrl-loss-tmo", "0"));
    OK(weft_options_set(options, "queues", "2"));
    OK(weft_open(url, options, &disk));
    uses(target, disk);
    changes(target, url, options);
    OK(weft_target_stop(target));
    /* The host learns of the end, and SIGPIPE does not end the process. */
    EXPECT(weft_pwrite(disk, data, 4096, 0, 0) < 0);
    OK(weft_close(disk));
    EXPECT(weft_open(url, options, &disk) < 0);
    weft_options_free(options);
    return 0;
}
