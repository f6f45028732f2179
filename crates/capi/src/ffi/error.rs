//! Errors and the version.

use super::copy_text;
use crate::failure::{CallFailure, Code, Completion, last_code, last_status, with_last_text};
use crate::guard;
use core::ffi::{c_char, c_int};

/// The version of the library, as in "0.1.0". The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn weft_version() -> *const c_char {
    guard::value(core::ptr::null(), || {
        concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast::<c_char>()
    })
}

/// The code of the last error of this thread: a `weft_error`, `WEFT_ERROR_OK` if no function has
/// failed in it. A function that succeeds does not change it.
#[unsafe(no_mangle)]
pub extern "C" fn weft_last_error() -> c_int {
    guard::value(Code::Internal as c_int, || last_code() as c_int)
}

/// The last error of this thread in one sentence, for people: what is wrong, and what to do. Empty
/// if no function has failed in it. The text is valid until the next function fails in this thread,
/// or the thread ends.
#[unsafe(no_mangle)]
pub extern "C" fn weft_last_message() -> *const c_char {
    guard::value(c"".as_ptr(), || with_last_text(|text| text.as_ptr()))
}

/// The status with which a device reported the last error of this thread: returns its protocol (a
/// `weft_protocol`) and stores the status, as in `weft_completion`, unless `status` is NULL.
///
/// # Safety
/// `status` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_last_status(status: *mut u32) -> u32 {
    guard::value(0, || {
        let (protocol, last) = last_status();
        if !status.is_null() {
            // SAFETY: the caller's promise.
            unsafe { status.write(last) };
        }
        protocol
    })
}

/// Returns the meaning of an error code, in some words. Takes a `weft_error` or its negative. The
/// text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn weft_error_text(code: c_int) -> *const c_char {
    guard::value(c"".as_ptr(), || {
        let at = usize::try_from(code.unsigned_abs()).unwrap_or(usize::MAX);
        Code::ALL.get(at).copied().unwrap_or(Code::Internal).text().as_ptr()
    })
}

/// Copies a completion in one sentence, for people, to `buffer` of `bytes` bytes, and returns its
/// length, as `weft_get_text`: the error, the status that the device reported, and whether the
/// operation may have been executed. The completion may be a copy, of any queue.
///
/// # Safety
/// `completion` is NULL, or valid for reading; `buffer` is valid for writing `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_completion_message(
    completion: *const Completion,
    buffer: *mut c_char,
    bytes: usize,
) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        let completion = unsafe { completion.as_ref() };
        let none = || CallFailure::usage("the completion is NULL");
        // SAFETY: the caller's promise.
        unsafe { copy_text(&completion.ok_or_else(none)?.sentence(), buffer, bytes) }
    })
}
