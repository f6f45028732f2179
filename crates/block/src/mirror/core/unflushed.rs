//! Handling of acknowledged, unflushed writes when a mirror halts for lack of legs and later
//! resumes in the same process. The regions of such writes are then made equal. Legs whose targets
//! have restarted may have lost them, so another leg is the source. If there is none, the loss is
//! reported: flushes fail.

use crate::mirror::record::LegMask;
use crate::op::OpKind;

/// Counts what may be lost.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// Writes that were acknowledged and need not be durable.
    acknowledged: u64,
    /// Number of them that a flush covers.
    flushed: u64,
    /// The legs that had all of them when the last engine ended, if not all in sync did.
    sound: Option<LegMask>,
    /// An engine has ended.
    is_again: bool,
}

impl Unflushed {
    /// Writes so far; a flush that is submitted now covers them.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The process before did not close the mirror: it may have acknowledged writes that it has not
    /// flushed.
    pub(super) fn inherit(&mut self) {
        self.acknowledged += 1;
    }

    /// An operation has succeeded.
    pub(super) fn ended(&mut self, kind: OpKind, covers: u64) {
        match kind {
            OpKind::Flush => self.flushed = self.flushed.max(covers),
            kind => self.acknowledged += u64::from(kind.is_write() && !kind.fua()),
        }
    }

    /// An engine has ended; these legs had all writes, if not all in sync did.
    pub(super) fn halted(&mut self, sound: Option<LegMask>) {
        (self.sound, self.is_again) = (sound, true);
    }

    /// `by_loops`: writes that loops have acknowledged.
    pub(super) fn may_be_lost(&self, by_loops: u64) -> bool {
        self.is_again && (self.acknowledged + by_loops > self.flushed || self.sound.is_some())
    }

    /// Those of the legs that `kept` what they had which have all writes.
    pub(super) fn sound(&self, kept: LegMask) -> LegMask {
        kept & self.sound.unwrap_or(kept)
    }

    /// The loss was reported; `by_loops` as in [`Self::may_be_lost`].
    pub(super) fn reported(&mut self, by_loops: u64) {
        (self.flushed, self.sound) = (self.acknowledged + by_loops, None);
    }
}
