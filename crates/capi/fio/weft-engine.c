/* SPDX-License-Identifier: MIT */
/*
 * An external I/O engine of fio 3.33: any source of weft by its URL.
 *
 *     fio --ioengine=external:./libfio-weft.so --filename='nvme+tcp\://HOST/NQN' ...
 *
 * fio's headers become part of the object file, so that fio's licence (GPL-2.0-only) binds it. It
 * is built by who uses it, and is in no package of weft.
 *
 * Each job has an event loop in its own thread, and on it a queue of each of its devices. Jobs with
 * the same URL and options share a device. Jobs are threads, as the library does not work in a
 * child of a process that has used it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <fio.h>
#include <optgroup.h>

#include <weft.h>

/* I/O queues that a device is asked for at most. */
#define QUEUES_MAX 64

/* An open device. */
struct device {
    struct device *next;
    char *url;
    char *options;
    weft_disk *disk;
    unsigned users;
};

/* A file of a job. */
struct seat {
    struct device *device;
    weft_queue *queue;
};

/* What a job has. */
struct job {
    weft_loop *loop;
    weft_memory *memory;
    unsigned char *start;
    size_t bytes;
    weft_completion *done;
    /* The first failure was told. */
    int is_told;
};

struct weft_engine_options {
    /* fio wants no option at offset 0. */
    void *pad;
    char *options;
};

static struct fio_option options_of_engine[] = {
    {
        .name = "weft_options",
        .lname = "Options of libweft",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct weft_engine_options, options),
        .help = "NAME=VALUE,... as in ctrl-loss-tmo=30,data-digest=on",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = NULL,
    },
};

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device *devices;

static int error_number(int code)
{
    switch (-code) {
    case WEFT_ERROR_USAGE:
    case WEFT_ERROR_OUT_OF_RANGE:
        return EINVAL;
    case WEFT_ERROR_NOT_FOUND:
        return ENOENT;
    case WEFT_ERROR_PERMISSION:
        return EACCES;
    case WEFT_ERROR_IN_USE:
        return EBUSY;
    case WEFT_ERROR_NO_RESOURCES:
        return ENOMEM;
    case WEFT_ERROR_REFUSED:
        return ECONNREFUSED;
    case WEFT_ERROR_TIMED_OUT:
        return ETIMEDOUT;
    case WEFT_ERROR_UNSUPPORTED:
        return EOPNOTSUPP;
    case WEFT_ERROR_CANCELLED:
        return ECANCELED;
    case WEFT_ERROR_READ_ONLY:
        return EROFS;
    case WEFT_ERROR_NO_SPACE:
        return ENOSPC;
    case WEFT_ERROR_CONFLICT:
        return EBADE;
    case WEFT_ERROR_GONE:
        return ENODEV;
    case WEFT_ERROR_AGAIN:
        return EAGAIN;
    default:
        return EIO;
    }
}

/* Tells why something of a job failed; the number of the error. */
static int tells(struct thread_data *td, int code)
{
    int number = error_number(code);
    log_err("fio: weft: %s\n", weft_last_message());
    td_verror(td, number, "weft");
    return number;
}

/* Sets the options of a text NAME=VALUE,... */
static int set_options(weft_options *options, const char *text)
{
    char *copy = strdup(text), *rest = copy, *one;
    int result = copy == NULL ? -WEFT_ERROR_NO_RESOURCES : 0;
    while (result >= 0 && (one = strsep(&rest, ",")) != NULL) {
        char *value = strchr(one, '=');
        if (*one == 0)
            continue;
        if (value != NULL)
            *value++ = 0;
        result = weft_options_set(options, one, value == NULL ? "on" : value);
    }
    free(copy);
    return result;
}

static int opens(struct device *device)
{
    weft_options *options;
    char queues[12];
    int result = weft_options_new(&options);
    if (result < 0)
        return result;
    snprintf(queues, sizeof queues, "%u", thread_number < QUEUES_MAX ? thread_number : QUEUES_MAX);
    result = weft_options_set(options, "threads", "off");
    if (result >= 0)
        result = weft_options_set(options, "queues", queues);
    if (result >= 0)
        result = set_options(options, device->options);
    if (result >= 0)
        result = weft_open(device->url, options, &device->disk);
    weft_options_free(options);
    return result;
}

static void forgets(struct device *device)
{
    free(device->url);
    free(device->options);
    free(device);
}

/* The device of a URL, which is opened for its first user; NULL, and the code of an error. */
static struct device *takes(const char *url, const char *options, int *result)
{
    struct device *device;
    *result = 0;
    pthread_mutex_lock(&devices_lock);
    for (device = devices; device != NULL; device = device->next)
        if (strcmp(device->url, url) == 0 && strcmp(device->options, options) == 0)
            break;
    if (device == NULL && (device = calloc(1, sizeof *device)) != NULL) {
        device->url = strdup(url);
        device->options = strdup(options);
        *result = device->url && device->options ? opens(device) : -WEFT_ERROR_NO_RESOURCES;
        if (*result < 0) {
            forgets(device);
            device = NULL;
        } else {
            device->next = devices;
            devices = device;
        }
    }
    if (device != NULL)
        device->users++;
    pthread_mutex_unlock(&devices_lock);
    return device;
}

static void returns(struct device *device)
{
    struct device **at;
    pthread_mutex_lock(&devices_lock);
    if (--device->users == 0) {
        for (at = &devices; *at != device;)
            at = &(*at)->next;
        *at = device->next;
        if (weft_close(device->disk) < 0)
            log_err("fio: weft: %s\n", weft_last_message());
        forgets(device);
    }
    pthread_mutex_unlock(&devices_lock);
}

/* Opens the device of a file, and learns what it is. */
static int opens_file(struct thread_data *td, struct fio_file *file)
{
    struct weft_engine_options *given = td->eo;
    struct seat *seat = calloc(1, sizeof *seat);
    uint64_t size, is_read_only;
    int result;
    if (seat == NULL)
        return 1;
    seat->device = takes(file->file_name, given->options ? given->options : "", &result);
    if (seat->device == NULL) {
        free(seat);
        return tells(td, result < 0 ? result : -WEFT_ERROR_NO_RESOURCES);
    }
    FILE_SET_ENG_DATA(file, seat);
    if ((result = weft_get_u64(seat->device->disk, "size", &size)) < 0 ||
        (result = weft_get_u64(seat->device->disk, "read-only", &is_read_only)) < 0)
        return tells(td, result);
    if (is_read_only && (td_write(td) || td_trim(td))) {
        log_err("fio: weft: %s is read-only\n", file->file_name);
        return 1;
    }
    file->real_file_size = size;
    fio_file_set_size_known(file);
    return 0;
}

/* In the main thread, before jobs begin. */
static int weft_engine_setup(struct thread_data *td)
{
    struct fio_file *file;
    unsigned n;
    td->o.use_thread = 1;
    if (td->o.nr_files == 0 || td->files_index == 0) {
        log_err("fio: weft: give a URL as filename=, with \\: for each colon\n");
        return 1;
    }
    for_each_file(td, file, n)
        if (FILE_ENG_DATA(file) == NULL && opens_file(td, file))
            return 1;
    return 0;
}

/* In the thread of the job. */
static int weft_engine_init(struct thread_data *td)
{
    struct job *job = calloc(1, sizeof *job);
    struct fio_file *file;
    unsigned n;
    int result;
    if (job == NULL)
        return 1;
    td->io_ops_data = job;
    job->done = calloc(td->o.iodepth, sizeof *job->done);
    if (job->done == NULL)
        return 1;
    if ((result = weft_loop_new(&job->loop)) < 0)
        return tells(td, result);
    for_each_file(td, file, n) {
        struct seat *seat = FILE_ENG_DATA(file);
        result = weft_queue_new_on(seat->device->disk, job->loop, td->o.iodepth, &seat->queue);
        if (result < 0)
            return tells(td, result);
    }
    return 0;
}

static void weft_engine_cleanup(struct thread_data *td)
{
    struct job *job = td->io_ops_data;
    struct fio_file *file;
    unsigned n;
    for_each_file(td, file, n) {
        struct seat *seat = FILE_ENG_DATA(file);
        if (seat == NULL)
            continue;
        weft_queue_free(seat->queue);
        returns(seat->device);
        free(seat);
        FILE_SET_ENG_DATA(file, NULL);
    }
    if (job != NULL) {
        weft_loop_free(job->loop);
        free(job->done);
        free(job);
    }
    td->io_ops_data = NULL;
}

static int weft_engine_iomem_alloc(struct thread_data *td, size_t bytes)
{
    struct job *job = td->io_ops_data;
    int result = weft_memory_new(bytes, &job->memory);
    if (result < 0)
        return tells(td, result);
    job->start = weft_memory_data(job->memory);
    job->bytes = bytes;
    td->orig_buffer = (char *)job->start;
    return 0;
}

static void weft_engine_iomem_free(struct thread_data *td)
{
    struct job *job = td->io_ops_data;
    weft_memory_free(job->memory);
    job->memory = NULL;
    job->bytes = 0;
}

static int submits(struct thread_data *td, struct io_u *io_u, weft_queue *queue)
{
    struct job *job = td->io_ops_data;
    uint64_t user = (uintptr_t)io_u, at = io_u->offset;
    size_t bytes = io_u->xfer_buflen, place = (uintptr_t)io_u->xfer_buf - (uintptr_t)job->start;
    int is_inside = place < job->bytes && bytes <= job->bytes - place;
    uint32_t fua = td->o.sync_io ? WEFT_FUA : 0;
    switch (io_u->ddir) {
    case DDIR_READ:
        if (is_inside)
            return weft_queue_read_into(queue, job->memory, place, bytes, at, user);
        return weft_queue_read(queue, io_u->xfer_buf, bytes, at, user);
    case DDIR_WRITE:
        if (is_inside)
            return weft_queue_write_from(queue, job->memory, place, bytes, at, fua, user);
        return weft_queue_write(queue, io_u->xfer_buf, bytes, at, fua, user);
    case DDIR_TRIM:
        return weft_queue_discard(queue, bytes, at, user);
    case DDIR_SYNC:
    case DDIR_DATASYNC:
    case DDIR_SYNC_FILE_RANGE:
        return weft_queue_flush(queue, user);
    default:
        return -WEFT_ERROR_UNSUPPORTED;
    }
}

static enum fio_q_status weft_engine_queue(struct thread_data *td, struct io_u *io_u)
{
    struct seat *seat = FILE_ENG_DATA(io_u->file);
    int result;
    fio_ro_check(td, io_u);
    result = submits(td, io_u, seat->queue);
    if (result >= 0)
        return FIO_Q_QUEUED;
    if (result == -WEFT_ERROR_AGAIN)
        return FIO_Q_BUSY;
    io_u->error = tells(td, result);
    return FIO_Q_COMPLETED;
}

/* Sends what was queued. */
static int weft_engine_commit(struct thread_data *td)
{
    struct job *job = td->io_ops_data;
    int result = weft_loop_run(job->loop, 0);
    return result < 0 ? -tells(td, result) : 0;
}

static int milliseconds(const struct timespec *limit)
{
    if (limit == NULL)
        return -1;
    return (int)(limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000);
}

/* Of one file: the queue itself waits. Of several: each is asked, and the loop waits. */
static int weft_engine_getevents(struct thread_data *td, unsigned int least, unsigned int most,
                                 const struct timespec *limit)
{
    struct job *job = td->io_ops_data;
    struct fio_file *file;
    unsigned n, found = 0;
    int result = 0, wait = milliseconds(limit), is_last = 0;
    if (td->o.nr_files == 1) {
        struct seat *seat = FILE_ENG_DATA(td->files[0]);
        result = weft_queue_wait(seat->queue, job->done, most, least, wait);
        return result < 0 ? -tells(td, result) : result;
    }
    for (;;) {
        for_each_file(td, file, n) {
            struct seat *seat = FILE_ENG_DATA(file);
            result = weft_queue_reap(seat->queue, job->done + found, most - found);
            if (result < 0)
                return -tells(td, result);
            found += (unsigned)result;
        }
        if (found >= least || is_last)
            return (int)found;
        if ((result = weft_loop_run(job->loop, wait)) < 0)
            return -tells(td, result);
        is_last = wait >= 0;
    }
}

static struct io_u *weft_engine_event(struct thread_data *td, int number)
{
    struct job *job = td->io_ops_data;
    weft_completion *done = &job->done[number];
    struct io_u *io_u = (struct io_u *)(uintptr_t)done->user;
    io_u->error = 0;
    io_u->resid = 0;
    if (done->result < 0) {
        io_u->error = error_number(done->result);
        io_u->resid = io_u->xfer_buflen;
        if (!job->is_told) {
            char text[512];
            if (weft_completion_message(done, text, sizeof text) >= 0)
                log_err("fio: weft: %s: %s\n", io_u->file->file_name, text);
        }
        job->is_told = 1;
    }
    return io_u;
}

static int weft_engine_cancel(struct thread_data *td, struct io_u *io_u)
{
    struct seat *seat = FILE_ENG_DATA(io_u->file);
    int result = weft_queue_cancel(seat->queue, (uintptr_t)io_u);
    return result < 0 ? tells(td, result) : 0;
}

static int weft_engine_open_file(struct thread_data *td, struct fio_file *file)
{
    (void)td;
    (void)file;
    return 0;
}

static int weft_engine_close_file(struct thread_data *td, struct fio_file *file)
{
    (void)td;
    (void)file;
    return 0;
}

/* Nothing is cached here. */
static int weft_engine_invalidate(struct thread_data *td, struct fio_file *file)
{
    (void)td;
    (void)file;
    return 0;
}

/* fio looks for this name. */
struct ioengine_ops ioengine = {
    .name = "weft",
    .version = FIO_IOOPS_VERSION,
    .flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_MEMALIGN | FIO_RAWIO,
    .setup = weft_engine_setup,
    .init = weft_engine_init,
    .queue = weft_engine_queue,
    .commit = weft_engine_commit,
    .getevents = weft_engine_getevents,
    .event = weft_engine_event,
    .cancel = weft_engine_cancel,
    .cleanup = weft_engine_cleanup,
    .open_file = weft_engine_open_file,
    .close_file = weft_engine_close_file,
    .invalidate = weft_engine_invalidate,
    .iomem_alloc = weft_engine_iomem_alloc,
    .iomem_free = weft_engine_iomem_free,
    .option_struct_size = sizeof(struct weft_engine_options),
    .options = options_of_engine,
};
