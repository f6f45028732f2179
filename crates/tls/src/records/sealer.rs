//! Sent data, from where the caller has it, into records.

use super::key::RecordKey;
use super::layout::{HEADER_BYTES, OVERHEAD_BYTES, TAG_BYTES, header};
use super::spare;
use crate::control::{key_update, record};
use crate::limits::{TLS_KEY_RECORDS_MAX, TLS_RECORD_BYTES, TLS_SEND_BYTES};
use crate::schedule::TrafficSecret;
use std::io::IoSlice;

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
pub(super) struct Sealer {
    secret: TrafficSecret,
    key: RecordKey,
    /// Empty while nothing is to be sent.
    buffer: Box<[u8]>,
    /// Where in it the bytes are that are to be sent.
    unsent: core::ops::Range<usize>,
}

impl Sealer {
    pub(super) fn new(secret: TrafficSecret) -> Self {
        Self { key: RecordKey::of(&secret), secret, buffer: Box::default(), unsent: 0..0 }
    }

    /// What is to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.buffer[self.unsent.clone()]
    }

    /// So many bytes of it were sent.
    pub(super) fn went(&mut self, bytes: usize) {
        self.unsent.start += bytes;
        if self.unsent.is_empty() {
            self.unsent = 0..0;
            spare::give(core::mem::take(&mut self.buffer));
        }
    }

    /// Seals data in full records, as far as there is enough, and at most [`TLS_SEND_BYTES`]: so
    /// many bytes. Only while nothing is to be sent. Small pieces come into one record, as each
    /// costs 22 bytes and a start of the cipher.
    pub(super) fn seal(&mut self, bufs: &[IoSlice<'_>]) -> usize {
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
    pub(super) fn seal_control(&mut self, kind: u8, content: &[u8]) {
        self.seal_record(kind, |room| {
            let Some(room) = room.get_mut(..content.len()) else { return 0 };
            room.copy_from_slice(content);
            content.len()
        });
    }

    /// Announces new keys, and uses them from then on.
    #[cold]
    pub(super) fn renew(&mut self, demands: bool) {
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
    pub(super) fn skip_to(&mut self, number: u64) {
        self.key.skip_to(number);
    }

    /// Records that were sent with the present key.
    #[cfg(test)]
    pub(super) fn records(&self) -> u64 {
        self.key.records()
    }

    /// Bytes of its buffer.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }
}
