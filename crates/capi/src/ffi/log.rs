//! The log, for a function of the program.

use crate::guard;
use crate::log::set;
use core::ffi::{c_char, c_int, c_void};

/// A function of the program for the log: its argument, a `weft_log_level`, and a sentence, which
/// is valid until the function returns.
pub type WeftLog =
    Option<unsafe extern "C" fn(argument: *mut c_void, level: c_int, text: *const c_char)>;

/// Calls a function of the program for what the library has to say: of the level `most` and all
/// that are graver. It is called in threads of the library, and in those that call the library, by
/// several at the same time, and must not call the library. NULL ends that. When this function
/// returns, the function before is not running. By default nothing is told to anybody.
///
/// # Safety
/// Any thread may call `function` with `argument` until another one is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_set_log(
    function: WeftLog,
    argument: *mut c_void,
    most: c_int,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        unsafe { set(function, argument, most) }
    })
}
