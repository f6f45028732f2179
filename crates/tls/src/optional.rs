//! An accepted connection that may speak TLS or not; its first byte decides. If it begins with a
//! handshake record (RFC 8446 §5.1) it is TLS, and everything else is given to the caller as it is.

use crate::handshake::TlsHandshake;
use crate::openssl::{Context, SslMachine};
use crate::peer::Peer;
use crate::placeholder::Placeholder;
use crate::secured::SecuredStream;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use weft_io::stream::{Stream, StreamFilter};

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
