//! Targets in this process.

use super::{copy_text, give, give_handle, handle, text};
use crate::failure::{CallFailure, Code};
use crate::guard;
use crate::target::Target;
use core::ffi::{c_char, c_int};

/// A target that this process serves.
pub struct WeftTarget(Target);

/// Starts a target: it serves what a configuration asks for, which is the text of a file for
/// `weft serve --config`. When the function returns hosts can connect. Port 0 in an address picks a
/// free port; `weft_target_url` has the port. The target has event loops on threads of its own.
/// Free it with `weft_target_stop`.
///
/// # Safety
/// `configuration` is a text; `target` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_start(
    configuration: *const c_char,
    target: *mut *mut WeftTarget,
) -> c_int {
    guard::done(|| {
        if target.is_null() {
            return Err(CallFailure::usage("the place for the target is NULL"));
        }
        // SAFETY: the caller's promise.
        let started = Target::start(unsafe { text(configuration, "configuration")? })?;
        // SAFETY: the caller's promise.
        unsafe { give_handle(target, WeftTarget(started), "target") }
    })
}

/// Copies the URL of a listener to `buffer` of `bytes` bytes, and returns its length, as
/// `weft_get_text`. The first has number 0; beyond the last the function fails with
/// `WEFT_ERROR_NOT_FOUND`. Devices in this process can be opened by it, too.
///
/// # Safety
/// `target` is a handle; `buffer` is valid for writing `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_url(
    target: *const WeftTarget,
    number: u32,
    buffer: *mut c_char,
    bytes: usize,
) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        let url = unsafe { handle(target, "target")? }.0.url(number as usize);
        let none = || CallFailure::new(Code::NotFound, format!("there is no listener {number}"));
        // SAFETY: the caller's promise.
        unsafe { copy_text(&url.ok_or_else(none)?, buffer, bytes) }
    })
}

/// Puts filters in front of the source of a namespace, in the place of those that this function has
/// put there before: the front of a URL with `error:`, `delay:` and `limit:`, as in
/// "error:rate=1,kind=media,delay:read=10ms". An empty text takes them away. They count for
/// operations that begin later. `subsystem` is the name of the subsystem; NULL stands for the first
/// one with such a namespace.
///
/// # Safety
/// `target` is a handle; `subsystem` is NULL or a text; `filters` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_set_filters(
    target: *const WeftTarget,
    subsystem: *const c_char,
    nsid: u32,
    filters: *const c_char,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (target, filters) = unsafe { (handle(target, "target")?, text(filters, "filters")?) };
        let subsystem = match subsystem.is_null() {
            true => None,
            // SAFETY: the caller's promise.
            false => Some(unsafe { text(subsystem, "subsystem")? }),
        };
        target.0.set_filters(subsystem, nsid, filters)
    })
}

/// Changes what the target serves into what a configuration asks for, as `weft apply --force` does:
/// namespaces, sizes, ANA states, access, authentication. Hosts stay connected. `listen` and the
/// tables that take effect at the start must be as they were; otherwise the function fails with
/// `WEFT_ERROR_USAGE`. If it fails nothing has changed.
///
/// # Safety
/// `target` is a handle; `configuration` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_apply(
    target: *const WeftTarget,
    configuration: *const c_char,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (target, text) =
            unsafe { (handle(target, "target")?, text(configuration, "configuration")?) };
        target.0.apply(text)
    })
}

/// Closes all connections of the target. Hosts may come back at once. Does not wait.
///
/// # Safety
/// `target` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_disconnect(target: *const WeftTarget) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(target, "target")? }.0.disconnect();
        Ok(())
    })
}

/// Stops listening, and closes all connections of the target: to its hosts it is gone until
/// `weft_target_come_back`. What it serves keeps its data. Waits some seconds for connections.
///
/// # Safety
/// `target` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_leave(target: *const WeftTarget) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(target, "target")? }.0.leave()
    })
}

/// Listens again at the same addresses, also where ports were picked.
///
/// # Safety
/// `target` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_come_back(target: *const WeftTarget) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(target, "target")? }.0.come_back()
    })
}

/// Stores a counter of the target: "connections" and "in-flight" (at present), "hosts", "reads",
/// "writes", "others", "read-bytes", "write-bytes", "errors" (since its start).
///
/// # Safety
/// `target` is a handle; `name` is a text; `value` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_get_u64(
    target: *const WeftTarget,
    name: *const c_char,
    value: *mut u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (target, name) = unsafe { (handle(target, "target")?, text(name, "name")?) };
        let counted = target.0.counter(name)?;
        // SAFETY: the caller's promise.
        unsafe { give(value, counted, "value") }
    })
}

/// Copies the state of the target to `buffer` of `bytes` bytes, as JSON like that of
/// `weft status --json`, and returns its length, as `weft_get_text`. Call it with more room than it
/// returned last: a later state may be longer.
///
/// # Safety
/// `target` is a handle; `buffer` is valid for writing `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_report(
    target: *const WeftTarget,
    buffer: *mut c_char,
    bytes: usize,
) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        let report = unsafe { handle(target, "target")? }.0.report()?;
        // SAFETY: the caller's promise.
        unsafe { copy_text(&report, buffer, bytes) }
    })
}

/// Ends a target and frees it, also if the function fails, as it does when a device cannot be
/// flushed. It accepts no more connections, lets commands in flight end for some seconds, closes
/// all connections, flushes, and ends its threads. NULL is ignored.
///
/// # Safety
/// `target` is NULL or a handle, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_target_stop(target: *mut WeftTarget) -> c_int {
    guard::done(|| {
        if target.is_null() {
            return Ok(());
        }
        // SAFETY: made by `weft_target_start`, and not stopped before.
        let WeftTarget(target) = *unsafe { Box::from_raw(target) };
        target.stop()
    })
}
