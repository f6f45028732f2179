//! A stream within TLS: OpenSSL does the handshake, and then the kernel has the records, or
//! [`RecordStream`] has them.

use crate::handshake::TlsHandshake;
use crate::in_kernel::KernelStream;
use crate::openssl::{Context, Unavailable};
use crate::peer::{Peer, Records};
use crate::placeholder::Placeholder;
use crate::reason::TlsRole;
use crate::records::RecordStream;
use crate::schedule::TrafficSecret;
use std::io::{self, IoSlice, IoSliceMut};
use weft_io::stream::{Stream, StreamFilter};

/// A stream inside of another.
pub(crate) struct SecuredStream {
    now: Now,
    /// True if the kernel may have the records.
    kernel: bool,
    peer: Peer,
}

enum Now {
    /// The handshake is not over, or nobody could take the records.
    Handshake(Box<TlsHandshake>),
    /// The records are sealed and opened here.
    UserSpace(Box<RecordStream>),
    /// The kernel has the records.
    Kernel(Box<KernelStream>),
    /// The records change hands.
    Moving(Placeholder),
}

impl SecuredStream {
    /// Wraps a stream of which nothing was sent or received. Where `kernel` is false the records
    /// stay in user space.
    ///
    /// # Errors
    /// The library refuses one more connection.
    pub(crate) fn wrap(
        socket: Box<dyn Stream>,
        context: &Context,
        role: TlsRole,
        kernel: bool,
    ) -> Result<(Self, Peer), Unavailable> {
        let stream = TlsHandshake::new(socket, context, role)?;
        let peer = stream.whom().clone();
        Ok((Self::of(stream, kernel), peer))
    }

    /// One whose handshake has not got further than its first byte.
    pub(crate) fn of(stream: TlsHandshake, kernel: bool) -> Self {
        Self { peer: stream.whom().clone(), now: Now::Handshake(Box::new(stream)), kernel }
    }

    /// The handshake is over and sent, and nothing behind it was received: gives the records to the
    /// kernel, if it may have them and takes them.
    ///
    /// # Errors
    /// Nobody can take them.
    #[cold]
    fn decide(&mut self) -> io::Result<()> {
        let Now::Handshake(mut stream) =
            core::mem::replace(&mut self.now, Now::Moving(Placeholder))
        else {
            return Ok(());
        };
        let (kernel, send, receive) = match self.hand_over(&mut stream) {
            Ok(taken) => taken,
            Err(why) => {
                let error = stream.give_up(why);
                self.now = Now::Handshake(stream);
                return Err(error);
            }
        };
        let role = stream.role();
        let socket = stream.into_socket();
        self.now = if kernel {
            Now::Kernel(Box::new(KernelStream::new(socket, role, send, receive)))
        } else {
            Now::UserSpace(Box::new(RecordStream::new(socket, role, send, receive)))
        };
        self.peer.has_records_in(if kernel { Records::Kernel } else { Records::UserSpace });
        Ok(())
    }

    /// Whether the kernel has taken the records, and the secrets of what is sent and received.
    ///
    /// # Errors
    /// Why nobody can take them.
    fn hand_over(
        &self,
        stream: &mut TlsHandshake,
    ) -> Result<(bool, TrafficSecret, TrafficSecret), String> {
        let secrets = stream.take_secrets();
        let (send, receive) =
            secrets.ok_or("TLS: this OpenSSL does not tell the keys of a connection")?;
        // One that fails has the kernel decrypt, and not encrypt.
        let kernel = self.kernel
            && KernelStream::attach(stream.socket(), &send, &receive)
                .map_err(|e| format!("TLS: the kernel has refused a key: {e}"))?;
        Ok((kernel, send, receive))
    }

    /// Has both ends make new keys.
    #[cfg(test)]
    pub(crate) fn renew(&mut self) {
        match &mut self.now {
            Now::Kernel(stream) => stream.renew(),
            Now::UserSpace(stream) => stream.renew(),
            Now::Handshake(_) | Now::Moving(_) => panic!("the handshake is not over"),
        }
    }

    /// Records that were sent and received with the present keys.
    #[cfg(test)]
    pub(crate) fn records(&self) -> [u64; 2] {
        match &self.now {
            Now::Kernel(stream) => stream.records(),
            Now::UserSpace(stream) => stream.records(),
            Now::Handshake(_) | Now::Moving(_) => [0, 0],
        }
    }

    /// Who the other end is.
    #[cfg(test)]
    pub(crate) fn whom(&self) -> &Peer {
        &self.peer
    }

    /// The records, once they are in user space.
    #[cfg(test)]
    pub(crate) fn user_space(&mut self) -> &mut RecordStream {
        match &mut self.now {
            Now::UserSpace(stream) => stream,
            _ => panic!("the records are not in user space"),
        }
    }

    /// Returns whether something is to be sent.
    #[cfg(test)]
    pub(crate) fn has_unsent(&self) -> bool {
        match &self.now {
            Now::Handshake(stream) => stream.has_unsent(),
            Now::UserSpace(stream) => stream.unsent() > 0,
            Now::Kernel(_) | Now::Moving(_) => false,
        }
    }

    /// Returns whether the records are those of a kernel that does not change keys.
    #[cfg(test)]
    pub(crate) fn keeps_keys(&self) -> bool {
        matches!(&self.now, Now::Kernel(_)) && !KernelStream::changes_keys()
    }
}

impl StreamFilter for SecuredStream {
    fn inner(&self) -> &dyn Stream {
        match &self.now {
            Now::Handshake(stream) => stream.socket(),
            Now::UserSpace(stream) => &**stream,
            Now::Kernel(stream) => &**stream,
            Now::Moving(placeholder) => placeholder,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Stream {
        match &mut self.now {
            Now::Handshake(stream) => stream.socket_mut(),
            Now::UserSpace(stream) => &mut **stream,
            Now::Kernel(stream) => &mut **stream,
            Now::Moving(placeholder) => placeholder,
        }
    }

    #[inline]
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.now {
            Now::Kernel(stream) => return Stream::recv(&mut **stream, bufs),
            Now::UserSpace(stream) => return Stream::recv(&mut **stream, bufs),
            Now::Handshake(stream) => {
                if !stream.greet()? {
                    return Ok(0);
                }
            }
            Now::Moving(_) => {}
        }
        self.decide()?;
        self.inner_mut().recv(bufs)
    }

    #[inline]
    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.now {
            Now::Kernel(stream) => Stream::send(&mut **stream, bufs),
            Now::UserSpace(stream) => Stream::send(&mut **stream, bufs),
            // The handshake goes on as the stream is received from.
            Now::Handshake(stream) => stream.wait(),
            Now::Moving(placeholder) => Stream::send(placeholder, bufs),
        }
    }

    fn has_buffered(&self) -> bool {
        match &self.now {
            Now::UserSpace(stream) => Stream::has_buffered(&**stream),
            Now::Handshake(_) | Now::Kernel(_) | Now::Moving(_) => false,
        }
    }

    fn tells_rest(&self) -> bool {
        match &self.now {
            Now::UserSpace(stream) => Stream::tells_rest(&**stream),
            Now::Handshake(_) | Now::Kernel(_) | Now::Moving(_) => false,
        }
    }

    fn encrypted_by(&self) -> Option<&'static str> {
        self.peer.records().map(Records::name)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        match &mut self.now {
            Now::Handshake(stream) => stream.shutdown(),
            Now::UserSpace(stream) => Stream::shutdown(&mut **stream),
            Now::Kernel(stream) => Stream::shutdown(&mut **stream),
            Now::Moving(placeholder) => placeholder.shutdown(),
        }
    }
}
