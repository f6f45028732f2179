//! The stream whose records OpenSSL encrypts and decrypts.

use crate::limits::{TLS_ANSWER_BYTES_MAX, TLS_RECORD_BYTES, TLS_SEND_BYTES};
use crate::openssl::{Context, Failure, Machine, Read, Unavailable};
use crate::peer::Peer;
use crate::reason::{Role, reason};
use crate::record_count::RecordCount;
use crate::schedule::Secret;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use weft_io::stream::{Stream, StreamFilter};

/// How far a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ConnectionState {
    /// The handshake is not over.
    Handshake,
    /// Data goes both ways.
    Open,
    /// The other end has ended its direction.
    PeerClosed,
    /// It is over, for this reason.
    Failed(String),
}

/// A stream inside of another.
pub(crate) struct TlsStream {
    socket: Box<dyn Stream>,
    machine: Machine,
    role: Role,
    state: ConnectionState,
    peer: Peer,
    /// Bytes of the caller that are encrypted but not completely sent; they are reported as taken
    /// once they are sent.
    sealed: usize,
    /// Small pieces on their way into one record.
    record: Vec<u8>,
    read: RecordCount,
    written: RecordCount,
}

impl TlsStream {
    pub(crate) fn new(
        socket: Box<dyn Stream>,
        context: &Context,
        role: Role,
    ) -> Result<Self, Unavailable> {
        Ok(Self::of(socket, Machine::new(context)?, role, Peer::default()))
    }

    /// The server's end of a connection of which the first byte has come.
    pub(crate) fn begun(
        socket: Box<dyn Stream>,
        mut machine: Machine,
        peer: Peer,
        first: u8,
    ) -> Self {
        // The machine takes what it is given. The byte counts as one of the record that it begins.
        let _ = machine.fill_record(|room| {
            room[0] = first;
            Ok(1)
        });
        Self::of(socket, machine, Role::Server, peer)
    }

    fn of(socket: Box<dyn Stream>, machine: Machine, role: Role, peer: Peer) -> Self {
        Self {
            socket,
            machine,
            role,
            state: ConnectionState::Handshake,
            peer,
            sealed: 0,
            record: Vec::new(),
            read: RecordCount::default(),
            written: RecordCount::default(),
        }
    }

    /// Who the other end is.
    pub(crate) fn whom(&self) -> &Peer {
        &self.peer
    }

    /// Whether something is to be sent.
    #[cfg(test)]
    pub(crate) fn has_unsent(&self) -> bool {
        self.machine.unsent() > 0
    }

    /// Has both ends make new keys.
    #[cfg(test)]
    pub(crate) fn renew(&mut self) -> io::Result<()> {
        self.update_keys()
    }

    /// Sends what is encrypted; `WouldBlock` while some is left.
    fn flush(&mut self) -> io::Result<()> {
        let Self { machine, socket, .. } = self;
        while machine.unsent() > 0 {
            match machine.drain(|bytes| socket.send(&[IoSlice::new(bytes)])) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends what is encrypted, as far as that goes now.
    fn try_flush(&mut self) -> io::Result<()> {
        match self.flush() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// It is over. The alert that tells the other end goes out as far as it can.
    #[cold]
    fn fail(&mut self, failure: &Failure) -> io::Error {
        let why = reason(failure, self.role);
        self.state = ConnectionState::Failed(why.clone());
        let _ = self.try_flush();
        io::Error::new(ErrorKind::InvalidData, why)
    }

    fn check(&self) -> io::Result<()> {
        match &self.state {
            ConnectionState::Failed(why) => {
                Err(io::Error::new(ErrorKind::InvalidData, why.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Goes on with the handshake.
    fn shake_hands(&mut self) -> io::Result<()> {
        match self.machine.handshake() {
            Ok(true) => {
                self.state = ConnectionState::Open;
                self.peer.has_proved(self.machine.identity());
            }
            Ok(false) => {}
            Err(failure) => return Err(self.fail(&failure)),
        }
        self.try_flush()
    }

    /// Goes on with the handshake, and receives nothing behind it: `true` once it is over and all
    /// of it is sent, `false` if the other end has closed the connection.
    pub(crate) fn greet(&mut self) -> io::Result<bool> {
        self.check()?;
        self.try_flush()?;
        while self.state == ConnectionState::Handshake {
            self.shake_hands()?;
            if self.state == ConnectionState::Handshake {
                let Self { machine, socket, .. } = self;
                if machine.fill_record(|room| socket.recv(&mut [IoSliceMut::new(room)]))? == 0 {
                    return Ok(false);
                }
            }
        }
        self.flush()?;
        Ok(true)
    }

    /// What a stream says to whoever sends before its handshake is over.
    pub(crate) fn wait(&mut self) -> io::Result<usize> {
        self.check()?;
        self.try_flush()?;
        Err(ErrorKind::WouldBlock.into())
    }

    /// The secrets of what is sent and of what is received, once.
    pub(crate) fn take_secrets(&mut self) -> Option<(Secret, Secret)> {
        self.machine.take_secrets()
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn socket(&self) -> &dyn Stream {
        &*self.socket
    }

    pub(crate) fn into_socket(self) -> Box<dyn Stream> {
        self.socket
    }

    /// It is over without a word to the other end.
    pub(crate) fn give_up(&mut self, why: String) {
        self.state = ConnectionState::Failed(why);
    }

    /// Decrypts into where it is wanted what has come.
    fn open(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut total = 0;
        for buf in bufs {
            let mut at = 0;
            while at < buf.len() && self.state == ConnectionState::Open {
                match self.machine.read(&mut buf[at..]) {
                    Ok(Read::Bytes(n)) => {
                        at += n;
                        if self.read.add() {
                            self.update_keys()?;
                        }
                    }
                    Ok(Read::Wants) => return Ok(total + at),
                    Ok(Read::End) => self.state = ConnectionState::PeerClosed,
                    Err(failure) => {
                        let error = self.fail(&failure);
                        // What came before is intact; the failure is told by the next call.
                        return if total + at > 0 { Ok(total + at) } else { Err(error) };
                    }
                }
            }
            total += at;
        }
        Ok(total)
    }

    /// Takes in one piece from the socket; `false` at its end.
    fn take_in(&mut self) -> io::Result<bool> {
        let Self { machine, socket, .. } = self;
        let n = machine.fill(|room| socket.recv(&mut [IoSliceMut::new(room)]))?;
        Ok(n > 0)
    }

    #[cold]
    fn update_keys(&mut self) -> io::Result<()> {
        (self.read, self.written) = Default::default();
        self.machine.update_keys().map_err(|failure| self.fail(&failure))
    }

    /// Encrypts one record.
    fn seal_record(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written.add() {
            self.update_keys()?;
        }
        self.machine.write(bytes).map_err(|failure| self.fail(&failure))
    }

    fn seal_rest(&mut self) -> io::Result<()> {
        let mut record = core::mem::take(&mut self.record);
        let sealed = if record.is_empty() { Ok(()) } else { self.seal_record(&record) };
        record.clear();
        self.record = record;
        sealed
    }

    /// Encrypts from the caller's pieces, in whole records as far as there is enough. A large piece
    /// is encrypted from where it is, small ones are put together: each record costs 22 bytes and a
    /// start of the cipher.
    fn seal(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut total = 0;
        for buf in bufs {
            let mut rest = &buf[..buf.len().min(TLS_SEND_BYTES - total)];
            total += rest.len();
            while !rest.is_empty() {
                if self.record.is_empty() && rest.len() >= TLS_RECORD_BYTES {
                    let (now, later) = rest.split_at(TLS_RECORD_BYTES);
                    self.seal_record(now)?;
                    rest = later;
                    continue;
                }
                let (now, later) =
                    rest.split_at(rest.len().min(TLS_RECORD_BYTES - self.record.len()));
                self.record.extend_from_slice(now);
                rest = later;
                if self.record.len() == TLS_RECORD_BYTES {
                    self.seal_rest()?;
                }
            }
            if total == TLS_SEND_BYTES {
                break;
            }
        }
        self.seal_rest()?;
        Ok(total)
    }
}

impl StreamFilter for TlsStream {
    fn inner(&self) -> &dyn Stream {
        &*self.socket
    }

    fn inner_mut(&mut self) -> &mut dyn Stream {
        &mut *self.socket
    }

    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.check()?;
        self.try_flush()?;
        loop {
            if self.state == ConnectionState::Handshake {
                self.shake_hands()?;
            }
            let n = self.open(bufs)?;
            // Answers to the other end, such as that to its new keys.
            self.try_flush()?;
            if self.machine.unsent() > TLS_ANSWER_BYTES_MAX {
                return Err(self.fail(&Failure::Flood));
            }
            // An end without close_notify is an end: the protocols above know how much belongs to a
            // message.
            if n > 0 || self.state == ConnectionState::PeerClosed {
                return Ok(n);
            }
            if !self.take_in()? {
                return Ok(0);
            }
        }
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.check()?;
        self.flush()?;
        if self.state == ConnectionState::Handshake {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.sealed == 0 {
            self.sealed = self.seal(bufs)?;
            self.flush()?;
        }
        Ok(core::mem::take(&mut self.sealed))
    }

    fn has_buffered(&self) -> bool {
        self.state == ConnectionState::Open && self.machine.has_buffered()
    }

    fn shutdown(&mut self) -> io::Result<()> {
        if matches!(self.state, ConnectionState::Open | ConnectionState::PeerClosed) {
            self.machine.close();
        }
        self.try_flush()?;
        self.socket.shutdown()
    }
}
