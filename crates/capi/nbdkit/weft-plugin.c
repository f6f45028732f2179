/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A plugin of nbdkit: serves any source of weft, so that nbdkit's filters can be put in front of it.
 *
 *     nbdkit ./nbdkit-weft-plugin.so url=URL [NAME=VALUE ...]
 *
 * NAME and VALUE are options of libweft (docs/libweft.md). All connections share one device, which
 * is opened when nbdkit has forked: libweft does not work in a child of a process that has used it.
 *
 * Filters ask for any bytes. A write of parts of blocks reads these first, and no other write of
 * this process is under way meanwhile; writes of other hosts may be.
 */
#define NBDKIT_API_VERSION 2

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <nbdkit-plugin.h>
#include <weft.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

static const char *url;
static weft_options *options;
static weft_disk *disk;
static uint64_t block;

/* Held by all that writes, and alone by what writes parts of blocks. */
static pthread_rwlock_t writing = PTHREAD_RWLOCK_INITIALIZER;

/* The error of a client for one of the library. */
static int error_number(int code)
{
    switch (-code) {
    case WEFT_ERROR_USAGE:
    case WEFT_ERROR_OUT_OF_RANGE:
        return EINVAL;
    case WEFT_ERROR_NO_SPACE:
        return ENOSPC;
    case WEFT_ERROR_READ_ONLY:
    case WEFT_ERROR_PERMISSION:
    case WEFT_ERROR_CONFLICT:
        return EPERM;
    case WEFT_ERROR_NO_RESOURCES:
        return ENOMEM;
    case WEFT_ERROR_UNSUPPORTED:
        return EOPNOTSUPP;
    case WEFT_ERROR_GONE:
        return ESHUTDOWN;
    default:
        return EIO;
    }
}

/* Reports a result that is an error: 0, or -1. */
static int result_of(int code)
{
    if (code >= 0)
        return 0;
    nbdkit_error("%s", weft_last_message());
    nbdkit_set_error(error_number(code));
    return -1;
}

/* A property that is a number, which each device has. */
static uint64_t number(const char *name)
{
    uint64_t value = 0;
    result_of(weft_get_u64(disk, name, &value));
    return value;
}

static int weft_nbdkit_config(const char *key, const char *value)
{
    if (strcmp(key, "url") == 0) {
        url = value;
        return 0;
    }
    if (options == NULL && result_of(weft_options_new(&options)) < 0)
        return -1;
    return result_of(weft_options_set(options, key, value));
}

static int weft_nbdkit_config_complete(void)
{
    if (url == NULL) {
        nbdkit_error("url=URL is missing, as in url=nvme+tcp://HOST/NQN");
        return -1;
    }
    return 0;
}

/* Behind the fork, and before any client. */
static int weft_nbdkit_after_fork(void)
{
    if (result_of(weft_open(url, options, &disk)) < 0)
        return -1;
    block = number("block-size");
    return 0;
}

static void weft_nbdkit_unload(void)
{
    if (weft_close(disk) < 0)
        nbdkit_debug("%s", weft_last_message());
    weft_options_free(options);
}

static void *weft_nbdkit_open(int readonly)
{
    (void)readonly;
    return disk;
}

static int64_t weft_nbdkit_get_size(void *handle)
{
    uint64_t size = number("size");
    (void)handle;
    if (size > INT64_MAX) {
        nbdkit_error("the device is larger than NBD allows");
        return -1;
    }
    return (int64_t)size;
}

static int weft_nbdkit_block_size(void *handle, uint32_t *minimum, uint32_t *preferred,
                                  uint32_t *maximum)
{
    uint64_t optimal = number("optimal-size");
    (void)handle;
    *minimum = 1;
    *preferred = 4096 > block ? 4096 : (uint32_t)block;
    /* NBD wants a power of two of at most 32 MiB. */
    while (*preferred < optimal && *preferred < 32 << 20)
        *preferred *= 2;
    *maximum = 0xffffffff;
    return 0;
}

static int weft_nbdkit_can_write(void *handle)
{
    (void)handle;
    return number("read-only") == 0;
}

static int weft_nbdkit_can_trim(void *handle)
{
    (void)handle;
    return number("can-discard") != 0;
}

static int weft_nbdkit_can_zero(void *handle)
{
    (void)handle;
    return number("can-write-zeroes") != 0;
}

static int weft_nbdkit_can_fua(void *handle)
{
    (void)handle;
    return NBDKIT_FUA_NATIVE;
}

/* All connections have one device, and so one cache. */
static int weft_nbdkit_can_multi_conn(void *handle)
{
    (void)handle;
    return 1;
}

static int weft_nbdkit_can_extents(void *handle)
{
    uint64_t start, bytes;
    (void)handle;
    return weft_next_data(disk, 0, &start, &bytes) == 1;
}

/* The end of the last whole block before a place, and of the block that holds the byte before it. */
static uint64_t down(uint64_t offset)
{
    return offset - offset % block;
}

static uint64_t up(uint64_t offset)
{
    return down(offset + block - 1);
}

static int is_whole(uint64_t count, uint64_t offset)
{
    return (count | offset) % block == 0;
}

/* Reads all blocks of a range into new memory. */
static int read_blocks(uint64_t count, uint64_t offset, char **blocks)
{
    uint64_t first = down(offset), bytes = up(offset + count) - first;
    *blocks = malloc(bytes);
    if (*blocks == NULL) {
        nbdkit_error("malloc: %s", strerror(errno));
        nbdkit_set_error(ENOMEM);
        return -1;
    }
    return result_of(weft_pread(disk, *blocks, bytes, first));
}

static int weft_nbdkit_pread(void *handle, void *buffer, uint32_t count, uint64_t offset,
                             uint32_t flags)
{
    char *blocks = NULL;
    int result;
    (void)handle;
    (void)flags;
    if (is_whole(count, offset))
        return result_of(weft_pread(disk, buffer, count, offset));
    result = read_blocks(count, offset, &blocks);
    if (result == 0)
        memcpy(buffer, blocks + offset % block, count);
    free(blocks);
    return result;
}

/* Writes parts of blocks: data, or zeroes. */
static int merge(const void *data, uint32_t count, uint64_t offset, uint32_t how)
{
    char *blocks = NULL;
    int result = read_blocks(count, offset, &blocks);
    if (result == 0) {
        char *place = blocks + offset % block;
        if (data != NULL)
            memcpy(place, data, count);
        else
            memset(place, 0, count);
        result = result_of(weft_pwrite(disk, blocks, up(offset + count) - down(offset),
                                       down(offset), how));
    }
    free(blocks);
    return result;
}

static int weft_nbdkit_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset,
                              uint32_t flags)
{
    uint32_t how = flags & NBDKIT_FLAG_FUA ? WEFT_FUA : 0;
    int result;
    (void)handle;
    if (is_whole(count, offset)) {
        pthread_rwlock_rdlock(&writing);
        result = result_of(weft_pwrite(disk, buffer, count, offset, how));
    } else {
        pthread_rwlock_wrlock(&writing);
        result = merge(buffer, count, offset, how);
    }
    pthread_rwlock_unlock(&writing);
    return result;
}

static int weft_nbdkit_flush(void *handle, uint32_t flags)
{
    (void)handle;
    (void)flags;
    return result_of(weft_flush(disk));
}

/* Parts of blocks stay as they are. */
static int weft_nbdkit_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    uint64_t first = up(offset), end = down(offset + count);
    int result = 0;
    (void)handle;
    pthread_rwlock_rdlock(&writing);
    if (first < end)
        result = weft_discard(disk, end - first, first);
    if (result == 0 && flags & NBDKIT_FLAG_FUA)
        result = weft_flush(disk);
    result = result_of(result);
    pthread_rwlock_unlock(&writing);
    return result;
}

/* Zeroes parts of blocks at both ends by writes. */
static int zero(uint64_t count, uint64_t offset, uint32_t how)
{
    uint64_t end = offset + count, first = up(offset), last = down(end);
    uint32_t fua = how & WEFT_FUA;
    int result = 0;
    if (is_whole(count, offset))
        return result_of(weft_write_zeroes(disk, count, offset, how));
    if (first >= last)
        return merge(NULL, count, offset, fua);
    if (first > offset)
        result = merge(NULL, first - offset, offset, fua);
    if (result == 0)
        result = result_of(weft_write_zeroes(disk, last - first, first, how));
    if (result == 0 && end > last)
        result = merge(NULL, end - last, last, fua);
    return result;
}

static int weft_nbdkit_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    uint32_t how = (flags & NBDKIT_FLAG_FUA ? WEFT_FUA : 0) |
                   (flags & NBDKIT_FLAG_MAY_TRIM ? WEFT_MAY_UNMAP : 0);
    int result;
    (void)handle;
    if (is_whole(count, offset))
        pthread_rwlock_rdlock(&writing);
    else
        pthread_rwlock_wrlock(&writing);
    result = zero(count, offset, how);
    pthread_rwlock_unlock(&writing);
    return result;
}

static int weft_nbdkit_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
                               struct nbdkit_extents *extents)
{
    uint64_t at = offset, end = offset + count, start, bytes;
    (void)handle;
    while (at < end) {
        int known = weft_next_data(disk, at, &start, &bytes);
        if (known < 0)
            return result_of(known);
        if (known == 0)
            return nbdkit_add_extent(extents, at, end - at, 0);
        if (bytes == 0)
            start = end;
        if (start > at) {
            uint64_t zeroes = (start < end ? start : end) - at;
            uint32_t type = NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO;
            if (nbdkit_add_extent(extents, at, zeroes, type) < 0)
                return -1;
            at += zeroes;
            if (flags & NBDKIT_FLAG_REQ_ONE)
                return 0;
        }
        if (at < end) {
            uint64_t data = bytes < end - at ? bytes : end - at;
            if (nbdkit_add_extent(extents, at, data, 0) < 0)
                return -1;
            at += data;
            if (flags & NBDKIT_FLAG_REQ_ONE)
                return 0;
        }
    }
    return 0;
}

static struct nbdkit_plugin plugin = {
    .name = "weft",
    .version = "0.1.0",
    .longname = "weft: block devices over the network",
    .description = "Serves any source of weft: NVMe/TCP, iSCSI, NBD, files, memory, filters, lists.",
    .unload = weft_nbdkit_unload,
    .config = weft_nbdkit_config,
    .config_complete = weft_nbdkit_config_complete,
    .config_help = "url=URL           (required) a source of weft\n"
                   "NAME=VALUE        an option of libweft, as in ctrl-loss-tmo=30",
    .magic_config_key = "url",
    .after_fork = weft_nbdkit_after_fork,
    .open = weft_nbdkit_open,
    .get_size = weft_nbdkit_get_size,
    .block_size = weft_nbdkit_block_size,
    .can_write = weft_nbdkit_can_write,
    .can_trim = weft_nbdkit_can_trim,
    .can_zero = weft_nbdkit_can_zero,
    .can_fua = weft_nbdkit_can_fua,
    .can_multi_conn = weft_nbdkit_can_multi_conn,
    .can_extents = weft_nbdkit_can_extents,
    .pread = weft_nbdkit_pread,
    .pwrite = weft_nbdkit_pwrite,
    .flush = weft_nbdkit_flush,
    .trim = weft_nbdkit_trim,
    .zero = weft_nbdkit_zero,
    .extents = weft_nbdkit_extents,
};

NBDKIT_REGISTER_PLUGIN(plugin)
