//! Events as a running hash and the last few records: two runs of one seed are equal when their
//! hashes are.

use crate::time::Time;
use core::fmt;
use std::collections::VecDeque;

/// Records kept for people.
const TAIL: usize = 256;

const PRIME: u64 = 0x0100_0000_01b3;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When.
    pub at: Time,
    /// The event.
    pub what: &'static str,
    /// Its subject: a connection, a loop, a host.
    pub subject: u64,
    /// A number that belongs to it: bytes, a port, a side.
    pub value: u64,
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>12} ns  {:<12} {:>5} {:>8}",
            self.at.as_nanos(),
            self.what,
            self.subject,
            self.value
        )
    }
}

/// The running hash (FNV-1a over the records) and their tail.
pub(super) struct Trace {
    hash: u64,
    tail: VecDeque<TraceRecord>,
    /// Gets each record as well.
    watcher: Option<Watcher>,
}

/// Function that is called with each record.
pub(super) type Watcher = Box<dyn FnMut(&TraceRecord) + Send>;

impl Trace {
    pub(super) fn new() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, tail: VecDeque::with_capacity(TAIL), watcher: None }
    }

    pub(super) fn watch(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn tail(&self) -> impl Iterator<Item = &TraceRecord> {
        self.tail.iter()
    }

    pub(super) fn record(&mut self, at: Time, what: &'static str, subject: u64, value: u64) {
        self.bytes(what.as_bytes());
        for number in [at.as_nanos(), subject, value] {
            self.word(number);
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        let record = TraceRecord { at, what, subject, value };
        self.tail.push_back(record);
        if let Some(watcher) = &mut self.watcher {
            watcher(&record);
        }
    }

    /// Hashes content that no record shows.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|&word| self.word(u64::from_le_bytes(word)));
        rest.iter().for_each(|&byte| self.word(u64::from(byte)));
    }

    fn word(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(PRIME).rotate_left(29);
    }
}
