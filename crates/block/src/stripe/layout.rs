//! Layout of a stripe: chunk `n` of the stripe is chunk `n / members` of member `n % members`.

/// The layout of a stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Blocks of a chunk, at least 1.
    pub(super) chunk_blocks: u64,
    /// Members, at least 1.
    pub(super) members: u64,
}

/// A range of blocks within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) member: usize,
    /// First block on the member.
    pub(super) lba: u64,
    /// Blocks from there to the end of the chunk.
    pub(super) run: u64,
}

impl Layout {
    /// Returns the place of a block.
    pub(super) fn place(&self, lba: u64) -> Place {
        let (chunk, within) = (lba / self.chunk_blocks, lba % self.chunk_blocks);
        let first = chunk / self.members * self.chunk_blocks;
        Place {
            member: (chunk % self.members) as usize,
            lba: first + within,
            run: self.chunk_blocks - within,
        }
    }

    /// The first block and the number of blocks that a range has on a member. Chunks that follow
    /// each other there are one range.
    pub(super) fn extent(&self, member: usize, lba: u64, blocks: u64) -> (u64, u64) {
        let (from, to) = (self.below(member, lba), self.below(member, lba + blocks));
        (from, to - from)
    }

    /// Returns the number of blocks below `lba` on a member.
    fn below(&self, member: usize, lba: u64) -> u64 {
        let row = self.chunk_blocks * self.members;
        let own =
            (lba % row).saturating_sub(member as u64 * self.chunk_blocks).min(self.chunk_blocks);
        lba / row * self.chunk_blocks + own
    }

    /// The stripe's block that is block `lba` of a member, if there can be such a block.
    pub(super) fn whole(&self, member: usize, lba: u64) -> Option<u64> {
        let (row, within) = (lba / self.chunk_blocks, lba % self.chunk_blocks);
        let chunk = row.checked_mul(self.members)?.checked_add(member as u64)?;
        chunk.checked_mul(self.chunk_blocks)?.checked_add(within)
    }

    /// Returns the blocks of the stripe if the smallest member has `smallest`.
    pub(super) fn blocks(&self, smallest: u64) -> u64 {
        (smallest / self.chunk_blocks)
            .saturating_mul(self.chunk_blocks)
            .saturating_mul(self.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_go_round() {
        let layout = Layout { chunk_blocks: 8, members: 3 };
        assert_eq!(layout.place(0), Place { member: 0, lba: 0, run: 8 });
        assert_eq!(layout.place(13), Place { member: 1, lba: 5, run: 3 });
        assert_eq!(layout.place(24), Place { member: 0, lba: 8, run: 8 });
        assert_eq!((layout.blocks(17), layout.blocks(7)), (48, 0));
        assert_eq!(Layout { chunk_blocks: 1, members: 64 }.blocks(u64::MAX), u64::MAX);
        assert_eq!(layout.whole(2, u64::MAX), None);
    }

    /// Every range, by blocks one at a time and by extents.
    #[test]
    fn extents_are_what_the_blocks_add_up_to() {
        for (chunk_blocks, members) in [(1, 1), (1, 3), (4, 1), (4, 2), (3, 5)] {
            let layout = Layout { chunk_blocks, members };
            for lba in 0..40 {
                let Place { member, lba: at, .. } = layout.place(lba);
                assert_eq!(layout.whole(member, at), Some(lba));
                for blocks in 1..40 {
                    let mut left = blocks;
                    for member in 0..members as usize {
                        let (first, count) = layout.extent(member, lba, blocks);
                        let mut own = (lba..lba + blocks)
                            .map(|lba| layout.place(lba))
                            .filter(|place| place.member == member);
                        assert!(
                            (first..first + count)
                                .all(|at| own.next().is_some_and(|place| place.lba == at))
                        );
                        assert!(own.next().is_none());
                        left -= count;
                    }
                    assert_eq!(left, 0, "{blocks} blocks from {lba}");
                }
            }
        }
    }
}
