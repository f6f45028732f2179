//! An accepted connection that may speak TLS or not: its first byte tells. What begins with a handshake record (RFC 8446 §5.1) is TLS, and everything
//! else is given to the caller as it is.

use crate::openssl::{Context, Machine};
use crate::secured::SecuredStream;
use crate::stream::{Peer, TlsStream};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use weft_io::event_loop::Registrar;
use weft_io::stream::Stream;

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
pub(crate) struct Either {
    /// Always there, but while it is wrapped.
    stream: Option<Box<dyn Stream>>,
    speaks: Speaks,
    context: Arc<Context>,
    /// Whether the kernel may have the records.
    kernel: bool,
    peer: Peer,
}

impl Either {
    pub(crate) fn new(stream: Box<dyn Stream>, context: &Arc<Context>, kernel: bool) -> Self {
        Self { stream: Some(stream), speaks: Speaks::Nothing, context: Arc::clone(context), kernel, peer: Peer::default() }
    }

    /// Who the other end is, if it speaks TLS.
    pub(crate) fn whom(&self) -> &Peer {
        &self.peer
    }

    fn stream(&mut self) -> io::Result<&mut Box<dyn Stream>> {
        self.stream.as_mut().ok_or_else(|| ErrorKind::NotConnected.into())
    }

    /// Waits for the first byte; `false`: there is none, and the stream has ended.
    fn listen(&mut self) -> io::Result<bool> {
        let mut first = [0];
        if self.stream()?.recv(&mut [IoSliceMut::new(&mut first)])? == 0 {
            return Ok(false);
        }
        if first[0] != HANDSHAKE {
            self.speaks = Speaks::Plain(Some(first[0]));
            return Ok(true);
        }
        let machine = Machine::new(&self.context).map_err(|why| io::Error::other(why.to_string()))?;
        self.speaks = Speaks::Tls;
        let begun = self.stream.take().map(|socket| TlsStream::begun(socket, machine, self.peer.clone(), first[0]));
        self.stream = begun.map(|stream| Box::new(SecuredStream::of(stream, self.kernel)) as _);
        Ok(true)
    }
}

/// Receives behind a byte that has come before. All that there is comes with it, as callers may rely on that.
fn behind(first: u8, stream: &mut dyn Stream, bufs: &mut [IoSliceMut<'_>]) -> usize {
    let Some((head, tail)) = bufs.split_first_mut() else { return 0 };
    head[0] = first;
    let rest = core::iter::once(IoSliceMut::new(&mut head[1..])).chain(tail.iter_mut().map(|buf| IoSliceMut::new(buf)));
    // A failure comes again with the next call.
    1 + stream.recv(&mut rest.filter(|buf| !buf.is_empty()).collect::<Vec<_>>()).unwrap_or(0)
}

impl Stream for Either {
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if matches!(self.speaks, Speaks::Nothing) && !self.listen()? {
            return Ok(0);
        }
        let Self { stream: Some(stream), speaks, .. } = self else { return Err(ErrorKind::NotConnected.into()) };
        let Speaks::Plain(first) = speaks else { return stream.recv(bufs) };
        let Some(at) = bufs.iter().position(|buf| !buf.is_empty()) else { return Ok(0) };
        match first.take() {
            Some(byte) => Ok(behind(byte, &mut **stream, &mut bufs[at..])),
            None => stream.recv(bufs),
        }
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.speaks {
            Speaks::Nothing => Err(ErrorKind::WouldBlock.into()),
            Speaks::Plain(_) | Speaks::Tls => self.stream()?.send(bufs),
        }
    }

    fn tells_rest(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.tells_rest())
    }

    fn has_buffered(&self) -> bool {
        matches!(self.speaks, Speaks::Plain(Some(_))) || self.stream.as_ref().is_some_and(|stream| stream.has_buffered())
    }

    fn encrypted_by(&self) -> Option<&'static str> {
        self.stream.as_ref().and_then(|stream| stream.encrypted_by())
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.stream()?.shutdown()
    }

    fn reset_when_dropped(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.reset_when_dropped();
        }
    }

    fn connected(&mut self) -> io::Result<bool> {
        self.stream()?.connected()
    }

    fn peer(&self) -> String {
        self.stream.as_ref().map(|stream| stream.peer()).unwrap_or_default()
    }

    fn local(&self) -> String {
        self.stream.as_ref().map(|stream| stream.local()).unwrap_or_default()
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.stream()?.register(registrar)
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.stream()?.deregister(registrar)
    }
}
