//! Options for opening.

use super::{give_handle, handle, text};
use crate::guard;
use crate::options::LibraryOptions;
use core::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use weft_base::lock::Lock;

/// Options for opening a device. One may serve any number of devices.
pub struct WeftOptions {
    options: Lock<LibraryOptions>,
    /// That of the options. Setting it needs no lock.
    cancelled: Arc<AtomicBool>,
}

impl WeftOptions {
    fn new() -> Self {
        let options = LibraryOptions::default();
        Self { cancelled: Arc::clone(options.cancelled()), options: Lock::new(options) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LibraryOptions> {
        self.options.lock()
    }
}

/// Makes options, all with their defaults. Free them with `weft_options_free`.
///
/// # Safety
/// `options` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_options_new(options: *mut *mut WeftOptions) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        unsafe { give_handle(options, WeftOptions::new(), "options") }
    })
}

/// Sets an option. The names and values are those of `weft connect` without the dashes in front, as
/// in "ctrl-loss-tmo", "30"; options without a value there are "on" or "off" here. docs/libweft.md
/// lists all of them. The value is checked now and copied.
///
/// # Safety
/// `options` is a handle; `name` and `value` are texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_options_set(
    options: *mut WeftOptions,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (options, name, value) =
            unsafe { (handle(options, "options")?, text(name, "name")?, text(value, "value")?) };
        options.lock().set(name, value)
    })
}

/// Cancels opening with these options, now and from now on: `weft_open` fails soon with
/// `WEFT_ERROR_CANCELLED`, in whichever thread it waits. Open devices are not affected. Waits for
/// nothing.
///
/// # Safety
/// `options` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_options_cancel(options: *mut WeftOptions) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let options = unsafe { handle(options, "options")? };
        options.cancelled.store(true, Ordering::Relaxed);
        Ok(())
    })
}

/// Frees options. Devices that were opened with them keep what was set. NULL is ignored.
///
/// # Safety
/// `options` is NULL or a handle, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_options_free(options: *mut WeftOptions) {
    guard::free(|| {
        if !options.is_null() {
            // SAFETY: made by `weft_options_new`, and not freed before.
            drop(unsafe { Box::from_raw(options) });
        }
    });
}
