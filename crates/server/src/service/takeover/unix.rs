//! Unix sockets, by which listening sockets are passed on (SCM_RIGHTS, unix(7)).

use crate::limits::{CONTROL_CONNECT_S, HANDOVER_SOCKETS_MAX};
use crate::private_files;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A connection that ends with this process.
pub type Waiting = UnixStream;

/// What the old process says: everything is released.
const RELEASED: u8 = b'R';

/// What the new one says: it serves.
const SERVES: u8 = b'S';

/// How often a process that waits for the other one looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Space for the descriptors in one message.
const SPACE: usize = rustix::cmsg_space!(ScmRights(HANDOVER_SOCKETS_MAX));

/// Sends sockets, and the addresses for which they are.
pub fn give(to: &Path, sockets: &[(SocketAddr, Arc<TcpListener>)]) -> io::Result<Waiting> {
    if sockets.len() > HANDOVER_SOCKETS_MAX {
        return Err(io::Error::other(format!("there are more than {HANDOVER_SOCKETS_MAX}")));
    }
    let limit = Duration::from_secs(CONTROL_CONNECT_S);
    let stream = weft_io::unix::connect(to, limit)?;
    private_files::check_peer(&stream)?;
    stream.set_write_timeout(Some(limit))?;
    let mut text: String = sockets.iter().map(|(at, _)| format!("{at} ")).collect();
    text.push('\n');
    let descriptors: Vec<_> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("they do not fit into a message"));
    }
    let sent =
        sendmsg(&stream, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::empty())?;
    if sent < text.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(stream)
}

/// Returns whether the other process still waits. It sends nothing.
pub fn is_there(waiting: &Waiting) -> bool {
    let mut waiting: &UnixStream = waiting;
    waiting.set_nonblocking(true).is_err()
        || waiting.read(&mut [0]).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
}

/// Tells the other process that everything is released, and waits until it serves; `false`: it has
/// gone instead. A process that `is_ending` waits for nothing.
pub fn release(waiting: &Waiting, is_ending: &dyn Fn() -> bool) -> bool {
    let mut waiting: &UnixStream = waiting;
    let told = waiting
        .set_nonblocking(false)
        .and_then(|()| waiting.set_read_timeout(Some(LOOK)))
        .and_then(|()| waiting.write_all(&[RELEASED]));
    if told.is_err() {
        return false;
    }
    loop {
        match waiting.read(&mut [0]) {
            Ok(bytes) => return bytes > 0,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                ) =>
            {
                if is_ending() {
                    return true;
                }
            }
            Err(_) => return false,
        }
    }
}

/// Waits until there is something to be accepted.
fn wait_readable(listener: &UnixListener, limit: Duration) -> io::Result<()> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    loop {
        match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&limit)) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            other => return Ok(other.map(drop)?),
        }
    }
}

/// The socket at which a process waits for listening sockets.
pub struct Receiver {
    listener: UnixListener,
    path: PathBuf,
}

/// Notices the end of the other process.
pub struct Gone(UnixStream);

impl Receiver {
    /// Waits next to the control socket of the other process, where no other user can connect,
    /// or replace the socket.
    pub fn new(control: &Path) -> io::Result<Self> {
        let path = control.with_extension(format!("handover-{}", std::process::id()));
        private_files::check_directory(control.parent().unwrap_or(control))?;
        let _ = std::fs::remove_file(&path);
        let listener = private_files::bind(&path)?;
        Ok(Self { listener, path: std::path::absolute(path)? })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Receives what was sent.
    pub fn receive(self) -> io::Result<(Vec<(SocketAddr, TcpListener)>, Gone)> {
        let limit = Duration::from_secs(CONTROL_CONNECT_S);
        wait_readable(&self.listener, limit)?;
        let (mut stream, _) = self.listener.accept()?;
        private_files::check_peer(&stream)?;
        stream.set_read_timeout(Some(limit))?;
        let (mut text, mut descriptors) = (vec![0; 64 << 10], Vec::new());
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut length =
            recvmsg(&stream, &mut [IoSliceMut::new(&mut text)], &mut control, flags)?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        while length < text.len() && !text[..length].contains(&b'\n') {
            match stream.read(&mut text[length..])? {
                0 => break,
                more => length += more,
            }
        }
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it sent no list of addresses");
        let text = std::str::from_utf8(&text[..length]).map_err(|_| wrong())?;
        let addresses =
            text.split_whitespace().map(str::parse).collect::<Result<Vec<SocketAddr>, _>>();
        let sockets = descriptors.into_iter().map(TcpListener::from);
        Ok((addresses.map_err(|_| wrong())?.into_iter().zip(sockets).collect(), Gone(stream)))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Gone {
    /// Tells the other process, if it is still there, that this one serves.
    pub fn serves(mut self) {
        let _ = self.0.write_all(&[SERVES]);
    }

    /// Waits until the other process has ended, or says that everything is released.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.0.set_read_timeout(Some(limit))?;
        match self.0.read(&mut [0]) {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("it has not ended in {} s", limit.as_secs()),
                ))
            }
            _ => Ok(()),
        }
    }
}
