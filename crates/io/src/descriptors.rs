//! Descriptors that are left when peers take all that they can get: for files, for control sockets,
//! and for whoever looks into what happens.

use crate::limits::DESCRIPTORS_RESERVED;
#[cfg(target_os = "linux")]
pub(crate) use messages::{Brought, one_message};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::AsRawFd;

/// Refuses a descriptor that a peer has caused, if few are left. The system gives the lowest free
/// number, so at least as many are open as its number says.
///
/// # Errors
/// That of a system without free descriptors.
pub(crate) fn leave_some(of: &impl AsRawFd) -> io::Result<()> {
    if is_of_reserve(of) { Err(io::Error::from_raw_os_error(libc::EMFILE)) } else { Ok(()) }
}

fn is_of_reserve(of: &impl AsRawFd) -> bool {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return false };
    u64::try_from(of.as_raw_fd()).unwrap_or(0) >= for_peers(limit)
}

/// Returns how many of `limit` descriptors peers may cause: nearly all if there are few.
fn for_peers(limit: u64) -> u64 {
    limit - DESCRIPTORS_RESERVED.min(limit / 2)
}

/// Descriptors that messages bring. How many come is known when they are there: so there has to be
/// room for all that a message can have, or the system closes the rest on this thread. The reserve
/// has this room for one message.
#[cfg(target_os = "linux")]
mod messages {
    use super::{for_peers, is_of_reserve};
    use crate::unasked::MESSAGE_DESCRIPTORS_MAX;
    use rustix::process::{Resource, getrlimit};
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use weft_base::lock::Lock;

    /// Held while a message with descriptors is received.
    static RECEIVING: Lock<()> = Lock::new(());

    /// Brought descriptors that are part of the reserve, until they are closed.
    static OF_RESERVE: AtomicUsize = AtomicUsize::new(0);

    /// Receives a message with descriptors, which become [`Brought`]. `receive` does not wait.
    ///
    /// # Errors
    /// `receive`'s; `ResourceBusy` while others use the reserve; that of a system without free
    /// descriptors, if a message could bring more than the reserve has.
    pub(crate) fn one_message<T>(receive: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _one = RECEIVING.lock();
        let reserve = getrlimit(Resource::Nofile).current.map(|limit| limit - for_peers(limit));
        if reserve.is_some_and(|reserve| reserve < MESSAGE_DESCRIPTORS_MAX as u64) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        if OF_RESERVE.load(Ordering::Acquire) > 0 {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        receive()
    }

    /// A descriptor that a message has brought.
    #[derive(Debug)]
    pub(crate) struct Brought {
        file: OwnedFd,
        // Dropped when the file is closed.
        _place: Option<Place>,
    }

    /// A place in the reserve.
    #[derive(Debug)]
    struct Place;

    impl Drop for Place {
        fn drop(&mut self) {
            OF_RESERVE.fetch_sub(1, Ordering::AcqRel);
        }
    }

    impl Brought {
        pub(crate) fn new(file: OwnedFd) -> Self {
            let place = is_of_reserve(&file).then(|| {
                OF_RESERVE.fetch_add(1, Ordering::AcqRel);
                Place
            });
            Self { file, _place: place }
        }

        /// One that has another limit.
        pub(crate) fn uncounted(file: OwnedFd) -> Self {
            Self { file, _place: None }
        }
    }

    impl AsFd for Brought {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.file.as_fd()
        }
    }

    impl AsRawFd for Brought {
        fn as_raw_fd(&self) -> RawFd {
            self.file.as_raw_fd()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_left_of_many_and_of_few() {
        for (limit, peers) in [(1_048_576, 1_048_064), (1024, 512), (64, 32), (3, 2), (0, 0)] {
            assert_eq!(for_peers(limit), peers, "{limit}");
        }
    }
}
