//! The small traits of sockets. TCP, Unix sockets, TLS and the simulation stand behind them.

use crate::event_loop::Registrar;
use std::io::{self, IoSlice, IoSliceMut};

/// A connected byte stream. Calls never block: [`io::ErrorKind::WouldBlock`] means "later".
///
/// A stream may move to another thread while it is not registered with a loop.
pub trait Stream: Send {
    /// Receives into `bufs` in order; returns bytes, 0 at the end of the stream.
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Sends from `bufs` in order; returns bytes taken, which may be fewer than given. After [`io::ErrorKind::WouldBlock`] the next
    /// call has to start with the same bytes: a stream that encrypts may hold them already.
    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Whether a receive that brought in less than there was room for has taken all that there was, so that readiness announces what comes then.
    /// (The end of the stream may have come with it: a loop that was told of that tries again by itself.)
    fn tells_rest(&self) -> bool {
        false
    }

    /// Whether bytes wait inside the stream itself (decrypted by TLS, say), so that no readiness will announce them.
    fn has_buffered(&self) -> bool {
        false
    }

    /// Ends the sending direction.
    fn shutdown(&mut self) -> io::Result<()>;

    /// An outgoing connection: whether it stands. `Ok(false)` while it is still being made; the error when it failed.
    fn connected(&mut self) -> io::Result<bool>;

    /// The other end, for people: `192.0.2.1:4420`.
    fn peer(&self) -> String;

    /// Our end, for people.
    fn local(&self) -> String;

    /// Has the loop tell the driver of `registrar` when the stream becomes readable or writable, at each change once
    /// (edge-triggered): a driver that was told goes on until `WouldBlock`.
    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;

    /// Undoes [`Stream::register`].
    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;
}

/// A listening socket. Registered like a stream.
pub trait Listener: Send {
    /// The next connection, or `WouldBlock`.
    fn accept(&mut self) -> io::Result<Box<dyn Stream>>;

    /// Where it listens, for people and for whoever asked for port 0.
    fn local(&self) -> String;

    /// As [`Stream::register`].
    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;

    /// As [`Stream::deregister`].
    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;
}
