//! Traits of sockets, implemented by TCP, Unix sockets, TLS and the simulation.

use crate::event_loop::Registrar;
use std::io::{self, IoSlice, IoSliceMut};
#[cfg(unix)]
use std::os::fd::BorrowedFd;

/// A connected byte stream. Calls never block: [`io::ErrorKind::WouldBlock`] means "later".
///
/// A stream may move to another thread while it is not registered with a loop.
pub trait Stream: Send {
    /// Receives into `bufs` in order; returns the number of bytes, 0 at the end of the stream.
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Sends from `bufs` in order; returns the number of bytes accepted, which may be less. After
    /// [`io::ErrorKind::WouldBlock`] the next call must start with the same bytes: an encrypting
    /// stream may already hold them.
    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Returns whether a receive that returned less than requested has read everything available,
    /// so that readiness announces what comes next. (The end of the stream may have been part of
    /// it: a loop that is notified of the end tries again by itself.)
    fn tells_rest(&self) -> bool {
        false
    }

    /// Returns whether the stream itself holds bytes (for example decrypted by TLS), which no
    /// readiness will announce.
    fn has_buffered(&self) -> bool {
        false
    }

    /// Closes the sending direction.
    fn shutdown(&mut self) -> io::Result<()>;

    /// From now on dropping the stream resets the connection: what was not sent yet is forgotten,
    /// and the peer learns that nobody waits for anything. Otherwise the system goes on sending it,
    /// for minutes if the peer does not answer.
    fn reset_when_dropped(&mut self) {}

    /// For an outgoing connection: whether it is established. `Ok(false)` while connecting; an
    /// error if it failed.
    fn connected(&mut self) -> io::Result<bool>;

    /// The peer's address, for messages: `192.0.2.1:4420`.
    fn peer(&self) -> String;

    /// The local address, for messages.
    fn local(&self) -> String;

    /// Makes the loop wake the driver of `registrar` when the stream becomes readable or writable,
    /// once per change (edge-triggered): the driver then continues until `WouldBlock`.
    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;

    /// Undoes [`Stream::register`].
    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;

    /// Returns the encrypting part, for people; none if the stream is not encrypted, or not yet.
    fn encrypted_by(&self) -> Option<&'static str> {
        None
    }

    /// The descriptor of a TCP socket, for what only one system's sockets can do. A stream inside
    /// of another has none.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A stream over another one, whose connection it leaves as it is: it is a [`Stream`] by that.
/// Information of the other one about itself and its bytes ([`Stream::tells_rest`],
/// [`Stream::has_buffered`], [`Stream::descriptor`]) is not true of this one.
pub trait StreamFilter: Send {
    /// The stream below.
    fn inner(&self) -> &dyn Stream;

    /// The stream below.
    fn inner_mut(&mut self) -> &mut dyn Stream;

    /// See [`Stream::recv`].
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// See [`Stream::send`].
    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// See [`Stream::shutdown`].
    fn shutdown(&mut self) -> io::Result<()>;

    /// See [`Stream::has_buffered`].
    fn has_buffered(&self) -> bool;

    /// See [`Stream::tells_rest`].
    fn tells_rest(&self) -> bool {
        false
    }

    /// See [`Stream::encrypted_by`].
    fn encrypted_by(&self) -> Option<&'static str> {
        self.inner().encrypted_by()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: StreamFilter> Stream for S {
    #[inline]
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        StreamFilter::recv(self, bufs)
    }

    #[inline]
    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        StreamFilter::send(self, bufs)
    }

    fn tells_rest(&self) -> bool {
        StreamFilter::tells_rest(self)
    }

    fn has_buffered(&self) -> bool {
        StreamFilter::has_buffered(self)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        StreamFilter::shutdown(self)
    }

    fn reset_when_dropped(&mut self) {
        self.inner_mut().reset_when_dropped();
    }

    fn connected(&mut self) -> io::Result<bool> {
        self.inner_mut().connected()
    }

    fn peer(&self) -> String {
        self.inner().peer()
    }

    fn local(&self) -> String {
        self.inner().local()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.inner_mut().register(registrar)
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.inner_mut().deregister(registrar)
    }

    fn encrypted_by(&self) -> Option<&'static str> {
        StreamFilter::encrypted_by(self)
    }

    #[cfg(unix)]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A listening socket. Registered like a stream.
pub trait Listener: Send {
    /// The next connection, or `WouldBlock`.
    fn accept(&mut self) -> io::Result<Box<dyn Stream>>;

    /// The local address, for messages and to find the port chosen for port 0.
    fn local(&self) -> String;

    /// Like [`Stream::register`].
    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;

    /// Like [`Stream::deregister`].
    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;
}
