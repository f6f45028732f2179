//! The order of overlapping writes over a volatile cache: one goes out when those before it have
//! completed.
//!
//! If two are in flight together, nobody knows which one the target executed last, and a read may
//! have shown it. If the target then loses its cache, neither a comparison nor a repetition can
//! find out which data is right.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_base::lock::Lock;
use weft_connection::settle::unresolved::WriteKey;

/// The writes of a device that have gone out and those that wait for them, of all its queues.
#[derive(Default)]
pub(super) struct Ordered {
    /// Whether any waits: nobody has to be told otherwise.
    has_waiting: AtomicBool,
    ranges: Lock<Ranges>,
}

#[derive(Default)]
struct Ranges {
    /// First blocks, and those behind the last, of what has gone out: in order, and without
    /// overlaps.
    out: Vec<(u64, u64)>,
    /// What waits, in the order in which it came.
    waiting: Vec<(WriteKey, u64, u64)>,
}

impl Ranges {
    fn is_free(&self, first: u64, end: u64) -> bool {
        let before = self.out.partition_point(|(other, _)| *other < end);
        before == 0 || self.out[before - 1].1 <= first
    }

    fn go(&mut self, first: u64, end: u64) {
        let at = self.out.partition_point(|(other, _)| *other < first);
        self.out.insert(at, (first, end));
    }
}

impl Ordered {
    /// Lets a write go out, unless it overlaps another one.
    #[inline]
    pub(super) fn go(&self, first: u64, blocks: u32) -> bool {
        let (ranges, end) = (&mut *self.ranges.lock(), first + u64::from(blocks));
        let goes = ranges.is_free(first, end)
            && !ranges.waiting.iter().any(|(_, other, stop)| *other < end && first < *stop);
        if goes {
            ranges.go(first, end);
        }
        goes
    }

    /// The same for a write that has a name, under which it waits for its turn.
    pub(super) fn go_or_wait(&self, key: WriteKey, first: u64, blocks: u32) -> bool {
        let (ranges, end) = (&mut *self.ranges.lock(), first + u64::from(blocks));
        let place = ranges.waiting.iter().position(|(other, ..)| *other == key);
        let earlier = &ranges.waiting[..place.unwrap_or(ranges.waiting.len())];
        let goes = ranges.is_free(first, end)
            && !earlier.iter().any(|(_, other, stop)| *other < end && first < *stop);
        match place {
            Some(place) if goes => drop(ranges.waiting.remove(place)),
            None if !goes => ranges.waiting.push((key, first, end)),
            _ => {}
        }
        if goes {
            ranges.go(first, end);
        }
        self.has_waiting.store(!ranges.waiting.is_empty(), Ordering::Release);
        goes
    }

    /// A write that went out has ended. Returns whether any waits.
    #[inline]
    pub(super) fn end(&self, first: u64) -> bool {
        let ranges = &mut *self.ranges.lock();
        if let Ok(at) = ranges.out.binary_search_by_key(&first, |(other, _)| *other) {
            ranges.out.remove(at);
        }
        !ranges.waiting.is_empty()
    }

    /// A write that may have waited never goes out. Returns whether it did, and others do.
    pub(super) fn forget(&self, key: WriteKey) -> bool {
        self.retain(|other| other != key)
    }

    /// None of the writes of a queue goes out any more.
    pub(super) fn forget_all(&self, queue: u64) -> bool {
        self.retain(|(of, _)| of != queue)
    }

    fn retain(&self, keep: impl Fn(WriteKey) -> bool) -> bool {
        if !self.has_waiting.load(Ordering::Acquire) {
            return false;
        }
        let ranges = &mut *self.ranges.lock();
        let before = ranges.waiting.len();
        ranges.waiting.retain(|(key, ..)| keep(*key));
        self.has_waiting.store(!ranges.waiting.is_empty(), Ordering::Release);
        !ranges.waiting.is_empty() && ranges.waiting.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_writes_go_out_in_the_order_in_which_they_came() {
        let ordered = Ordered::default();
        assert!(ordered.go(10, 4) && ordered.go(20, 1) && ordered.go(14, 6) && ordered.go(0, 10));
        assert!(
            [(9, 2), (13, 1), (0, 100), (20, 1)]
                .iter()
                .all(|&(lba, blocks)| !ordered.go(lba, blocks))
        );
        assert!(!ordered.go_or_wait((1, 1), 8, 4));
        assert!(!ordered.go_or_wait((2, 1), 11, 1));
        assert!(ordered.end(0) && !ordered.go_or_wait((1, 1), 8, 4));
        assert!(!ordered.go(8, 1), "another one was there first");
        assert!(
            ordered.end(10) && !ordered.go_or_wait((2, 1), 11, 1),
            "behind the first that waits"
        );
        assert!(ordered.go_or_wait((1, 1), 8, 4) && ordered.end(8));
        assert!(ordered.go_or_wait((2, 1), 11, 1) && !ordered.end(11));
    }

    #[test]
    fn what_never_goes_out_holds_nothing_back() {
        let ordered = Ordered::default();
        assert!(
            ordered.go(5, 1)
                && !ordered.go_or_wait((1, 1), 5, 2)
                && !ordered.go_or_wait((2, 7), 6, 1)
        );
        assert!(ordered.forget((1, 1)) && ordered.go_or_wait((2, 7), 6, 1));
        assert!(!ordered.go_or_wait((3, 1), 6, 1) && !ordered.forget_all(3));
        assert!(!ordered.end(6) && ordered.go(6, 1));
    }
}
