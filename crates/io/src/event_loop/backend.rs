//! Basis of a loop: the system's poller and clock, or a simulated world.

use super::registrar::{Ready, RegistryRef};
use crate::rdma::{QueuePair, QueuePairListener, Unavailable};
use crate::stream::{Listener, Stream};
use crate::time::Time;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The system beneath a loop.
pub trait Backend {
    /// The time.
    fn now(&mut self) -> Time;

    /// The time by a clock that costs less and is a few milliseconds wrong. Comparable with itself
    /// alone.
    #[inline]
    fn coarse(&mut self) -> Time {
        self.now()
    }

    /// Adds the drivers whose sockets or disks became ready to `ready`. Waits at most `wait`
    /// (`None`: for ever) for the first; returns whether a remote wake-up came in.
    fn poll(&mut self, wait: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool>;

    /// Starts to connect.
    fn connect(&mut self, to: SocketAddr) -> io::Result<Box<dyn Stream>>;

    /// Listens.
    fn listen(&mut self, at: SocketAddr) -> io::Result<Box<dyn Listener>>;

    /// Starts to connect a queue pair.
    fn connect_rdma(&mut self, to: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
        let _ = to;
        Err(Unavailable::NotOnThisLoop.into())
    }

    /// Listens for queue pairs.
    fn listen_rdma(&mut self, at: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
        let _ = at;
        Err(Unavailable::NotOnThisLoop.into())
    }

    /// Returns the registry for streams.
    fn registry(&self) -> RegistryRef<'_>;

    /// Returns a descriptor that is readable while [`Backend::poll`] would find something, if there
    /// is one.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// Something that ends a wait of [`Backend::poll`] from any thread.
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync>;
}
