//! Descriptors that peers send over Unix sockets although none are wanted.
//!
//! A descriptor may stand for anything, and to close the last one may wait for whoever has the
//! other end: for hours at a TCP connection with SO_LINGER. Since Linux 6.16 a socket can refuse
//! them (SO_PASSRIGHTS). Elsewhere they are received and closed on a thread of their own, and so is
//! a socket from which not everything was received. A read without space for them would have the
//! system close them on the thread that reads.

use crate::limits::CLOSING_SOCKETS_MAX;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread;
use weft_base::lock::Lock;

/// Descriptors that a message can have (`SCM_MAX_FD`).
pub(crate) const MESSAGE_DESCRIPTORS_MAX: usize = 253;

/// Stack of a thread that makes one call.
pub(crate) const STACK_BYTES: usize = 64 << 10;

/// Objects that wait for a thread that drops them.
static WAITING: Lock<Vec<Box<dyn Send>>> = Lock::new(Vec::new());

fn waiting() -> MutexGuard<'static, Vec<Box<dyn Send>>> {
    WAITING.lock()
}

/// Drops something on a thread of its own.
pub(crate) fn drop_elsewhere(what: impl Send + 'static) {
    waiting().push(Box::new(what));
    start_threads();
}

/// Starts a thread for each thing that waits for one. Without threads they wait for the next call:
/// to close them here might wait.
fn start_threads() {
    let count = waiting().len();
    for _ in 0..count {
        let thread = thread::Builder::new().name("weft-close".into()).stack_size(STACK_BYTES);
        let work = || {
            let what = waiting().pop();
            drop(what);
        };
        if thread.spawn(work).is_err() {
            return;
        }
    }
}

/// Has a socket, and those that it accepts, refuse descriptors; `false`: the system cannot.
pub(crate) fn refuse(socket: &impl AsFd) -> bool {
    system::refuse(socket.as_fd())
}

/// Receives bytes and all descriptors that come with them. There is space for as many as a message
/// can have, as the system would close others on this thread.
pub(crate) fn receive_with_files(
    socket: &impl AsFd,
    bufs: &mut [IoSliceMut<'_>],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, bufs, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            files.extend(descriptors);
        }
    }
    Ok((received.bytes, files))
}

/// Sockets of one listener that are being closed on threads of their own.
#[derive(Clone, Debug, Default)]
pub struct Closing(Arc<AtomicUsize>);

/// One of them.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Closing {
    /// Checks whether one more connection may be accepted, before it is.
    ///
    /// # Errors
    /// `ResourceBusy`: [`CLOSING_SOCKETS_MAX`] are being closed.
    pub fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Acquire) < CLOSING_SOCKETS_MAX {
            return Ok(());
        }
        // They may lack a thread.
        start_threads();
        let text = format!(
            "{CLOSING_SOCKETS_MAX} connections are being closed, whose peers sent descriptors that keep them open"
        );
        Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
    }

    /// Returns whether others have it, too: sockets that are open or being closed.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn drop_elsewhere(&self, what: impl Send + 'static) {
        self.0.fetch_add(1, Ordering::AcqRel);
        // In this order: it counts until it is closed.
        drop_elsewhere((what, Counted(Arc::clone(&self.0))));
    }
}

/// A Unix socket whose peers may send descriptors, and of which only bytes are wanted. Nobody waits
/// for what they stand for.
#[derive(Debug)]
pub struct PeerSocket<S: AsFd + Send + 'static> {
    socket: ManuallyDrop<S>,
    refuses: bool,
    closing: Closing,
}

impl<S: AsFd + Send + 'static> PeerSocket<S> {
    /// This socket, which counts in `closing` while it is closed.
    pub fn new(socket: S, closing: &Closing) -> Self {
        let refuses = system::refuses(socket.as_fd());
        Self { socket: ManuallyDrop::new(socket), refuses, closing: closing.clone() }
    }

    /// Receives bytes.
    ///
    /// # Errors
    /// `InvalidData` if a descriptor came with them; otherwise that of the socket.
    pub fn recv(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>
    where
        for<'a> &'a S: Read,
    {
        if self.refuses {
            let mut socket: &S = &self.socket;
            return match bufs {
                [one] => socket.read(one),
                many => socket.read_vectored(many),
            };
        }
        let (bytes, files) = receive_with_files(&*self.socket, bufs)?;
        if files.is_empty() {
            return Ok(bytes);
        }
        self.closing.drop_elsewhere(files);
        let text = "the other end sent file descriptors, which this protocol does not have";
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }
}

impl<S: AsFd + Send + 'static> Deref for PeerSocket<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S: AsFd + Send + 'static> DerefMut for PeerSocket<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.socket
    }
}

impl<S: AsFd + Send + 'static> Drop for PeerSocket<S> {
    fn drop(&mut self) {
        // SAFETY: nobody uses it after this.
        let socket = unsafe { ManuallyDrop::take(&mut self.socket) };
        if self.refuses || ends_empty(&socket) {
            drop(socket);
        } else {
            self.closing.drop_elsewhere(socket);
        }
    }
}

/// Ends a connection. Returns whether everything that its peer has sent was received: after the end
/// nothing can arrive. `false` for a listener.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn ends_empty(socket: &impl AsFd) -> bool {
    use rustix::net::{Shutdown, recv, shutdown};
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let is_empty = || recv(socket, &mut [0_u8; 1], flags).is_ok_and(|(_, bytes)| bytes == 0);
    // The first look may tell an error instead: that the peer has gone.
    shutdown(socket, Shutdown::Both).is_ok() && (is_empty() || is_empty())
}

/// Other systems close what is not received when a connection is ended, and that may wait.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn ends_empty(_: &impl AsFd) -> bool {
    false
}

/// SO_PASSRIGHTS. SPARC has other numbers of options.
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(target_arch = "sparc", target_arch = "sparc64"))
))]
mod system {
    use std::os::fd::{AsRawFd, BorrowedFd};

    const SO_PASSRIGHTS: libc::c_int = 83;

    pub fn refuse(socket: BorrowedFd<'_>) -> bool {
        let passes: libc::c_int = 0;
        // SAFETY: the value of the option is a number, which is there during the call.
        let outcome = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PASSRIGHTS,
                (&raw const passes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        outcome == 0
    }

    /// Returns whether it has the option, or its listener had.
    pub fn refuses(socket: BorrowedFd<'_>) -> bool {
        let mut passes: libc::c_int = 1;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value of the option is a number, for which there is room during the call.
        let outcome = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PASSRIGHTS,
                (&raw mut passes).cast(),
                &raw mut length,
            )
        };
        outcome == 0 && passes == 0
    }
}

/// No socket refuses them.
#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    not(any(target_arch = "sparc", target_arch = "sparc64"))
)))]
mod system {
    use std::os::fd::BorrowedFd;

    pub fn refuse(_: BorrowedFd<'_>) -> bool {
        false
    }

    pub fn refuses(_: BorrowedFd<'_>) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
pub(crate) mod tests;
