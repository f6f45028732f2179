//! The stream that encrypts.

use super::reason::reason;
use crate::limits::TLS_SEND_BYTES;
use crate::stream::{Stream, StreamFilter};
use rustls::Connection;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

/// A stream inside of another.
pub(super) struct TlsStream {
    socket: Box<dyn Stream>,
    tls: Connection,
    /// Bytes of the caller that are encrypted but not completely sent; they are reported as taken
    /// once they are sent.
    sealed: usize,
    /// Decrypted bytes that wait to be received.
    opened: usize,
}

/// Socket that rustls reads from and writes to.
struct Socket<'a>(&'a mut dyn Stream);

impl Read for Socket<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.recv(&mut [IoSliceMut::new(buf)])
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.send(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    pub(super) fn new(socket: Box<dyn Stream>, mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(TLS_SEND_BYTES));
        Self { socket, tls, sealed: 0, opened: 0 }
    }

    /// Sends what is encrypted; `WouldBlock` while some is left.
    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(self.socket.as_mut())) {
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

    /// Takes in one piece from the socket; `false` at its end.
    fn take_in(&mut self) -> io::Result<bool> {
        if self.tls.read_tls(&mut Socket(self.socket.as_mut()))? == 0 {
            return Ok(false);
        }
        match self.tls.process_new_packets() {
            Ok(state) => {
                self.opened = state.plaintext_bytes_to_read();
                self.try_flush()?;
                Ok(true)
            }
            Err(e) => {
                // The alert that tells the peer; the connection is lost anyway.
                let _ = self.try_flush();
                Err(io::Error::new(ErrorKind::InvalidData, reason(&e)))
            }
        }
    }

    /// Moves decrypted bytes to where they are wanted.
    fn hand_out(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut total = 0;
        for buf in bufs {
            let mut at = 0;
            while self.opened > 0 && at < buf.len() {
                let n = self.tls.reader().read(&mut buf[at..])?;
                if n == 0 {
                    self.opened = 0;
                }
                at += n;
                self.opened -= n.min(self.opened);
            }
            total += at;
        }
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
        self.try_flush()?;
        loop {
            let n = self.hand_out(bufs)?;
            // An end without close_notify is an end: the protocols above know how much belongs to a
            // message.
            if n > 0 || !self.take_in()? {
                return Ok(n);
            }
        }
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        if self.tls.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.sealed == 0 {
            self.sealed = self.tls.writer().write_vectored(bufs)?;
            self.flush()?;
        }
        Ok(core::mem::take(&mut self.sealed))
    }

    fn has_buffered(&self) -> bool {
        self.opened > 0
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        self.try_flush()?;
        self.socket.shutdown()
    }
}
