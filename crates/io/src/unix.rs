//! Unix sockets: streams between processes of one machine, found by a path.

use crate::descriptors::leave_some;
use crate::event_loop::Registrar;
use crate::limits::SOCKET_BUFFER_BYTES;
use crate::socket_file::{self, Brings};
use crate::stream::{Listener, Stream};
use mio::net::{UnixListener, UnixStream};
use socket2::SockRef;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted, as for TCP.
const BACKLOG: i32 = 1024;

/// A connection over a Unix socket.
pub struct Unix {
    socket: UnixStream,
    path: PathBuf,
}

impl Unix {
    /// Connects to the listener at `path`.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self::tuned(UnixStream::connect(path)?, path))
    }

    /// Options that make it faster; a system that refuses one still has a correct socket.
    fn tuned(socket: UnixStream, path: &Path) -> Self {
        let options = SockRef::from(&socket);
        let _ = options.set_send_buffer_size(SOCKET_BUFFER_BYTES);
        let _ = options.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
        Self { socket, path: path.to_owned() }
    }
}

impl Stream for Unix {
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match bufs {
            [one] => self.socket.read(one),
            many => self.socket.read_vectored(many),
        }
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
        registrar.register_mio(&mut self.socket)
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut self.socket)
    }
}

/// A listening Unix socket. Its file goes away with it.
pub struct UnixAcceptor {
    socket: UnixListener,
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
        let socket = UnixListener::from_std(socket);
        Ok(Self { socket, file: SocketFile { path: path.to_owned(), file: file_at(path) } })
    }
}

impl UnixAcceptor {
    /// The next connection, or `WouldBlock`, as the system has it, for those who count them.
    #[cfg(target_os = "linux")]
    pub(crate) fn accept_socket(&mut self) -> io::Result<UnixStream> {
        self.socket.accept().map(|(socket, _)| socket)
    }

    /// Removes the file. The socket is for those to close to whom it matters on which thread.
    #[cfg(target_os = "linux")]
    pub(crate) fn into_socket(self) -> std::os::fd::OwnedFd {
        self.socket.into()
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Whether there is a socket without a listener.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |e: io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused)
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
        let (stream, _) = self.socket.accept()?;
        leave_some(&stream)?;
        Ok(Box::new(Unix::tuned(stream, &self.file.path)))
    }

    fn local(&self) -> String {
        self.file.path.display().to_string()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut self.socket)
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut self.socket)
    }
}
