//! Locks of blocks that loops share with the home of a mirror: a writer holds the locks of its
//! blocks, and a reader without a lock can check afterwards whether somebody held one during the
//! read.
//!
//! Blocks have locks by their place: each [`UNIT_BYTES`] of the mirror have one, and units are
//! [scattered](crate::scatter) over [`LOCKS`]. Loops take parts of a lock, of [`PART_BYTES`] each, so
//! that short writes side by side do not meet; the home takes whole ones. A loop never waits for a
//! lock: it hands the operation to the home. The home waits, and says so, and then no loop takes the
//! lock before it.

use crate::queue::scatter;
use crate::sync::{AtomicU64, Ordering, fence};
use smallvec::SmallVec;

/// Number of locks.
#[cfg(not(feature = "loom"))]
pub(super) const LOCKS: usize = 4096;
#[cfg(feature = "loom")]
pub(super) const LOCKS: usize = 2;

/// Bytes of the mirror that have one lock.
pub(super) const UNIT_BYTES: u64 = 16 << 10;

/// Parts of a lock.
const PARTS: u64 = 4;

/// Bytes of the mirror that have one part of a lock.
const PART_BYTES: u64 = UNIT_BYTES / PARTS;

/// The most locks of an operation; a longer one is alone in the mirror.
pub(crate) const LOCKS_MAX: usize = 80;
// The units of an operation have different locks.
const _: () = assert!(cfg!(feature = "loom") || LOCKS_MAX <= scatter::run(LOCKS));
const _: () = assert!(LOCKS_MAX <= u8::MAX as usize && LOCKS <= 1 << u16::BITS);

/// Somebody holds all parts of the lock; each part has one of these bits.
const HELD: u64 = (1 << PARTS) - 1;

/// The home waits for it.
const WANTED: u64 = 1 << PARTS;

/// The counter of acquisitions of any part begins here.
const TAKEN: u64 = WANTED << 1;

/// The bits of that count.
const COUNT: u64 = !(TAKEN - 1);

/// The locks of some blocks: those of units that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockRange {
    /// The first unit.
    first: u64,
    /// Its lock: most operations have no other one.
    lock: u16,
    count: u8,
    /// The parts of the first one, and of the last one.
    ends: [u8; 2],
}

impl LockRange {
    /// The locks of `len` bytes from `offset` on; `None` if there are too many. No bytes have none.
    pub(crate) fn of(offset: u64, len: u64) -> Option<Self> {
        if len == 0 {
            return Some(Self { first: 0, lock: 0, count: 0, ends: [0; 2] });
        }
        let end = offset + (len - 1);
        let (first, last) = (offset / UNIT_BYTES, end / UNIT_BYTES);
        let count = last - first + 1;
        let part = |at: u64| at % UNIT_BYTES / PART_BYTES;
        let from = HELD & HELD << part(offset);
        let to = HELD >> (PARTS - 1 - part(end));
        let is_short = count <= LOCKS_MAX as u64;
        is_short.then(|| Self {
            first,
            lock: scatter::place(first, LOCKS) as u16,
            count: count as u8,
            ends: [from as u8, to as u8],
        })
    }

    /// The numbers of the locks with the parts of each.
    fn parts(self) -> impl Iterator<Item = (usize, u64)> {
        let part = move |nth: u8| {
            let from = if nth == 0 { u64::from(self.ends[0]) } else { HELD };
            let to = if nth + 1 == self.count { u64::from(self.ends[1]) } else { HELD };
            from & to
        };
        let lock = move |nth: u8| match nth {
            0 => self.lock.into(),
            _ => scatter::place(self.first + u64::from(nth), LOCKS),
        };
        (0..self.count).map(move |nth| (lock(nth), part(nth)))
    }

    /// Their numbers.
    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        self.parts().map(|(number, _)| number)
    }
}

/// State of its locks before a reader's read.
pub(super) type Seen = SmallVec<[u64; 2]>;

/// See the module.
pub(crate) struct Locks(Box<[AtomicU64]>);

impl Locks {
    pub(super) fn new() -> Self {
        Self((0..LOCKS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Takes all these locks, for a loop.
    ///
    /// # Errors
    /// Somebody has one of them, or the home waits for one: whether it waits for one that was taken
    /// in the meantime.
    pub(super) fn take(&self, range: LockRange) -> Result<(), bool> {
        for (taken, (number, parts)) in range.parts().enumerate() {
            loop {
                let seen = self.0[number].load(Ordering::Relaxed);
                if seen & (parts | WANTED) != 0 {
                    return Err(self.free_some(range, taken));
                }
                if self.swap(number, seen, seen | parts) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes one lock, for the home. If somebody has it, that holder will see that the home waits.
    pub(crate) fn take_for_home(&self, number: usize) -> bool {
        loop {
            let seen = self.0[number].load(Ordering::SeqCst);
            if seen & HELD == 0 {
                if self.swap(number, seen, seen & !WANTED | HELD) {
                    return true;
                }
            } else if seen & WANTED != 0 || self.mark(number, seen) {
                return false;
            }
        }
    }

    fn mark(&self, number: usize, seen: u64) -> bool {
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        self.0[number].compare_exchange(seen, seen | WANTED, order.0, order.1).is_ok()
    }

    fn swap(&self, number: usize, seen: u64, held: u64) -> bool {
        let taken = held.wrapping_add(TAKEN);
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        self.0[number].compare_exchange(seen, taken, order.0, order.1).is_ok()
    }

    /// Gives locks back; whether the home waits for one of them.
    #[must_use]
    pub(super) fn free(&self, range: LockRange) -> bool {
        self.free_some(range, range.count.into())
    }

    fn free_some(&self, range: LockRange, count: usize) -> bool {
        let mut is_wanted = false;
        for (number, parts) in range.parts().take(count) {
            is_wanted |= self.0[number].fetch_and(!parts, Ordering::SeqCst) & WANTED != 0;
        }
        is_wanted
    }

    /// Gives a lock of the home back.
    pub(crate) fn free_of_home(&self, number: usize) {
        self.0[number].fetch_and(!HELD, Ordering::SeqCst);
    }

    /// Gives a lock of the home back that it needs again as soon as it can have others, too.
    pub(crate) fn keep_for_home(&self, number: usize) {
        self.0[number].fetch_or(WANTED, Ordering::SeqCst);
        self.free_of_home(number);
    }

    /// Returns the state that a reader of these blocks keeps until it has read; `None` if somebody
    /// may be changing them.
    pub(super) fn look(&self, range: LockRange) -> Option<Seen> {
        let mut all = Seen::new();
        for (number, parts) in range.parts() {
            let seen = self.0[number].load(Ordering::SeqCst);
            if seen & (parts | WANTED) != 0 {
                return None;
            }
            all.push(seen & COUNT);
        }
        Some(all)
    }

    /// Returns whether nobody has taken any of these locks since, or a part of one.
    pub(super) fn is_as_seen(&self, range: LockRange, seen: &Seen) -> bool {
        fence(Ordering::SeqCst);
        let now = range.parts().map(|(number, _)| self.0[number].load(Ordering::SeqCst) & COUNT);
        now.eq(seen.iter().copied())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    /// The number of the lock of a unit.
    fn lock(unit: u64) -> usize {
        scatter::place(unit, LOCKS)
    }

    #[test]
    fn bytes_have_the_locks_of_their_units() {
        let numbers = |offset, len| {
            LockRange::of(offset, len).map(|range| range.numbers().collect::<Vec<_>>())
        };
        assert_eq!(numbers(0, 0), Some(vec![]));
        assert_eq!(numbers(UNIT_BYTES - 1, 1), Some(vec![lock(0)]));
        assert_eq!(numbers(UNIT_BYTES - 1, 2), Some(vec![lock(0), lock(1)]));
        assert_eq!(numbers(u64::MAX - 1, 1).map(|all| all.len()), Some(1));
        assert_eq!(numbers(0, UNIT_BYTES * LOCKS_MAX as u64 + 1), None);
    }

    #[test]
    fn parts_are_those_of_the_bytes() {
        let parts =
            |offset, len| LockRange::of(offset, len).map(|range| range.parts().collect::<Vec<_>>());
        assert_eq!(parts(0, 1), Some(vec![(lock(0), 0b0001)]));
        assert_eq!(parts(PART_BYTES, 2 * PART_BYTES), Some(vec![(lock(0), 0b0110)]));
        assert_eq!(parts(UNIT_BYTES - 1, 2), Some(vec![(lock(0), 0b1000), (lock(1), 0b0001)]));
        assert_eq!(
            parts(2 * PART_BYTES, 2 * UNIT_BYTES),
            Some(vec![(lock(0), 0b1100), (lock(1), 0b1111), (lock(2), 0b0011)])
        );
        assert_eq!(parts(0, 0), Some(vec![]));
    }

    #[test]
    fn loops_share_a_lock_and_the_home_does_not() {
        let locks = Locks::new();
        let part = |nth| LockRange::of(nth * PART_BYTES, 1).unwrap();
        let seen = locks.look(part(3)).unwrap();
        assert!(locks.take(part(0)).is_ok() && locks.take(part(1)).is_ok());
        assert!(locks.take(part(1)).is_err() && locks.look(part(1)).is_none());
        assert!(locks.look(part(2)).is_some(), "another part is held");
        assert!(!locks.is_as_seen(part(3), &seen), "the parts have one count");
        assert!(!locks.take_for_home(lock(0)));
        assert!(locks.take(part(2)).is_err(), "the home is next");
        assert!(locks.free(part(0)) && !locks.take_for_home(lock(0)));
        assert!(locks.free(part(1)) && locks.take_for_home(lock(0)));
        assert!((0..PARTS).all(|nth| locks.take(part(nth)).is_err()));
        locks.free_of_home(lock(0));
        assert!((0..PARTS).all(|nth| locks.take(part(nth)).is_ok()));
    }

    #[test]
    fn loops_do_not_wait_and_the_home_is_next() {
        let locks = Locks::new();
        let range = LockRange::of(0, 2 * UNIT_BYTES).unwrap();
        let second = LockRange::of(UNIT_BYTES, 1).unwrap();
        assert!(locks.take(second).is_ok());
        assert_eq!(locks.take(range), Err(false), "the second one is held");
        assert!(locks.take(LockRange::of(0, 1).unwrap()).is_ok(), "the first one was given back");
        assert!(!locks.take_for_home(lock(1)));
        assert!(locks.free(second), "the home waits");
        assert!(locks.take(second).is_err(), "and is next");
        assert_eq!(locks.look(second), None);
        assert!(locks.take_for_home(lock(1)));
        locks.free_of_home(lock(1));
        assert!(locks.take(second).is_ok() && !locks.free(second));
        assert!(locks.take_for_home(lock(1)));
        locks.keep_for_home(lock(1));
        assert!(locks.take(second).is_err() && locks.take_for_home(lock(1)));
    }

    #[test]
    fn a_reader_sees_who_was_there_meanwhile() {
        let locks = Locks::new();
        let range = LockRange::of(0, 2 * UNIT_BYTES).unwrap();
        let seen = locks.look(range).unwrap();
        assert!(locks.is_as_seen(range, &seen));
        assert!(locks.take(range).is_ok());
        assert!(!locks.is_as_seen(range, &seen) && locks.look(range).is_none());
        assert!(!locks.free(range));
        assert!(!locks.is_as_seen(range, &seen), "it is over, and was there");
        let seen = locks.look(range).unwrap();
        assert!(locks.take_for_home(lock(0)));
        locks.free_of_home(lock(0));
        assert!(!locks.is_as_seen(range, &seen));
    }
}
