//! Operations that a loop has under way without its home.

use super::locks::{LockRange, Seen};
use super::permit;
use crate::mirror::record::{LEGS_MAX, LegMask};
use crate::op::{Op, Outcome};
use weft_io::segment::Divided;

/// A read: a leg has the operation, under another name than its user's.
pub(super) struct Read {
    pub(super) user: u64,
    pub(super) range: LockRange,
    pub(super) permit: permit::Seen,
    pub(super) locks: Seen,
}

/// A write under way on the legs.
pub(super) struct Write {
    pub(super) op: Op,
    pub(super) range: LockRange,
    pub(super) permit: permit::Seen,
    /// Data for the legs.
    pub(super) copy: Option<Divided>,
    /// Legs that have not answered.
    pub(super) pending: LegMask,
    pub(super) outcomes: [Option<Outcome>; LEGS_MAX],
    pub(super) retries: u8,
    /// Tells it from others that have had its slot.
    pub(super) number: u32,
}

impl Write {
    pub(super) fn new(
        op: Op,
        (range, permit): (LockRange, permit::Seen),
        copy: Option<Divided>,
        number: u32,
    ) -> Self {
        let outcomes = [None; LEGS_MAX];
        Self { op, range, permit, copy, pending: 0, outcomes, retries: 0, number }
    }

    /// Returns whether it was executed by all legs that it was sent to.
    pub(super) fn is_success(&self) -> bool {
        self.outcomes.iter().flatten().all(Outcome::is_success)
    }
}

/// Name of an operation at the legs: its slot, whether it is a read, and the number of a write. A
/// read keeps its slot until its leg has answered. A write may have ended before, on others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) slot: u64,
    pub(super) is_read: bool,
    pub(super) number: u32,
}

impl Name {
    const READ: u64 = 1 << 31;

    pub(super) fn user(self) -> u64 {
        let kind = if self.is_read { Self::READ } else { 0 };
        self.slot | kind | u64::from(self.number) << 32
    }

    pub(super) fn of(user: u64) -> Self {
        let is_read = user & Self::READ != 0;
        Self { slot: user & (Self::READ - 1), is_read, number: (user >> 32) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_went() {
        for (slot, is_read, number) in
            [(0, true, 0), (7, false, u32::MAX), ((1 << 31) - 1, true, 9)]
        {
            let name = Name { slot, is_read, number };
            assert_eq!(Name::of(name.user()), name);
        }
    }
}
