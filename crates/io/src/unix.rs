//! Unix sockets: streams between processes of one machine, found by a path.

use crate::descriptors::leave_some;
use crate::event_loop::Registrar;
use crate::limits::SOCKET_BUFFER_BYTES;
use crate::socket_file::{self, Brings};
use crate::stream::{Listener, Stream};
use crate::unasked::{Closing, PeerSocket, refuse};
use mio::net::{UnixListener, UnixStream};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use weft_base::lock::Lock;

use std::time::Duration;

/// Connections that wait to be accepted, as for TCP.
const BACKLOG: i32 = 1024;

/// Connections of this process to listeners of others, by their paths.
static CONNECTED: Lock<BTreeMap<PathBuf, Closing>> = Lock::new(BTreeMap::new());

/// Shared state of the connections to the listener at a path.
fn connected_to(path: &Path) -> Closing {
    let mut all = CONNECTED.lock();
    all.retain(|_, closing| closing.is_shared());
    all.entry(path.to_owned()).or_default().clone()
}

/// A connection over a Unix socket.
pub struct Unix {
    socket: PeerSocket<UnixStream>,
    path: PathBuf,
}

impl Unix {
    /// Connects to the listener at `path`.
    pub fn connect(path: &Path) -> io::Result<Self> {
        connected_to(path).check()?;
        Ok(Self::tuned(connect_at_once(path)?, path))
    }

    /// Options that make it faster; a system that refuses one still has a correct socket.
    fn tuned(socket: PeerSocket<UnixStream>, path: &Path) -> Self {
        let options = SockRef::from(&*socket);
        let _ = options.set_send_buffer_size(SOCKET_BUFFER_BYTES);
        let _ = options.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
        Self { socket, path: path.to_owned() }
    }
}

impl Stream for Unix {
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.socket.recv(bufs)
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.write_vectored(bufs)
    }

    fn tells_rest(&self) -> bool {
        cfg!(target_os = "linux")
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    fn connected(&mut self) -> io::Result<bool> {
        self.socket.take_error()?.map_or(Ok(true), Err)
    }

    fn peer(&self) -> String {
        self.path.display().to_string()
    }

    fn local(&self) -> String {
        self.path.display().to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut *self.socket)
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut *self.socket)
    }
}

/// A listening Unix socket. Its file goes away with it. It may be closed later, with the connections
/// that nobody has accepted.
pub struct UnixAcceptor {
    socket: PeerSocket<UnixListener>,
    closing: Closing,
    file: SocketFile,
}

/// The file of a socket.
struct SocketFile {
    path: PathBuf,
    /// Device and inode, so that only our own file is removed.
    file: Option<(u64, u64)>,
}

impl UnixAcceptor {
    /// Binds and listens. A socket file left behind by a process that has ended is replaced; one
    /// with a listener is not. With a mode, the file has these permissions: see
    /// [`socket_file::bind`].
    pub fn listen(path: &Path, mode: Option<u32>, brings: Brings) -> io::Result<Self> {
        let socket = match socket_file::bind(path, mode, BACKLOG, brings) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && is_left_behind(path) => {
                std::fs::remove_file(path)?;
                socket_file::bind(path, mode, BACKLOG, brings)?
            }
            other => other?,
        };
        socket.set_nonblocking(true)?;
        let closing = Closing::default();
        let socket = PeerSocket::new(UnixListener::from_std(socket), &closing);
        Ok(Self {
            socket,
            closing,
            file: SocketFile { path: path.to_owned(), file: file_at(path) },
        })
    }
}

impl UnixAcceptor {
    /// The next connection, or `WouldBlock`, as the system has it, for those who count them.
    #[cfg(target_os = "linux")]
    pub(crate) fn accept_socket(&mut self) -> io::Result<UnixStream> {
        self.socket.accept().map(|(socket, _)| socket)
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Connects to the listener at a path, or fails at once: `WouldBlock` if its queue is full.
fn connect_at_once(path: &Path) -> io::Result<PeerSocket<UnixStream>> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    refuse(&socket);
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => return Err(e),
        _ => {}
    }
    Ok(PeerSocket::new(UnixStream::from_std(socket.into()), &connected_to(path)))
}

/// Connects to a path, and returns the immediate result.
fn probe(path: &Path) -> io::Result<()> {
    connect_at_once(path).map(drop)
}

/// Returns whether somebody listens at a path, also if the queue there is full. Does not wait.
pub fn has_listener(path: &Path) -> bool {
    match probe(path) {
        Ok(()) => true,
        Err(e) => e.kind() == io::ErrorKind::WouldBlock,
    }
}

/// Returns whether there is a socket without a listener.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket && probe(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
}

/// Connects to the listener at a path, and waits for a place in its queue for a limited time.
///
/// # Errors
/// `TimedOut` if the queue stays full.
pub fn connect(path: &Path, limit: Duration) -> io::Result<std::os::unix::net::UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    refuse(&socket);
    // It is the limit of connecting, too (socket(7)).
    socket.set_write_timeout(Some(limit))?;
    socket.connect(&SockAddr::unix(path)?).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "the listener there accepts nobody")
        }
        _ => e,
    })?;
    socket.set_write_timeout(None)?;
    Ok(socket.into())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.file.is_some() && file_at(&self.path) == self.file {
            // It may be gone by now; then there is nothing to do.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listener for UnixAcceptor {
    fn accept(&mut self) -> io::Result<Box<dyn Stream>> {
        self.closing.check()?;
        let (stream, _) = self.socket.accept()?;
        let stream = PeerSocket::new(stream, &self.closing);
        leave_some(&*stream)?;
        Ok(Box::new(Unix::tuned(stream, &self.file.path)))
    }

    fn local(&self) -> String {
        self.file.path.display().to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut *self.socket)
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut *self.socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket_file::Brings;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn nobody_waits_at_a_full_queue() {
        let path = std::env::temp_dir().join(format!("weft-full-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        assert!(!has_listener(&path));
        let listener = UnixListener::bind(&path).unwrap();
        SockRef::from(&listener).listen(0).unwrap();
        assert!(has_listener(&path));
        let mut waiting = Vec::new();
        let full = loop {
            match super::UnixStream::connect(&path) {
                Ok(stream) => waiting.push(stream),
                Err(e) => break e,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(has_listener(&path) && !is_left_behind(&path));
        let late = connect(&path, Duration::from_millis(10)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let taken = UnixAcceptor::listen(&path, None, Brings::Bytes).err().unwrap();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        // What its process has left is replaced.
        drop((listener, waiting));
        assert!(!has_listener(&path) && is_left_behind(&path));
        let acceptor = UnixAcceptor::listen(&path, None, Brings::Bytes).unwrap();
        connect(&path, Duration::from_millis(10)).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(acceptor);
        assert!(!path.exists());
    }
}
