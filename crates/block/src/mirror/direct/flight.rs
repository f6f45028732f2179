//! Operations that a loop has under way without its home.

use super::locks::{LockRange, Seen};
use super::permit;
use crate::mirror::record::{LEGS_MAX, LegMask};
use crate::op::{Op, Outcome};
use weft_io::segment::Divided;

/// An operation of a user.
pub(super) struct Flight {
    pub(super) op: Op,
    pub(super) range: LockRange,
    /// Tells it from others that have had its slot.
    pub(super) number: u32,
    pub(super) does: Does,
}

/// What it does.
pub(super) enum Does {
    /// A leg has its memory, and reads into it.
    Read {
        permit: permit::Seen,
        locks: Seen,
    },
    Write(Write),
}

/// A write under way on the legs.
pub(super) struct Write {
    /// What the legs are sent.
    pub(super) copy: Option<Divided>,
    /// Legs that have not answered.
    pub(super) pending: LegMask,
    pub(super) outcomes: [Option<Outcome>; LEGS_MAX],
    pub(super) retries: u8,
}

impl Write {
    pub(super) fn new(copy: Option<Divided>) -> Self {
        Self { copy, pending: 0, outcomes: [None; LEGS_MAX], retries: 0 }
    }

    /// Whether it was executed by all legs that it was sent to.
    pub(super) fn is_success(&self) -> bool {
        self.outcomes.iter().flatten().all(Outcome::is_success)
    }
}
