//! The frame of every function of the library: it refuses to work in a forked child,
//! keeps the error for the thread, and lets no panic out.

use crate::failure::{CallFailure, Code, keep};
use crate::fork;
use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, Thread};

thread_local! {
    /// The standard library keeps a handle of each thread by a pointer behind its counters, until
    /// the thread ends, and the first thread of a process does not. Valgrind's Memcheck would
    /// report it as possibly lost; this one points to its beginning.
    static HANDLE: Thread = thread::current();
}

/// Runs the body of a function for callers in Rust: a panic is an error, and so is a forked child.
///
/// # Errors
/// The body's; `FORKED`; `INTERNAL` if the body panics.
pub fn caught<T>(body: impl FnOnce() -> Result<T, CallFailure>) -> Result<T, CallFailure> {
    // An error is that the thread is ending.
    let _ = HANDLE.try_with(|_| ());
    let checked = || fork::check().and_then(|()| body());
    catch_unwind(AssertUnwindSafe(checked)).unwrap_or_else(|panic| Err(of_panic(panic)))
}

/// Runs the body of a function that returns a number: the value of the body, which is not negative,
/// or the negative of an error's code.
pub fn number(body: impl FnOnce() -> Result<i32, CallFailure>) -> i32 {
    let result = caught(body);
    // Keeping an error allocates; it must not leave the function either.
    let kept = |failure| catch_unwind(|| keep(failure)).unwrap_or(Code::Internal);
    result.unwrap_or_else(|failure| kept(failure).negative())
}

/// The same for a body without a value.
pub fn done(body: impl FnOnce() -> Result<(), CallFailure>) -> i32 {
    number(|| body().map(|()| 0))
}

/// Runs the body of a function that cannot fail. It works in a forked child, too. Returns
/// `otherwise` if the body panics.
pub fn value<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Runs the body of a function that frees something. In a forked child, where the threads that use
/// it do not exist, nothing is freed.
pub fn free(body: impl FnOnce()) {
    if fork::check().is_ok() {
        value((), body);
    }
}

fn of_panic(panic: Box<dyn Any + Send>) -> CallFailure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let failure = CallFailure::new(
        Code::Internal,
        format!("a defect of weft, please report it: {}", text.unwrap_or("a panic")),
    );
    // The payload may panic when it is dropped.
    core::mem::forget(panic);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::with_last_text;

    extern "C" fn panics(how: i32) -> i32 {
        number(|| match how {
            0 => Ok(7),
            1 => panic!("of text"),
            2 => panic!("of number {how}"),
            _ => std::panic::panic_any(5),
        })
    }

    #[test]
    fn no_panic_crosses_the_boundary() {
        assert_eq!(panics(0), 7);
        for (how, text) in [(1, "of text"), (2, "of number 2"), (3, "a panic")] {
            assert_eq!(panics(how), Code::Internal.negative());
            with_last_text(|last| assert!(last.to_string_lossy().ends_with(text), "{last:?}"));
        }
        assert_eq!(value(3, || panic!("here")), 3);
        free(|| panic!("here"));
    }
}
