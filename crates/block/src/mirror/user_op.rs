//! Operations of users, and their memory.
//!
//! The data of a write is copied once, and all legs are sent the copy. So a user has the memory
//! back when the write is acknowledged, also when a lost leg still has it; and all legs get the
//! same bytes, whatever the owner of the memory does to it.

use crate::op::{Op, OpKind, Outcome};
use weft_io::counters::Counters;
use weft_io::segment::{Divided, pieces, total_len};
use weft_io::{Pool, Segment, Segments};

pub(super) struct UserOp {
    pub(super) op: Op,
    /// Data for the legs.
    copy: Option<Divided>,
    /// A leg has the memory, to read into it or for a comparison.
    pub(super) is_lent: bool,
    /// Legs may have been sent the data.
    pub(super) is_sent: bool,
    /// Its name in the engine.
    pub(super) name: Option<u64>,
    /// A flush: it covers this many writes.
    pub(super) covers: u64,
    /// It has the locks of its blocks.
    pub(super) has_locks: bool,
    /// Places of legs on which it failed, and was not sent again since.
    failed_on: u8,
}

impl UserOp {
    /// Takes an operation; gives it back if there is no memory for the copy.
    pub(super) fn new(op: Op, pool: &Pool, counters: &Counters) -> Result<Self, Op> {
        let len = total_len(&op.data);
        let skip = if matches!(op.kind, OpKind::CompareAndWrite { .. }) { len / 2 } else { 0 };
        let is_copied = matches!(op.kind, OpKind::Write { .. } | OpKind::CompareAndWrite { .. });
        let mut held = Self {
            op,
            copy: None,
            is_lent: false,
            is_sent: false,
            name: None,
            covers: 0,
            has_locks: false,
            failed_on: 0,
        };
        if is_copied {
            match copied(&held.op.data, skip, (pool, counters), Divided::new()) {
                Some(copy) => held.copy = Some(copy),
                None => return Err(held.op),
            }
        }
        Ok(held)
    }

    /// Data for a leg.
    pub(super) fn share(&mut self, bytes: usize) -> Segments {
        let mut data = Segments::new();
        if let Some(copy) = &mut self.copy {
            copy.share(0, bytes, &mut data);
        }
        data
    }

    /// It has ended on the leg at this place.
    pub(super) fn ended_on(&mut self, place: usize, outcome: &Outcome) {
        self.failed_on |= u8::from(!outcome.is_success()) << place;
    }

    /// A loop has read from the leg at this place before, and failed.
    pub(super) fn failed_on(&mut self, place: usize) {
        self.failed_on |= 1 << place;
    }

    /// It is sent to the leg at place `to`. Returns, as bits, the places of the legs whose failures
    /// it is sent again for: a read for those of any leg, a write for one of that leg.
    pub(super) fn sent_again(&mut self, to: usize, is_read: bool) -> u8 {
        let places = if is_read { self.failed_on } else { self.failed_on & 1 << to };
        self.failed_on &= !places;
        places
    }

    /// Returns whether the first bytes of the operation's data are these.
    pub(super) fn equals(&self, data: &[Segment]) -> bool {
        let len = total_len(data);
        let own = pieces(&self.op.data, 0, len).flat_map(|piece| piece.iter());
        own.eq(data.iter().flat_map(|segment| segment.iter()))
    }
}

/// A copy of what is behind the first `skip` bytes, in `into`, which is empty; `None` if there is no
/// memory.
pub(super) fn copied(
    data: &[Segment],
    skip: usize,
    (pool, counters): (&Pool, &Counters),
    mut into: Divided,
) -> Option<Divided> {
    let len = total_len(data) - skip;
    let mut buf = pool.take(len)?;
    let mut at = 0;
    for piece in pieces(data, skip, len) {
        buf[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    counters.copied_bytes.add(len as u64);
    into.fill(Segments::from_iter([Segment::from(buf)]));
    Some(into)
}
