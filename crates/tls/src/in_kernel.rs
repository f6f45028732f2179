//! A stream whose records the kernel encrypts and decrypts. What is left to do here are the records
//! that are not data: alerts, and messages of the handshake that come after it (RFC 8446 §4.6, §6).

use crate::kernel::{self, Direction, Socket};
use crate::limits::{
    TLS_CONTROL_RECORDS_MAX, TLS_COUNT_BYTES, TLS_KEY_RECORDS_MAX, TLS_RECORD_BYTES,
};
use crate::openssl::Failure;
use crate::reason::{Role, reason};
use crate::schedule::Secret;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::OnceLock;
use weft_io::stream::{Stream, StreamFilter};

/// Types of records.
mod record {
    pub(super) const ALERT: u8 = 21;
    pub(super) const HANDSHAKE: u8 = 22;
}

/// Types of messages.
mod message {
    pub(super) const NEW_SESSION_TICKET: u8 = 4;
    pub(super) const KEY_UPDATE: u8 = 24;
}

/// Alerts.
mod alert {
    pub(super) const CLOSE_NOTIFY: u8 = 0;
    pub(super) const UNEXPECTED_MESSAGE: u8 = 10;
    pub(super) const BAD_RECORD_MAC: u8 = 20;
    pub(super) const USER_CANCELED: u8 = 90;
    /// What is added to the number of an alert that was received, to tell it from others.
    pub(super) const RECEIVED: u32 = 1000;
}

/// Whether this kernel has no TLS, once that is known.
static HAS_NONE: OnceLock<()> = OnceLock::new();
/// Whether this kernel can change the keys of a connection (Linux 6.14 and later), once that is
/// known.
static CHANGES_KEYS: OnceLock<bool> = OnceLock::new();

/// The traffic secret of one direction.
struct DirectionSecret {
    secret: Secret,
    /// Bytes since its records were counted.
    bytes: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum ConnectionState {
    Open,
    /// The other end has ended its direction.
    PeerClosed,
    /// It is over, for this reason.
    Failed(ErrorKind, String),
}

/// A stream of records of the kernel.
pub(crate) struct KernelStream {
    socket: Box<dyn Stream>,
    role: Role,
    state: ConnectionState,
    sent: DirectionSecret,
    received: DirectionSecret,
    /// New keys are to be announced before the next data, with the demand that the other end makes
    /// new ones, too, or without.
    owed: Option<bool>,
    /// Records that are not data since there was some.
    others: u32,
}

impl KernelStream {
    /// Takes a socket over for which [`KernelStream::attach`] has told `true`.
    pub(crate) fn new(socket: Box<dyn Stream>, role: Role, send: Secret, receive: Secret) -> Self {
        let [sent, received] = [send, receive].map(|secret| DirectionSecret { secret, bytes: 0 });
        Self { socket, role, state: ConnectionState::Open, sent, received, owed: None, others: 0 }
    }

    /// Has the kernel take both directions of a connection after its handshake, of which no record
    /// of data was sent or received; `false` if it does not take them, and nothing has changed.
    ///
    /// # Errors
    /// It has taken one direction only.
    pub(crate) fn attach(stream: &dyn Stream, send: &Secret, receive: &Secret) -> io::Result<bool> {
        let Some(socket) = kernel::socket(stream) else { return Ok(false) };
        // Nothing has changed for the socket while it has no keys.
        let begun = kernel::attach(socket)
            .and_then(|()| kernel::set_keys(socket, Direction::Receive, receive));
        if let Err(e) = begun {
            // A connection that is over already says nothing about the kernel.
            if e.kind() != ErrorKind::NotConnected && HAS_NONE.set(()).is_ok() {
                tracing::debug!("TLS stays in user space: the kernel has none to offer ({e})");
            }
            return Ok(false);
        }
        kernel::set_keys(socket, Direction::Send, send)?;
        // As nothing was sent, the same keys can be set once more: a kernel that changes none
        // refuses it.
        CHANGES_KEYS.get_or_init(|| {
            let changes = kernel::set_keys(socket, Direction::Send, send).is_ok();
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

    fn check(&self) -> io::Result<()> {
        match &self.state {
            ConnectionState::Failed(kind, why) => Err(io::Error::new(*kind, why.clone())),
            _ => Ok(()),
        }
    }

    /// It is over. The other end is told by an alert, if there is room for it.
    #[cold]
    fn fail(&mut self, kind: ErrorKind, failure: &Failure, alert: Option<u8>) -> io::Error {
        let why = reason(failure, self.role);
        if let (Some(alert), Ok(socket)) = (alert, self.kernel()) {
            let level = if alert == alert::CLOSE_NOTIFY { 1 } else { 2 };
            let _ = kernel::send(socket, record::ALERT, &[level, alert]);
        }
        self.state = ConnectionState::Failed(kind, why.clone());
        io::Error::new(kind, why)
    }

    /// Announces new keys if that is due, and uses them.
    fn pay(&mut self) -> io::Result<()> {
        let Some(demands) = self.owed else { return Ok(()) };
        kernel::send(
            self.kernel()?,
            record::HANDSHAKE,
            &[message::KEY_UPDATE, 0, 0, 1, u8::from(demands)],
        )?;
        self.owed = None;
        let secret = self.sent.secret.next();
        if kernel::set_keys(self.kernel()?, Direction::Send, &secret).is_err() {
            return Err(self.fail(
                ErrorKind::Unsupported,
                &Failure::KernelKeys,
                Some(alert::CLOSE_NOTIFY),
            ));
        }
        self.sent = DirectionSecret { secret, bytes: 0 };
        Ok(())
    }

    /// Counts bytes of data. When keys have served for enough records, both ends are to make new
    /// ones; a kernel that cannot ends the connection in order, and the next call tells why.
    #[inline]
    fn count(&mut self, way: Direction, bytes: usize) {
        let direction = if way == Direction::Send { &mut self.sent } else { &mut self.received };
        direction.bytes += bytes;
        if direction.bytes >= TLS_COUNT_BYTES {
            direction.bytes = 0;
            self.count_records(way);
        }
    }

    #[cold]
    fn count_records(&mut self, way: Direction) {
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
        [of(Direction::Send), of(Direction::Receive)]
    }

    /// Whether this kernel can change keys.
    pub(crate) fn changes_keys() -> bool {
        CHANGES_KEYS.get() == Some(&true)
    }

    /// Has both ends make new keys.
    pub(crate) fn renew(&mut self) {
        if Self::changes_keys() {
            self.owed = Some(true);
        } else {
            self.fail(ErrorKind::Unsupported, &Failure::KernelKeys, Some(alert::CLOSE_NOTIFY));
        }
    }

    /// Takes a record that is not data.
    #[cold]
    fn take_other(&mut self) -> io::Result<()> {
        let mut room = vec![0; TLS_RECORD_BYTES];
        let (kind, n) = kernel::receive(self.kernel()?, &mut IoSliceMut::new(&mut room))?;
        self.others += 1;
        let taken = match (kind, &room[..n]) {
            _ if self.others > TLS_CONTROL_RECORDS_MAX => Err(Failure::Flood),
            (record::ALERT, &[_, alert::CLOSE_NOTIFY]) => {
                self.state = ConnectionState::PeerClosed;
                Ok(())
            }
            (record::ALERT, &[_, alert::USER_CANCELED]) => Ok(()),
            (record::ALERT, &[_, number]) => {
                let failure = Failure::Reason(
                    alert::RECEIVED + u32::from(number),
                    format!("the peer ended it with alert {number}"),
                );
                return Err(self.fail(ErrorKind::InvalidData, &failure, None));
            }
            (record::HANDSHAKE, messages) => return self.take_messages(messages),
            _ => Err(Failure::Reason(0, "the peer sent a record that does not belong here".into())),
        };
        taken.map_err(|failure| {
            self.fail(ErrorKind::InvalidData, &failure, Some(alert::UNEXPECTED_MESSAGE))
        })
    }

    /// Takes the messages of a record. None is divided: they are short.
    fn take_messages(&mut self, mut messages: &[u8]) -> io::Result<()> {
        while let &[kind, high, middle, low, ref rest @ ..] = messages {
            let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            let Some((content, behind)) = rest.split_at_checked(len) else { break };
            match (kind, content) {
                // Tickets are not used.
                (message::NEW_SESSION_TICKET, _) if self.role == Role::Client => {}
                // What comes behind it would have other keys.
                (message::KEY_UPDATE, &[demand @ (0 | 1)]) if behind.is_empty() => {
                    self.take_keys(demand == 1)?
                }
                _ => break,
            }
            messages = behind;
        }
        if messages.is_empty() {
            return Ok(());
        }
        let failure =
            Failure::Reason(0, "the peer sent a message that does not belong here".into());
        Err(self.fail(ErrorKind::InvalidData, &failure, Some(alert::UNEXPECTED_MESSAGE)))
    }

    /// The other end has made new keys.
    fn take_keys(&mut self, demands: bool) -> io::Result<()> {
        let secret = self.received.secret.next();
        if kernel::set_keys(self.kernel()?, Direction::Receive, &secret).is_err() {
            return Err(self.fail(
                ErrorKind::Unsupported,
                &Failure::KernelKeys,
                Some(alert::CLOSE_NOTIFY),
            ));
        }
        self.received = DirectionSecret { secret, bytes: 0 };
        if demands {
            // One answer is enough for several demands, and our own demand is one.
            self.owed.get_or_insert(false);
        }
        self.try_pay()
    }

    fn try_pay(&mut self) -> io::Result<()> {
        match self.pay() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// What an error of the socket's says about records.
    #[cold]
    fn broken(&mut self, e: io::Error) -> io::Error {
        let text = match e.raw_os_error() {
            Some(kernel::BAD_RECORD) => "a record was changed on its way, or the keys differ",
            Some(kernel::LONG_RECORD) => "the peer sent a record that is too long",
            _ => return e,
        };
        self.fail(
            ErrorKind::InvalidData,
            &Failure::Reason(0, text.into()),
            Some(alert::BAD_RECORD_MAC),
        )
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
        self.check()?;
        self.try_pay()?;
        while self.state == ConnectionState::Open {
            match self.socket.recv(bufs) {
                Ok(n) => {
                    self.others = 0;
                    self.count(Direction::Receive, n);
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
        self.check()?;
        self.pay()?;
        let n = self.socket.send(bufs)?;
        self.count(Direction::Send, n);
        Ok(n)
    }

    fn has_buffered(&self) -> bool {
        false
    }

    fn shutdown(&mut self) -> io::Result<()> {
        if let Ok(socket) = self.kernel() {
            // A peer that receives nothing is not told.
            let _ = kernel::send(socket, record::ALERT, &[1, alert::CLOSE_NOTIFY]);
        }
        self.socket.shutdown()
    }
}
