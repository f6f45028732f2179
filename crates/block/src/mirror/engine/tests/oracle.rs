//! Permitted contents of blocks: the last acknowledged write, or one that began later.

use crate::op::OpKind;

#[derive(Clone, Default)]
struct Block {
    /// Permitted results of a read.
    current: Vec<u64>,
    /// Permitted contents when caches are lost.
    lasting: Vec<u64>,
    acknowledged: u64,
    under_way: u32,
}

#[derive(Clone)]
pub(super) struct Oracle {
    blocks: Vec<Block>,
    version: u64,
}

impl Oracle {
    pub(super) fn new(blocks: u64) -> Self {
        let fresh = Block { current: vec![0], lasting: vec![0], ..Block::default() };
        Self { blocks: vec![fresh; blocks as usize], version: 0 }
    }

    /// An operation begins: its version, and what a flush covers.
    pub(super) fn begin(&mut self, kind: OpKind, lba: u64, blocks: u32) -> (u64, Vec<u64>) {
        if kind == OpKind::Flush {
            return (0, self.blocks.iter().map(|block| block.acknowledged).collect());
        }
        if !kind.is_write() {
            return (0, Vec::new());
        }
        self.version += 1;
        for block in &mut self.blocks[lba as usize..][..blocks as usize] {
            block.current.push(self.version);
            block.lasting.push(self.version);
            block.under_way += 1;
        }
        (self.version, Vec::new())
    }

    #[expect(clippy::too_many_arguments, reason = "all that is known of one operation")]
    pub(super) fn end(
        &mut self,
        kind: &OpKind,
        lba: u64,
        blocks: u32,
        version: u64,
        covers: &[u64],
        is_success: bool,
        read: &[u64],
    ) {
        let range = lba as usize..lba as usize + blocks as usize;
        match kind {
            OpKind::Flush if is_success => {
                for (block, covered) in self.blocks.iter_mut().zip(covers) {
                    block.lasting.retain(|version| version >= covered);
                }
            }
            OpKind::Read if is_success => {
                for (block, seen) in self.blocks[range.clone()].iter_mut().zip(read) {
                    assert!(
                        block.current.contains(seen),
                        "blocks {range:?}: {seen} was read; it may be {:?}",
                        block.current
                    );
                    if block.under_way == 0 {
                        block.current = vec![*seen];
                    }
                }
            }
            kind if kind.is_write() => {
                for block in &mut self.blocks[range] {
                    block.under_way -= 1;
                    if is_success && version >= block.acknowledged {
                        block.acknowledged = version;
                        block.current.retain(|other| *other >= version);
                        if matches!(kind, OpKind::Write { fua: true }) {
                            block.lasting.retain(|other| *other >= version);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// The process that had operations under way is gone.
    pub(super) fn crash(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.under_way = 0);
    }

    pub(super) fn power_failed(&mut self) {
        for block in &mut self.blocks {
            block.current.clone_from(&block.lasting);
            block.acknowledged = block.lasting.first().copied().unwrap_or(0);
        }
    }
}
