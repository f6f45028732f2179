//! Bytes of FROM that cannot be read, and are zeroes in TO.

use crate::limits::UNREADABLE_MAX;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Neighbouring bytes that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableRange {
    /// The first of them.
    pub at: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl UnreadableRange {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes)
    }
}

/// All places of a copy, in their order; there is something to read between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnreadableRanges(Vec<UnreadableRange>);

impl UnreadableRanges {
    /// The places, in their order.
    pub fn places(&self) -> &[UnreadableRange] {
        &self.0
    }

    /// Bytes of all places.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|place| place.bytes).sum()
    }

    /// Returns whether there is no place.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds bytes, unless there are too many places.
    pub(crate) fn add(&mut self, at: u64, bytes: u64) -> bool {
        let end = at.saturating_add(bytes);
        let first = self.0.partition_point(|place| place.end() < at);
        let behind = self.0.partition_point(|place| place.at <= end);
        let (start, end) = match &self.0[first..behind] {
            [] if self.0.len() >= UNREADABLE_MAX => return false,
            [] => (at, end),
            [one] => (one.at.min(at), one.end().max(end)),
            [one, .., last] => (one.at.min(at), last.end().max(end)),
        };
        self.0.splice(first..behind, [UnreadableRange { at: start, bytes: end - start }]);
        true
    }

    /// Those before byte `end`.
    pub(crate) fn before(&self, end: u64) -> Self {
        let mut kept = Self::default();
        for place in self.0.iter().filter(|place| place.at < end) {
            kept.add(place.at, place.end().min(end) - place.at);
        }
        kept
    }

    /// The first place that ends behind byte `at`.
    pub(crate) fn next(&self, at: u64) -> Option<Range<u64>> {
        let first = self.0.partition_point(|place| place.end() <= at);
        self.0.get(first).map(|place| place.at..place.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::JournalRecord;
    use crate::{CopyEnd, CopyEnds, CopyOptions, CopyStart, copy};
    use core::sync::atomic::AtomicBool;
    use weft_block::OpenOptions;

    fn of(places: &[(u64, u64)]) -> UnreadableRanges {
        let mut all = UnreadableRanges::default();
        places.iter().for_each(|(at, bytes)| assert!(all.add(*at, *bytes)));
        all
    }

    fn told(all: &UnreadableRanges) -> Vec<(u64, u64)> {
        all.places().iter().map(|place| (place.at, place.bytes)).collect()
    }

    #[test]
    fn neighbours_are_one_place() {
        let all = of(&[(512, 512), (2048, 512), (1024, 512), (2048, 512), (0, 512)]);
        assert_eq!((told(&all), all.bytes()), (vec![(0, 1536), (2048, 512)], 2048));
        assert_eq!(told(&of(&[(0, 1), (2, 1), (4, 1), (1, 3)])), [(0, 5)]);
        assert_eq!(told(&all.before(2048)), [(0, 1536)]);
        assert_eq!(told(&all.before(2049)), [(0, 1536), (2048, 1)]);
        assert_eq!((all.next(0), all.next(1536)), (Some(0..1536), Some(2048..2560)));
        assert_eq!(all.next(2560), None);
    }

    #[test]
    fn places_are_limited_and_their_size_is_not() {
        let mut all = UnreadableRanges::default();
        for n in 0..UNREADABLE_MAX as u64 {
            assert!(all.add(n * 2, 1));
        }
        assert!(!all.add(1 << 40, 1), "one too many");
        assert!(all.add(1, 1), "a neighbour");
        assert_eq!(all.places().len(), UNREADABLE_MAX - 1);
    }

    #[test]
    fn what_an_earlier_process_could_not_read_is_told() {
        let ram = || weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let ends = CopyEnds::new(ram(), ram()).unwrap();
        let mut record = JournalRecord::new(&ends, false);
        record.copied = 512 << 10;
        // The second place is behind what the journal covers, and is read once more.
        record.unreadable = of(&[(4096, 4096), (768 << 10, 4096)]);
        let options = CopyOptions {
            threads: 1,
            chunk: None,
            depth: None,
            limit: None,
            verify: true,
            sha256: false,
            blank: false,
            skip_unreadable: false,
        };
        let start = CopyStart { record, journal: None, follows: false };
        let stop = AtomicBool::new(false);
        let (ended, summary) = copy(&ends, &options, start, &stop, &mut |_| ()).unwrap();
        assert_eq!((ended, told(&summary.unreadable)), (CopyEnd::Done, vec![(4096, 4096)]));
    }
}
