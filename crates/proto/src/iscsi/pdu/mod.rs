//! The PDUs of iSCSI (RFC 7143 §11), each as a value that is decoded from, and encoded to, its
//! basic header segment.
//!
//! A PDU consists of 48 bytes of basic header segment, additional header segments, a header digest
//! if negotiated, data padded to a multiple of four, and a data digest if negotiated. Additional
//! header segments contain only long CDBs and the length of bidirectional reads, which neither end
//! of weft uses. Decoding checks nothing and ignores reserved bits; the engines check the values of
//! fields.

mod command;
mod data;
mod login;
mod other;
mod task;
mod text;
mod wire;

pub use command::{
    CommandFlags, ResponseFlags, ScsiCommand, ScsiResponse, ScsiResponseCode, TaskAttribute,
};
pub use data::{DataIn, DataInFlags, DataOut, DataOutFlags, R2t};
pub use login::{Isid, LoginFlags, LoginRequest, LoginResponse, LoginStatus, Stage};
pub use other::{
    AsyncEvent, AsyncMessage, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, NopIn,
    NopOut, Reject,
};
pub use other::{RejectReason, Snack};
pub use task::{TaskFunction, TaskRequest, TaskResponse, TaskResult};
pub use text::{TextFlags, TextRequest, TextResponse};

/// Bytes of a basic header segment.
pub const BHS_BYTES: usize = 48;

/// Data in one PDU, at most, in bytes: what its 24-bit length can say (§13.12).
pub const DATA_BYTES_MAX: u32 = (1 << 24) - 1;

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
        let word = if number < 256 { number } else { number & 0x3fff | 0x4000 };
        Self((word as u64) << 48)
    }

    /// The number of a single-level LUN on bus 0; `None`: of another form, which names nothing
    /// here.
    #[inline]
    pub const fn number(self) -> Option<u16> {
        let word = (self.0 >> 48) as u16;
        match (word >> 14, self.0 << 16) {
            (0, 0) if word < 256 => Some(word),
            (1, 0) => Some(word & 0x3fff),
            _ => None,
        }
    }
}

/// What the header of every PDU says: what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind.
    pub opcode: Opcode,
    /// I bit of a request.
    pub immediate: bool,
    /// F bit (T in login PDUs).
    pub last: bool,
    /// Bytes of additional header segments, a multiple of 4.
    pub ahs_bytes: usize,
    /// Bytes of data, without padding.
    pub data_bytes: u32,
    /// Initiator Task Tag.
    pub task: TaskTag,
}

impl Head {
    /// Reads it.
    #[inline]
    pub fn decode(bhs: &[u8; BHS_BYTES]) -> Self {
        Self {
            opcode: Opcode::of(bhs[0]),
            immediate: bhs[0] & wire::IMMEDIATE != 0,
            last: bhs[1] & 0x80 != 0,
            ahs_bytes: usize::from(bhs[4]) * 4,
            data_bytes: u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]),
            task: wire::Field::read(&bhs[16..]),
        }
    }
}

/// Bytes of padding behind `data_bytes` of data.
#[inline]
pub const fn padding(data_bytes: u32) -> usize {
    data_bytes.wrapping_neg() as usize & 3
}

#[cfg(test)]
mod tests;
