//! Handling of acknowledged, unflushed writes when a mirror halts for lack of legs and later
//! resumes in the same process. The regions of such writes are then made equal. Legs whose targets
//! have restarted may have lost them, so another leg is the source. If there is none, the loss is
//! reported: flushes fail.

use super::Core;
use crate::mirror::record::LegMask;
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};

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
    fn may_be_lost(&self, by_loops: u64) -> bool {
        self.is_again && (self.acknowledged + by_loops > self.flushed || self.sound.is_some())
    }
}

impl Core {
    /// An engine has just begun with legs of which these have kept what they had.
    pub(super) fn trust(&mut self, kept: LegMask) {
        if !self.unflushed.may_be_lost(self.loops.acknowledged()) {
            return;
        }
        let sound = kept & self.unflushed.sound.unwrap_or(kept);
        match &mut self.engine {
            Some(engine) if sound != 0 => engine.trust(sound),
            _ => self.forgotten(),
        }
    }

    /// Acknowledged, unflushed writes may be lost: each user's next flush fails.
    pub(super) fn forgotten(&mut self) {
        if !self.unflushed.may_be_lost(self.loops.acknowledged()) {
            return;
        }
        tracing::error!(
            "{}: no leg is left that certainly has what was written and not flushed, as targets have started again: the next flush fails; check file \
             systems and databases on the disk",
            self.options.url
        );
        self.unflushed.flushed = self.unflushed.acknowledged + self.loops.acknowledged();
        self.unflushed.sound = None;
        self.see_loss();
        let flushes: Vec<u64> = self
            .held
            .names()
            .filter(|name| self.held.get(*name).is_some_and(|it| it.op.kind == OpKind::Flush))
            .collect();
        for name in flushes {
            let Some(held) = self.held.remove(name) else { continue };
            self.free_locks(&held);
            if let Some(name) = held.name {
                self.by_name.remove(&name);
            }
            self.complete(held.op.done(Outcome::Done(Status::new(StatusKind::Internal))));
        }
    }
}
