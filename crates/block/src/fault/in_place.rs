//! Faults of what is done in the device's own memory.

use super::altered::Spot;
use super::plan::{Corruption, Fault};
use super::queue::{FaultQueue, GONE};
use crate::device::InPlace;
use crate::op::{OpKind, Outcome};
use crate::status::{Status, StatusKind};
use weft_io::Segments;

/// The kind of operation that storing in place counts as.
const WRITE: OpKind = OpKind::Write { fua: false };

impl FaultQueue {
    /// Stores other data than `data`, or at another address, or nothing.
    fn store_corrupted(&mut self, lba: u64, blocks: u32, data: &[u8], how: Corruption) -> Outcome {
        let size = self.altered.geometry.block_bytes as usize;
        let Spot { block, bit } = Spot::draw(&mut self.draw.random, blocks, size);
        let mut data = data.to_vec();
        match how {
            Corruption::Stale => return Outcome::SUCCESS,
            Corruption::Misplaced => {
                let lba = self.altered.elsewhere(lba, blocks, &mut self.draw.random);
                return self.pass_store(lba, blocks, &data);
            }
            Corruption::BitFlip => data[block + (bit / 8) as usize] ^= 1 << (bit % 8),
            Corruption::Zero => data[block..][..size].fill(0),
        }
        self.pass_store(lba, blocks, &data)
    }

    /// Stores the first half, and fails.
    fn store_half(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        let half = blocks / 2;
        if half > 0 {
            self.pass_store(
                lba,
                half,
                &data[..half as usize * self.altered.geometry.block_bytes as usize],
            );
        }
        Outcome::Done(Status::new(StatusKind::Media))
    }

    fn pass_store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        let own = self.relay.inner.in_place();
        own.map_or(Outcome::NotSent(Status::new(StatusKind::Unsupported)), |own| {
            own.store(lba, blocks, data)
        })
    }
}

impl InPlace for FaultQueue {
    /// Declines if the next read is affected: it then arrives as an operation, which can fail and
    /// whose memory can be corrupted.
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        let struck = self.draw.next_strike(OpKind::Read).is_some();
        let lent =
            !struck && self.relay.inner.in_place().is_some_and(|own| own.lend(lba, blocks, into));
        if lent {
            self.draw.strike(OpKind::Read);
        }
        lent
    }

    fn spare(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.relay.inner.in_place().is_some_and(|own| own.spare(lba, blocks, into))
    }

    /// Not if a write may be left incomplete.
    fn stores(&mut self) -> bool {
        !self.draw.plan.may_hold(WRITE) && self.relay.inner.in_place().is_some_and(InPlace::stores)
    }

    fn store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        match self.draw.strike(WRITE) {
            Some(Fault::Fails(kind)) => Outcome::Done(Status::new(kind)),
            Some(Fault::Vanishes) => {
                self.draw.vanish();
                GONE
            }
            Some(Fault::Short) => self.store_half(lba, blocks, data),
            Some(Fault::Held | Fault::Hangs(_)) => {
                Outcome::NotSent(Status::new(StatusKind::Unsupported))
            }
            Some(Fault::Corrupted(how)) if !data.is_empty() => {
                self.store_corrupted(lba, blocks, data, how)
            }
            Some(Fault::Corrupted(_)) | None => self.pass_store(lba, blocks, data),
        }
    }
}
