/* Blocking calls, properties, options and errors on a RAM disk. */
#include "expect.h"

static void properties(weft_disk *disk)
{
    uint64_t value;
    char text[64], short_text[4];
    OK(weft_get_u64(disk, "size", &value));
    EXPECT(value == 1 << 20);
    OK(weft_get_u64(disk, "block-size", &value));
    EXPECT(value == 4096);
    OK(weft_get_u64(disk, "read-only", &value));
    EXPECT(value == 0);
    EXPECT(weft_get_text(disk, "url", text, sizeof text) == 19);
    EXPECT(strcmp(text, "ram:1MiB,block=4096") == 0);
    EXPECT(weft_get_text(disk, "url", short_text, sizeof short_text) == 19);
    EXPECT(strcmp(short_text, "ram") == 0);
    EXPECT(weft_get_text(disk, "blocks", text, sizeof text) == 3 && strcmp(text, "256") == 0);
    EXPECT(weft_get_text(disk, "uuid", NULL, 0) == 36);
    EXPECT(weft_get_u64(disk, "colour", &value) == -WEFT_ERROR_NOT_FOUND);
    EXPECT(weft_get_u64(disk, "url", &value) == -WEFT_ERROR_USAGE);
}

static void blocking(weft_disk *disk)
{
    static unsigned char data[65536], read[65536], zeroes[65536];
    memset(data, 7, sizeof data);
    OK(weft_pwrite(disk, data, sizeof data, 8192, WEFT_FUA));
    OK(weft_flush(disk));
    OK(weft_pread(disk, read, sizeof read, 8192));
    EXPECT(memcmp(data, read, sizeof data) == 0);
    OK(weft_write_zeroes(disk, 4096, 8192, WEFT_MAY_UNMAP));
    OK(weft_pread(disk, read, 4096, 8192));
    EXPECT(memcmp(zeroes, read, 4096) == 0);
    OK(weft_discard(disk, 4096, 12288));
    memset(read, 9, 4096);
    EXPECT(weft_compare_and_write(disk, data, read, 4096, 16384, 0) == 1);
    EXPECT(weft_compare_and_write(disk, data, read, 4096, 16384, 0) == 0);
    OK(weft_pread(disk, data, 4096, 16384));
    EXPECT(memcmp(data, read, 4096) == 0);
    OK(weft_pread(disk, NULL, 0, 0));
}

static void whole(weft_disk *disk)
{
    uint64_t start, bytes;
    unsigned char *all = calloc(1, 1 << 20), *again = calloc(1, 1 << 20);
    size_t at;
    for (at = 0; at < 1 << 20; at++)
        all[at] = (unsigned char)(at / 4096 + at);
    OK(weft_pwrite(disk, all, 1 << 20, 0, 0));
    OK(weft_pread(disk, again, 1 << 20, 0));
    EXPECT(memcmp(all, again, 1 << 20) == 0);
    OK(weft_renew_size(disk));
    if (weft_next_data(disk, 0, &start, &bytes) == 1)
        EXPECT(start == 0 && bytes > 0);
    free(all);
    free(again);
}

static void errors(weft_disk *disk)
{
    char byte[4096] = {0};
    uint32_t status = 5;
    EXPECT(weft_pread(disk, byte, 1, 0) == -WEFT_ERROR_USAGE);
    EXPECT(weft_pread(disk, byte, 4096, 1 << 20) == -WEFT_ERROR_OUT_OF_RANGE);
    EXPECT(weft_pread(disk, byte, 4096, UINT64_MAX - 4095) == -WEFT_ERROR_OUT_OF_RANGE);
    EXPECT(weft_pread(disk, NULL, 4096, 0) == -WEFT_ERROR_USAGE);
    EXPECT(weft_pread(NULL, byte, 4096, 0) == -WEFT_ERROR_USAGE);
    EXPECT(weft_pread(disk, byte, SIZE_MAX - 4095, 0) == -WEFT_ERROR_USAGE);
    EXPECT(weft_pwrite(disk, byte, 4096, 0, 64) == -WEFT_ERROR_USAGE);
    EXPECT(weft_last_error() == WEFT_ERROR_USAGE && weft_last_message()[0] != 0);
    EXPECT(weft_last_status(&status) == WEFT_PROTOCOL_NONE && status == 0);
    EXPECT(strlen(weft_error_text(-WEFT_ERROR_AGAIN)) > 0 && strlen(weft_error_text(999)) > 0);
    EXPECT(weft_open("tape:0", NULL, &disk) == -WEFT_ERROR_USAGE);
    EXPECT(weft_open("file:/nonexistent/weft", NULL, &disk) == -WEFT_ERROR_NOT_FOUND);
    EXPECT(weft_open(NULL, NULL, &disk) == -WEFT_ERROR_USAGE);
    EXPECT(weft_open("ram:1MiB", NULL, NULL) == -WEFT_ERROR_USAGE);
    EXPECT(weft_open("\xff", NULL, &disk) == -WEFT_ERROR_USAGE);
}

/* The option stands for `readonly:`: nothing that changes data is begun. */
static void opened_read_only(void)
{
    weft_options *options;
    weft_disk *disk;
    weft_queue *queue;
    char byte[512] = {0};
    uint64_t is_so = 0;
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "read-only", "on"));
    OK(weft_open("ram:1MiB", options, &disk));
    OK(weft_get_u64(disk, "read-only", &is_so));
    EXPECT(is_so == 1);
    OK(weft_pread(disk, byte, 512, 0));
    EXPECT(weft_pwrite(disk, byte, 512, 0, 0) == -WEFT_ERROR_READ_ONLY);
    EXPECT(strstr(weft_last_message(), "without the option read-only") != NULL);
    EXPECT(weft_discard(disk, 512, 0) == -WEFT_ERROR_READ_ONLY);
    EXPECT(weft_write_zeroes(disk, 512, 0, 0) == -WEFT_ERROR_READ_ONLY);
    EXPECT(weft_compare_and_write(disk, byte, byte, 512, 0, 0) == -WEFT_ERROR_READ_ONLY);
    OK(weft_queue_new(disk, 1, &queue));
    EXPECT(weft_queue_write(queue, byte, 512, 0, 0, 1) == -WEFT_ERROR_READ_ONLY);
    weft_queue_free(queue);
    OK(weft_flush(disk));
    OK(weft_close(disk));
    OK(weft_options_set(options, "read-only", "off"));
    OK(weft_open("ram:1MiB", options, &disk));
    OK(weft_pwrite(disk, byte, 512, 0, 0));
    OK(weft_close(disk));
    weft_options_free(options);
}

int main(void)
{
    weft_options *options;
    weft_disk *disk;
    char byte[512] = {0};
    EXPECT(weft_last_error() == WEFT_ERROR_OK && weft_last_message()[0] == 0);
    EXPECT(strcmp(weft_version(), "0.1.0") == 0);
    OK(weft_options_new(&options));
    OK(weft_options_set(options, "queues", "2"));
    EXPECT(weft_options_set(options, "queues", "none") == -WEFT_ERROR_USAGE);
    OK(weft_open("ram:1MiB,block=4096", options, &disk));
    weft_options_free(options);
    properties(disk);
    blocking(disk);
    whole(disk);
    errors(disk);
    OK(weft_close(disk));
    OK(weft_open("readonly:ram:1MiB", NULL, &disk));
    EXPECT(weft_pwrite(disk, byte, 512, 0, 0) == -WEFT_ERROR_READ_ONLY);
    OK(weft_close(disk));
    opened_read_only();
    OK(weft_open("error:rate=1,kind=nospace,ops=write,ram:1MiB", NULL, &disk));
    EXPECT(weft_pwrite(disk, byte, 512, 0, 0) == -WEFT_ERROR_NO_SPACE);
    OK(weft_close(disk));
    OK(weft_close(NULL));
    weft_options_free(NULL);
    return 0;
}
