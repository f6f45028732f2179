//! The functions that programs call. Their documentation here is that of `include/weft.h`.
//!
//! Each function is one call of `guard`, which a test checks.
#![allow(unsafe_code, reason = "functions of C take pointers and have fixed names")]

pub mod caller_loop;
pub mod disk;
pub mod error;
pub mod log;
pub mod memory;
pub mod options;
pub mod queue;
pub mod target;

use crate::failure::{CallFailure, Code};
use crate::limits::TEXT_BYTES_MAX;
use core::ffi::c_char;
use std::ffi::CStr;

/// The object of a handle.
///
/// # Safety
/// The pointer is null, or a handle that a function of the library has given and no function has
/// freed.
unsafe fn handle<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, CallFailure> {
    // SAFETY: as above.
    unsafe { pointer.as_ref() }.ok_or_else(|| CallFailure::usage(format!("the {what} is NULL")))
}

/// A text of the caller.
///
/// # Safety
/// The pointer is null, or that of a text with a NUL at its end, which stays as it is.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, CallFailure> {
    if pointer.is_null() {
        return Err(CallFailure::usage(format!("the {what} is NULL")));
    }
    // SAFETY: as above, and it is not null.
    let text = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    if text.len() > TEXT_BYTES_MAX {
        let text = format!("the {what} has {} bytes, more than {TEXT_BYTES_MAX}", text.len());
        return Err(CallFailure::usage(text));
    }
    core::str::from_utf8(text).map_err(|_| CallFailure::usage(format!("the {what} is not UTF-8")))
}

/// Stores a result for the caller.
///
/// # Safety
/// The pointer is null, or valid for writing.
unsafe fn give<T>(to: *mut T, value: T, what: &str) -> Result<(), CallFailure> {
    if to.is_null() {
        return Err(CallFailure::usage(format!("the place for the {what} is NULL")));
    }
    // SAFETY: as above.
    unsafe { to.write(value) };
    Ok(())
}

/// Gives a handle to the caller, who frees it.
///
/// # Safety
/// As [`give`].
unsafe fn give_handle<T>(to: *mut *mut T, value: T, what: &str) -> Result<(), CallFailure> {
    if to.is_null() {
        return Err(CallFailure::usage(format!("the place for the {what} is NULL")));
    }
    // SAFETY: as above.
    unsafe { to.write(Box::into_raw(Box::new(value))) };
    Ok(())
}

/// Copies a text with a NUL to the caller, as much of it as there is room for; its whole length in
/// bytes, without the NUL.
///
/// # Safety
/// `to` is null, or valid for writing `room` bytes.
unsafe fn copy_text(text: &str, to: *mut c_char, room: usize) -> Result<i32, CallFailure> {
    if room > 0 && to.is_null() {
        return Err(CallFailure::usage("the place for the text is NULL"));
    }
    if let Some(most) = room.checked_sub(1) {
        let fits = text.floor_char_boundary(most);
        // SAFETY: there is room for `fits` bytes and a NUL; a text of this library is elsewhere.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), fits);
            to.add(fits).write(0);
        }
    }
    i32::try_from(text.len())
        .map_err(|_| CallFailure::new(Code::NoResources, "the text is too long"))
}
