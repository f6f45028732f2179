//! A stream within TLS: the library does the handshake, and then the kernel has the records, or the
//! library keeps them.

use crate::in_kernel::KernelStream;
use crate::openssl::{Context, Unavailable};
use crate::peer::{Peer, Records};
use crate::placeholder::Placeholder;
use crate::reason::Role;
use crate::stream::TlsStream;
use std::io::{self, IoSlice, IoSliceMut};
use weft_io::stream::{Stream, StreamFilter};

/// A stream inside of another.
pub(crate) struct SecuredStream {
    now: Now,
    peer: Peer,
}

enum Now {
    /// The handshake is not over.
    Handshake(Box<TlsStream>),
    /// The library has the records.
    Library(Box<TlsStream>),
    /// The kernel has the records.
    Kernel(Box<KernelStream>),
    /// The records change hands.
    Moving(Placeholder),
}

impl SecuredStream {
    /// Wraps a stream of which nothing was sent or received. Where `kernel` is false the library
    /// keeps the records.
    ///
    /// # Errors
    /// The library refuses one more connection.
    pub(crate) fn wrap(
        socket: Box<dyn Stream>,
        context: &Context,
        role: Role,
        kernel: bool,
    ) -> Result<(Self, Peer), Unavailable> {
        let stream = TlsStream::new(socket, context, role)?;
        let peer = stream.whom().clone();
        Ok((Self::of(stream, kernel), peer))
    }

    /// One whose handshake has not got further than its first byte.
    pub(crate) fn of(stream: TlsStream, kernel: bool) -> Self {
        let (peer, stream) = (stream.whom().clone(), Box::new(stream));
        let now = if kernel { Now::Handshake(stream) } else { Now::Library(stream) };
        if !kernel {
            peer.has_records_in(Records::UserSpace);
        }
        Self { now, peer }
    }

    /// The handshake is over and sent, and nothing behind it was received: gives the records to the
    /// kernel, if it takes them.
    #[cold]
    fn decide(&mut self) {
        let Now::Handshake(mut stream) =
            core::mem::replace(&mut self.now, Now::Moving(Placeholder))
        else {
            return;
        };
        let taken = match stream.take_secrets() {
            Some((send, receive)) => KernelStream::attach(stream.socket(), &send, &receive)
                .map(|is_taken| is_taken.then_some((send, receive))),
            None => Ok(None),
        };
        self.now = match taken {
            Ok(Some((send, receive))) => {
                let role = stream.role();
                Now::Kernel(Box::new(KernelStream::new(stream.into_socket(), role, send, receive)))
            }
            Ok(None) => Now::Library(stream),
            Err(e) => {
                // The kernel decrypts, but does not encrypt.
                stream.give_up(format!("TLS: the kernel has refused a key: {e}"));
                Now::Library(stream)
            }
        };
        self.peer.has_records_in(if matches!(self.now, Now::Kernel(_)) {
            Records::Kernel
        } else {
            Records::UserSpace
        });
    }

    /// Has both ends make new keys.
    #[cfg(test)]
    pub(crate) fn renew(&mut self) {
        match &mut self.now {
            Now::Kernel(stream) => stream.renew(),
            Now::Handshake(stream) | Now::Library(stream) => stream.renew().unwrap(),
            Now::Moving(_) => {}
        }
    }

    /// Records that the kernel has sent and received with the present keys, if they are its own.
    #[cfg(test)]
    pub(crate) fn records(&self) -> Option<[u64; 2]> {
        match &self.now {
            Now::Kernel(stream) => Some(stream.records()),
            _ => None,
        }
    }

    /// Whether the records are those of a kernel that does not change keys.
    #[cfg(test)]
    pub(crate) fn keeps_keys(&self) -> bool {
        matches!(&self.now, Now::Kernel(_)) && !KernelStream::changes_keys()
    }
}

impl StreamFilter for SecuredStream {
    fn inner(&self) -> &dyn Stream {
        match &self.now {
            Now::Handshake(stream) | Now::Library(stream) => &**stream,
            Now::Kernel(stream) => &**stream,
            Now::Moving(placeholder) => placeholder,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Stream {
        match &mut self.now {
            Now::Handshake(stream) | Now::Library(stream) => &mut **stream,
            Now::Kernel(stream) => &mut **stream,
            Now::Moving(placeholder) => placeholder,
        }
    }

    #[inline]
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.now {
            Now::Kernel(stream) => return Stream::recv(&mut **stream, bufs),
            Now::Library(stream) => return Stream::recv(&mut **stream, bufs),
            Now::Handshake(stream) => {
                if !stream.greet()? {
                    return Ok(0);
                }
            }
            Now::Moving(_) => {}
        }
        self.decide();
        self.inner_mut().recv(bufs)
    }

    #[inline]
    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.now {
            Now::Kernel(stream) => Stream::send(&mut **stream, bufs),
            Now::Library(stream) => Stream::send(&mut **stream, bufs),
            // The handshake goes on as the stream is received from.
            Now::Handshake(stream) => stream.wait(),
            Now::Moving(placeholder) => Stream::send(placeholder, bufs),
        }
    }

    fn has_buffered(&self) -> bool {
        self.inner().has_buffered()
    }

    fn encrypted_by(&self) -> Option<&'static str> {
        self.peer.records().map(Records::name)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.inner_mut().shutdown()
    }
}
