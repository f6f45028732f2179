//! The PDUs of iSCSI (RFC 7143 §11), each as a value that is decoded from, and encoded to, its
//! basic header segment.
//!
//! A PDU consists of 48 bytes of basic header segment, additional header segments, a header digest
//! if negotiated, data padded to a multiple of four, and a data digest if negotiated. Additional
//! header segments contain only long CDBs and the length of bidirectional reads, which neither end
//! of weft uses. Decoding checks nothing and ignores reserved bits; the engines check the values of
//! fields.

mod basic_header;
mod command;
mod data;
mod login;
mod session;
mod task;
mod text;
mod wire;

pub use basic_header::{BHS_BYTES, Lun, Opcode, TaskTag};
pub use command::{
    CommandFlags, ResponseFlags, ScsiCommand, ScsiResponse, ScsiResponseCode, TaskAttribute,
};
pub use data::{DataIn, DataInFlags, DataOut, DataOutFlags, R2t};
pub use login::{Isid, LoginFlags, LoginRequest, LoginResponse, LoginStage, LoginStatus};
pub use session::{
    AsyncEvent, AsyncMessage, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, NopIn,
    NopOut, Reject, RejectReason, Snack,
};
pub use task::{TaskFunction, TaskRequest, TaskResponse, TaskResult};
pub use text::{TextFlags, TextRequest, TextResponse};

/// Information in the header of every PDU about the bytes that follow it.
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
