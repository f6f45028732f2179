//! Messages over TLS on a blocking socket, with time limits. Nothing that arrives takes more memory
//! than a message may have.

use super::proof::Exported;
use crate::limits::AGENT_SEND_S;
use rustls::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use weft_bench::agents::message::{LENGTH_BYTES, MessageError, decode, encode};
use weft_bench::limits::AGENT_FIRST_BYTES_MAX;

/// Bytes that are taken from TLS at a time.
const PIECE_BYTES: usize = 16 << 10;

/// Shortest wait: a time limit of zero would mean none.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub enum ChannelLost {
    /// The peer closed it, or went away.
    #[error("the connection was closed")]
    Closed,
    /// It did not say anything, or did not take what was sent.
    #[error("there was no answer in time")]
    Silent,
    /// The system ended it.
    #[error("{0}")]
    Io(io::Error),
    /// TLS ended it.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// It sent what is no message.
    #[error("it sent {0}")]
    Malformed(#[from] MessageError),
}

impl From<io::Error> for ChannelLost {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => Self::Closed,
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Silent,
            _ => Self::Io(e),
        }
    }
}

/// A connection.
pub struct AgentChannel {
    socket: TcpStream,
    tls: Connection,
    /// Decrypted bytes, at most a message and a piece.
    staged: Vec<u8>,
    /// What a message may have now.
    most: usize,
}

/// Whether a wait has ended without anything.
fn is_wait(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl AgentChannel {
    /// Shakes hands, until `deadline` at the latest.
    pub fn open(
        socket: TcpStream,
        tls: impl Into<Connection>,
        deadline: Instant,
    ) -> Result<Self, ChannelLost> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        let mut channel =
            Self { socket, tls: tls.into(), staged: Vec::new(), most: AGENT_FIRST_BYTES_MAX };
        channel.tls.set_buffer_limit(None);
        while channel.tls.is_handshaking() {
            channel.flush(deadline)?;
            if channel.tls.is_handshaking() {
                channel.take_in(deadline)?;
            }
        }
        channel.flush(deadline)?;
        Ok(channel)
    }

    /// The keying material of this connection, which both ends derive alike.
    pub fn exported(&self) -> Result<Exported, ChannelLost> {
        Exported::of(&self.tls).map_err(ChannelLost::Tls)
    }

    /// From now on messages may have up to `most` bytes.
    pub fn allow(&mut self, most: usize) {
        self.most = most;
    }

    /// Sends a message.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelLost> {
        let bytes = encode(message)?;
        self.tls.writer().write_all(&bytes)?;
        self.flush(Instant::now() + Duration::from_secs(AGENT_SEND_S))
    }

    /// The next message; [`ChannelLost::Silent`] if none is there at `deadline`.
    pub fn receive<M: DeserializeOwned>(&mut self, deadline: Instant) -> Result<M, ChannelLost> {
        loop {
            if let Some((message, length)) = decode(&self.staged, self.most)? {
                self.staged.drain(..length);
                return Ok(message);
            }
            match self.take_in(deadline) {
                // What came before the end still counts.
                Err(ChannelLost::Closed) if self.staged.len() > LENGTH_BYTES => {
                    match decode(&self.staged, self.most)? {
                        Some((message, _)) => {
                            self.staged.clear();
                            return Ok(message);
                        }
                        None => return Err(ChannelLost::Closed),
                    }
                }
                other => other?,
            }
        }
    }

    /// The next message, if one arrives within `wait`.
    pub fn poll<M: DeserializeOwned>(&mut self, wait: Duration) -> Result<Option<M>, ChannelLost> {
        match self.receive(Instant::now() + wait) {
            Ok(message) => Ok(Some(message)),
            Err(ChannelLost::Silent) => Ok(None),
            Err(lost) => Err(lost),
        }
    }

    /// Takes in what there is, and waits for it until `deadline`.
    fn take_in(&mut self, deadline: Instant) -> Result<(), ChannelLost> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ChannelLost::Silent);
        }
        self.socket.set_read_timeout(Some(left.max(WAIT_MIN)))?;
        match self.tls.read_tls(&mut self.socket) {
            Ok(0) => return Err(ChannelLost::Closed),
            Ok(_) => {}
            Err(e) if is_wait(&e) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        if let Err(e) = self.tls.process_new_packets() {
            // The alert tells the peer why; the connection is lost anyway.
            let _ = self.flush(Instant::now() + WAIT_MIN);
            return Err(ChannelLost::Tls(e));
        }
        self.take_decrypted()?;
        if self.tls.is_handshaking() {
            Ok(())
        } else {
            self.flush(deadline.max(Instant::now() + WAIT_MIN))
        }
    }

    fn take_decrypted(&mut self) -> Result<(), ChannelLost> {
        let mut piece = [0; PIECE_BYTES];
        loop {
            match self.tls.reader().read(&mut piece) {
                // Orderly, by close_notify.
                Ok(0) => return Err(ChannelLost::Closed),
                Ok(n) => self.staged.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn flush(&mut self, deadline: Instant) -> Result<(), ChannelLost> {
        while self.tls.wants_write() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ChannelLost::Silent);
            }
            self.socket.set_write_timeout(Some(left.max(WAIT_MIN)))?;
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(ChannelLost::Closed),
                Ok(_) => {}
                Err(e) if is_wait(&e) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

impl Drop for AgentChannel {
    fn drop(&mut self) {
        self.tls.send_close_notify();
        let _ = self.flush(Instant::now() + WAIT_MIN);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}
