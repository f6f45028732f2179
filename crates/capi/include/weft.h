/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libweft: block devices over the network, and targets, from user space.
 *
 * Results. A function that returns int returns 0, or another number that is not negative, if it
 * succeeds; otherwise the negative of a weft_error. weft_last_message() then has a sentence for
 * people, for each thread its own.
 *
 * Memory. What a function has made is freed by the function that its comment names, once. Texts and
 * buffers that are passed in stay the caller's: the library copies texts, and uses buffers until a
 * blocking function returns, or until the operation of a queue is reaped.
 *
 * Threads. Any thread may call any function, and several may use one handle at the same time, but
 * for the function that frees it. A weft_loop and its queues are used by the thread that has made
 * the loop only. The library has threads of its own, which call nothing of the program but the
 * function that weft_set_log was given.
 *
 * fork. A child of a process that has used the library must not use it, and execute a program
 * instead: functions fail with WEFT_ERROR_FORKED there, and free nothing. A process that forks
 * before the first use may use it in the child.
 *
 * Signals. The library uses none, changes no handler, and blocks all signals in its own threads.
 * Writing to a connection that is closed does not raise SIGPIPE.
 *
 * dlclose. The library stays in memory when it is closed.
 *
 * Panics. A defect of the library ends in WEFT_ERROR_INTERNAL.
 */

#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

/* The protocol of a status. */
enum weft_protocol {
    WEFT_PROTOCOL_NONE = 0,
    WEFT_PROTOCOL_NVME = 1,
    WEFT_PROTOCOL_SCSI = 2,
    WEFT_PROTOCOL_NBD = 3,
    WEFT_PROTOCOL_SYSTEM = 4
};

/* How grave something in the log is. */
enum weft_log_level {
    WEFT_LOG_ERROR = 1,
    WEFT_LOG_WARNING = 2,
    WEFT_LOG_NOTE = 3,
    WEFT_LOG_DEBUG = 4
};

/**
 * The operation may have been executed although it failed.
 */
#define WEFT_MAY_HAVE_EXECUTED 1

/**
 * The operation may even be executed later.
 */
#define WEFT_MAY_STILL_EXECUTE 2

/**
 * The write is durable when it completes (force unit access).
 */
#define WEFT_FUA 1

/**
 * The device may free the space of the zeroes.
 */
#define WEFT_MAY_UNMAP 2

/**
 * Codes of errors. A function that fails returns the negative of one.
 */
typedef enum weft_error {
    /**
     * No error.
     */
    WEFT_ERROR_OK = 0,
    /**
     * A URL, an option or an argument is wrong.
     */
    WEFT_ERROR_USAGE = 1,
    /**
     * A file, host name, subsystem or namespace does not exist.
     */
    WEFT_ERROR_NOT_FOUND = 2,
    /**
     * The system or the peer denies permission.
     */
    WEFT_ERROR_PERMISSION = 3,
    /**
     * In use.
     */
    WEFT_ERROR_IN_USE = 4,
    /**
     * No memory or file descriptors are left.
     */
    WEFT_ERROR_NO_RESOURCES = 5,
    /**
     * The peer refused or ended the connection.
     */
    WEFT_ERROR_REFUSED = 6,
    /**
     * No answer in time.
     */
    WEFT_ERROR_TIMED_OUT = 7,
    /**
     * The peer uses another protocol or violates this one.
     */
    WEFT_ERROR_PROTOCOL = 8,
    /**
     * The device does not support the request.
     */
    WEFT_ERROR_UNSUPPORTED = 9,
    /**
     * The blocks could not be read or written, or another error of the system.
     */
    WEFT_ERROR_IO = 10,
    /**
     * The operation was cancelled, or aborted by a reset.
     */
    WEFT_ERROR_CANCELLED = 11,
    /**
     * The operation exceeds the end of the device.
     */
    WEFT_ERROR_OUT_OF_RANGE = 12,
    /**
     * The device, or this path to it, does not accept writes.
     */
    WEFT_ERROR_READ_ONLY = 13,
    /**
     * The backing store is full.
     */
    WEFT_ERROR_NO_SPACE = 14,
    /**
     * A reservation of another host conflicts.
     */
    WEFT_ERROR_CONFLICT = 15,
    /**
     * The compared blocks hold other data.
     */
    WEFT_ERROR_DIFFERS = 16,
    /**
     * The device is gone for good.
     */
    WEFT_ERROR_GONE = 17,
    /**
     * Try again later: the queue is full, or the device is busy or cannot be reached at present.
     */
    WEFT_ERROR_AGAIN = 18,
    /**
     * The process was forked after the library was first used; see "fork" above.
     */
    WEFT_ERROR_FORKED = 19,
    /**
     * A defect of the library; please report the sentence.
     */
    WEFT_ERROR_INTERNAL = 20,
} weft_error;

/**
 * An open device.
 */
typedef struct weft_disk weft_disk;

/**
 * An event loop that runs in the thread that has made it, while that thread calls it. Other
 * threads must not use it, or its queues.
 */
typedef struct weft_loop weft_loop;

/**
 * Memory that operations of any device use without a copy.
 */
typedef struct weft_memory weft_memory;

/**
 * Options for opening a device. One may serve any number of devices.
 */
typedef struct weft_options weft_options;

/**
 * Operations in flight on a device. Any thread may use it; several may at the same time.
 */
typedef struct weft_queue weft_queue;

/**
 * A target that this process serves.
 */
typedef struct weft_target weft_target;

/**
 * A function of the program for the log: its argument, a `weft_log_level`, and a sentence, which
 * is valid until the function returns.
 */
typedef void (*weft_log)(void *argument, int level, const char *text);

/**
 * A completed operation, as programs see it.
 */
typedef struct weft_completion {
    /**
     * The number that was given with the operation.
     */
    uint64_t user;
    /**
     * 0, or the negative of a `weft_error`.
     */
    int32_t result;
    /**
     * `WEFT_MAY_HAVE_EXECUTED`, `WEFT_MAY_STILL_EXECUTE`: what is known of a failed write.
     */
    uint32_t flags;
    /**
     * The protocol of `status`: `WEFT_PROTOCOL_NONE` if there is none.
     */
    uint32_t protocol;
    /**
     * The status as the device reported it. NVMe: code type in bits 10:8, code in bits 7:0, Do Not
     * Retry in bit 14. SCSI: status byte, sense key, additional sense code and qualifier, one byte
     * each. NBD and the system: the error number.
     */
    uint32_t status;
} weft_completion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes an event loop in the calling thread, for queues of any number of devices. Free it with
 * `weft_loop_free` in this thread.
 *
 * # Safety
 * `own` is NULL, or valid for writing.
 */
int weft_loop_new(struct weft_loop **own);

/**
 * Frees an event loop. Fails with `WEFT_ERROR_IN_USE` while it has queues, and with
 * `WEFT_ERROR_USAGE` in another thread than its own, and changes nothing then. NULL is ignored.
 *
 * # Safety
 * `own` is NULL or a handle, which is not used afterwards if the function succeeds.
 */
int weft_loop_free(struct weft_loop *own);

/**
 * A descriptor that is readable when the loop has something to do, for poll and epoll. It belongs
 * to the loop: do not read from it, and do not close it. Call `weft_loop_prepare` before each
 * wait.
 *
 * # Safety
 * `own` is a handle.
 */
int weft_loop_fd(const struct weft_loop *own);

/**
 * Prepares a loop for a wait for its descriptor, and stores how long that may last in
 * nanoseconds: -1 for no limit, and 0 if there is something to do. Call `weft_loop_run` when the
 * wait is over, whatever has ended it.
 *
 * # Safety
 * `own` is a handle; `nanoseconds` is NULL, or valid for writing.
 */
int weft_loop_prepare(const struct weft_loop *own, int64_t *nanoseconds);

/**
 * Runs a loop: does what there is to do, after it has waited for that, but for `milliseconds` at
 * most; a negative number means no limit. The completions of its queues are taken out with
 * `weft_queue_reap`.
 *
 * # Safety
 * `own` is a handle.
 */
int weft_loop_run(const struct weft_loop *own, int milliseconds);

/**
 * Makes a queue, as `weft_queue_new`, on a loop of the calling thread. `weft_queue_reap`
 * runs the loop without waiting, and `weft_queue_wait` waits in it: what was submitted is sent
 * then. Only this thread may use the queue.
 *
 * # Safety
 * `disk` and `own` are handles; `queue` is NULL, or valid for writing.
 */
int weft_queue_new_on(const struct weft_disk *disk,
                      const struct weft_loop *own,
                      uint32_t depth,
                      struct weft_queue **queue);

/**
 * Opens a device by its URL: any source of weft, as in "nvme+tcp://host/NQN", "ram:1GiB",
 * "file:/srv/disk.img" or "iscsi://host/IQN/0"; docs/sources.md lists all of them. `options` may be
 * NULL. Waits until the device is open, for the option "connect-timeout" at most, or until
 * `weft_options_cancel`. Free it with `weft_close`.
 *
 * # Safety
 * `url` is a text; `options` is NULL or a handle; `disk` is NULL, or valid for writing.
 */
int weft_open(const char *url, const struct weft_options *options, struct weft_disk **disk);

/**
 * Closes a device, and tells its peers. What was written and not flushed may be lost, as with any
 * disk. Fails with `WEFT_ERROR_IN_USE`, and changes nothing, while the device has queues. NULL is
 * ignored.
 *
 * # Safety
 * `disk` is NULL or a handle, which is not used afterwards if the function succeeds.
 */
int weft_close(struct weft_disk *disk);

/**
 * Stores a property that is a number: a size in bytes, a count, or 1 for yes and 0 for no.
 * docs/libweft.md lists all of them. Waits for no I/O.
 *
 * # Safety
 * `disk` is a handle; `name` is a text; `value` is NULL, or valid for writing.
 */
int weft_get_u64(const struct weft_disk *disk, const char *name, uint64_t *value);

/**
 * Copies a property, as a text with a NUL at its end, to `buffer` of `bytes` bytes, cut off where
 * it does not fit. Numbers are written in decimal. Returns the length of the whole text without
 * the NUL, like snprintf. Waits for no I/O.
 *
 * # Safety
 * `disk` is a handle; `name` is a text; `buffer` is valid for writing `bytes` bytes.
 */
int weft_get_text(const struct weft_disk *disk, const char *name, char *buffer, size_t bytes);

/**
 * Asks the source for its size, which the property "size" then has. Most sources report a new size
 * by themselves; a file does not. Waits for the source.
 *
 * # Safety
 * `disk` is a handle.
 */
int weft_renew_size(const struct weft_disk *disk);

/**
 * Stores where the next bytes at or behind `offset` begin that may be anything but zeroes, and how
 * many follow each other; at the end of the device 0 bytes. Returns 1, or 0 if the source does not
 * tell: then all bytes may be anything. Makes at most one system call.
 *
 * # Safety
 * `disk` is a handle; `start` and `bytes` are NULL, or valid for writing.
 */
int weft_next_data(const struct weft_disk *disk, uint64_t offset, uint64_t *start, uint64_t *bytes);

/**
 * Reads `bytes` bytes at `offset` into `buffer`, and waits for them. Both are multiples of the
 * block size.
 *
 * # Safety
 * `disk` is a handle; `buffer` is valid for writing `bytes` bytes.
 */
int weft_pread(const struct weft_disk *disk, void *buffer, size_t bytes, uint64_t offset);

/**
 * Writes `bytes` bytes from `buffer` at `offset`, and waits for it. Both are multiples of the
 * block size. It is durable after `weft_flush`, or with `WEFT_FUA`.
 *
 * # Safety
 * `disk` is a handle; `buffer` is valid for reading `bytes` bytes.
 */
int weft_pwrite(const struct weft_disk *disk,
                const void *buffer,
                size_t bytes,
                uint64_t offset,
                uint32_t flags);

/**
 * Makes durable all writes that completed before, and waits for it.
 *
 * # Safety
 * `disk` is a handle.
 */
int weft_flush(const struct weft_disk *disk);

/**
 * Tells the device that `bytes` bytes at `offset` are no longer needed: they read as zeroes or as
 * before. A device that cannot free space does nothing. Both are multiples of the block size.
 *
 * # Safety
 * `disk` is a handle.
 */
int weft_discard(const struct weft_disk *disk, uint64_t bytes, uint64_t offset);

/**
 * Makes `bytes` bytes at `offset` read as zeroes, and waits for it. Both are multiples of the
 * block size. With `WEFT_MAY_UNMAP` the device may free their space.
 *
 * # Safety
 * `disk` is a handle.
 */
int weft_write_zeroes(const struct weft_disk *disk,
                      uint64_t bytes,
                      uint64_t offset,
                      uint32_t flags);

/**
 * Writes `bytes` bytes from `data` at `offset` if the device holds `expected` there, in one step:
 * no write of another host comes between. Returns 1 if it was written, and 0 if the device holds
 * other data. The property "compare-and-write-max" has the most bytes.
 *
 * # Safety
 * `disk` is a handle; `expected` and `data` are valid for reading `bytes` bytes.
 */
int weft_compare_and_write(const struct weft_disk *disk,
                           const void *expected,
                           const void *data,
                           size_t bytes,
                           uint64_t offset,
                           uint32_t flags);

/**
 * The version of the library, as in "0.1.0". The text is constant.
 */
const char *weft_version(void);

/**
 * The code of the last error of this thread: a `weft_error`, `WEFT_ERROR_OK` if no function has
 * failed in it. A function that succeeds does not change it.
 */
int weft_last_error(void);

/**
 * The last error of this thread in one sentence, for people: what is wrong, and what to do. Empty
 * if no function has failed in it. The text is valid until the next function fails in this thread,
 * or the thread ends.
 */
const char *weft_last_message(void);

/**
 * The status with which a device reported the last error of this thread: returns its protocol (a
 * `weft_protocol`) and stores the status, as in `weft_completion`, unless `status` is NULL.
 *
 * # Safety
 * `status` is NULL, or valid for writing.
 */
uint32_t weft_last_status(uint32_t *status);

/**
 * Returns the meaning of an error code, in some words. Takes a `weft_error` or its negative. The
 * text is constant.
 */
const char *weft_error_text(int code);

/**
 * Copies a completion in one sentence, for people, to `buffer` of `bytes` bytes, and returns its
 * length, as `weft_get_text`: the error, the status that the device reported, and whether the
 * operation may have been executed. The completion may be a copy, of any queue.
 *
 * # Safety
 * `completion` is NULL, or valid for reading; `buffer` is valid for writing `bytes` bytes.
 */
int weft_completion_message(const struct weft_completion *completion, char *buffer, size_t bytes);

/**
 * Calls a function of the program for what the library has to say: of the level `most` and all
 * that are graver. It is called in threads of the library, and in those that call the library, by
 * several at the same time, and must not call the library. NULL ends that. When this function
 * returns, the function before is not running. By default nothing is told to anybody.
 *
 * # Safety
 * Any thread may call `function` with `argument` until another one is set.
 */
int weft_set_log(weft_log function, void *argument, int most);

/**
 * Allocates `bytes` bytes of zeroes, aligned to 4096 bytes. Free them with `weft_memory_free`.
 *
 * # Safety
 * `memory` is NULL, or valid for writing.
 */
int weft_memory_new(size_t bytes, struct weft_memory **memory);

/**
 * Registers `bytes` bytes at `start`, which stay the caller's: they must be initialised, and stay
 * valid until `weft_memory_free` has succeeded. Memory that is aligned to 4096 bytes avoids copies
 * for files and disks.
 *
 * # Safety
 * As above; `memory` is NULL, or valid for writing.
 */
int weft_memory_register(void *start, size_t bytes, struct weft_memory **memory);

/**
 * The first byte of the memory; NULL if `memory` is NULL.
 *
 * # Safety
 * `memory` is NULL or a handle.
 */
void *weft_memory_data(const struct weft_memory *memory);

/**
 * The size of the memory in bytes; 0 if `memory` is NULL.
 *
 * # Safety
 * `memory` is NULL or a handle.
 */
size_t weft_memory_size(const struct weft_memory *memory);

/**
 * Frees the handle. Memory of `weft_memory_new` is freed as soon as no operation uses it; do not
 * use it afterwards. Registered memory is the caller's again: while an operation uses it, the
 * function fails with `WEFT_ERROR_IN_USE` and changes nothing. NULL is ignored.
 *
 * # Safety
 * `memory` is NULL or a handle, which is not used afterwards if the function succeeds.
 */
int weft_memory_free(struct weft_memory *memory);

/**
 * Makes options, all with their defaults. Free them with `weft_options_free`.
 *
 * # Safety
 * `options` is NULL, or valid for writing.
 */
int weft_options_new(struct weft_options **options);

/**
 * Sets an option. The names and values are those of `weft connect` without the dashes in front, as
 * in "ctrl-loss-tmo", "30"; options without a value there are "on" or "off" here. docs/libweft.md
 * lists all of them. The value is checked now and copied.
 *
 * # Safety
 * `options` is a handle; `name` and `value` are texts.
 */
int weft_options_set(struct weft_options *options, const char *name, const char *value);

/**
 * Cancels opening with these options, now and from now on: `weft_open` fails soon with
 * `WEFT_ERROR_CANCELLED`, in whichever thread it waits. Open devices are not affected. Waits for
 * nothing.
 *
 * # Safety
 * `options` is a handle.
 */
int weft_options_cancel(struct weft_options *options);

/**
 * Frees options. Devices that were opened with them keep what was set. NULL is ignored.
 *
 * # Safety
 * `options` is NULL or a handle, which is not used afterwards.
 */
void weft_options_free(struct weft_options *options);

/**
 * Makes a queue of a device for up to `depth` operations, 1 to 65536. Free it with
 * `weft_queue_free`, before its device is closed.
 *
 * # Safety
 * `disk` is a handle; `queue` is NULL, or valid for writing.
 */
int weft_queue_new(const struct weft_disk *disk, uint32_t depth, struct weft_queue **queue);

/**
 * Frees a queue. Its operations are given up: those that were submitted may be executed or not.
 * When the function returns, their buffers are no longer used; `weft_memory` of operations may
 * still be in use. NULL is ignored; so is a queue on a loop of another thread.
 *
 * # Safety
 * `queue` is NULL or a handle, which threads no longer use.
 */
void weft_queue_free(struct weft_queue *queue);

/**
 * A descriptor that is readable while the queue has completions, for poll and epoll. It belongs to
 * the queue: do not read from it, and do not close it.
 *
 * # Safety
 * `queue` is a handle.
 */
int weft_queue_fd(const struct weft_queue *queue);

/**
 * Operations that were submitted and are not reaped; 0 if `queue` is NULL.
 *
 * # Safety
 * `queue` is NULL or a handle.
 */
uint32_t weft_queue_in_flight(const struct weft_queue *queue);

/**
 * Submits a read of `bytes` bytes at `offset` into `buffer`, which belongs to the library until
 * the operation is reaped or the queue freed. `user` is any number: the completion has it. Fails
 * with `WEFT_ERROR_AGAIN` when the queue is full.
 *
 * # Safety
 * `queue` is a handle; `buffer` is valid for writing `bytes` bytes.
 */
int weft_queue_read(const struct weft_queue *queue,
                    void *buffer,
                    size_t bytes,
                    uint64_t offset,
                    uint64_t user);

/**
 * Submits a write of `bytes` bytes from `buffer` at `offset`. As `weft_queue_read`; `flags` is 0
 * or `WEFT_FUA`.
 *
 * # Safety
 * `queue` is a handle; `buffer` is valid for reading `bytes` bytes.
 */
int weft_queue_write(const struct weft_queue *queue,
                     const void *buffer,
                     size_t bytes,
                     uint64_t offset,
                     uint32_t flags,
                     uint64_t user);

/**
 * Submits a read of `bytes` bytes at `offset` into `memory` from its byte `at` on, without a copy
 * where the device can. These bytes belong to the library until the operation is reaped.
 *
 * # Safety
 * `queue` and `memory` are handles; nothing else uses these bytes of the memory.
 */
int weft_queue_read_into(const struct weft_queue *queue,
                         const struct weft_memory *memory,
                         size_t at,
                         size_t bytes,
                         uint64_t offset,
                         uint64_t user);

/**
 * Submits a write of `bytes` bytes from `memory` at `offset`, from the memory's byte `at` on. As
 * `weft_queue_read_into`; `flags` is 0 or `WEFT_FUA`.
 *
 * # Safety
 * `queue` and `memory` are handles; nothing writes to these bytes of the memory.
 */
int weft_queue_write_from(const struct weft_queue *queue,
                          const struct weft_memory *memory,
                          size_t at,
                          size_t bytes,
                          uint64_t offset,
                          uint32_t flags,
                          uint64_t user);

/**
 * Submits a flush, which makes durable all writes that completed before it was submitted.
 *
 * # Safety
 * `queue` is a handle.
 */
int weft_queue_flush(const struct weft_queue *queue, uint64_t user);

/**
 * Submits a discard. See `weft_discard`.
 *
 * # Safety
 * `queue` is a handle.
 */
int weft_queue_discard(const struct weft_queue *queue,
                       uint64_t bytes,
                       uint64_t offset,
                       uint64_t user);

/**
 * Submits writing zeroes. See `weft_write_zeroes`.
 *
 * # Safety
 * `queue` is a handle.
 */
int weft_queue_write_zeroes(const struct weft_queue *queue,
                            uint64_t bytes,
                            uint64_t offset,
                            uint32_t flags,
                            uint64_t user);

/**
 * Submits a compare-and-write. See `weft_compare_and_write`; the completion has the result
 * `-WEFT_ERROR_DIFFERS` if the device holds other data.
 *
 * # Safety
 * `queue` is a handle; `expected` and `data` are valid for reading `bytes` bytes.
 */
int weft_queue_compare_and_write(const struct weft_queue *queue,
                                 const void *expected,
                                 const void *data,
                                 size_t bytes,
                                 uint64_t offset,
                                 uint32_t flags,
                                 uint64_t user);

/**
 * Asks for an early end of all operations of the queue with this number. Each still completes
 * once: with `-WEFT_ERROR_CANCELLED`, or as without this. Its buffer is in use until then.
 *
 * # Safety
 * `queue` is a handle.
 */
int weft_queue_cancel(const struct weft_queue *queue, uint64_t user);

/**
 * Stores up to `most` completions and returns their number, without waiting.
 *
 * # Safety
 * `queue` is a handle; `completions` is valid for writing `most` completions.
 */
int weft_queue_reap(const struct weft_queue *queue,
                    struct weft_completion *completions,
                    uint32_t most);

/**
 * Stores up to `most` completions and returns their number, after it has waited for `least` of
 * them, but for `milliseconds` at most; a negative number means no limit. It does not wait for
 * more operations than are in flight.
 *
 * # Safety
 * `queue` is a handle; `completions` is valid for writing `most` completions.
 */
int weft_queue_wait(const struct weft_queue *queue,
                    struct weft_completion *completions,
                    uint32_t most,
                    uint32_t least,
                    int milliseconds);

/**
 * Starts a target: it serves what a configuration asks for, which is the text of a file for
 * `weft serve --config`. When the function returns hosts can connect. Port 0 in an address picks a
 * free port; `weft_target_url` has the port. The target has event loops on threads of its own.
 * Free it with `weft_target_stop`.
 *
 * # Safety
 * `configuration` is a text; `target` is NULL, or valid for writing.
 */
int weft_target_start(const char *configuration, struct weft_target **target);

/**
 * Copies the URL of a listener to `buffer` of `bytes` bytes, and returns its length, as
 * `weft_get_text`. The first has number 0; beyond the last the function fails with
 * `WEFT_ERROR_NOT_FOUND`. Devices in this process can be opened by it, too.
 *
 * # Safety
 * `target` is a handle; `buffer` is valid for writing `bytes` bytes.
 */
int weft_target_url(const struct weft_target *target, uint32_t number, char *buffer, size_t bytes);

/**
 * Puts filters in front of the source of a namespace, in the place of those that this function has
 * put there before: the front of a URL with `error:`, `delay:` and `limit:`, as in
 * "error:rate=1,kind=media,delay:read=10ms". An empty text takes them away. They count for
 * operations that begin later. `subsystem` is the name of the subsystem; NULL stands for the first
 * one with such a namespace.
 *
 * # Safety
 * `target` is a handle; `subsystem` is NULL or a text; `filters` is a text.
 */
int weft_target_set_filters(const struct weft_target *target,
                            const char *subsystem,
                            uint32_t nsid,
                            const char *filters);

/**
 * Changes what the target serves into what a configuration asks for, as `weft apply --force` does:
 * namespaces, sizes, ANA states, access, authentication. Hosts stay connected. `listen` and the
 * tables that take effect at the start must be as they were; otherwise the function fails with
 * `WEFT_ERROR_USAGE`. If it fails nothing has changed.
 *
 * # Safety
 * `target` is a handle; `configuration` is a text.
 */
int weft_target_apply(const struct weft_target *target, const char *configuration);

/**
 * Closes all connections of the target. Hosts may come back at once. Does not wait.
 *
 * # Safety
 * `target` is a handle.
 */
int weft_target_disconnect(const struct weft_target *target);

/**
 * Stops listening, and closes all connections of the target: to its hosts it is gone until
 * `weft_target_come_back`. What it serves keeps its data. Waits some seconds for connections.
 *
 * # Safety
 * `target` is a handle.
 */
int weft_target_leave(const struct weft_target *target);

/**
 * Listens again at the same addresses, also where ports were picked.
 *
 * # Safety
 * `target` is a handle.
 */
int weft_target_come_back(const struct weft_target *target);

/**
 * Stores a counter of the target: "connections" and "in-flight" (at present), "hosts", "reads",
 * "writes", "others", "read-bytes", "write-bytes", "errors" (since its start).
 *
 * # Safety
 * `target` is a handle; `name` is a text; `value` is NULL, or valid for writing.
 */
int weft_target_get_u64(const struct weft_target *target, const char *name, uint64_t *value);

/**
 * Copies the state of the target to `buffer` of `bytes` bytes, as JSON like that of
 * `weft status --json`, and returns its length, as `weft_get_text`. Call it with more room than it
 * returned last: a later state may be longer.
 *
 * # Safety
 * `target` is a handle; `buffer` is valid for writing `bytes` bytes.
 */
int weft_target_report(const struct weft_target *target, char *buffer, size_t bytes);

/**
 * Ends a target and frees it, also if the function fails, as it does when a device cannot be
 * flushed. It accepts no more connections, lets commands in flight end for some seconds, closes
 * all connections, flushes, and ends its threads. NULL is ignored.
 *
 * # Safety
 * `target` is NULL or a handle, which is not used afterwards.
 */
int weft_target_stop(struct weft_target *target);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEFT_H */
