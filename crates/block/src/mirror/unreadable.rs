//! Blocks that could be read from no leg in sync when a copy needed them. The data of legs may
//! differ there, so it is never returned: reads get a medium error until the blocks are written.

use crate::limits::MIRROR_UNREADABLE_RANGES;

/// Bytes of a range as it is stored.
const RANGE_BYTES: usize = 12;

/// Bytes of all of them as they are stored.
pub(crate) const UNREADABLE_BYTES: usize = MIRROR_UNREADABLE_RANGES * RANGE_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    end: u64,
}

impl Range {
    /// As it is stored: the first block and the number of blocks, several times where one number
    /// does not hold them all.
    fn stored(&self) -> impl Iterator<Item = (u64, u32)> {
        let Self { mut start, end } = *self;
        core::iter::from_fn(move || {
            let blocks = u32::try_from(end - start).unwrap_or(u32::MAX);
            let stored = (start, blocks);
            start += u64::from(blocks);
            (blocks > 0).then_some(stored)
        })
    }
}

/// See the module. In order, and none touches the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnreadableBlocks(Vec<Range>);

impl UnreadableBlocks {
    /// Returns whether there are none.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// The ranges: the first block of each, and its blocks.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|range| (range.start, range.end - range.start))
    }

    /// Returns whether any of these blocks is one.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|range| range.start < end && start < range.end)
    }

    /// Returns the rest of some blocks without these, in order.
    pub(crate) fn rest(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let (mut at, mut rest) = (start, Vec::new());
        for range in self.0.iter().filter(|range| range.start < end && start < range.end) {
            if at < range.start {
                rest.push((at, range.start));
            }
            at = range.end;
        }
        if at < end {
            rest.push((at, end));
        }
        rest
    }

    /// Adds blocks; `false`, and nothing is added, if that would be more ranges than there is room
    /// for.
    pub(crate) fn add(&mut self, start: u64, end: u64) -> bool {
        let (touching, mut others): (Vec<Range>, Vec<Range>) =
            self.0.iter().copied().partition(|range| range.start <= end && start <= range.end);
        let whole = touching.iter().fold(Range { start, end }, |whole, range| Range {
            start: whole.start.min(range.start),
            end: whole.end.max(range.end),
        });
        let at = others.partition_point(|range| range.start < whole.start);
        others.insert(at, whole);
        self.replace(others)
    }

    /// Takes blocks away that were written; `false`, and none is taken away, if that would leave
    /// more ranges than there is room for.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> bool {
        let left = self.0.iter().flat_map(|range| {
            let before = Range { start: range.start, end: range.end.min(start) };
            let behind = Range { start: range.start.max(end), end: range.end };
            [before, behind].into_iter().filter(|part| part.start < part.end)
        });
        let left = left.collect();
        self.replace(left)
    }

    fn replace(&mut self, ranges: Vec<Range>) -> bool {
        let fits = ranges.iter().flat_map(Range::stored).count() <= MIRROR_UNREADABLE_RANGES;
        if fits {
            self.0 = ranges;
        }
        fits
    }

    /// As they are stored: the first block of each and the number of its blocks, then zeroes.
    pub(crate) fn encode(&self) -> [u8; UNREADABLE_BYTES] {
        let mut out = [0; UNREADABLE_BYTES];
        for (place, (start, blocks)) in
            out.chunks_exact_mut(RANGE_BYTES).zip(self.0.iter().flat_map(Range::stored))
        {
            place[..8].copy_from_slice(&start.to_le_bytes());
            place[8..].copy_from_slice(&blocks.to_le_bytes());
        }
        out
    }

    /// Decodes the stored form; `None` if it is impossible for a mirror of `blocks` blocks.
    pub(crate) fn decode(bytes: &[u8; UNREADABLE_BYTES], blocks: u64) -> Option<Self> {
        let mut all = Self::default();
        for place in bytes.chunks_exact(RANGE_BYTES) {
            let (start, len) = place.split_at(8);
            let start = u64::from_le_bytes(start.try_into().ok()?);
            let len = u64::from(u32::from_le_bytes(len.try_into().ok()?));
            let end = start.checked_add(len).filter(|end| *end <= blocks)?;
            if len > 0 && !all.add(start, end) {
                return None;
            }
        }
        Some(all)
    }
}

#[cfg(test)]
impl UnreadableBlocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
impl FromIterator<(u64, u64)> for UnreadableBlocks {
    /// From first blocks and numbers of blocks.
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(ranges: T) -> Self {
        let mut all = Self::default();
        ranges.into_iter().for_each(|(start, blocks)| assert!(all.add(start, start + blocks)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(all: &UnreadableBlocks) -> Vec<(u64, u64)> {
        all.ranges().collect()
    }

    #[test]
    fn ranges_that_touch_are_one_and_what_is_written_is_taken_away() {
        let mut all: UnreadableBlocks = [(8, 8), (32, 8), (16, 8)].into_iter().collect();
        assert_eq!((ranges(&all), all.blocks()), (vec![(8, 16), (32, 8)], 24));
        assert_eq!(
            [all.overlaps(0, 8), all.overlaps(7, 9), all.overlaps(24, 32)],
            [false, true, false]
        );
        assert_eq!(all.rest(0, 36), [(0, 8), (24, 32)]);
        assert!(all.remove(10, 12) && all.remove(30, 100));
        assert_eq!(ranges(&all), [(8, 2), (12, 12)]);
        assert!(all.remove(0, 100) && all.is_empty());
    }

    #[test]
    fn there_are_never_more_than_there_is_room_for() {
        let mut all: UnreadableBlocks =
            (0..MIRROR_UNREADABLE_RANGES as u64).map(|n| (n * 8, 4)).collect();
        let full = all.clone();
        assert!(!all.add(1000, 1001) && !all.remove(1, 2));
        assert_eq!(all, full);
        assert!(all.add(4, 8), "two become one");
        let stored = full.encode();
        assert_eq!(UnreadableBlocks::decode(&stored, 124), Some(full));
        assert_eq!(UnreadableBlocks::decode(&stored, 123), None, "it is outside the mirror");
        assert_eq!(UnreadableBlocks::decode(&[0xff; UNREADABLE_BYTES], u64::MAX), None);
    }

    #[test]
    fn a_range_of_more_blocks_than_a_number_holds_is_stored_whole() {
        let long = 1 << 32;
        for end in [long - 1, long, long + 8, 2 * long] {
            let all: UnreadableBlocks = [(8, end - 8), (end + 8, 1)].into_iter().collect();
            assert_eq!(UnreadableBlocks::decode(&all.encode(), u64::MAX), Some(all));
        }
        let mut all: UnreadableBlocks =
            (0..MIRROR_UNREADABLE_RANGES as u64).map(|n| (n * 8, 4)).collect();
        let full = all.clone();
        assert!(
            !all.add((MIRROR_UNREADABLE_RANGES as u64 - 1) * 8, 2 * long),
            "it takes more places than there are"
        );
        assert_eq!(all, full);
    }
}
