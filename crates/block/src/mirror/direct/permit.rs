//! Whether loops may read and write without asking the home of a mirror, and who does so now.
//!
//! The home withdraws the permit before it decides anything, and waits until nobody writes by it
//! any more. A writer says first that it writes, and looks at the permit then; the home withdraws
//! the permit first, and looks for writers then. Of the two fences between one is the first, so one
//! of the two sees the other.

use crate::sync::{AtomicU64, Ordering, fence};

/// Set while the permit holds.
const HOLDS: u64 = 1;
/// Permits are counted from here, so that no two are equal.
const NEXT: u64 = 2;

/// A permit that a loop has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen(u64);

impl Seen {
    /// Whether it held.
    pub(super) fn holds(self) -> bool {
        self.0 & HOLDS != 0
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

    /// Withdraws it; whether it held.
    pub(super) fn withdraw(&self) -> bool {
        let held = self.0.fetch_and(!HOLDS, Ordering::SeqCst) & HOLDS != 0;
        fence(Ordering::SeqCst);
        held
    }
}

/// The writes that a loop has under way by a permit.
pub(super) struct Writers(AtomicU64);

impl Writers {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins a write, if the permit holds. If it does not, the home may have waited for this
    /// moment, and has to be woken.
    pub(super) fn begin(&self, permit: &Permit, seen: Seen) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let holds = permit.see() == seen && seen.holds();
        if !holds {
            self.end();
        }
        holds
    }

    /// Ends a write: everything that it did is done.
    pub(super) fn end(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether there are none. After the permit was withdrawn that stays so.
    pub(super) fn is_none(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
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
        writers.end();
        assert!(writers.is_none());
        permit.give();
        assert!(permit.see().holds() && permit.see() != first && !writers.begin(&permit, first));
    }
}
