//! Operations that may be in flight together: reads, and those whose blocks do not overlap.
//!
//! Overlapping writes that reach two legs in different orders would leave the legs different for
//! ever, and a read next to a write could see the new data at one leg and, later, the old data at
//! another. So an operation waits for earlier ones that overlap it, unless both only read.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Range {
    name: u64,
    start: u64,
    end: u64,
    exclusive: bool,
}

impl Range {
    fn conflicts(&self, other: &Self) -> bool {
        (self.exclusive || other.exclusive) && self.start < other.end && other.start < self.end
    }
}

/// Ranges of blocks that are in use, and those who wait for them in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    held: Vec<Range>,
    waiting: VecDeque<Range>,
}

impl Ranges {
    /// Asks for the blocks `start..end`; `true` if they are granted at once. Otherwise
    /// [`Ranges::release`] names `name` later.
    pub(crate) fn request(&mut self, name: u64, start: u64, end: u64, exclusive: bool) -> bool {
        let range = Range { name, start, end, exclusive };
        let is_free = !self.held.iter().chain(&self.waiting).any(|other| other.conflicts(&range));
        if is_free {
            self.held.push(range);
        } else {
            self.waiting.push_back(range);
        }
        is_free
    }

    /// Gives blocks back, or withdraws a request; returns the names of those that are granted now.
    pub(crate) fn release(&mut self, name: u64) -> Vec<u64> {
        self.held.retain(|range| range.name != name);
        self.waiting.retain(|range| range.name != name);
        let mut granted = Vec::new();
        let mut at = 0;
        while at < self.waiting.len() {
            let range = self.waiting[at];
            let earlier = self.waiting.iter().take(at);
            if self.held.iter().chain(earlier).any(|other| other.conflicts(&range)) {
                at += 1;
                continue;
            }
            self.waiting.remove(at);
            self.held.push(range);
            granted.push(range.name);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_writers_wait_in_order() {
        let mut ranges = Ranges::default();
        assert!(ranges.request(1, 0, 8, false) && ranges.request(2, 4, 8, false));
        assert!(!ranges.request(3, 7, 9, true));
        assert!(!ranges.request(4, 0, 8, false), "it does not overtake the writer");
        assert!(ranges.request(5, 0, 7, false) && ranges.request(6, 9, 10, true));
        assert_eq!((ranges.release(1), ranges.release(2)), (vec![], vec![3]));
        assert_eq!(ranges.release(3), [4]);
        assert!(!ranges.request(7, 0, 1, true));
        assert_eq!(ranges.release(7), [], "it does not wait any more");
        assert_eq!(ranges.release(4), []);
        assert_eq!(ranges.release(5), []);
        assert!(ranges.request(8, 0, 8, true));
    }
}
