//! Writes that are executed late, and may be: the executing side cannot know that nobody waits for
//! them. Such a write replaces what was acknowledged since. The next write that is acknowledged,
//! and was begun behind that, replaces it in turn.

use super::{Block, Oracle, ZEROES};
use crate::stamp::{self, Seen, UNIT_BYTES, Version};
use std::mem::take;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::Op;

/// Units that such writes have changed since the oracle last looked, and what they hold now.
pub type Landed = Arc<Lock<Vec<(u64, Seen)>>>;

/// Returns the contents that a write leaves in the units that it covers.
pub fn units_of(op: &Op, block_bytes: u32) -> Vec<(u64, Seen)> {
    let per_block = u64::from(block_bytes) / UNIT_BYTES as u64;
    let first = op.lba * per_block;
    let data: Vec<u8> = op.data.iter().flat_map(|segment| segment.iter().copied()).collect();
    if data.is_empty() {
        return (0..u64::from(op.blocks) * per_block).map(|n| (first + n, Seen::Zeroes)).collect();
    }
    (first..).zip(data.chunks(UNIT_BYTES)).map(|(at, unit)| (at, stamp::read(unit, at))).collect()
}

impl Oracle {
    /// Writes may be executed late from now on; this registers them.
    pub fn expect_late(&mut self) -> Landed {
        Arc::clone(self.landed.get_or_insert_default())
    }

    /// Learns what was executed late.
    pub fn hear(&mut self) {
        let Some(landed) = &self.landed else { return };
        for (at, seen) in take(&mut *landed.lock()) {
            match seen {
                Seen::Zeroes => self.blocks[at as usize].lands(ZEROES),
                Seen::Written(version) => self.blocks[at as usize].lands(version),
                Seen::Misplaced { .. } | Seen::Damaged => {}
            }
        }
    }
}

impl Block {
    /// This write is executed once more.
    fn lands(&mut self, version: Version) {
        let during = if self.under_way { self.begun } else { 0 };
        if version == during {
            return;
        }
        self.late.retain(|(known, _)| *known != version);
        self.late.push((version, during));
        for possible in [&mut self.current, &mut self.lasting] {
            if !possible.contains(&version) {
                possible.push(version);
            }
        }
        self.undecided = true;
    }

    /// A write was acknowledged: what landed before it began is gone.
    pub(super) fn outlive(&mut self, version: Version) {
        self.late.retain(|(_, during)| *during == version);
    }

    /// Writes that were executed late, and may be what the block holds.
    pub(super) fn late(&self) -> impl Iterator<Item = Version> {
        self.late.iter().map(|(version, _)| *version)
    }
}
