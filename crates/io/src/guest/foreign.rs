//! Descriptors that a peer has sent. Each may stand for anything: a file of a server that never
//! answers (FUSE), a socket that waits for its peer when it is closed (SO_LINGER), an open file
//! whose flags the peer changes at any time. A call on it could so stop the loop.
//!
//! [`CALLS`] are those that are made, each after a call by which the kind of the descriptor is
//! known, and which itself asks no file system. All other descriptors are closed on a thread of
//! their own, with the connection that has brought them.

use crate::descriptors::Brought;
use crate::limits::FOREIGN_DESCRIPTORS_MAX;
use crate::unasked::drop_elsewhere;
use core::mem::ManuallyDrop;
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use weft_base::lock::Lock;

/// Every call on descriptors that a peer has sent: the call, the descriptors on which it is made,
/// and why it does not wait for the peer. The page on vhost-user has the same table.
pub const CALLS: [[&str; 3]; 9] = [
    ["readlink of `/proc/self/fd/N`", "of any kind", "the kernel knows the name of an open file"],
    ["fcntl F_GET_SEALS", "of any kind", "succeeds for memory alone, and asks no file system"],
    ["getsockopt SO_DOMAIN, SO_TYPE", "for configuration changes", "sockets alone have options"],
    ["fstat, mmap", "memory: memfd, tmpfs, hugetlbfs", "nothing is read from a disk or a server"],
    ["epoll_ctl", "eventfds, for kicks", "an eventfd is in memory"],
    [
        "io_submit with IOCB_FLAG_RESFD",
        "eventfds, for calls and errors",
        "adds to the counter in the kernel, which does not wait if it is full, whatever O_NONBLOCK says",
    ],
    ["write", "eventfds, if io_setup fails", "it may wait: each eventfd has a thread for it"],
    [
        "send with MSG_DONTWAIT",
        "Unix streams, for configuration changes",
        "the flag is of the call, and the peer cannot change it",
    ],
    [
        "close",
        "of any kind",
        "it does not wait for eventfds and memory; others, and the connection, are closed on a thread of their own",
    ],
];

/// A descriptor that a peer has sent.
#[derive(Debug)]
pub struct Foreign {
    file: ManuallyDrop<Brought>,
    bin: Arc<Bin>,
}

/// Descriptors to be closed on another thread, once nobody has anything of the connection.
#[derive(Debug, Default)]
pub(super) struct Bin(Lock<Content>);

#[derive(Debug, Default)]
struct Content {
    files: Vec<Brought>,
    /// Dropped when all are closed.
    guard: Option<Box<dyn Any + Send>>,
}

/// Returns whether it is an eventfd.
pub(super) fn is_eventfd(file: BorrowedFd<'_>) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    link.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

/// Returns whether it is a file whose content is memory: a memfd, or one of tmpfs or hugetlbfs.
/// Only such have seals.
pub(super) fn is_memory(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok()
}

/// Returns whether it is a Unix stream, whose calls know MSG_DONTWAIT.
pub(super) fn is_unix_stream(file: BorrowedFd<'_>) -> bool {
    sockopt::socket_domain(file) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(file) == Ok(SocketType::STREAM)
}

impl Foreign {
    pub(super) fn new(file: OwnedFd, bin: &Arc<Bin>) -> Self {
        Self { file: ManuallyDrop::new(Brought::new(file)), bin: Arc::clone(bin) }
    }

    /// One that no connection has brought.
    pub fn alone(file: OwnedFd) -> Self {
        Self::new(file, &Arc::default())
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Foreign {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: nobody uses it after this.
        let file = unsafe { ManuallyDrop::take(&mut self.file) };
        if !is_memory(file.as_fd()) && !is_eventfd(file.as_fd()) {
            self.bin.put(file);
        }
    }
}

impl Bin {
    /// Closes it later.
    pub fn put(&self, file: Brought) {
        self.0.lock().files.push(file);
    }

    /// Drops this when all is closed.
    pub fn hold(&self, guard: Box<dyn Any + Send>) {
        self.0.lock().guard = Some(guard);
    }

    /// # Errors
    /// There is too much in it.
    pub fn check(&self) -> io::Result<()> {
        if self.0.lock().files.len() < FOREIGN_DESCRIPTORS_MAX {
            return Ok(());
        }
        let text = format!("{FOREIGN_DESCRIPTORS_MAX} descriptors are of kinds that are not used");
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }
}

impl Drop for Bin {
    fn drop(&mut self) {
        let content = core::mem::take(self.0.get_mut());
        if content.files.is_empty() {
            return;
        }
        drop_elsewhere(content);
    }
}
