//! A command in progress, and the next step for its owner.

use crate::scsi::cdb::Command;
use crate::scsi::sense::{SENSE_BYTES_MAX, Sense};
use crate::scsi::status::ScsiStatus;

/// Operation for a device. Data is in the memory of the command, from its first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitRequestKind {
    /// Blocks to memory, which the initiator gets.
    Read,
    /// Read blocks into memory only to check that they are readable. The content of the memory is
    /// no longer needed.
    Verify,
    /// Blocks from memory.
    Write,
    /// Each block becomes a copy of the one block in memory, which the owner repeats as often as
    /// needed; the first copy has to be there still when the next request of the command comes.
    WriteRepeated,
    /// Blocks are compared with memory.
    Compare,
    /// Each block is compared with the one block in memory, which the owner repeats as for
    /// [`Self::WriteRepeated`].
    CompareRepeated,
    /// Atomically: blocks are compared with the first half of memory and, where they are equal, the
    /// second half is written.
    CompareAndWrite,
    /// Everything that was written becomes durable.
    Flush,
    /// Blocks become zeroes.
    WriteZeroes {
        /// Space may be given back; the blocks read as zeroes either way.
        deallocate: bool,
    },
    /// The content of blocks is no longer needed.
    Discard,
}

/// One operation on the device behind a logical unit. The answer is [`super::Nexus::finished`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitRequest {
    /// The logical unit, as the number under which the target has it.
    pub unit: usize,
    /// The operation.
    pub kind: UnitRequestKind,
    /// First block.
    pub lba: u64,
    /// Blocks, more than zero; 0 for a flush.
    pub blocks: u32,
    /// Bytes of memory that the device reads or fills, after repeating; 0 where there is no data.
    pub bytes: u32,
    /// Done only when durable.
    pub fua: bool,
}

/// Outcome of a request at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceOutcome {
    /// It is done.
    Done,
    /// It is not: status and sense data as the initiator gets them; sense data comes with CHECK
    /// CONDITION, and only then.
    Failed(ScsiStatus, Option<Sense>),
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status.
    pub status: ScsiStatus,
    /// Why, with CHECK CONDITION.
    pub sense: Option<Sense>,
    /// The sense data goes in the descriptor format (D_SENSE of the control mode page).
    pub descriptor_sense: bool,
    /// Bytes from the front of the command's memory that the initiator gets, as far as it expects
    /// as many.
    pub data_in_bytes: u32,
    /// Bytes that the command moves, in either direction: what they differ from the initiator's
    /// expectation is the residual.
    pub transfer_bytes: u32,
}

impl Reply {
    /// GOOD, when `transfer_bytes` bytes have been moved.
    pub(super) const fn good(transfer_bytes: u32) -> Self {
        Self {
            status: ScsiStatus::GOOD,
            sense: None,
            descriptor_sense: false,
            data_in_bytes: 0,
            transfer_bytes,
        }
    }

    /// Writes the sense data in the format that the initiator chose and returns its length; 0 where
    /// there is none.
    pub fn put_sense(&self, out: &mut [u8; SENSE_BYTES_MAX]) -> usize {
        match self.sense {
            Some(sense) if self.descriptor_sense => sense.put_descriptor(out),
            Some(sense) => sense.put_fixed(out),
            None => 0,
        }
    }
}

/// Next action of the owner of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bring in the first `bytes` bytes of the initiator's data, then call [`super::Nexus::data`].
    /// It expects to send at least as many.
    Fetch {
        /// Bytes, more than zero.
        bytes: u32,
    },
    /// Give the command `bytes` bytes of memory, then call [`super::Nexus::respond`] with it.
    Respond {
        /// Bytes, more than zero and at most [`crate::limits::SCSI_RESPONSE_BYTES_MAX`].
        bytes: u32,
    },
    /// Hand the request to the device, then call [`super::Nexus::finished`].
    Submit(UnitRequest),
    /// Execute the operation that [`super::Nexus::take_operation`] gives, on the reservations of
    /// the logical unit, or without one only have their state put in force everywhere; then call
    /// [`super::Nexus::reserved`].
    Reserve,
    /// Answer the command.
    Reply(Reply),
}

/// Stage of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskStage {
    /// There is no command.
    Idle,
    /// Its data is brought in.
    Fetching,
    /// It waits for memory to answer in.
    Responding,
    /// The device has a request of it.
    Device,
    /// The reservations are being changed, or what they are is made certain.
    Reserving,
}

/// Step after the device is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The reply.
    Reply,
    /// The blocks that were written are verified.
    Verify,
    /// The same with the next `left` blocks from `lba` on.
    Again { kind: UnitRequestKind, lba: u64, left: u32 },
    /// The next range of UNMAP.
    Range { next: u16, count: u16 },
}

/// One command of an initiator: what its owner keeps for it from [`super::Nexus::start`] to the
/// reply.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub(super) unit: u16,
    /// Version of the logical unit under this number.
    pub(super) stamp: u32,
    pub(super) stage: TaskStage,
    pub(super) then: Then,
    pub(super) command: Command,
    /// Bytes that the command moves.
    pub(super) transfer_bytes: u32,
}

impl Task {
    /// A place for a command.
    pub const fn new() -> Self {
        Self {
            unit: 0,
            stamp: 0,
            stage: TaskStage::Idle,
            then: Then::Reply,
            command: Command::TestUnitReady,
            transfer_bytes: 0,
        }
    }

    /// The logical unit that has the command, as the number under which the target has it. Of no
    /// meaning before [`super::Nexus::start`] and for a command to a logical unit that is not
    /// there.
    pub const fn unit(&self) -> usize {
        self.unit as usize
    }

    /// First block and number of blocks that a plain WRITE goes to, once it has asked for its data.
    #[inline]
    pub(super) const fn destination(&self) -> Option<(u64, u32)> {
        match (self.stage, self.command) {
            (TaskStage::Fetching, Command::Write { extent, .. }) => {
                Some((extent.lba, extent.blocks))
            }
            _ => None,
        }
    }
}

impl Default for Task {
    fn default() -> Self {
        Self::new()
    }
}
