//! Violations of iSCSI that end a connection. At error recovery level 0 the initiator then starts a
//! new session.

use crate::iscsi::pdu::LoginStatus;
use crate::iscsi::text::TextError;

/// Why this end closed the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Something else than a Login Request came before the login was over.
    #[error("the initiator sent a PDU of opcode {0:#04x} during login")]
    NotLoggedIn(u8),
    /// A login step that is out of order; the login was refused.
    #[error("the initiator violated the login protocol: {0}")]
    Login(&'static str),
    /// Login was refused with this status.
    #[error("the login was refused: {}", .0.text())]
    LoginRefused(LoginStatus),
    /// More additional header segments than are skipped.
    #[error("a PDU has more additional header segments than are supported")]
    LongHeader,
    /// A header digest was wrong.
    #[error("the header digest is wrong: data was damaged in transit")]
    HeaderDigest,
    /// A data segment is longer than this end declared (MaxRecvDataSegmentLength), or than login
    /// allows.
    #[error("a PDU has {0} bytes of data, more than declared")]
    DataSegmentLength(u32),
    /// Text that breaks its form.
    #[error("{0}")]
    Text(#[from] TextError),
    /// A command ahead of those that have to come before it, although connections deliver in order.
    #[error("the initiator skipped a command sequence number")]
    CommandGap,
    /// More unanswered requests than the command window and the room for immediate ones allow.
    #[error("the initiator sends requests but does not receive the responses")]
    Flood,
    /// Immediate data, although it was ruled out.
    #[error("the initiator sent immediate data, which was not negotiated")]
    ImmediateData,
    /// Unsolicited data beyond FirstBurstLength or the command's expected data.
    #[error("the initiator sent more unsolicited data than negotiated")]
    UnsolicitedData,
    /// Data-Out out of order, outside of what was requested, or ended too early.
    #[error("the initiator sent data out of order, or data that was not requested")]
    DataOrder,
    /// Login was not over in time.
    #[error("not logged in within {} s", .0.as_secs_f32())]
    LoginLate(core::time::Duration),
    /// Nothing came for long, and no answer to a ping either.
    #[error("the initiator does not answer")]
    Silent,
}
