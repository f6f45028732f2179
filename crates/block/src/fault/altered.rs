//! Operations that reach the device in another form, and come back to their user in their own.

use super::plan::Corruption;
use crate::device::Geometry;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::random::Random;
use crate::status::{Status, StatusKind};
use std::collections::HashMap;
use weft_io::segment::{Divided, total_len};
use weft_io::{Pool, Segment, Segments};

/// The altered operations of a queue.
pub(super) struct Altered {
    pub(super) geometry: Geometry,
    /// Actions for their completions, by the names of the operations.
    on_return: HashMap<u64, OnReturn>,
}

/// The action on an operation that completes.
enum OnReturn {
    /// Corrupt the data read: flip the bit.
    Flip(u64),
    /// Corrupt the data read: zero the bytes.
    Zero(usize, usize),
    /// Restore the submitter's memory.
    Restore(usize, Vec<u8>),
    /// Return the submitter's own read-only memory: the device received a corrupted copy.
    Memory(Segments),
    /// Restore the original address.
    Place(u64),
    /// Restore the whole memory and the number of blocks, and fail.
    Whole(Divided, u32),
}

impl Altered {
    pub(super) fn new(geometry: Geometry) -> Self {
        Self { geometry, on_return: HashMap::new() }
    }

    fn block_bytes(&self) -> usize {
        self.geometry.block_bytes as usize
    }

    /// Leaves the first half of an operation.
    pub(super) fn shorten(&mut self, op: &mut Op) {
        let mut whole = Divided::new();
        whole.fill(core::mem::take(&mut op.data));
        let blocks = op.blocks;
        op.blocks /= 2;
        whole.cut(0, op.blocks as usize * self.block_bytes(), &mut op.data);
        self.on_return.insert(op.user, OnReturn::Whole(whole, blocks));
    }

    /// Corrupts an operation now, or when it comes back. `false`: `pool` has no memory for that.
    pub(super) fn corrupt(
        &mut self,
        op: &mut Op,
        how: Corruption,
        random: &mut Random,
        pool: &Pool,
    ) -> bool {
        let reads = op.kind == OpKind::Read;
        let size = self.block_bytes();
        let Spot { block, bit } = Spot::draw(random, op.blocks, size);
        let stays =
            reads || how == Corruption::Misplaced || op.data.iter().all(Segment::is_writable);
        let own = if stays { None } else { replace_by_copy(&mut op.data, pool) };
        if !stays && own.is_none() {
            return false;
        }
        let undo = match how {
            Corruption::BitFlip if reads => OnReturn::Flip(block as u64 * 8 + bit),
            Corruption::BitFlip => {
                let at = block + (bit / 8) as usize;
                let old = change(&mut op.data, at, 1, |byte| byte ^ (1 << (bit % 8)));
                OnReturn::Restore(at, old)
            }
            Corruption::Zero if reads => OnReturn::Zero(block, size),
            Corruption::Zero => OnReturn::Restore(block, change(&mut op.data, block, size, |_| 0)),
            Corruption::Misplaced | Corruption::Stale => {
                let place = OnReturn::Place(op.lba);
                op.lba = self.elsewhere(op.lba, op.blocks, random);
                place
            }
        };
        self.on_return.insert(op.user, own.map_or(undo, OnReturn::Memory));
        true
    }

    /// Another address for the operation, if the device has one.
    pub(super) fn elsewhere(&self, lba: u64, blocks: u32, random: &mut Random) -> u64 {
        let places = self.geometry.blocks.saturating_sub(u64::from(blocks));
        if places == 0 || lba > places {
            return lba;
        }
        (lba + 1 + random.below(places)) % (places + 1)
    }

    /// The completion as its user expects it.
    pub(super) fn undo(&mut self, mut completion: Completion) -> Completion {
        let Some(undo) = self.on_return.remove(&completion.op.user) else { return completion };
        let op = &mut completion.op;
        match undo {
            OnReturn::Flip(bit) => {
                _ = change(&mut op.data, (bit / 8) as usize, 1, |byte| byte ^ (1 << (bit % 8)))
            }
            OnReturn::Zero(at, len) => _ = change(&mut op.data, at, len, |_| 0),
            OnReturn::Restore(at, old) => {
                let mut old = old.into_iter();
                let len = old.len();
                change(&mut op.data, at, len, |byte| old.next().unwrap_or(byte));
            }
            OnReturn::Memory(own) => op.data = own,
            OnReturn::Place(lba) => op.lba = lba,
            OnReturn::Whole(mut whole, blocks) => {
                op.data.clear();
                op.data = whole.take_back().unwrap_or_default();
                op.blocks = blocks;
                if completion.outcome.is_success() {
                    completion.outcome = Outcome::Done(Status::new(StatusKind::Media));
                }
            }
        }
        completion
    }
}

/// Corrupted part of an operation's data.
pub(super) struct Spot {
    /// The first byte of the block.
    pub(super) block: usize,
    /// The bit in it.
    pub(super) bit: u64,
}

impl Spot {
    /// A place in `blocks` blocks of `size` bytes.
    pub(super) fn draw(random: &mut Random, blocks: u32, size: usize) -> Self {
        let block = random.below(u64::from(blocks)) as usize * size;
        Self { block, bit: random.below(size as u64 * 8) }
    }
}

/// Replaces read-only memory by a copy, if the pool has memory for it, and returns the original.
fn replace_by_copy(data: &mut Segments, pool: &Pool) -> Option<Segments> {
    let mut copy = pool.take(total_len(data))?;
    let mut at = 0;
    for segment in data.iter() {
        copy[at..at + segment.len()].copy_from_slice(segment);
        at += segment.len();
    }
    Some(core::mem::replace(data, Segments::from_iter([copy.into()])))
}

/// Changes `len` bytes from `at` on; returns the original ones.
fn change(data: &mut [Segment], at: usize, len: usize, mut new: impl FnMut(u8) -> u8) -> Vec<u8> {
    if !data.iter().all(Segment::is_writable) {
        return Vec::new();
    }
    let bytes = data.iter_mut().flat_map(|segment| segment.iter_mut()).skip(at).take(len);
    bytes.map(|byte| core::mem::replace(byte, new(*byte))).collect()
}
