//! Descriptors that are left when peers take all that they can get: for files, for control sockets,
//! and for whoever looks into what happens.

use crate::limits::DESCRIPTORS_RESERVED;
use std::io;
use std::os::fd::AsRawFd;

/// Refuses a descriptor that a peer has caused, if few are left. The system gives the lowest free
/// number, so at least as many are open as its number says.
///
/// # Errors
/// That of a system without free descriptors.
pub(crate) fn leave_some(of: &impl AsRawFd) -> io::Result<()> {
    use rustix::process::{Resource, getrlimit};
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let number = u64::try_from(of.as_raw_fd()).unwrap_or(0);
    if number >= for_peers(limit) {
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    } else {
        Ok(())
    }
}

/// How many of so many descriptors peers may cause: where there are few, nearly all.
fn for_peers(limit: u64) -> u64 {
    limit - DESCRIPTORS_RESERVED.min(limit / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_left_of_many_and_of_few() {
        for (limit, peers) in [(1_048_576, 1_048_320), (1024, 768), (64, 48), (3, 3), (0, 0)] {
            assert_eq!(for_peers(limit), peers, "{limit}");
        }
    }
}
