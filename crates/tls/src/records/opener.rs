//! Received records, decrypted to where the caller wants the data.

use super::key::RecordKey;
use super::layout::{
    HEADER_BYTES, Header, OVERHEAD_BYTES, RECORD_BYTES_MAX, TAG_BYTES, content, encrypted_bytes,
};
use super::spare;
use crate::control::{Breach, record};
use crate::limits::{TLS_KEY_RECORDS_MAX, TLS_RECEIVE_BYTES, TLS_RECORD_BYTES};
use crate::schedule::TrafficSecret;
use core::ops::Range;
use std::io::IoSliceMut;

const _: () = assert!(TLS_RECEIVE_BYTES.is_multiple_of(TLS_RECORD_BYTES + OVERHEAD_BYTES));
const _: () = assert!(TLS_RECEIVE_BYTES / 2 > RECORD_BYTES_MAX, "a record fits");

/// What came of a record.
#[derive(Debug)]
pub(super) enum Opened<'a> {
    /// Data, of so many bytes, which [`Opener::give`] hands out.
    Data(usize),
    /// A record of another type.
    Other(u8, &'a [u8]),
    /// There is no whole record.
    Nothing,
}

/// Where the caller wants data, up to where it has some.
pub(super) struct Places<'a, 'b> {
    left: &'a mut [IoSliceMut<'b>],
    /// Bytes of the first of them that are filled.
    at: usize,
}

impl<'a, 'b> Places<'a, 'b> {
    pub(super) fn new(bufs: &'a mut [IoSliceMut<'b>]) -> Self {
        let mut places = Self { left: bufs, at: 0 };
        places.skip_filled();
        places
    }

    pub(super) fn are_full(&self) -> bool {
        self.left.is_empty()
    }

    fn skip_filled(&mut self) {
        while self.left.first().is_some_and(|first| first.len() == self.at) {
            self.left = &mut core::mem::take(&mut self.left)[1..];
            self.at = 0;
        }
    }

    /// Copies what fits; so many bytes.
    fn copy(&mut self, from: &[u8]) -> usize {
        let mut taken = 0;
        while let (Some(first), true) = (self.left.first_mut(), taken < from.len()) {
            let n = (first.len() - self.at).min(from.len() - taken);
            first[self.at..self.at + n].copy_from_slice(&from[taken..taken + n]);
            (taken, self.at) = (taken + n, self.at + n);
            self.skip_filled();
        }
        taken
    }
}

/// One direction.
pub(super) struct Opener {
    secret: TrafficSecret,
    key: RecordKey,
    /// Empty while nothing is in it.
    buffer: Box<[u8]>,
    /// Where in it the records are that have come and are not opened.
    sealed: Range<usize>,
    /// Where in it data is that the caller has not taken, of one record.
    data: Range<usize>,
}

impl Opener {
    pub(super) fn new(secret: TrafficSecret) -> Self {
        let key = RecordKey::of(&secret);
        Self { secret, key, buffer: Box::default(), sealed: 0..0, data: 0..0 }
    }

    /// Room for what comes. Only while there is neither data nor a whole record.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = spare::take(TLS_RECEIVE_BYTES);
        }
        // A part of a record is moved to the front only for much room behind it.
        if self.sealed.is_empty() || self.sealed.end > TLS_RECEIVE_BYTES / 2 {
            self.buffer.copy_within(self.sealed.clone(), 0);
            self.sealed = 0..self.sealed.len();
        }
        &mut self.buffer[self.sealed.end..]
    }

    /// So many bytes have come into the room; tells whether that is all that it has room for.
    pub(super) fn came(&mut self, bytes: usize) -> bool {
        self.sealed.end = (self.sealed.end + bytes).min(self.buffer.len());
        self.sealed.end == self.buffer.len()
    }

    /// Gives the buffer away if nothing is in it.
    pub(super) fn rest(&mut self) {
        if self.sealed.is_empty() && self.data.is_empty() {
            (self.sealed, self.data) = (0..0, 0..0);
            spare::give(core::mem::take(&mut self.buffer));
        }
    }

    /// The next record's header and the place of what follows it, if all of it is there.
    fn next(&self) -> Result<Option<(Header, Range<usize>)>, Breach> {
        let sealed = &self.buffer[self.sealed.clone()];
        let Some(header) = sealed.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        // A header that is wrong is told before more is received behind it.
        let len = encrypted_bytes(*header)?;
        let from = self.sealed.start + HEADER_BYTES;
        Ok((from + len <= self.sealed.end).then_some((*header, from..from + len)))
    }

    /// Returns whether there is something without more having come.
    pub(super) fn has_some(&self) -> bool {
        !self.data.is_empty() || !matches!(self.next(), Ok(None))
    }

    /// Opens the next record, if all of it is there. Only while there is no data left.
    ///
    /// # Errors
    /// It is none, or not authentic.
    pub(super) fn open(&mut self) -> Result<Opened<'_>, Breach> {
        let Some((header, place)) = self.next()? else { return Ok(Opened::Nothing) };
        self.sealed.start = place.end;
        if place.len() < TAG_BYTES {
            return Err(Breach::changed());
        }
        let bytes = &mut self.buffer[place.clone()];
        let decrypted = self.key.open(header, bytes).map_err(|_| Breach::changed())?;
        let (kind, len) = content(decrypted)?;
        if kind == record::APPLICATION_DATA {
            self.data = place.start..place.start + len;
            return Ok(Opened::Data(len));
        }
        Ok(Opened::Other(kind, &decrypted[..len]))
    }

    /// Hands out data; so many bytes.
    pub(super) fn give(&mut self, places: &mut Places<'_, '_>) -> usize {
        let n = places.copy(&self.buffer[self.data.clone()]);
        self.data.start += n;
        n
    }

    /// What comes behind the last record has new keys.
    pub(super) fn renew(&mut self) {
        self.secret = self.secret.next();
        self.key = RecordKey::of(&self.secret);
    }

    /// Returns whether the key has just served for as many records as it should; it is good for
    /// more.
    pub(super) fn is_key_used_up(&self) -> bool {
        self.key.records() > 0 && self.key.records().is_multiple_of(TLS_KEY_RECORDS_MAX)
    }

    /// As if so many records had come with the present key.
    #[cfg(test)]
    pub(super) fn skip_to(&mut self, number: u64) {
        self.key.skip_to(number);
    }

    /// Records that have come with the present key.
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
