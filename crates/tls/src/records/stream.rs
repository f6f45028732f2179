//! A stream whose records are sealed and opened here.

use super::key::RecordKey;
use super::layout::{HEADER_BYTES, OVERHEAD_BYTES, TAG_BYTES, header};
use super::opener::{Opened, Opener, Places};
use super::spare;
use crate::control::{Breach, ControlRecords, Said, alert, key_update, record};
use crate::limits::{TLS_KEY_RECORDS_MAX, TLS_RECORD_BYTES, TLS_SEND_BYTES};
use crate::reason::{TlsRole, reason};
use crate::schedule::TrafficSecret;
use crate::state::{ConnectionState, as_far_as_it_goes};
use std::io;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use weft_io::stream::{Stream, StreamFilter};

/// A stream inside of another.
pub(crate) struct RecordStream {
    socket: Box<dyn Stream>,
    role: TlsRole,
    state: ConnectionState,
    sealer: Sealer,
    opener: Opener,
    control: ControlRecords,
    /// New keys are to be announced before the next data, with the demand that the other end makes
    /// new ones, too, or without. One announcement answers any number of demands (RFC 8446 §4.6.3),
    /// so a peer that asks for many makes nothing grow.
    owed: Option<bool>,
    /// Bytes of the caller that are sealed but not completely sent; they are reported as taken once
    /// they are sent.
    taken: usize,
    /// The last call has received, and has left nothing in the socket, as far as the length tells.
    drained: bool,
    /// The last receive has filled its room, so there is probably more.
    has_more: bool,
    /// The end or a failure came behind data, and is told by the next call.
    untold: bool,
    /// Why answers could not be sent while something was received: told when nothing more comes, so
    /// that what the other end sent before it went is received.
    cannot_send: Option<(ErrorKind, String)>,
    /// This end's direction is over.
    has_ended: bool,
}

impl RecordStream {
    /// Takes over a connection after its handshake, of which no record of data was sent or
    /// received.
    pub(crate) fn new(
        socket: Box<dyn Stream>,
        role: TlsRole,
        send: TrafficSecret,
        receive: TrafficSecret,
    ) -> Self {
        Self {
            socket,
            role,
            state: ConnectionState::Open,
            sealer: Sealer::new(send),
            opener: Opener::new(receive),
            control: ControlRecords::new(role),
            owed: None,
            taken: 0,
            drained: false,
            has_more: false,
            untold: false,
            cannot_send: None,
            has_ended: false,
        }
    }

    /// Has both ends make new keys.
    #[cfg(test)]
    pub(crate) fn renew(&mut self) {
        self.owed = Some(true);
    }

    /// Records that were sent and received with the present keys.
    #[cfg(test)]
    pub(crate) fn records(&self) -> [u64; 2] {
        [self.sealer.records(), self.opener.records()]
    }

    /// As if so many records had been sent and received with the present keys.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, [sent, received]: [u64; 2]) {
        self.sealer.skip_to(sent);
        self.opener.skip_to(received);
    }

    /// Bytes of its buffers.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.sealer.held() + self.opener.held()
    }

    /// Bytes that are sealed and not sent.
    #[cfg(test)]
    pub(crate) fn unsent(&self) -> usize {
        self.sealer.unsent().len()
    }

    /// Sends what is sealed; `WouldBlock` while some is left.
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        while !self.sealer.unsent().is_empty() {
            match self.socket.send(&[IoSlice::new(self.sealer.unsent())]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sealer.went(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends what is sealed, and announces new keys if that is due.
    #[inline]
    fn pay(&mut self) -> io::Result<()> {
        self.flush()?;
        if let Some(demands) = self.owed.take_if(|_| !self.has_ended) {
            self.sealer.renew(demands);
            self.flush()?;
        }
        Ok(())
    }

    /// The same, as far as that goes now. A socket tells its failure once, so what fails is kept.
    fn try_pay(&mut self) {
        if self.cannot_send.is_none()
            && let Err(e) = as_far_as_it_goes(self.pay())
        {
            self.cannot_send = Some((e.kind(), e.to_string()));
        }
    }

    /// It is over if answers could not be sent.
    fn check_sending(&mut self) -> io::Result<()> {
        match self.cannot_send.take() {
            Some((kind, why)) => Err(self.state.fail(kind, why)),
            None => Ok(()),
        }
    }

    /// It is over. The alert that tells the other end goes out as far as it can.
    #[cold]
    fn fail(&mut self, breach: &Breach) -> io::Error {
        if let Some(alert) = breach.alert {
            self.sealer.seal_control(record::ALERT, &alert::content(alert));
            let _ = self.flush();
        }
        self.state.fail(ErrorKind::InvalidData, reason(&breach.failure, self.role))
    }

    /// Opens the next record, and does what it says; `false`: there is none.
    fn open(&mut self) -> Result<bool, Breach> {
        let said = match self.opener.open()? {
            Opened::Nothing => return Ok(false),
            Opened::Data(bytes) => {
                self.control.data(bytes)?;
                Said::Nothing
            }
            Opened::Other(kind, content) => self.control.take(kind, content)?,
        };
        if self.opener.is_key_used_up() {
            self.owed = Some(true);
        }
        match said {
            Said::Nothing => {}
            Said::End => self.state = ConnectionState::PeerClosed,
            Said::NewKeys { demands } => {
                self.opener.renew();
                if demands {
                    // This end's own demand is an answer, too.
                    self.owed.get_or_insert(false);
                }
            }
        }
        Ok(true)
    }

    /// Receives from the socket, as much as there is room for; `false` at its end.
    fn take_in(&mut self) -> io::Result<bool> {
        let result = self.socket.recv(&mut [IoSliceMut::new(self.opener.room())]);
        let n = match result {
            Ok(n) => n,
            Err(e) => {
                self.opener.rest();
                return Err(e);
            }
        };
        self.has_more = self.opener.came(n);
        self.drained = !self.has_more && self.socket.tells_rest();
        Ok(n > 0)
    }

    /// Receives more behind data that was handed out; whether there was any.
    fn take_in_more(&mut self) -> bool {
        self.has_more = false;
        match self.take_in() {
            Ok(some) => some,
            Err(e) if e.kind() == ErrorKind::Interrupted => false,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.drained = self.socket.tells_rest();
                false
            }
            Err(e) => {
                // Told by the next call.
                self.state.fail(e.kind(), e.to_string());
                false
            }
        }
    }

    /// Fills the places with what there is. It receives if that is nothing, or if the room of a
    /// receive was too small for what had come.
    fn fill(&mut self, places: &mut Places<'_, '_>) -> io::Result<usize> {
        let mut total = self.opener.give(places);
        while self.state == ConnectionState::Open && !places.are_full() {
            match self.open() {
                Ok(true) => total += self.opener.give(places),
                Ok(false) if total > 0 => {
                    if !self.has_more || !self.take_in_more() {
                        break;
                    }
                }
                Ok(false) => {
                    // Answers go out before more is waited for.
                    self.try_pay();
                    if !self.take_in()? {
                        break;
                    }
                }
                Err(breach) => {
                    let error = self.fail(&breach);
                    // What came before is intact.
                    return if total > 0 { Ok(total) } else { Err(error) };
                }
            }
        }
        Ok(total)
    }
}

impl StreamFilter for RecordStream {
    fn inner(&self) -> &dyn Stream {
        &*self.socket
    }

    fn inner_mut(&mut self) -> &mut dyn Stream {
        &mut *self.socket
    }

    /// An end without close_notify is an end: the protocols above know how much belongs to a
    /// message.
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (self.untold, self.drained) = (false, false);
        self.state.check()?;
        self.try_pay();
        let filled = self.fill(&mut Places::new(bufs));
        if matches!(filled, Ok(1..)) {
            if self.owed.is_some() {
                self.try_pay();
            }
            self.untold = self.state != ConnectionState::Open || self.cannot_send.is_some();
        } else {
            self.state.check()?;
            self.check_sending()?;
        }
        self.opener.rest();
        filled
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.state.check()?;
        self.check_sending()?;
        if self.has_ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.pay()?;
        if self.taken == 0 {
            self.taken = self.sealer.seal(bufs);
            self.flush()?;
        }
        Ok(core::mem::take(&mut self.taken))
    }

    fn has_buffered(&self) -> bool {
        self.untold || (self.state == ConnectionState::Open && self.opener.has_some())
    }

    fn tells_rest(&self) -> bool {
        self.drained && !StreamFilter::has_buffered(self)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        if !self.has_ended && self.state.check().is_ok() {
            self.has_ended = true;
            self.sealer.seal_control(record::ALERT, &alert::content(alert::CLOSE_NOTIFY));
        }
        // A peer that receives nothing is not told.
        let _ = self.flush();
        self.sealer.went(self.sealer.unsent().len());
        self.socket.shutdown()
    }
}

// Sent data, from where the caller has it, into records.

/// Room for what is not data: new keys before data and within it, and two alerts.
const CONTROL_BYTES: usize = 4 * (OVERHEAD_BYTES + key_update(true).len());

/// Bytes of a buffer: full records, as many as are sealed ahead.
const BUFFER_BYTES: usize =
    TLS_SEND_BYTES / TLS_RECORD_BYTES * (TLS_RECORD_BYTES + OVERHEAD_BYTES) + CONTROL_BYTES;

const _: () = assert!(TLS_SEND_BYTES.is_multiple_of(TLS_RECORD_BYTES));

/// The caller's pieces, up to where they are taken.
struct Pieces<'a, 'b> {
    left: &'a [IoSlice<'b>],
    /// Bytes of the first of them that are taken.
    at: usize,
}

impl Pieces<'_, '_> {
    /// Copies what fits; so many bytes.
    fn copy(&mut self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while let [first, rest @ ..] = self.left {
            let n = (first.len() - self.at).min(into.len() - filled);
            into[filled..filled + n].copy_from_slice(&first[self.at..self.at + n]);
            (filled, self.at) = (filled + n, self.at + n);
            if self.at < first.len() {
                break;
            }
            (self.left, self.at) = (rest, 0);
        }
        filled
    }
}

/// One direction.
struct Sealer {
    secret: TrafficSecret,
    key: RecordKey,
    /// Empty while nothing is to be sent.
    buffer: Box<[u8]>,
    /// Where in it the bytes are that are to be sent.
    unsent: core::ops::Range<usize>,
}

impl Sealer {
    fn new(secret: TrafficSecret) -> Self {
        Self { key: RecordKey::of(&secret), secret, buffer: Box::default(), unsent: 0..0 }
    }

    /// What is to be sent.
    fn unsent(&self) -> &[u8] {
        &self.buffer[self.unsent.clone()]
    }

    /// So many bytes of it were sent.
    fn went(&mut self, bytes: usize) {
        self.unsent.start += bytes;
        if self.unsent.is_empty() {
            self.unsent = 0..0;
            spare::give(core::mem::take(&mut self.buffer));
        }
    }

    /// Seals data in full records, as far as there is enough, and at most [`TLS_SEND_BYTES`]: so
    /// many bytes. Only while nothing is to be sent. Small pieces come into one record, as each
    /// costs 22 bytes and a start of the cipher.
    fn seal(&mut self, bufs: &[IoSlice<'_>]) -> usize {
        let mut pieces = Pieces { left: bufs, at: 0 };
        let mut total = 0;
        while total < TLS_SEND_BYTES {
            if self.key.records() >= TLS_KEY_RECORDS_MAX {
                self.renew(true);
            }
            let n = self.seal_record(record::APPLICATION_DATA, |room| pieces.copy(room));
            total += n;
            if n < TLS_RECORD_BYTES {
                break;
            }
        }
        total
    }

    /// Seals a record that is not data. It is left out where there is no room for it, which is so
    /// only behind others that say the same.
    fn seal_control(&mut self, kind: u8, content: &[u8]) {
        self.seal_record(kind, |room| {
            let Some(room) = room.get_mut(..content.len()) else { return 0 };
            room.copy_from_slice(content);
            content.len()
        });
    }

    /// Announces new keys, and uses them from then on.
    #[cold]
    fn renew(&mut self, demands: bool) {
        self.seal_control(record::HANDSHAKE, &key_update(demands));
        self.secret = self.secret.next();
        self.key = RecordKey::of(&self.secret);
    }

    /// Seals a record with what is put into the room for its content; one of nothing is none.
    fn seal_record(&mut self, kind: u8, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        if self.buffer.is_empty() {
            self.buffer = spare::take(BUFFER_BYTES);
        }
        let Some(room) = self.buffer.get_mut(self.unsent.end..) else { return 0 };
        let most = room.len().saturating_sub(OVERHEAD_BYTES).min(TLS_RECORD_BYTES);
        let Some((head, rest)) = room.split_first_chunk_mut::<HEADER_BYTES>() else { return 0 };
        let len = rest.get_mut(..most).map_or(0, fill);
        if len == 0 {
            self.went(0);
            return 0;
        }
        rest[len] = kind;
        *head = header(len + 1 + TAG_BYTES);
        let (bytes, behind) = rest.split_at_mut(len + 1);
        let Ok(tag) = self.key.seal(*head, bytes) else { return 0 };
        behind[..TAG_BYTES].copy_from_slice(&tag);
        self.unsent.end += len + OVERHEAD_BYTES;
        len
    }

    /// As if so many records had been sent with the present key.
    #[cfg(test)]
    fn skip_to(&mut self, number: u64) {
        self.key.skip_to(number);
    }

    /// Records that were sent with the present key.
    #[cfg(test)]
    fn records(&self) -> u64 {
        self.key.records()
    }

    /// Bytes of its buffer.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.buffer.len()
    }
}
