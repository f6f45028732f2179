//! Reasons for the end of a session.

use crate::iscsi::pdu::{LoginStatus, LogoutResult, RejectReason};
use crate::iscsi::text::{NegotiationError, TextError};

/// A rule of iSCSI that the target broke, one variant each. At recovery level 0 each of them ends
/// the session (RFC 7143 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// An opcode that targets do not send, or not in this phase.
    #[error("it sent a PDU of opcode {0:#04x}, which is not expected now")]
    Opcode(u8),
    /// Additional header segments, which no PDU of a target has.
    #[error("it sent a PDU with additional header segments")]
    AdditionalHeader,
    /// More data in a PDU than MaxRecvDataSegmentLength.
    #[error("it sent a PDU with {0} bytes of data, more than negotiated")]
    DataLimit(u32),
    /// The header digest is wrong.
    #[error("the digest of a PDU header is wrong: data was damaged in transit")]
    HeaderDigest,
    /// The digest of data that does not belong to a read is wrong.
    #[error("the digest of a PDU's data is wrong: data was damaged in transit")]
    DataDigest,
    /// A response, data or R2T for no task that is outstanding.
    #[error("it answered a task that is not outstanding")]
    Task,
    /// Data-In for a command that does not read, or an R2T for one that does not write.
    #[error("it transferred data of a command that has none in this direction")]
    Direction,
    /// DataSN or R2TSN is not the next one.
    #[error("a data PDU or R2T is missing or out of order")]
    Sequence,
    /// Data-In or R2T does not continue where the one before ended.
    #[error("it sent or asked for data out of order")]
    Offset,
    /// Data-In or R2T outside of the command's data.
    #[error("it sent or asked for more data than the command has")]
    Range,
    /// An R2T of no bytes.
    #[error("it asked for no data by an R2T")]
    Burst,
    /// An R2T that starts within a word, while data digests are in use: its padding would not be
    /// ours to send.
    #[error(
        "it requested data at an offset that is not a multiple of four, which weft does not support with data digests"
    )]
    Alignment,
    /// More R2Ts outstanding than MaxOutstandingR2T.
    #[error("it sent more than the {0} negotiated R2Ts")]
    Outstanding(u8),
    /// More pings than can be waiting for an answer.
    #[error("it sent too many pings without waiting for the answers")]
    Pings,
    /// Text that is not `key=value`, or that is too long.
    #[error("{0}")]
    Text(#[from] TextError),
    /// Values of CHAP that are missing or malformed.
    #[error("its part of CHAP is missing or malformed")]
    Chap,
    /// A Login Response that does not continue the login.
    #[error("its login response does not match the request")]
    Login,
    /// It negotiates without end.
    #[error("it did not end the negotiation")]
    Endless,
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionFault {
    /// The target violated the protocol.
    #[error("the target violated the protocol: {0}")]
    Violation(#[from] Violation),
    /// The target refused the login.
    #[error("the target refused the login: {} (status {:#06x})", .0.text(), .0.0)]
    Refused(LoginStatus),
    /// The target is elsewhere.
    #[error("the target has moved to {address}")]
    Moved {
        /// `HOST[:PORT]`, without the portal group.
        address: String,
    },
    /// The target wants to know who we are, but no secret is configured for it; or it does not
    /// offer CHAP, which we insist on.
    #[error("the two ends have no authentication method in common")]
    Method,
    /// The target did not choose one of the algorithms of CHAP, by the value of `CHAP_A`. Some
    /// targets read one number, where the standard has a list.
    #[error("the target refused CHAP_A={offered}{}", with_status(.status))]
    Algorithms {
        /// The offer.
        offered: String,
        /// Status with which the target ended the login, if it did.
        status: Option<LoginStatus>,
    },
    /// The target could not prove that it is who it says: mutual CHAP failed.
    #[error("the target failed to authenticate itself by CHAP")]
    Impostor,
    /// A parameter cannot be agreed on.
    #[error("the two ends cannot agree: {0}")]
    Negotiation(#[from] NegotiationError),
    /// A digest that this end insists on was not granted, whatever the target answered, or did not,
    /// when it was asked for it.
    #[error("the target does not agree to {0}, which is required")]
    NoDigest(&'static str),
    /// A PDU of the login, a text request, a ping or a logout was rejected.
    #[error("the target rejected a request (reason {:#04x})", .0.0)]
    Rejected(RejectReason),
    /// The target does not answer pings.
    #[error("the target stopped answering")]
    Silent,
    /// A command hangs, and can neither be aborted nor its logical unit reset.
    #[error("a command hangs, and the target does not abort it")]
    Stuck,
    /// The target ended the session by an asynchronous message.
    #[error("the target ended the session")]
    Dropped,
    /// The session was logged out, on the target's or the user's wish.
    #[error("the session was logged out")]
    LoggedOut,
    /// The target did not take the logout.
    #[error("the target refused the logout (response {})", .0.0)]
    Logout(LogoutResult),
}

fn with_status(status: &Option<LoginStatus>) -> String {
    status.map_or_else(String::new, |status| {
        format!(": {} (status {:#06x})", status.text(), status.0)
    })
}
