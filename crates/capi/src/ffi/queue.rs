//! Operations in flight.

use super::disk::{WeftDisk, compare_kind, write_kind, zeroes_kind};
use super::memory::WeftMemory;
use super::{give_handle, handle};
use crate::disk::pair;
use crate::failure::{CallFailure, Completion};
use crate::guard;
use crate::limits::QUEUE_DEPTH_MAX;
use crate::memory::{CallerBytes, RegionBytes};
use crate::queue::Queue;
use crate::signals::Blocked;
use crate::worker::Data;
use core::ffi::{c_int, c_void};
use std::time::Duration;
use weft_block::OpKind;

/// Operations in flight on a device. Any thread may use it; several may at the same time.
pub struct WeftQueue(pub(super) Queue);

/// Makes a queue of a device for up to `depth` operations, 1 to 65536. Free it with
/// `weft_queue_free`, before its device is closed.
///
/// # Safety
/// `disk` is a handle; `queue` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_new(
    disk: *const WeftDisk,
    depth: u32,
    queue: *mut *mut WeftQueue,
) -> c_int {
    guard::done(|| {
        let _blocked = Blocked::now();
        // SAFETY: the caller's promise.
        let made = Queue::new(&unsafe { handle(disk, "disk")? }.0, depth)?;
        // SAFETY: the caller's promise.
        unsafe { give_handle(queue, WeftQueue(made), "queue") }
    })
}

/// Frees a queue. Its operations are given up: those that were submitted may be executed or not.
/// When the function returns, their buffers are no longer used; `weft_memory` of operations may
/// still be in use. NULL is ignored; so is a queue on a loop of another thread.
///
/// # Safety
/// `queue` is NULL or a handle, which threads no longer use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_free(queue: *mut WeftQueue) {
    guard::free(|| {
        // SAFETY: the caller's promise.
        if unsafe { queue.as_ref() }.is_some_and(|queue| queue.0.is_here()) {
            // SAFETY: made by `weft_queue_new` or `weft_queue_new_on`, and not freed before.
            drop(unsafe { Box::from_raw(queue) });
        }
    });
}

/// A descriptor that is readable while the queue has completions, for poll and epoll. It belongs to
/// the queue: do not read from it, and do not close it.
///
/// # Safety
/// `queue` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_fd(queue: *const WeftQueue) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(queue, "queue")? }.0.descriptor()
    })
}

/// Operations that were submitted and are not reaped; 0 if `queue` is NULL.
///
/// # Safety
/// `queue` is NULL or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_in_flight(queue: *const WeftQueue) -> u32 {
    guard::value(0, || {
        // SAFETY: the caller's promise.
        unsafe { queue.as_ref() }.map_or(0, |queue| queue.0.in_flight())
    })
}

/// Submits a read of `bytes` bytes at `offset` into `buffer`, which belongs to the library until
/// the operation is reaped or the queue freed. `user` is any number: the completion has it. Fails
/// with `WEFT_ERROR_AGAIN` when the queue is full.
///
/// # Safety
/// `queue` is a handle; `buffer` is valid for writing `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_read(
    queue: *const WeftQueue,
    buffer: *mut c_void,
    bytes: usize,
    offset: u64,
    user: u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (queue, to) =
            unsafe { (&handle(queue, "queue")?.0, CallerBytes::new(buffer.cast(), bytes, true)?) };
        let place = (offset, bytes as u64);
        queue.submit(queue.disk().check(OpKind::Read, place, Data::Bytes(to))?, user)
    })
}

/// Submits a write of `bytes` bytes from `buffer` at `offset`. As `weft_queue_read`; `flags` is 0
/// or `WEFT_FUA`.
///
/// # Safety
/// `queue` is a handle; `buffer` is valid for reading `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_write(
    queue: *const WeftQueue,
    buffer: *const c_void,
    bytes: usize,
    offset: u64,
    flags: u32,
    user: u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (queue, from) = unsafe {
            let from = CallerBytes::new(buffer.cast_mut().cast(), bytes, false)?;
            (&handle(queue, "queue")?.0, from)
        };
        let place = (offset, bytes as u64);
        queue.submit(queue.disk().check(write_kind(flags)?, place, Data::Bytes(from))?, user)
    })
}

/// Submits a read of `bytes` bytes at `offset` into `memory` from its byte `at` on, without a copy
/// where the device can. These bytes belong to the library until the operation is reaped.
///
/// # Safety
/// `queue` and `memory` are handles; nothing else uses these bytes of the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_read_into(
    queue: *const WeftQueue,
    memory: *const WeftMemory,
    at: usize,
    bytes: usize,
    offset: u64,
    user: u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (queue, memory) = unsafe { (&handle(queue, "queue")?.0, &handle(memory, "memory")?.0) };
        let data = Data::Region(RegionBytes::new(memory, at, bytes)?);
        queue.submit(queue.disk().check(OpKind::Read, (offset, bytes as u64), data)?, user)
    })
}

/// Submits a write of `bytes` bytes from `memory` at `offset`, from the memory's byte `at` on. As
/// `weft_queue_read_into`; `flags` is 0 or `WEFT_FUA`.
///
/// # Safety
/// `queue` and `memory` are handles; nothing writes to these bytes of the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_write_from(
    queue: *const WeftQueue,
    memory: *const WeftMemory,
    at: usize,
    bytes: usize,
    offset: u64,
    flags: u32,
    user: u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (queue, memory) = unsafe { (&handle(queue, "queue")?.0, &handle(memory, "memory")?.0) };
        let data = Data::Region(RegionBytes::new(memory, at, bytes)?);
        queue.submit(queue.disk().check(write_kind(flags)?, (offset, bytes as u64), data)?, user)
    })
}

/// Submits a flush, which makes durable all writes that completed before it was submitted.
///
/// # Safety
/// `queue` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_flush(queue: *const WeftQueue, user: u64) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let queue = &unsafe { handle(queue, "queue")? }.0;
        queue.submit(queue.disk().check(OpKind::Flush, (0, 0), Data::None)?, user)
    })
}

/// Submits a discard. See `weft_discard`.
///
/// # Safety
/// `queue` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_discard(
    queue: *const WeftQueue,
    bytes: u64,
    offset: u64,
    user: u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let queue = &unsafe { handle(queue, "queue")? }.0;
        queue.submit(queue.disk().check(OpKind::Discard, (offset, bytes), Data::None)?, user)
    })
}

/// Submits writing zeroes. See `weft_write_zeroes`.
///
/// # Safety
/// `queue` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_write_zeroes(
    queue: *const WeftQueue,
    bytes: u64,
    offset: u64,
    flags: u32,
    user: u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let queue = &unsafe { handle(queue, "queue")? }.0;
        let kind = zeroes_kind(flags)?;
        queue.submit(queue.disk().check(kind, (offset, bytes), Data::None)?, user)
    })
}

/// Submits a compare-and-write. See `weft_compare_and_write`; the completion has the result
/// `-WEFT_ERROR_DIFFERS` if the device holds other data.
///
/// # Safety
/// `queue` is a handle; `expected` and `data` are valid for reading `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_compare_and_write(
    queue: *const WeftQueue,
    expected: *const c_void,
    data: *const c_void,
    bytes: usize,
    offset: u64,
    flags: u32,
    user: u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (queue, both) = unsafe {
            let expected = CallerBytes::new(expected.cast_mut().cast(), bytes, false)?;
            let new = CallerBytes::new(data.cast_mut().cast(), bytes, false)?;
            (&handle(queue, "queue")?.0, pair(expected, new)?)
        };
        let place = (offset, bytes as u64);
        queue.submit(queue.disk().check(compare_kind(flags)?, place, both)?, user)
    })
}

/// Asks for an early end of all operations of the queue with this number. Each still completes
/// once: with `-WEFT_ERROR_CANCELLED`, or as without this. Its buffer is in use until then.
///
/// # Safety
/// `queue` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_cancel(queue: *const WeftQueue, user: u64) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(queue, "queue")? }.0.cancel(user)
    })
}

/// Stores up to `most` completions and returns their number, without waiting.
///
/// # Safety
/// `queue` is a handle; `completions` is valid for writing `most` completions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_reap(
    queue: *const WeftQueue,
    completions: *mut Completion,
    most: u32,
) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        unsafe { reap(queue, completions, most, (0, Some(Duration::ZERO))) }
    })
}

/// Stores up to `most` completions and returns their number, after it has waited for `least` of
/// them, but for `milliseconds` at most; a negative number means no limit. It does not wait for
/// more operations than are in flight.
///
/// # Safety
/// `queue` is a handle; `completions` is valid for writing `most` completions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_wait(
    queue: *const WeftQueue,
    completions: *mut Completion,
    most: u32,
    least: u32,
    milliseconds: c_int,
) -> c_int {
    guard::number(|| {
        let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        // SAFETY: the caller's promise.
        unsafe { reap(queue, completions, most, (least as usize, limit)) }
    })
}

/// See [`weft_queue_wait`].
///
/// # Safety
/// As there.
unsafe fn reap(
    queue: *const WeftQueue,
    completions: *mut Completion,
    most: u32,
    wait: (usize, Option<Duration>),
) -> Result<i32, CallFailure> {
    // SAFETY: the caller's promise.
    let queue = &unsafe { handle(queue, "queue")? }.0;
    if completions.is_null() && most > 0 {
        return Err(CallFailure::usage("the place for completions is NULL"));
    }
    // No queue has more, so the number fits the result.
    let most = most.min(QUEUE_DEPTH_MAX) as usize;
    // SAFETY: the caller's promise; the number is below `most`.
    let count = queue.reap(wait, most, |n, completion| unsafe {
        completions.add(n).write(completion);
    })?;
    Ok(count as i32)
}
