//! A connection during its handshake, which OpenSSL does.

use crate::openssl::{Context, SslFailure, SslMachine, Unavailable};
use crate::peer::Peer;
use crate::reason::{TlsRole, reason};
use crate::schedule::TrafficSecret;
use crate::state::as_far_as_it_goes;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use weft_io::stream::Stream;

/// One end, until its handshake is over and sent. Nothing behind the handshake is received, so the
/// first record of data has the number 0 in both directions.
pub(crate) struct TlsHandshake {
    socket: Box<dyn Stream>,
    machine: SslMachine,
    role: TlsRole,
    is_over: bool,
    /// Why the connection is over.
    failed: Option<String>,
    peer: Peer,
}

impl TlsHandshake {
    pub(crate) fn new(
        socket: Box<dyn Stream>,
        context: &Context,
        role: TlsRole,
    ) -> Result<Self, Unavailable> {
        Ok(Self::of(socket, SslMachine::new(context)?, role, Peer::default()))
    }

    /// The server's end of a connection of which the first byte has come.
    pub(crate) fn begun(
        socket: Box<dyn Stream>,
        mut machine: SslMachine,
        peer: Peer,
        first: u8,
    ) -> Self {
        // The machine takes what it is given. The byte counts as one of the record that it begins.
        let _ = machine.fill_record(|room| {
            room[0] = first;
            Ok(1)
        });
        Self::of(socket, machine, TlsRole::Server, peer)
    }

    fn of(socket: Box<dyn Stream>, machine: SslMachine, role: TlsRole, peer: Peer) -> Self {
        Self { socket, machine, role, is_over: false, failed: None, peer }
    }

    /// Who the other end is.
    pub(crate) fn whom(&self) -> &Peer {
        &self.peer
    }

    /// Returns whether something is to be sent.
    #[cfg(test)]
    pub(crate) fn has_unsent(&self) -> bool {
        self.machine.unsent() > 0
    }

    /// Sends what the library has written; `WouldBlock` while some is left.
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

    /// Sends what the library has written, as far as that goes now.
    fn try_flush(&mut self) -> io::Result<()> {
        as_far_as_it_goes(self.flush())
    }

    /// It is over. The alert that tells the other end goes out as far as it can.
    #[cold]
    fn fail(&mut self, failure: &SslFailure) -> io::Error {
        let _ = self.try_flush();
        self.give_up(reason(failure, self.role))
    }

    /// It is over without a word to the other end.
    #[cold]
    pub(crate) fn give_up(&mut self, why: String) -> io::Error {
        self.failed = Some(why.clone());
        io::Error::new(ErrorKind::InvalidData, why)
    }

    fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some(why) => Err(io::Error::new(ErrorKind::InvalidData, why.clone())),
            None => Ok(()),
        }
    }

    /// Goes on with the handshake.
    fn shake_hands(&mut self) -> io::Result<()> {
        match self.machine.handshake() {
            Ok(true) => {
                self.is_over = true;
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
        while !self.is_over {
            self.shake_hands()?;
            if !self.is_over {
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

    /// Ends this direction.
    pub(crate) fn shutdown(&mut self) -> io::Result<()> {
        self.try_flush()?;
        self.socket.shutdown()
    }

    /// The secrets of what is sent and of what is received, once.
    pub(crate) fn take_secrets(&mut self) -> Option<(TrafficSecret, TrafficSecret)> {
        self.machine.take_secrets()
    }

    pub(crate) fn role(&self) -> TlsRole {
        self.role
    }

    pub(crate) fn socket(&self) -> &dyn Stream {
        &*self.socket
    }

    pub(crate) fn socket_mut(&mut self) -> &mut dyn Stream {
        &mut *self.socket
    }

    /// The socket alone: the library's state of the connection is freed.
    pub(crate) fn into_socket(self) -> Box<dyn Stream> {
        self.socket
    }
}
