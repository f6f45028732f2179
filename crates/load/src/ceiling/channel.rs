//! A connection of the ceiling: bare, or within TLS.

use super::tuning::CeilingTuning;
use core::fmt;
use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_io::Stream;
use weft_io::tcp::Tcp;

/// Puts TLS around a connection.
type Wrap = dyn Fn(Box<dyn Stream>) -> io::Result<Box<dyn Stream>> + Send + Sync;

/// Encryption of the connections of one end. It is that of weft's own connections, so the ceiling
/// is one of the same library.
#[derive(Clone)]
pub struct Secure(Arc<Wrap>);

impl Secure {
    /// Encrypts by `wrap`, whose streams must not block.
    pub fn new(
        wrap: impl Fn(Box<dyn Stream>) -> io::Result<Box<dyn Stream>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(wrap))
    }
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secure")
    }
}

impl PartialEq for Secure {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A connection.
pub(super) struct Channel {
    /// The socket. With TLS it is for its options and for the poller: bytes go through `secure`,
    /// which has a descriptor of its own.
    socket: TcpStream,
    secure: Option<Box<dyn Stream>>,
}

impl Channel {
    /// A connection that was made or accepted.
    pub(super) fn new(socket: std::net::TcpStream, secure: Option<&Secure>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let secure = match secure {
            Some(Secure(wrap)) => Some(wrap(Box::new(Tcp::from_std(socket.try_clone()?)?))?),
            None => None,
        };
        Ok(Self { socket: TcpStream::from_std(socket), secure })
    }

    /// Has the socket tuned.
    pub(super) fn tune(&self, tuning: CeilingTuning) {
        tuning.apply(&self.socket);
    }

    /// Has the socket set up as each connection of the ceiling is.
    pub(super) fn set_up(&self) {
        CeilingTuning::for_any(&self.socket);
    }

    /// Sends `request` and waits for as much as `answer` holds; for the first words, which take a
    /// while with TLS.
    pub(super) fn exchange(
        &mut self,
        request: &[u8],
        answer: &mut [u8],
        patience: Duration,
    ) -> io::Result<()> {
        let (mut sent, mut received, end) = (0, 0, Instant::now() + patience);
        while received < answer.len() {
            let result = if sent < request.len() {
                self.write(&request[sent..])
            } else {
                Err(ErrorKind::WouldBlock.into())
            };
            match result {
                Ok(n) => sent += n,
                Err(e) if is_later(&e) => {}
                Err(e) => return Err(e),
            }
            // Receiving carries the handshake on, too.
            match self.read(&mut answer[received..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => received += n,
                Err(e) if is_later(&e) => std::thread::yield_now(),
                Err(e) => return Err(e),
            }
            if Instant::now() > end {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

fn is_later(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Read for Channel {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.secure {
            None => self.socket.read(into),
            Some(secure) => secure.recv(&mut [IoSliceMut::new(into)]),
        }
    }
}

impl Write for Channel {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.secure {
            None => self.socket.write(bytes),
            Some(secure) => secure.send(&[IoSlice::new(bytes)]),
        }
    }

    #[inline]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.secure {
            None => self.socket.write_vectored(bufs),
            Some(secure) => secure.send(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// For sleeping until something comes; all that TLS has decrypted has been read by then.
impl Source for Channel {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.socket.register(registry, token, interest)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.socket.reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }
}
