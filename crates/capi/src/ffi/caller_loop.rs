//! Event loops in threads of the caller.

use super::disk::WeftDisk;
use super::queue::WeftQueue;
use super::{give, give_handle, handle};
use crate::caller_loop::CallerLoop;
use crate::failure::{CallFailure, Code};
use crate::guard;
use crate::limits::POOL_BYTES;
use crate::queue::Queue;
use core::ffi::c_int;
use core::time::Duration;
use std::sync::Arc;

/// An event loop that runs in the thread that has made it, while that thread calls it. Other
/// threads must not use it, or its queues.
pub struct WeftLoop(Arc<CallerLoop>);

/// Makes an event loop in the calling thread, for queues of any number of devices. Free it with
/// `weft_loop_free` in this thread.
///
/// # Safety
/// `own` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_loop_new(own: *mut *mut WeftLoop) -> c_int {
    guard::done(|| {
        crate::fork::begin()?;
        let made = Arc::new(CallerLoop::new(POOL_BYTES)?);
        // SAFETY: the caller's promise.
        unsafe { give_handle(own, WeftLoop(made), "loop") }
    })
}

/// Frees an event loop. Fails with `WEFT_ERROR_IN_USE` while it has queues, and with
/// `WEFT_ERROR_USAGE` in another thread than its own, and changes nothing then. NULL is ignored.
///
/// # Safety
/// `own` is NULL or a handle, which is not used afterwards if the function succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_loop_free(own: *mut WeftLoop) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let Some(held) = (unsafe { own.as_ref() }) else { return Ok(()) };
        held.0.handle()?;
        let queues = CallerLoop::queues(&held.0);
        if queues > 0 {
            let text = format!("the event loop has {queues} queues: free them first");
            return Err(CallFailure::new(Code::InUse, text));
        }
        // SAFETY: made by `weft_loop_new`, and not freed before.
        drop(unsafe { Box::from_raw(own) });
        Ok(())
    })
}

/// A descriptor that is readable when the loop has something to do, for poll and epoll. It belongs
/// to the loop: do not read from it, and do not close it. Call `weft_loop_prepare` before each
/// wait.
///
/// # Safety
/// `own` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_loop_fd(own: *const WeftLoop) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(own, "loop")? }.0.descriptor()
    })
}

/// Prepares a loop for a wait for its descriptor, and stores how long that may last in
/// nanoseconds: -1 for no limit, and 0 if there is something to do. Call `weft_loop_run` when the
/// wait is over, whatever has ended it.
///
/// # Safety
/// `own` is a handle; `nanoseconds` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_loop_prepare(own: *const WeftLoop, nanoseconds: *mut i64) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let wait = unsafe { handle(own, "loop")? }.0.prepare_wait()?;
        let wait = wait.map_or(-1, |wait| i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX));
        // SAFETY: the caller's promise.
        unsafe { give(nanoseconds, wait, "limit") }
    })
}

/// Runs a loop: does what there is to do, after it has waited for that, but for `milliseconds` at
/// most; a negative number means no limit. The completions of its queues are taken out with
/// `weft_queue_reap`.
///
/// # Safety
/// `own` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_loop_run(own: *const WeftLoop, milliseconds: c_int) -> c_int {
    guard::done(|| {
        let most = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        // SAFETY: the caller's promise.
        unsafe { handle(own, "loop")? }.0.turn(most)
    })
}

/// Makes a queue, as `weft_queue_new`, on a loop of the calling thread. `weft_queue_reap`
/// runs the loop without waiting, and `weft_queue_wait` waits in it: what was submitted is sent
/// then. Only this thread may use the queue.
///
/// # Safety
/// `disk` and `own` are handles; `queue` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_new_on(
    disk: *const WeftDisk,
    own: *const WeftLoop,
    depth: u32,
    queue: *mut *mut WeftQueue,
) -> c_int {
    guard::done(|| {
        let _blocked = crate::signals::Blocked::now();
        // SAFETY: the caller's promise.
        let (disk, own) = unsafe { (&handle(disk, "disk")?.0, &handle(own, "loop")?.0) };
        let made = Queue::on(disk, own, depth)?;
        // SAFETY: the caller's promise.
        unsafe { give_handle(queue, WeftQueue(made), "queue") }
    })
}
