//! Unix sockets whose messages bring descriptors.

use crate::accept::Accept;
use crate::descriptors::leave_some;
use crate::event_loop::Registrar;
use crate::stream::Listener;
use crate::unix::UnixAcceptor;
use mio::net::UnixStream;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};
use socket2::SockRef;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Descriptors that one call receives; the system closes others.
const DESCRIPTORS_MAX: usize = 16;

/// A connection.
pub struct MessageSocket(UnixStream);

impl MessageSocket {
    /// Connects to the listener at `path`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).map(Self)
    }

    /// Receives bytes, and adds the descriptors that came with them. Returns how many bytes; 0: the
    /// other end has closed the connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: there are none yet. Otherwise the connection is broken, or has
    /// brought a descriptor where few are left.
    pub fn receive(&self, into: &mut [u8], files: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let bytes = &mut [IoSliceMut::new(into)];
        let received = recvmsg(&self.0, bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                let before = files.len();
                files.extend(descriptors);
                files[before..].iter().try_for_each(leave_some)?;
            }
        }
        Ok(received.bytes)
    }

    /// Whether the other end has closed the connection, and nothing is left to be received.
    pub fn is_closed(&self) -> bool {
        matches!(SockRef::from(&self.0).peek(&mut [MaybeUninit::uninit()]), Ok(0))
    }

    /// Sends bytes, with a descriptor if there is one. Returns how many were taken; the descriptor
    /// goes with the first of them.
    ///
    /// # Errors
    /// As for [`MessageSocket::receive`].
    pub fn send(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let file = file.as_slice();
        if !file.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(file));
        }
        Ok(sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
    }

    /// Like [`crate::Stream::register`].
    ///
    /// # Errors
    /// The poller does not take it.
    pub fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut self.0)
    }

    /// Undoes [`MessageSocket::register`].
    ///
    /// # Errors
    /// It was not registered.
    pub fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut self.0)
    }
}

/// Listens at a path.
pub struct MessageListener(UnixAcceptor);

impl MessageListener {
    /// See [`UnixAcceptor::listen`].
    ///
    /// # Errors
    /// Somebody else listens there, or the path is not one for a socket.
    pub fn listen(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        UnixAcceptor::listen(path, mode).map(Self)
    }
}

impl Accept for MessageListener {
    type Accepted = MessageSocket;

    fn accept(&mut self) -> io::Result<MessageSocket> {
        self.0.accept_socket().map(MessageSocket)
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.0.register(registrar)
    }
}

/// The other end's socket for messages that nobody has asked for.
pub struct SideChannel(OwnedFd);

impl SideChannel {
    /// Sends by this descriptor.
    pub fn new(file: OwnedFd) -> Self {
        Self(file)
    }

    /// Sends a message if there is room for it; `false`: there is none.
    ///
    /// # Errors
    /// It is no socket, or the other end has closed it.
    pub fn send(&self, message: &[u8]) -> io::Result<bool> {
        match send(self.0.as_fd(), message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            // A socket that takes a part of so few bytes is none that a front end makes.
            Ok(sent) if sent == message.len() => Ok(true),
            Ok(_) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}
