//! Common parts of the basic header segments of several PDUs (RFC 7143 §11.2.1).

use crate::scsi::lun::lun_of;

/// Bytes of a basic header segment.
pub const BHS_BYTES: usize = 48;

/// The kind of a PDU (§11.2.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

impl Opcode {
    /// Initiator: ping, or the answer to one.
    pub const NOP_OUT: Self = Self(0x00);
    /// Initiator: SCSI command.
    pub const SCSI_COMMAND: Self = Self(0x01);
    /// Initiator: task management function request.
    pub const TASK_REQUEST: Self = Self(0x02);
    /// Initiator: login.
    pub const LOGIN_REQUEST: Self = Self(0x03);
    /// Initiator: text.
    pub const TEXT_REQUEST: Self = Self(0x04);
    /// Initiator: data of a write.
    pub const DATA_OUT: Self = Self(0x05);
    /// Initiator: logout.
    pub const LOGOUT_REQUEST: Self = Self(0x06);
    /// Initiator: asks for PDUs again.
    pub const SNACK: Self = Self(0x10);
    /// Target: ping, or the answer to one.
    pub const NOP_IN: Self = Self(0x20);
    /// Target: the end of a command.
    pub const SCSI_RESPONSE: Self = Self(0x21);
    /// Target: the end of a task management function.
    pub const TASK_RESPONSE: Self = Self(0x22);
    /// Target: login.
    pub const LOGIN_RESPONSE: Self = Self(0x23);
    /// Target: text.
    pub const TEXT_RESPONSE: Self = Self(0x24);
    /// Target: data of a read.
    pub const DATA_IN: Self = Self(0x25);
    /// Target: the end of a logout.
    pub const LOGOUT_RESPONSE: Self = Self(0x26);
    /// Target: asks for data of a write.
    pub const R2T: Self = Self(0x31);
    /// Target: something happened.
    pub const ASYNC_MESSAGE: Self = Self(0x32);
    /// Target: a PDU was refused.
    pub const REJECT: Self = Self(0x3f);

    /// Of the first byte of a PDU.
    #[inline]
    pub const fn of(byte: u8) -> Self {
        Self(byte & 0x3f)
    }
}

/// A task tag: Initiator Task Tag or Target Transfer Tag, which each end chooses freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskTag(pub u32);

impl TaskTag {
    /// No task, or no transfer.
    pub const NONE: Self = Self(u32::MAX);
}

impl Default for TaskTag {
    fn default() -> Self {
        Self::NONE
    }
}

/// A logical unit number: eight bytes as SAM writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lun(pub u64);

impl Lun {
    /// The LUN of a single level with this number, below 16,384: by peripheral device addressing up
    /// to 255, flat above (SAM-5 §4.7.7).
    pub const fn single_level(number: u16) -> Self {
        Self(lun_of(number as usize))
    }
}
