//! Termination of a connection: Terminate Connection Requests of both directions (NVMe TCP 1.1
//! §3.6.2.4 and §3.6.2.5).

use core::fmt;

use super::pdu::{COMMON_BYTES, CommonHeader, PduType, TERM_REQ_BYTES, TERM_REQ_BYTES_MAX};
use crate::nvme::wire::known_codes;

/// FES: why the sender ends the connection. Unknown values are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FatalErrorStatus(pub u16);

known_codes! {
    FatalErrorStatus {
        1 INVALID_HEADER_FIELD "Invalid PDU Header Field";
        2 SEQUENCE_ERROR "PDU Sequence Error";
        3 HEADER_DIGEST_ERROR "Header Digest Error";
        4 OUT_OF_RANGE "Data Transfer Out of Range";
        5 LIMIT_EXCEEDED "Data Transfer Limit Exceeded (by a host) or R2T Limit Exceeded (by a controller)";
        6 UNSUPPORTED_PARAMETER "Unsupported Parameter";
    }
}

impl fmt::Display for FatalErrorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write!(f, "{text} ({:#x})", self.0),
            None => write!(f, "fatal error status {:#x}", self.0),
        }
    }
}

impl fmt::Debug for FatalErrorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reason that a peer gave when it ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termination {
    /// FES.
    pub status: FatalErrorStatus,
    /// FEI: the offset in bytes of the field in error (Invalid PDU Header Field, Unsupported
    /// Parameter), or the digest as it was received (Header Digest Error).
    pub information: u32,
    /// The common header of the PDU that the peer complains of, if it was sent back.
    pub offender: Option<CommonHeader>,
}

impl Termination {
    /// Reads a TermReq's header and its information about the offending PDU.
    pub(super) fn decode(header: &[u8; TERM_REQ_BYTES], offender: &[u8]) -> Self {
        Self {
            status: FatalErrorStatus(u16::from_le_bytes([header[8], header[9]])),
            information: u32::from_le_bytes([header[10], header[11], header[12], header[13]]),
            offender: offender.first_chunk::<COMMON_BYTES>().map(CommonHeader::decode),
        }
    }
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, information {:#x}", self.status, self.information)?;
        match self.offender {
            Some(header) => write!(f, ", about a PDU of type {:#04x}", header.pdu_type.0),
            None => Ok(()),
        }
    }
}

/// Appends a TermReq with FES and FEI to `out`, and with as much of `offender`, the header of the
/// PDU in question, as may be sent back. TermReqs carry no digests.
pub(super) fn encode(
    pdu_type: PduType,
    (status, information): (FatalErrorStatus, u32),
    offender: &[u8],
    out: &mut Vec<u8>,
) {
    let offender = &offender[..offender.len().min(TERM_REQ_BYTES_MAX - TERM_REQ_BYTES)];
    let common = CommonHeader {
        plen: (TERM_REQ_BYTES + offender.len()) as u32,
        ..CommonHeader::plain(pdu_type, TERM_REQ_BYTES)
    };
    out.extend_from_slice(&common.encode());
    out.extend_from_slice(&status.0.to_le_bytes());
    out.extend_from_slice(&information.to_le_bytes());
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(offender);
}
