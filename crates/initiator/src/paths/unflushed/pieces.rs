//! Parts of writes: what later writes have left of them, cut at the bounds of others.

use std::collections::{BTreeMap, VecDeque};
use weft_block::OpKind;

/// Blocks of a write that no later one has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnflushedPiece {
    pub(crate) kind: OpKind,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
    /// Bytes of data.
    pub(crate) len: usize,
    /// An unresolved write lies over it.
    pub(crate) is_under: bool,
    /// Of which entry, and where in its data they begin.
    pub(crate) number: u64,
    pub(crate) skip: usize,
}

impl UnflushedPiece {
    /// Takes at most so many blocks from its beginning; what is left of it, if anything is.
    pub(crate) fn split(self, blocks: u32) -> (Self, Option<Self>) {
        if blocks >= self.blocks {
            return (self, None);
        }
        let len = self.len / self.blocks as usize * blocks as usize;
        let rest = Self {
            lba: self.lba + u64::from(blocks),
            blocks: self.blocks - blocks,
            len: self.len - len,
            skip: self.skip + len,
            ..self
        };
        (Self { blocks, len, ..self }, Some(rest))
    }
}

/// Cuts pieces at the bounds of these ranges, and tells which of them lie in one.
pub(super) fn cut(
    mut whole: VecDeque<UnflushedPiece>,
    ranges: &[(u64, u64)],
) -> VecDeque<UnflushedPiece> {
    let mut pieces = VecDeque::new();
    while let Some(piece) = whole.pop_front() {
        let (first, end) = (piece.lba, piece.lba + u64::from(piece.blocks));
        let bounds = ranges.iter().flat_map(|(first, end)| [*first, *end]);
        let until = bounds.filter(|at| first < *at && *at < end).min().unwrap_or(end);
        let (piece, rest) = piece.split((until - first) as u32);
        rest.into_iter().for_each(|rest| whole.push_front(rest));
        let is_under = ranges.iter().any(|range| range.0 <= first && first < range.1);
        pieces.push_back(UnflushedPiece { is_under, ..piece });
    }
    pieces
}

/// Ranges of blocks that do not overlap: first, and behind the last.
#[derive(Default)]
pub(super) struct Covered(pub(super) BTreeMap<u64, u64>);

impl Covered {
    /// Adds a range; the parts of it that were not covered.
    pub(super) fn cover(&mut self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self
            .0
            .range(..first)
            .next_back()
            .filter(|(_, other)| **other >= first)
            .map(|(at, _)| *at);
        let touched: Vec<_> =
            self.0.range(before.unwrap_or(first)..=end).map(|(at, other)| (*at, *other)).collect();
        let (mut fresh, mut at) = (Vec::new(), first);
        for (start, stop) in &touched {
            if at < *start {
                fresh.push((at, *start));
            }
            at = at.max(*stop);
            self.0.remove(start);
        }
        if at < end {
            fresh.push((at, end));
        }
        let least = touched.first().map_or(first, |(start, _)| first.min(*start));
        self.0.insert(least, at.max(end));
        fresh
    }
}
