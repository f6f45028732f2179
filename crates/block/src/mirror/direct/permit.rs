//! Permission for loops to read and write without the home of a mirror, and the loops that use it
//! now.
//!
//! The home withdraws the permit before it decides anything, and waits until no writer uses it. A
//! writer announces itself, then checks the permit. The home withdraws the permit, then checks for
//! writers. With a fence between the two steps on each side, at least one sees the other.
//!
//! The home can also wait for the writes that have begun so far, while others go on: it turns the
//! *half* of the permit, and writers count by the half that they saw. That is how it takes the mark
//! of a region back ([`super::shared::Direct::turn`]). A writer that saw the other half before the
//! turn begins again, so each half is empty before it is turned to.

use crate::sync::{AtomicU64, Ordering, fence};

/// Set while the permit holds.
const HOLDS: u64 = 1;
/// The half by which writers count.
const HALF: u64 = 2;
/// Permits are counted from here, so that no two are equal.
const NEXT: u64 = 4;

/// A permit that a loop has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen(u64);

impl Seen {
    /// Returns whether it held.
    pub(super) fn holds(self) -> bool {
        self.0 & HOLDS != 0
    }

    /// Compares two permits without their halves.
    pub(super) fn is_same(self, other: Self) -> bool {
        self.0 & !HALF == other.0 & !HALF
    }

    fn half(self) -> usize {
        usize::from(self.0 & HALF != 0)
    }

    /// Returns true if the home may be waiting for a write that has seen `begun` to end.
    pub(super) fn waits_for(self, begun: Self) -> bool {
        !self.holds() || self.half() != begun.half()
    }
}

/// See the module.
pub(super) struct Permit(AtomicU64);

impl Permit {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn see(&self) -> Seen {
        Seen(self.0.load(Ordering::SeqCst))
    }

    /// Gives a permit that differs from all earlier ones. Only the home does so.
    pub(super) fn give(&self) {
        self.0.store((self.0.load(Ordering::Relaxed) | HOLDS).wrapping_add(NEXT), Ordering::SeqCst);
    }

    /// Turns its half. Only the home does so, when no write of the other half is under way.
    pub(super) fn turn(&self) {
        self.0.fetch_xor(HALF, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Withdraws it; whether it held.
    pub(super) fn withdraw(&self) -> bool {
        let held = self.0.fetch_and(!HOLDS, Ordering::SeqCst) & HOLDS != 0;
        fence(Ordering::SeqCst);
        held
    }
}

/// The writes that a loop has under way by a permit, by the half that they have seen.
pub(super) struct Writers([AtomicU64; 2]);

impl Writers {
    pub(super) fn new() -> Self {
        Self([AtomicU64::new(0), AtomicU64::new(0)])
    }

    /// Begins a write, if the permit holds. If it does not, the home may have waited for this
    /// moment, and has to be woken.
    pub(super) fn begin(&self, permit: &Permit, seen: Seen) -> bool {
        self.0[seen.half()].fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let holds = permit.see() == seen && seen.holds();
        if !holds {
            self.end(seen);
        }
        holds
    }

    /// Ends a write that has seen this permit: everything that it did is done.
    pub(super) fn end(&self, seen: Seen) {
        self.0[seen.half()].fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether there are none. After the permit was withdrawn that stays so.
    pub(super) fn is_none(&self) -> bool {
        self.0.iter().all(|half| half.load(Ordering::SeqCst) == 0)
    }

    /// Returns true if no write counts by the other half of the permit. That stays true until the
    /// home turns the permit.
    pub(super) fn is_past(&self, permit: &Permit) -> bool {
        self.0[1 - permit.see().half()].load(Ordering::SeqCst) == 0
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn no_two_permits_are_equal_and_writers_need_the_one_that_they_saw() {
        let (permit, writers) = (Permit::new(), Writers::new());
        assert!(!permit.see().holds() && !writers.begin(&permit, permit.see()));
        permit.give();
        let first = permit.see();
        assert!(first.holds() && writers.begin(&permit, first) && !writers.is_none());
        assert!(permit.withdraw() && !permit.withdraw());
        assert!(!writers.begin(&permit, first));
        writers.end(first);
        assert!(writers.is_none());
        permit.give();
        assert!(permit.see().holds() && permit.see() != first && !writers.begin(&permit, first));
    }

    #[test]
    fn the_writes_before_a_turn_are_waited_for_and_later_ones_are_not() {
        let (permit, writers) = (Permit::new(), Writers::new());
        permit.give();
        let first = permit.see();
        assert!(writers.begin(&permit, first) && !permit.see().waits_for(first));
        assert!(writers.is_past(&permit), "nobody has the other half");
        permit.turn();
        let second = permit.see();
        assert!(second.holds() && second != first && second.is_same(first));
        assert!(second.waits_for(first) && !second.waits_for(second));
        assert!(!writers.begin(&permit, first) && writers.begin(&permit, second));
        assert!(!writers.is_past(&permit));
        writers.end(first);
        assert!(writers.is_past(&permit) && !writers.is_none());
        assert!(permit.withdraw() && permit.see().waits_for(second));
        permit.give();
        assert!(!permit.see().is_same(second) && !permit.see().waits_for(second));
        writers.end(second);
        assert!(writers.is_none());
    }
}
