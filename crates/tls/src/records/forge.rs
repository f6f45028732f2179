//! Records of any content, for tests of what a peer may send.

use super::key::RecordKey;
use super::layout::{HEADER_BYTES, TAG_BYTES, header};
use crate::schedule::TrafficSecret;

/// A forger that has the keys of one direction and keeps none of the rules.
pub struct Forger {
    secret: TrafficSecret,
    key: RecordKey,
}

impl Forger {
    /// With the keys of a secret of which no record was made yet.
    pub(crate) fn new(secret: TrafficSecret) -> Self {
        Self { key: RecordKey::of(&secret), secret }
    }

    /// The next record, with this content, type and bytes of padding.
    pub fn record(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        self.sealed(&[content, &[kind], &vec![0; padding]].concat())
    }

    /// The next record, with anything in it.
    pub fn sealed(&mut self, inner: &[u8]) -> Vec<u8> {
        let mut record = header(inner.len() + TAG_BYTES).to_vec();
        record.extend_from_slice(inner);
        let (head, bytes) = record.split_at_mut(HEADER_BYTES);
        let mut copy = [0; HEADER_BYTES];
        copy.copy_from_slice(head);
        let tag = self.key.seal(copy, bytes).unwrap_or_default();
        record.extend_from_slice(&tag);
        record
    }

    /// Uses the next keys.
    pub fn renew(&mut self) {
        self.secret = self.secret.next();
        self.key = RecordKey::of(&self.secret);
    }
}
