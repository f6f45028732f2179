//! Threads of the library take no signals: those of the program go to the program's threads, and
//! writing to a closed connection is an error instead of SIGPIPE.
#![allow(unsafe_code, reason = "no safe interface changes the signal mask of a thread")]

use core::mem::MaybeUninit;

/// While it exists, all signals are blocked in this thread. Threads inherit that from the one that
/// starts them.
pub struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    /// Blocks all signals in this thread.
    pub fn now() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both sets are valid for writing. The first is initialised by `sigfillset`; the
        // second by `pthread_sigmask`, which cannot fail with this first argument.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Self { before: before.assume_init() }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was initialised when this was made; the old one is not asked for.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, core::ptr::null_mut());
        }
    }
}
