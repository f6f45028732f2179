//! A stream whose records the kernel encrypts and decrypts. What is left to do here are the records
//! that are not data: alerts, and messages of the handshake that come after it (RFC 8446 §4.6, §6).

use crate::control::{Breach, ControlRecords, Said, alert, key_update, record};
use crate::kernel::{self, Socket, TlsDirection};
use crate::limits::{TLS_COUNT_BYTES, TLS_KEY_RECORDS_MAX, TLS_RECORD_BYTES};
use crate::openssl::SslFailure;
use crate::reason::{TlsRole, reason};
use crate::schedule::TrafficSecret;
use crate::state::{ConnectionState, as_far_as_it_goes};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::OnceLock;
use weft_io::stream::{Stream, StreamFilter};

/// Whether this kernel has no TLS, once that is known.
static HAS_NONE: OnceLock<()> = OnceLock::new();
/// Whether this kernel can change the keys of a connection (Linux 6.14 and later), once that is
/// known.
static CHANGES_KEYS: OnceLock<bool> = OnceLock::new();

/// The traffic secret of one direction.
struct DirectionSecret {
    secret: TrafficSecret,
    /// Bytes since its records were counted.
    bytes: usize,
}

/// A stream of records of the kernel.
pub(crate) struct KernelStream {
    socket: Box<dyn Stream>,
    role: TlsRole,
    state: ConnectionState,
    sent: DirectionSecret,
    received: DirectionSecret,
    /// New keys are to be announced before the next data, with the demand that the other end makes
    /// new ones, too, or without.
    owed: Option<bool>,
    control: ControlRecords,
}

impl KernelStream {
    /// Takes a socket over for which [`KernelStream::attach`] has told `true`.
    pub(crate) fn new(
        socket: Box<dyn Stream>,
        role: TlsRole,
        send: TrafficSecret,
        receive: TrafficSecret,
    ) -> Self {
        let [sent, received] = [send, receive].map(|secret| DirectionSecret { secret, bytes: 0 });
        let control = ControlRecords::new(role);
        Self { socket, role, state: ConnectionState::Open, sent, received, owed: None, control }
    }

    /// Has the kernel take both directions of a connection after its handshake, of which no record
    /// of data was sent or received; `false` if it does not take them, and nothing has changed.
    ///
    /// # Errors
    /// It has taken one direction only.
    pub(crate) fn attach(
        stream: &dyn Stream,
        send: &TrafficSecret,
        receive: &TrafficSecret,
    ) -> io::Result<bool> {
        let Some(socket) = kernel::socket(stream) else { return Ok(false) };
        // Nothing has changed for the socket while it has no keys.
        let begun = kernel::attach(socket)
            .and_then(|()| kernel::set_keys(socket, TlsDirection::Receive, receive));
        if let Err(e) = begun {
            // A connection that is over already says nothing about the kernel.
            if e.kind() != ErrorKind::NotConnected && HAS_NONE.set(()).is_ok() {
                tracing::debug!("TLS stays in user space: the kernel has none to offer ({e})");
            }
            return Ok(false);
        }
        kernel::set_keys(socket, TlsDirection::Send, send)?;
        // As nothing was sent, the same keys can be set once more: a kernel that changes none
        // refuses it.
        CHANGES_KEYS.get_or_init(|| {
            let changes = kernel::set_keys(socket, TlsDirection::Send, send).is_ok();
            tracing::debug!(
                "the kernel encrypts the records of TLS{}",
                if changes { "" } else { "; it cannot change keys" }
            );
            changes
        });
        kernel::expect_no_padding(socket);
        Ok(true)
    }

    fn kernel(&self) -> io::Result<Socket<'_>> {
        kernel::socket(&*self.socket).ok_or_else(|| ErrorKind::Unsupported.into())
    }

    /// It is over. The other end is told by an alert, if there is room for it.
    #[cold]
    fn fail(&mut self, kind: ErrorKind, failure: &SslFailure, alert: Option<u8>) -> io::Error {
        if let (Some(alert), Ok(socket)) = (alert, self.kernel()) {
            let _ = kernel::send(socket, record::ALERT, &alert::content(alert));
        }
        self.state.fail(kind, reason(failure, self.role))
    }

    /// The other end has broken the rules.
    #[cold]
    fn refuse(&mut self, breach: &Breach) -> io::Error {
        self.fail(ErrorKind::InvalidData, &breach.failure, breach.alert)
    }

    /// This kernel does not change keys.
    #[cold]
    fn fail_for_keys(&mut self) -> io::Error {
        self.fail(ErrorKind::Unsupported, &SslFailure::KernelKeys, Some(alert::CLOSE_NOTIFY))
    }

    /// Announces new keys if that is due, and uses them.
    fn pay(&mut self) -> io::Result<()> {
        let Some(demands) = self.owed else { return Ok(()) };
        kernel::send(self.kernel()?, record::HANDSHAKE, &key_update(demands))?;
        self.owed = None;
        let secret = self.sent.secret.next();
        if kernel::set_keys(self.kernel()?, TlsDirection::Send, &secret).is_err() {
            return Err(self.fail_for_keys());
        }
        self.sent = DirectionSecret { secret, bytes: 0 };
        Ok(())
    }

    /// Counts bytes of data. When keys have served for enough records, both ends are to make new
    /// ones; a kernel that cannot ends the connection in order, and the next call tells why.
    #[inline]
    fn count(&mut self, way: TlsDirection, bytes: usize) {
        let direction = if way == TlsDirection::Send { &mut self.sent } else { &mut self.received };
        direction.bytes += bytes;
        if direction.bytes >= TLS_COUNT_BYTES {
            direction.bytes = 0;
            self.count_records(way);
        }
    }

    #[cold]
    fn count_records(&mut self, way: TlsDirection) {
        let hash = self.sent.secret.hash();
        let records = self.kernel().and_then(|socket| kernel::records(socket, way, hash));
        if records.is_ok_and(|records| records < TLS_KEY_RECORDS_MAX) || self.owed == Some(true) {
            return;
        }
        self.renew();
    }

    /// Records that were sent and received with the present keys.
    #[cfg(test)]
    pub(crate) fn records(&self) -> [u64; 2] {
        let of =
            |way| kernel::records(self.kernel().unwrap(), way, self.sent.secret.hash()).unwrap();
        [of(TlsDirection::Send), of(TlsDirection::Receive)]
    }

    /// Returns whether this kernel can change keys.
    pub(crate) fn changes_keys() -> bool {
        CHANGES_KEYS.get() == Some(&true)
    }

    /// Has both ends make new keys.
    pub(crate) fn renew(&mut self) {
        if Self::changes_keys() {
            self.owed = Some(true);
        } else {
            self.fail_for_keys();
        }
    }

    /// Takes a record that is not data.
    #[cold]
    fn take_other(&mut self) -> io::Result<()> {
        let mut room = vec![0; TLS_RECORD_BYTES];
        let (kind, n) = kernel::receive(self.kernel()?, &mut IoSliceMut::new(&mut room))?;
        match self.control.take(kind, &room[..n]).map_err(|breach| self.refuse(&breach))? {
            Said::Nothing => Ok(()),
            Said::End => {
                self.state = ConnectionState::PeerClosed;
                Ok(())
            }
            Said::NewKeys { demands } => self.take_keys(demands),
        }
    }

    /// The other end has made new keys.
    fn take_keys(&mut self, demands: bool) -> io::Result<()> {
        let secret = self.received.secret.next();
        if kernel::set_keys(self.kernel()?, TlsDirection::Receive, &secret).is_err() {
            return Err(self.fail_for_keys());
        }
        self.received = DirectionSecret { secret, bytes: 0 };
        if demands {
            // One answer is enough for several demands, and our own demand is one.
            self.owed.get_or_insert(false);
        }
        self.try_pay()
    }

    fn try_pay(&mut self) -> io::Result<()> {
        as_far_as_it_goes(self.pay())
    }

    /// What an error of the socket's says about records.
    #[cold]
    fn broken(&mut self, e: io::Error) -> io::Error {
        match e.raw_os_error() {
            Some(kernel::BAD_RECORD) => self.refuse(&Breach::changed()),
            Some(kernel::LONG_RECORD) => self.refuse(&Breach::long()),
            _ => e,
        }
    }
}

impl StreamFilter for KernelStream {
    fn inner(&self) -> &dyn Stream {
        &*self.socket
    }

    fn inner_mut(&mut self) -> &mut dyn Stream {
        &mut *self.socket
    }

    #[inline]
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.state.check()?;
        self.try_pay()?;
        while self.state == ConnectionState::Open {
            match self.socket.recv(bufs) {
                Ok(n) => {
                    // The end of the stream is no record.
                    if n > 0 {
                        self.control.data(n).map_err(|breach| self.refuse(&breach))?;
                    }
                    self.count(TlsDirection::Receive, n);
                    return Ok(n);
                }
                // What comes next is not data, so a receive that cannot take its type is refused
                // it.
                Err(e) if e.raw_os_error() == Some(kernel::OTHER_RECORD) => self.take_other()?,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(e),
                Err(e) => return Err(self.broken(e)),
            }
        }
        Ok(0)
    }

    #[inline]
    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.state.check()?;
        self.pay()?;
        let n = self.socket.send(bufs)?;
        self.count(TlsDirection::Send, n);
        Ok(n)
    }

    fn has_buffered(&self) -> bool {
        false
    }

    fn shutdown(&mut self) -> io::Result<()> {
        if let Ok(socket) = self.kernel() {
            // A peer that receives nothing is not told.
            let _ = kernel::send(socket, record::ALERT, &alert::content(alert::CLOSE_NOTIFY));
        }
        self.socket.shutdown()
    }
}
