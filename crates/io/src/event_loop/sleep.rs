//! Short sleeps with microsecond accuracy.
//!
//! On Linux, mio's poller counts in whole milliseconds and rounds up, which is too long for an
//! operation that is due in 300 µs. There a short wait uses `ppoll` on the poller's own descriptor,
//! which counts in nanoseconds. On other systems the poller is accurate enough, or there is no
//! better call.

#[cfg(target_os = "linux")]
pub(super) use linux::short;
#[cfg(not(target_os = "linux"))]
pub(super) use others::short;

/// Result of a short wait.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "the poller itself waits"))]
pub(super) enum Slept {
    /// It is not a short wait, or the poller itself can wait that long.
    No,
    /// Something is ready: ask the poller for it.
    UntilReady,
    /// It is over, and nothing happened.
    InVain,
}

#[cfg(target_os = "linux")]
mod linux {
    use super::Slept;
    use core::time::Duration;
    use rustix::event::{PollFd, PollFlags, Timespec};
    use std::os::fd::{AsRawFd, BorrowedFd};

    /// Waits longer than this may well end a millisecond late.
    const SHORT: Duration = Duration::from_millis(100);

    /// Waits for the poller if the wait is a short one.
    pub(crate) fn short(poll: &mio::Poll, wait: Option<Duration>) -> Slept {
        let Some(short) = wait.filter(|wait| !wait.is_zero() && *wait < SHORT) else {
            return Slept::No;
        };
        // SAFETY: the descriptor is the poller's, which is borrowed for longer than this value
        // lives.
        let poller = unsafe { BorrowedFd::borrow_raw(poll.as_raw_fd()) };
        let timeout = Timespec { tv_sec: 0, tv_nsec: short.subsec_nanos().into() };
        match rustix::event::poll(
            &mut [PollFd::from_borrowed_fd(poller, PollFlags::IN)],
            Some(&timeout),
        ) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Slept::InVain,
            Ok(_) => Slept::UntilReady,
            // A process that may open no descriptor may not poll one either.
            Err(_) => Slept::No,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod others {
    use super::Slept;
    use core::time::Duration;

    /// The poller waits.
    pub(crate) fn short(_: &mio::Poll, _: Option<Duration>) -> Slept {
        Slept::No
    }
}
