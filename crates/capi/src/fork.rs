//! Processes that were forked after the library was used: its threads do not exist there, and a
//! lock may be held for ever, so nothing works but what only describes errors.
#![allow(unsafe_code, reason = "pthread_atfork is the only way to learn of a fork")]

use crate::failure::{CallFailure, Code};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Forks that led to this process.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// One more than [`FORKS`] when the library was first used; 0: it was not.
static USED: AtomicU64 = AtomicU64::new(0);

/// Runs in each forked child. Only what a signal handler may do is allowed there.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
}

/// Notes that the library is used from now on.
///
/// # Errors
/// It was used before this process was forked.
pub fn begin() -> Result<(), CallFailure> {
    static WATCH: Once = Once::new();
    check()?;
    // SAFETY: the handler is a function of this library, which is never unloaded (`link.sh`), and
    // does nothing but change an atomic number.
    WATCH.call_once(|| unsafe {
        let _ = libc::pthread_atfork(None, None, Some(in_child));
    });
    let _ = USED.compare_exchange(0, FORKS.load(Relaxed) + 1, Relaxed, Relaxed);
    Ok(())
}

/// Refuses a process that was forked after the library was first used.
///
/// # Errors
/// `FORKED`.
#[inline]
pub fn check() -> Result<(), CallFailure> {
    let used = USED.load(Relaxed);
    if used == 0 || used == FORKS.load(Relaxed) + 1 { Ok(()) } else { Err(refusal()) }
}

#[cold]
fn refusal() -> CallFailure {
    let text = "this process was forked after it had used weft, whose threads exist in its parent only: \
                fork before the first use, or execute a program after the fork";
    CallFailure::new(Code::Forked, text)
}
