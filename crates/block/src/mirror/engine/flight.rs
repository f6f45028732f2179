//! Operations under way, and what their failures say.

use crate::mirror::record::LegMask;
use crate::op::{OpKind, Outcome};
use crate::outcome::status::StatusKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlightKind {
    User(OpKind),
    /// Makes legs equal: for the read of this name, or as part of the background job.
    Copy {
        reader: Option<u64>,
    },
    /// A flush of the mirror's own.
    Flush(Purpose),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Before bits are cleared.
    Evict,
    /// Before a leg is in sync.
    Join(usize),
    /// Before blocks that were written no longer count as unreadable, for the write of this name.
    Heal(u64),
    /// Before the end.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlightStage {
    /// Has not requested its block range yet.
    New,
    /// It waits for its blocks.
    Queued,
    /// It waits until no leg counts as in sync that may hold something else.
    Alone,
    /// It waits until the bits of its regions are durable.
    Bits,
    /// A leg is being read.
    Fetching,
    /// A flush waits until all legs have what was acknowledged.
    Sound,
    /// Legs are being written or flushed.
    Storing,
    /// It waits until the loss of a leg is durable.
    Loss,
    /// It has written blocks that were unreadable, and waits for the flush of the legs.
    Healing,
    /// It waits until it is durable that they can be read again.
    Healed,
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) kind: FlightKind,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) stage: FlightStage,
    /// Legs that have to answer.
    pub(super) pending: LegMask,
    /// Legs that executed it.
    pub(super) good: LegMask,
    /// A flush: legs that were not in sync by any record when it was sent, and were not asked. One
    /// that joins in the meantime was flushed for that.
    pub(super) exempt: LegMask,
    /// Legs that did not, and the first reason.
    pub(super) bad: LegMask,
    pub(super) failure: Option<Outcome>,
    pub(super) retries: u8,
    /// Its regions count as busy.
    pub(super) is_busy: bool,
    /// A read whose blocks were made equal before.
    pub(super) is_equal: bool,
    /// A read that has failed on this leg before the engine had it.
    pub(super) failed_on: Option<usize>,
}

impl FlightKind {
    /// Returns whether a user is shown what the blocks hold.
    pub(super) fn shows(self) -> bool {
        matches!(self, Self::User(OpKind::Read | OpKind::Compare | OpKind::CompareAndWrite { .. }))
    }
}

impl Flight {
    /// The block behind its last one.
    pub(super) fn end(&self) -> u64 {
        self.lba + u64::from(self.blocks)
    }

    pub(super) fn new(kind: FlightKind, lba: u64, blocks: u32) -> Self {
        Self {
            kind,
            lba,
            blocks,
            stage: FlightStage::New,
            pending: 0,
            good: 0,
            exempt: 0,
            bad: 0,
            failure: None,
            retries: 0,
            is_busy: false,
            is_equal: false,
            failed_on: None,
        }
    }
}

/// Owner of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Flight(u64),
    Meta,
    /// The label of a leg that came back.
    Greeting,
}

/// Returns whether a leg is unreachable, as far as one operation shows.
pub(super) fn is_unreachable(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done(status) => status.kind == StatusKind::Gone,
        Outcome::NotSent(_) => fault(outcome) == FailureMeaning::Leg,
        Outcome::MayHaveExecuted { status, .. } => status.kind != StatusKind::TimedOut,
    }
}

/// Returns whether a leg has not executed something because somebody else has reserved it. A mirror
/// has one opener, so it is no longer this process.
pub(super) fn is_fenced(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(status) | Outcome::NotSent(status) if status.kind == StatusKind::ReservationConflict)
}

/// Meaning of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureMeaning {
    /// The request is at fault, and was not executed.
    Request,
    /// It may succeed if it is sent again.
    Passing,
    /// The leg is at fault.
    Leg,
}

pub(crate) fn fault(outcome: &Outcome) -> FailureMeaning {
    use StatusKind as K;
    match outcome {
        Outcome::Done(status) | Outcome::NotSent(status) => match status.kind {
            K::OutOfRange | K::CompareFailed | K::Unsupported | K::Invalid | K::WriteProtected => {
                FailureMeaning::Request
            }
            K::Aborted | K::Busy | K::Transport => FailureMeaning::Passing,
            _ => FailureMeaning::Leg,
        },
        Outcome::MayHaveExecuted { .. } => FailureMeaning::Leg,
    }
}
