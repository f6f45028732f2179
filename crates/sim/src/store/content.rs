//! The blocks themselves: what lasts, and what the cache holds above it.

use super::Pending;
use crate::stamp::UNIT_BYTES;
use std::collections::BTreeMap;
use weft_block::{OpKind, Status, StatusKind};
use weft_io::sim::Rng;

/// A write that does not last yet: its number, and what it wrote.
type Cached = (u64, Vec<u8>);

pub(super) struct Content {
    block_bytes: usize,
    lasting: Vec<u8>,
    /// By block, in the order of execution.
    cache: BTreeMap<u64, Vec<Cached>>,
    /// Counts writes.
    mark: u64,
    volatile: bool,
}

impl Content {
    pub(super) fn new(block_bytes: usize, blocks: usize, volatile: bool) -> Self {
        Self {
            block_bytes,
            lasting: vec![0; block_bytes * blocks],
            cache: BTreeMap::new(),
            mark: 0,
            volatile,
        }
    }

    pub(super) fn grow(&mut self, blocks: usize) {
        self.lasting.resize(blocks * self.block_bytes, 0);
    }

    /// What has been written so far: that much a flush covers which is submitted now.
    pub(super) fn mark(&self) -> u64 {
        self.mark
    }

    fn lasting_mut(&mut self, lba: u64) -> &mut [u8] {
        let at = lba as usize * self.block_bytes;
        &mut self.lasting[at..at + self.block_bytes]
    }

    /// Puts blocks there that last.
    pub(super) fn put(&mut self, lba: u64, bytes: &[u8]) {
        for (block, lba) in bytes.chunks(self.block_bytes).zip(lba..) {
            self.cache.remove(&lba);
            self.lasting_mut(lba).copy_from_slice(block);
        }
    }

    /// Reads one block.
    pub(super) fn read(&mut self, lba: u64, into: &mut [u8]) {
        match self.cache.get(&lba).and_then(|writes| writes.last()) {
            Some((_, content)) => into.copy_from_slice(content),
            None => into.copy_from_slice(self.lasting_mut(lba)),
        }
    }

    /// Lets an operation take effect, or fail; then a write may have been done in part.
    pub(super) fn apply(&mut self, op: &Pending, rng: &mut Rng) -> Status {
        match op.kind {
            OpKind::Write { fua } | OpKind::WriteZeroes { fua, .. } => {
                for n in 0..u64::from(op.blocks) {
                    if !op.fails || rng.one_in(2) {
                        self.write(op, n, fua);
                    }
                }
            }
            OpKind::Compare | OpKind::CompareAndWrite { .. } if op.fails => {}
            OpKind::Compare | OpKind::CompareAndWrite { .. } if !self.equals(op) => {
                return Status::new(StatusKind::CompareFailed);
            }
            OpKind::CompareAndWrite { fua } => {
                (0..u64::from(op.blocks)).for_each(|n| self.write(op, n, fua))
            }
            OpKind::Flush if !op.fails => self.flush(op.mark),
            OpKind::Reserve(_) | OpKind::ReservationReport => {
                return Status::new(StatusKind::Unsupported);
            }
            _ => {}
        }
        if op.fails { Status::new(StatusKind::Media) } else { Status::SUCCESS }
    }

    /// Returns whether the blocks hold what the first half of the data (all of it, of a plain
    /// comparison) says.
    fn equals(&mut self, op: &Pending) -> bool {
        let mut block = vec![0; self.block_bytes];
        (0..op.blocks as usize).all(|n| {
            self.read(op.lba + n as u64, &mut block);
            op.data[n * self.block_bytes..][..self.block_bytes] == block[..]
        })
    }

    fn write(&mut self, op: &Pending, n: u64, fua: bool) {
        let skip =
            if matches!(op.kind, OpKind::CompareAndWrite { .. }) { op.blocks as usize } else { 0 };
        let (lba, at, len) = (op.lba + n, (skip + n as usize) * self.block_bytes, self.block_bytes);
        let content = op.data.get(at..at + len).map_or_else(|| vec![0; len], <[u8]>::to_vec);
        self.mark += 1;
        if self.volatile && !fua {
            return self.cache.entry(lba).or_default().push((self.mark, content));
        }
        self.cache.remove(&lba);
        self.lasting_mut(lba).copy_from_slice(&content);
    }

    /// Leaves the first sectors of a write, which last.
    pub(super) fn tear(&mut self, op: &Pending, rng: &mut Rng) {
        let is_compare = matches!(op.kind, OpKind::CompareAndWrite { .. });
        if is_compare && !self.equals(op) {
            return;
        }
        let data = if is_compare { &op.data[op.data.len() / 2..] } else { &op.data };
        let whole = rng.below((data.len() / UNIT_BYTES) as u64 + 1) as usize * UNIT_BYTES;
        for (part, lba) in data[..whole].chunks(self.block_bytes).zip(op.lba..) {
            self.cache.remove(&lba);
            self.lasting_mut(lba)[..part.len()].copy_from_slice(part);
        }
    }

    /// Makes lasting what was written up to this mark, and nothing else.
    fn flush(&mut self, mark: u64) {
        for (lba, mut writes) in core::mem::take(&mut self.cache) {
            let later = writes.split_off(writes.partition_point(|(number, _)| *number <= mark));
            if let Some((_, content)) = writes.last() {
                self.lasting_mut(lba).copy_from_slice(content);
            }
            if !later.is_empty() {
                self.cache.insert(lba, later);
            }
        }
    }

    /// Of what the cache holds for a block, some write is the last one that is kept, or none is.
    pub(super) fn power_fails(&mut self, rng: &mut Rng) {
        for (lba, writes) in core::mem::take(&mut self.cache) {
            let kept = rng.below(writes.len() as u64 + 1) as usize;
            if let Some((_, content)) = kept.checked_sub(1).map(|n| &writes[n]) {
                self.lasting_mut(lba).copy_from_slice(content);
            }
        }
    }
}
