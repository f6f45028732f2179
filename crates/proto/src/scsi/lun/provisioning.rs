//! UNMAP and WRITE SAME (SBC-3 §4.7, §5.32, §5.49).

use super::blocks::{Blocks, length_field};
use super::task::{Reply, Step, Task, TaskStage, Then, UnitRequestKind};
use crate::limits::SCSI_UNMAP_RANGES_MAX;
use crate::scsi::bytes::{be16, be32, be64};
use crate::scsi::cdb::{CDB_BYTES, Command, Extent};
use crate::scsi::sense::Sense;
use crate::scsi::status::AdditionalSense;

/// Bytes before the block descriptors of UNMAP.
const HEADER_BYTES: usize = 8;
/// Bytes of a block descriptor.
const RANGE_BYTES: usize = 16;

impl Blocks<'_> {
    /// UNMAP, before its parameter list is there.
    pub(super) fn unmap(
        &self,
        task: &mut Task,
        anchor: bool,
        parameters: u32,
        data_out: u32,
    ) -> Result<Step, Sense> {
        self.writable()?;
        match parameters as usize {
            _ if anchor => Err(Sense::cdb_bit(1, 0)),
            0 => Ok(Step::Reply(Reply::good(0))),
            1..HEADER_BYTES => Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR)),
            bytes if bytes > HEADER_BYTES + SCSI_UNMAP_RANGES_MAX as usize * RANGE_BYTES => {
                Err(Sense::parameter(2))
            }
            _ => self.all_data(task, parameters, data_out >= parameters),
        }
    }

    /// The parameter list of UNMAP is there: all its ranges are checked before the first is
    /// executed.
    pub(super) fn unmap_ranges(&self, task: &mut Task, list: &[u8]) -> Result<Step, Sense> {
        let list = list.get(..task.transfer_bytes as usize).ok_or(Sense::parameter(0))?;
        let told = usize::from(be16(list, 2)) / RANGE_BYTES;
        let count = told.min((list.len() - HEADER_BYTES) / RANGE_BYTES) as u16;
        for index in 0..count {
            self.in_range(range(list, index))?;
        }
        Ok(self.next_range(task, list, 0, count))
    }

    /// The next range that is not empty.
    pub(super) fn next_range(&self, task: &mut Task, list: &[u8], next: u16, count: u16) -> Step {
        for index in next..count {
            let extent = range(list, index);
            if extent.blocks == 0 {
                continue;
            }
            let step = self.submit(task, UnitRequestKind::Discard, extent, 0, false);
            if index + 1 < count {
                task.then = Then::Range { next: index + 1, count };
            }
            return step;
        }
        Step::Reply(Reply::good(task.transfer_bytes))
    }

    /// WRITE SAME, before its block is there. Zero blocks (to the end of the medium) are refused,
    /// as the page Block Limits says (WSNZ).
    pub(super) fn write_same(
        &self,
        task: &mut Task,
        cdb: &[u8; CDB_BYTES],
        data_out: u32,
    ) -> Result<Step, Sense> {
        let Command::WriteSame { extent, unmap, anchor, no_data } = task.command else {
            return Ok(Step::Reply(Reply::good(0)));
        };
        self.writable()?;
        let features = self.unit.features();
        if anchor {
            return Err(Sense::cdb_bit(1, 4));
        }
        if unmap && !features.discard {
            return Err(Sense::cdb_bit(1, 3));
        }
        self.in_range(extent)?;
        if extent.blocks == 0 || extent.blocks > self.unit.write_same_blocks_max() {
            return Err(length_field(cdb));
        }
        if !no_data {
            let bytes = self.unit.block_bytes();
            return self.all_data(task, bytes, data_out == bytes);
        }
        self.zeroes(task, extent, unmap).ok_or(Sense::cdb_bit(1, 0))
    }

    /// The block of WRITE SAME is there. Zeroes need not be moved.
    pub(super) fn write_same_data(&self, task: &mut Task, data: &[u8]) -> Step {
        let Command::WriteSame { extent, unmap, .. } = task.command else {
            return Step::Reply(Reply::good(0));
        };
        let block = data.get(..self.unit.block_bytes() as usize).unwrap_or(data);
        let is_zero = !block.is_empty() && block.iter().all(|&byte| byte == 0);
        let quick = if is_zero { self.zeroes(task, extent, unmap) } else { None };
        quick.unwrap_or_else(|| {
            self.repeat(task, UnitRequestKind::WriteRepeated, extent.lba, extent.blocks)
        })
    }

    /// Blocks become zeroes, without data to write, if the device can do so.
    fn zeroes(&self, task: &mut Task, extent: Extent, unmap: bool) -> Option<Step> {
        let features = self.unit.features();
        let kind = match features.write_zeroes {
            true => UnitRequestKind::WriteZeroes { deallocate: unmap },
            false if unmap && features.discard_zeroes => UnitRequestKind::Discard,
            false => return None,
        };
        task.stage = TaskStage::Device;
        Some(self.submit(task, kind, extent, 0, false))
    }
}

/// One block descriptor; an empty one where the list does not have it.
fn range(list: &[u8], index: u16) -> Extent {
    let at = HEADER_BYTES + RANGE_BYTES * usize::from(index);
    match list.get(at..at + RANGE_BYTES) {
        Some(range) => Extent { lba: be64(range, 0), blocks: be32(range, 8) },
        None => Extent::default(),
    }
}
