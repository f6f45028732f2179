//! The client and the server: what both ends of connections are set up with (RFC 8446 §1).

use crate::handshake::TlsHandshake;
use crate::key::{Keys, Psk};
use crate::openssl::{Context, Secrets, SslMachine, Unavailable, library};
use crate::peer::Peer;
use crate::placeholder::Placeholder;
use crate::reason::TlsRole;
use crate::secured::SecuredStream;
use std::io;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use weft_io::stream::{Stream, StreamFilter};

/// Checks that this machine has TLS. Loads the library.
///
/// # Errors
/// What is missing.
pub fn available() -> Result<(), Unavailable> {
    library().map(drop)
}

/// Encrypts accepted connections.
#[derive(Clone)]
pub struct TlsAcceptor(Arc<Context>, bool);

impl TlsAcceptor {
    /// One whose clients know one of these keys.
    ///
    /// # Errors
    /// Why there is no TLS here.
    pub fn new(keys: Arc<dyn Keys>) -> Result<Self, Unavailable> {
        Ok(Self(Arc::new(Context::new(Secrets::Server(keys))?), true))
    }

    /// The same, with the records in user space even where the kernel would take them.
    #[must_use]
    pub fn in_user_space(self) -> Self {
        Self(self.0, false)
    }

    /// Encrypts a connection that was accepted. No byte of it may have been received.
    ///
    /// # Errors
    /// The library refuses one more.
    pub fn wrap(&self, stream: Box<dyn Stream>) -> Result<(Box<dyn Stream>, Peer), Unavailable> {
        let (stream, peer) = SecuredStream::wrap(stream, &self.0, TlsRole::Server, self.1)?;
        Ok((Box::new(stream), peer))
    }

    /// Encrypts a connection that was accepted if its other end begins with TLS, and leaves it as
    /// it is otherwise: then the peer has no identity, also when bytes have come. No byte of it may
    /// have been received.
    pub fn wrap_if_asked(&self, stream: Box<dyn Stream>) -> (Box<dyn Stream>, Peer) {
        let stream = OptionalTls::new(stream, &self.0, self.1);
        let peer = stream.whom().clone();
        (Box::new(stream), peer)
    }
}

/// Encrypts outgoing connections.
#[derive(Clone)]
pub struct TlsConnector(Arc<Context>, bool);

impl TlsConnector {
    /// One that has this key, under this identity.
    ///
    /// # Errors
    /// Why there is no TLS here.
    pub fn new(identity: &[u8], psk: Psk) -> Result<Self, Unavailable> {
        Ok(Self(Arc::new(Context::new(Secrets::Client(identity.to_vec(), psk))?), true))
    }

    /// The same, with the records in user space even where the kernel would take them.
    #[must_use]
    pub fn in_user_space(self) -> Self {
        Self(self.0, false)
    }

    /// Encrypts a connection that was made. No byte of it may have been sent.
    ///
    /// # Errors
    /// The library refuses one more.
    pub fn wrap(&self, stream: Box<dyn Stream>) -> Result<(Box<dyn Stream>, Peer), Unavailable> {
        let (stream, peer) = SecuredStream::wrap(stream, &self.0, TlsRole::Client, self.1)?;
        Ok((Box::new(stream), peer))
    }
}

// An accepted connection that may speak TLS or not; its first byte decides. If it begins with a
// handshake record (RFC 8446 §5.1) it is TLS, and everything else is given to the caller as it is.

/// The first byte of a TLS record with a message of the handshake.
const HANDSHAKE: u8 = 0x16;

/// What is known of the connection.
enum Speaks {
    /// Nothing has come yet.
    Nothing,
    /// Plain text; its first byte, until that is received.
    Plain(Option<u8>),
    Tls,
}

/// A stream that becomes one of two.
pub(crate) struct OptionalTls {
    stream: Box<dyn Stream>,
    speaks: Speaks,
    context: Arc<Context>,
    /// True if the kernel may have the records.
    kernel: bool,
    peer: Peer,
}

impl OptionalTls {
    pub(crate) fn new(stream: Box<dyn Stream>, context: &Arc<Context>, kernel: bool) -> Self {
        Self {
            stream,
            speaks: Speaks::Nothing,
            context: Arc::clone(context),
            kernel,
            peer: Peer::default(),
        }
    }

    /// Who the other end is, if it speaks TLS.
    pub(crate) fn whom(&self) -> &Peer {
        &self.peer
    }

    /// Waits for the first byte; `false`: there is none, and the stream has ended.
    fn listen(&mut self) -> io::Result<bool> {
        let mut first = [0];
        if self.stream.recv(&mut [IoSliceMut::new(&mut first)])? == 0 {
            return Ok(false);
        }
        if first[0] != HANDSHAKE {
            self.speaks = Speaks::Plain(Some(first[0]));
            return Ok(true);
        }
        let machine =
            SslMachine::new(&self.context).map_err(|why| io::Error::other(why.to_string()))?;
        self.speaks = Speaks::Tls;
        let socket = core::mem::replace(&mut self.stream, Box::new(Placeholder));
        let stream = TlsHandshake::begun(socket, machine, self.peer.clone(), first[0]);
        self.stream = Box::new(SecuredStream::of(stream, self.kernel));
        Ok(true)
    }
}

/// Receives behind a byte that has come before. All that there is comes with it, as callers may
/// rely on that.
fn behind(first: u8, stream: &mut dyn Stream, bufs: &mut [IoSliceMut<'_>]) -> usize {
    let Some((head, tail)) = bufs.split_first_mut() else { return 0 };
    head[0] = first;
    let rest = core::iter::once(IoSliceMut::new(&mut head[1..]))
        .chain(tail.iter_mut().map(|buf| IoSliceMut::new(buf)));
    // A failure comes again with the next call.
    1 + stream.recv(&mut rest.filter(|buf| !buf.is_empty()).collect::<Vec<_>>()).unwrap_or(0)
}

impl StreamFilter for OptionalTls {
    fn inner(&self) -> &dyn Stream {
        &*self.stream
    }

    fn inner_mut(&mut self) -> &mut dyn Stream {
        &mut *self.stream
    }

    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if matches!(self.speaks, Speaks::Nothing) && !self.listen()? {
            return Ok(0);
        }
        let Speaks::Plain(first) = &mut self.speaks else { return self.stream.recv(bufs) };
        let Some(at) = bufs.iter().position(|buf| !buf.is_empty()) else { return Ok(0) };
        match first.take() {
            Some(byte) => Ok(behind(byte, &mut *self.stream, &mut bufs[at..])),
            None => self.stream.recv(bufs),
        }
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.speaks {
            Speaks::Nothing => Err(ErrorKind::WouldBlock.into()),
            Speaks::Plain(_) | Speaks::Tls => self.stream.send(bufs),
        }
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown()
    }

    fn has_buffered(&self) -> bool {
        matches!(self.speaks, Speaks::Plain(Some(_))) || self.stream.has_buffered()
    }

    fn tells_rest(&self) -> bool {
        self.stream.tells_rest()
    }
}
