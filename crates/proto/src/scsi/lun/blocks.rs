//! Commands on blocks: checks, and conversion to requests.

use super::task::{Reply, Step, Task, TaskStage, Then, UnitRequest, UnitRequestKind};
use super::unit::{LogicalUnit, View};
use crate::scsi::cdb::{ByteCheck, CDB_BYTES, Command, Extent};
use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense, SenseKey};

/// A logical unit in the state in which a command finds it.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    pub unit: &'a LogicalUnit,
    pub view: &'a View,
}

const GOOD: Reply = Reply::good(0);

impl Blocks<'_> {
    #[inline]
    pub fn read(&self, task: &mut Task, cdb: &[u8; CDB_BYTES]) -> Result<Step, Sense> {
        let Command::Read { extent, fua, .. } = task.command else { return Ok(Step::Reply(GOOD)) };
        let bytes = self.transfer(extent, cdb)?;
        task.transfer_bytes = bytes;
        Ok(self.submit(task, UnitRequestKind::Read, extent, bytes, fua))
    }

    #[inline]
    pub fn write(
        &self,
        task: &mut Task,
        cdb: &[u8; CDB_BYTES],
        data_out: u32,
    ) -> Result<Step, Sense> {
        let Command::Write { extent, dpo, fua } = task.command else {
            return Ok(Step::Reply(GOOD));
        };
        self.writable()?;
        let (extent, step) = self.data_of_blocks(task, extent, cdb, data_out)?;
        task.command = Command::Write { extent, dpo, fua };
        Ok(step)
    }

    /// The first step of a command on blocks other than READ and WRITE; `None` if it is no such
    /// command.
    pub fn start(
        &self,
        task: &mut Task,
        cdb: &[u8; CDB_BYTES],
        data_out: u32,
    ) -> Option<Result<Step, Sense>> {
        match task.command {
            Command::WriteAndVerify { extent, dpo, check } => {
                Some(self.write_and_verify(task, cdb, (extent, dpo, check), data_out))
            }
            Command::Verify { extent, check, .. } => {
                Some(self.verify(task, cdb, extent, check, data_out))
            }
            Command::CompareAndWrite { extent, .. } => {
                Some(self.compare_and_write(task, extent, data_out))
            }
            Command::SynchronizeCache { extent, .. } => Some(self.synchronize(task, extent)),
            Command::PreFetch { extent, .. } => {
                Some(self.in_range(extent).map(|()| Step::Reply(GOOD)))
            }
            Command::Unmap { anchor, parameters } => {
                Some(self.unmap(task, anchor, parameters, data_out))
            }
            Command::WriteSame { .. } => Some(self.write_same(task, cdb, data_out)),
            _ => None,
        }
    }

    /// The data of a command is there.
    #[inline]
    pub fn data(&self, task: &mut Task, data: &[u8]) -> Result<Step, Sense> {
        let bytes = |extent: Extent| extent.blocks * self.unit.block_bytes();
        Ok(match task.command {
            Command::Write { extent, fua, .. } => {
                self.submit(task, UnitRequestKind::Write, extent, bytes(extent), fua)
            }
            Command::WriteAndVerify { extent, .. } => {
                let step = self.submit(task, UnitRequestKind::Write, extent, bytes(extent), true);
                task.then = Then::Verify;
                step
            }
            Command::Verify { extent, check: ByteCheck::OneBlock, .. } => {
                self.repeat(task, UnitRequestKind::CompareRepeated, extent.lba, extent.blocks)
            }
            Command::Verify { extent, .. } => {
                self.submit(task, UnitRequestKind::Compare, extent, bytes(extent), false)
            }
            Command::CompareAndWrite { extent, fua, .. } => {
                self.submit(task, UnitRequestKind::CompareAndWrite, extent, 2 * bytes(extent), fua)
            }
            Command::Unmap { .. } => return self.unmap_ranges(task, data),
            Command::WriteSame { .. } => {
                return Ok(self.write_same_data(task, data));
            }
            _ => Step::Reply(GOOD),
        })
    }

    /// The device did what it was asked to.
    #[inline]
    pub fn finished(&self, task: &mut Task, data: &[u8]) -> Result<Step, Sense> {
        let then = task.then;
        task.then = Then::Reply;
        match then {
            Then::Reply => Ok(Step::Reply(self.done(task))),
            Then::Verify => Ok(self.verify_written(task)),
            Then::Again { kind, lba, left } => Ok(self.repeat(task, kind, lba, left)),
            Then::Range { next, count } => Ok(self.next_range(task, data, next, count)),
        }
    }

    #[inline]
    fn done(&self, task: &Task) -> Reply {
        let is_read = matches!(task.command, Command::Read { .. });
        Reply {
            data_in_bytes: if is_read { task.transfer_bytes } else { 0 },
            ..Reply::good(task.transfer_bytes)
        }
    }

    /// WRITE AND VERIFY: each block as it was written is compared with the data, or only looked at.
    fn verify_written(&self, task: &mut Task) -> Step {
        match task.command {
            Command::WriteAndVerify { extent, check: ByteCheck::Blocks, .. } => self.submit(
                task,
                UnitRequestKind::Compare,
                extent,
                extent.blocks * self.unit.block_bytes(),
                false,
            ),
            Command::WriteAndVerify { extent, .. } => {
                self.repeat(task, UnitRequestKind::Verify, extent.lba, extent.blocks)
            }
            _ => Step::Reply(self.done(task)),
        }
    }

    fn write_and_verify(
        &self,
        task: &mut Task,
        cdb: &[u8; CDB_BYTES],
        (extent, dpo, check): (Extent, bool, ByteCheck),
        data_out: u32,
    ) -> Result<Step, Sense> {
        self.writable()?;
        self.can_compare(check)?;
        let (extent, step) = self.data_of_blocks(task, extent, cdb, data_out)?;
        task.command = Command::WriteAndVerify { extent, dpo, check };
        Ok(step)
    }

    fn verify(
        &self,
        task: &mut Task,
        cdb: &[u8; CDB_BYTES],
        extent: Extent,
        check: ByteCheck,
        data_out: u32,
    ) -> Result<Step, Sense> {
        self.can_compare(check)?;
        self.in_range(extent)?;
        let bytes = match check {
            _ if extent.blocks == 0 => return Ok(Step::Reply(GOOD)),
            ByteCheck::Medium => {
                return Ok(self.repeat(task, UnitRequestKind::Verify, extent.lba, extent.blocks));
            }
            ByteCheck::Blocks => self.transfer(extent, cdb)?,
            ByteCheck::OneBlock => self.unit.block_bytes(),
        };
        self.all_data(task, bytes, data_out >= bytes)
    }

    fn compare_and_write(
        &self,
        task: &mut Task,
        extent: Extent,
        data_out: u32,
    ) -> Result<Step, Sense> {
        self.writable()?;
        self.in_range(extent)?;
        // A count of zero with data is one that did not fit into its byte.
        if extent.blocks > u32::from(self.compare_blocks_max())
            || extent.blocks == 0 && data_out > 0
        {
            return Err(Sense::cdb_byte(13));
        }
        let bytes = 2 * extent.blocks * self.unit.block_bytes();
        self.all_data(task, bytes, data_out == bytes)
    }

    /// Longest COMPARE AND WRITE, in blocks: its two halves are one transfer.
    pub fn compare_blocks_max(&self) -> u8 {
        compare_blocks_max(self.unit)
    }

    /// SYNCHRONIZE CACHE (SBC-3 §5.29). IMMED allows an early answer and does not demand it.
    fn synchronize(&self, task: &mut Task, extent: Extent) -> Result<Step, Sense> {
        self.in_range(extent)?;
        if !self.unit.features().volatile_cache {
            return Ok(Step::Reply(GOOD));
        }
        task.stage = TaskStage::Device;
        Ok(Step::Submit(UnitRequest {
            unit: task.unit(),
            kind: UnitRequestKind::Flush,
            lba: 0,
            blocks: 0,
            bytes: 0,
            fua: false,
        }))
    }

    /// Asks for the data of the blocks. An initiator that announces less than its CDB says gets
    /// whole blocks written as far as its data goes (SAM-5 §5.4.4 leaves it open; the transport
    /// tells the residual).
    #[inline]
    fn data_of_blocks(
        &self,
        task: &mut Task,
        extent: Extent,
        cdb: &[u8; CDB_BYTES],
        data_out: u32,
    ) -> Result<(Extent, Step), Sense> {
        let bytes = self.transfer(extent, cdb)?;
        task.transfer_bytes = bytes;
        let fetched = bytes.min(data_out);
        if !fetched.is_multiple_of(self.unit.block_bytes()) {
            return Err(Sense::illegal(AdditionalSense::INVALID_FIELD_IN_COMMAND_UNIT));
        }
        if fetched == 0 {
            return Ok((extent, Step::Reply(Reply::good(bytes))));
        }
        task.stage = TaskStage::Fetching;
        Ok((
            Extent { blocks: fetched / self.unit.block_bytes(), ..extent },
            Step::Fetch { bytes: fetched },
        ))
    }

    /// Asks for data that is of use only as a whole.
    pub fn all_data(&self, task: &mut Task, bytes: u32, is_right: bool) -> Result<Step, Sense> {
        task.transfer_bytes = bytes;
        match bytes {
            _ if !is_right => Err(Sense::illegal(AdditionalSense::INVALID_FIELD_IN_COMMAND_UNIT)),
            0 => Ok(Step::Reply(Reply::good(0))),
            bytes => {
                task.stage = TaskStage::Fetching;
                Ok(Step::Fetch { bytes })
            }
        }
    }

    /// One request for all blocks of a command; none for none.
    #[inline]
    pub fn submit(
        &self,
        task: &mut Task,
        kind: UnitRequestKind,
        Extent { lba, blocks }: Extent,
        bytes: u32,
        fua: bool,
    ) -> Step {
        if blocks == 0 {
            return Step::Reply(GOOD);
        }
        task.stage = TaskStage::Device;
        task.then = Then::Reply;
        Step::Submit(UnitRequest { unit: task.unit(), kind, lba, blocks, bytes, fua })
    }

    /// A request for as many of the blocks as one step takes, and what is left for the next.
    pub fn repeat(&self, task: &mut Task, kind: UnitRequestKind, lba: u64, left: u32) -> Step {
        let blocks = left.min(self.unit.step_blocks());
        let step = self.submit(
            task,
            kind,
            Extent { lba, blocks },
            blocks * self.unit.block_bytes(),
            false,
        );
        if left > blocks {
            task.then = Then::Again { kind, lba: lba + u64::from(blocks), left: left - blocks };
        }
        step
    }

    /// Bytes of blocks that are there and not too many.
    #[inline]
    fn transfer(&self, extent: Extent, cdb: &[u8; CDB_BYTES]) -> Result<u32, Sense> {
        self.in_range(extent)?;
        match extent.blocks <= self.unit.transfer_blocks_max() {
            true => Ok(extent.blocks * self.unit.block_bytes()),
            false => Err(length_field(cdb)),
        }
    }

    /// Checks that the blocks exist; the information is the first one that does not.
    #[inline]
    pub fn in_range(&self, Extent { lba, blocks }: Extent) -> Result<(), Sense> {
        match self.view.blocks.checked_sub(lba) {
            Some(behind) if u64::from(blocks) <= behind => Ok(()),
            _ => Err(self.beyond(lba)),
        }
    }

    #[cold]
    fn beyond(&self, lba: u64) -> Sense {
        Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE)
            .with_information(lba.max(self.view.blocks))
    }

    #[inline]
    pub fn writable(&self) -> Result<(), Sense> {
        match (self.unit.features().write, self.view.mode.write_protect) {
            (true, false) => Ok(()),
            (true, true) => {
                Err(Sense::new(SenseKey::DATA_PROTECT, AdditionalSense::SOFTWARE_WRITE_PROTECTED))
            }
            (false, _) => Err(Sense::new(SenseKey::DATA_PROTECT, AdditionalSense::WRITE_PROTECTED)),
        }
    }

    fn can_compare(&self, check: ByteCheck) -> Result<(), Sense> {
        match check == ByteCheck::Medium || self.unit.features().compare {
            true => Ok(()),
            false => Err(Sense::cdb_bit(1, 2)),
        }
    }
}

/// Longest COMPARE AND WRITE of a logical unit, in blocks (SBC-4: MAXIMUM COMPARE AND WRITE
/// LENGTH). 0: there is none.
pub(super) fn compare_blocks_max(unit: &LogicalUnit) -> u8 {
    let transferred = unit.operation_blocks_max().min(unit.transfer_blocks_max()) / 2;
    match unit.features().compare {
        true => unit.compare_and_write_blocks().min(transferred).min(u8::MAX.into()) as u8,
        false => 0,
    }
}

/// INVALID FIELD IN CDB for the transfer length.
#[cold]
pub(super) fn length_field(cdb: &[u8; CDB_BYTES]) -> Sense {
    Sense::cdb_byte(match cdb[0] >> 5 {
        0 => 4,
        1 | 2 => 7,
        5 => 6,
        _ => 10,
    })
}
