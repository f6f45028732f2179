//! Unix sockets whose messages bring descriptors.

use super::foreign::{Bin, Foreign, is_unix_stream};
use crate::accept::Accept;
use crate::descriptors::{Brought, leave_some, one_message};
use crate::event_loop::Registrar;
use crate::socket_file::Brings;
use crate::stream::Listener;
use crate::unasked::receive_with_files;
use crate::unix::UnixAcceptor;
use mio::net::UnixStream;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};
use socket2::SockRef;
use std::any::Any;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

/// A connection. It is closed on a thread of its own: what the peer has sent, and nobody has
/// received, is closed with it.
pub struct MessageSocket {
    socket: ManuallyDrop<UnixStream>,
    bin: Arc<Bin>,
}

impl MessageSocket {
    /// Connects to the listener at `path`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).map(Self::new)
    }

    fn new(socket: UnixStream) -> Self {
        Self { socket: ManuallyDrop::new(socket), bin: Arc::default() }
    }

    /// Drops this when the connection is closed, and all that it has brought.
    pub fn hold(&self, guard: impl Any + Send) {
        self.bin.hold(Box::new(guard));
    }

    /// Receives bytes, and adds the descriptors that came with them. Returns how many bytes; 0: the
    /// other end has closed the connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: there are none yet. [`io::ErrorKind::ResourceBusy`]: they come
    /// with descriptors, for which there is no room as long as others have the reserve; nothing
    /// announces its end. Otherwise the connection is broken, or few descriptors are left.
    pub fn receive(&self, into: &mut [u8], files: &mut Vec<Foreign>) -> io::Result<usize> {
        self.bin.check()?;
        // Descriptors stay in the queue: without room for them the system tells that there are some.
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let bytes = &mut [IoSliceMut::new(into)];
        let there = recvmsg(&*self.socket, bytes, &mut RecvAncillaryBuffer::default(), flags)?;
        // What has come since then may have others.
        let into = &mut into[..there.bytes];
        if there.flags.contains(ReturnFlags::CTRUNC) {
            return one_message(|| self.receive_now(into, files));
        }
        let mut socket: &UnixStream = &self.socket;
        if into.is_empty() { Ok(0) } else { socket.read(into) }
    }

    fn receive_now(&self, into: &mut [u8], files: &mut Vec<Foreign>) -> io::Result<usize> {
        let (bytes, brought) = receive_with_files(&*self.socket, &mut [IoSliceMut::new(into)])?;
        let before = files.len();
        files.extend(brought.into_iter().map(|file| Foreign::new(file, &self.bin)));
        files[before..].iter().try_for_each(leave_some)?;
        Ok(bytes)
    }

    /// Returns whether the other end has closed the connection, and nothing is left to be received.
    pub fn is_closed(&self) -> bool {
        matches!(SockRef::from(&*self.socket).peek(&mut [MaybeUninit::uninit()]), Ok(0))
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
        Ok(sendmsg(&*self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
    }

    /// Like [`crate::Stream::register`].
    ///
    /// # Errors
    /// The poller does not take it.
    pub fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut *self.socket)
    }

    /// Undoes [`MessageSocket::register`].
    ///
    /// # Errors
    /// It was not registered.
    pub fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut *self.socket)
    }
}

impl Drop for MessageSocket {
    fn drop(&mut self) {
        // The other end knows at once. It may have closed it already.
        let _ = self.socket.shutdown(Shutdown::Both);
        // SAFETY: nobody uses it after this.
        let socket = unsafe { ManuallyDrop::take(&mut self.socket) };
        self.bin.put(Brought::uncounted(socket.into()));
    }
}

/// Listens at a path. It is closed on a thread of its own, with the connections that nobody has
/// accepted and what these have brought.
pub struct MessageListener(UnixAcceptor);

impl MessageListener {
    /// See [`UnixAcceptor::listen`].
    ///
    /// # Errors
    /// Somebody else listens there, or the path is not one for a socket.
    pub fn listen(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        UnixAcceptor::listen(path, mode, Brings::Descriptors).map(Self)
    }
}

impl Accept for MessageListener {
    type Accepted = MessageSocket;

    fn accept(&mut self) -> io::Result<MessageSocket> {
        let socket = self.0.accept_socket().map(MessageSocket::new)?;
        leave_some(&*socket.socket)?;
        Ok(socket)
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.0.register(registrar)
    }
}

/// The other end's socket for messages that nobody has asked for.
pub struct SideChannel(Foreign);

impl SideChannel {
    /// Sends by this descriptor.
    ///
    /// # Errors
    /// It is not a Unix stream: others may wait in spite of MSG_DONTWAIT.
    pub fn new(file: Foreign) -> io::Result<Self> {
        if is_unix_stream(file.as_fd()) {
            return Ok(Self(file));
        }
        let text = "the descriptor for messages to the front end is not a Unix stream";
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// Sends a message if there is room for it; `false`: there is none.
    ///
    /// # Errors
    /// The other end has closed it.
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
