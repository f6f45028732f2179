//! The private data of the connection manager's messages (NVMe RDMA Transport Specification,
//! "Transport Specific Content"). Numbers are little-endian.
//!
//! A connection manager may pad private data with zeros (InfiniBand's messages have fields of a
//! fixed size), so what is longer than its structure is accepted and what is shorter is not.
//! Reserved bytes are not looked at.

use core::fmt;

use crate::limits::QUEUE_ENTRIES_MAX;
use crate::nvme::types::{Cntlid, Qid};
use crate::nvme::wire::known_codes;

/// The one format (RECFMT).
pub const RECORD_FORMAT: u16 = 0;

/// Why a connection was rejected (STS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RejectStatus(pub u16);

known_codes! {
    RejectStatus {
        1 INVALID_LENGTH "RDMA Invalid Private Data Length";
        2 INVALID_RECFMT "RDMA Invalid RECFMT";
        3 INVALID_QID "RDMA Invalid QID";
        4 INVALID_HSQSIZE "RDMA Invalid HSQSIZE";
        5 INVALID_HRQSIZE "RDMA Invalid HRQSIZE";
        6 NO_RESOURCES "RDMA No Resources";
        7 INVALID_IRD "RDMA Invalid IRD";
        8 INVALID_ORD "RDMA Invalid ORD";
        9 INVALID_CNTLID "RDMA Invalid CNTLID";
    }
}

impl fmt::Display for RejectStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write!(f, "{text} ({:#x})", self.0),
            None => write!(f, "status {:#x}", self.0),
        }
    }
}

/// The host's connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmRequest {
    /// The queue that the connection is for; 0 is the admin queue.
    pub qid: Qid,
    /// Receives that the host keeps posted (HRQSIZE).
    pub receives: u16,
    /// HSQSIZE: entries of the submission queue less one, as SQSIZE of Connect says it.
    pub hsqsize: u16,
    /// Of an I/O queue: the controller that it belongs to (CNTLID). Hosts of before revision 1.1
    /// say 0.
    pub cntlid: Cntlid,
}

/// Resources of a target for connections.
#[derive(Clone, Copy, Debug)]
pub struct CmOffer {
    /// The highest QID of an I/O queue.
    pub io_queues: u16,
    /// Entries of an admin queue, at most.
    pub admin_entries: u16,
    /// Entries of an I/O queue, at most.
    pub io_entries: u16,
}

impl CmRequest {
    /// Bytes on the wire.
    pub const BYTES: usize = 32;

    /// Wire form.
    pub fn encode(&self) -> [u8; 32] {
        words(&[RECORD_FORMAT, self.qid.0, self.receives, self.hsqsize, self.cntlid.0])
    }

    /// Reads a request. The error is what to reject it with.
    pub fn decode(bytes: &[u8]) -> Result<Self, RejectStatus> {
        let bytes = bytes.first_chunk::<32>().ok_or(RejectStatus::INVALID_LENGTH)?;
        match word(bytes, 0) {
            RECORD_FORMAT => Ok(Self {
                qid: Qid(word(bytes, 1)),
                receives: word(bytes, 2),
                hsqsize: word(bytes, 3),
                cntlid: Cntlid(word(bytes, 4)),
            }),
            _ => Err(RejectStatus::INVALID_RECFMT),
        }
    }

    /// Entries of the submission queue: commands that the host may have outstanding, and receives
    /// that the target has to post (CRQSIZE).
    pub const fn entries(&self) -> u16 {
        self.hsqsize.saturating_add(1)
    }

    /// Checks that a target can have the queue. `responder_reads` is how many RDMA READs the host
    /// answers at a time (its IRD). The error is what to reject the request with.
    pub fn check(&self, offer: &CmOffer, responder_reads: u8) -> Result<(), RejectStatus> {
        let entries_max = if self.qid.0 == 0 { offer.admin_entries } else { offer.io_entries };
        if self.qid.0 > offer.io_queues {
            return Err(RejectStatus::INVALID_QID);
        }
        // A queue has at least two entries (Base §3.3.3).
        if self.hsqsize == 0 || self.hsqsize >= entries_max.min(QUEUE_ENTRIES_MAX) {
            return Err(RejectStatus::INVALID_HSQSIZE);
        }
        if self.receives == 0 {
            return Err(RejectStatus::INVALID_HRQSIZE);
        }
        if responder_reads == 0 {
            return Err(RejectStatus::INVALID_IRD);
        }
        Ok(())
    }
}

/// The target's answer to a request that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmAccept {
    /// Receives that the target keeps posted (CRQSIZE).
    pub receives: u16,
}

/// Why an accept cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// It is too short.
    #[error("the controller accepted the connection with private data of {0} bytes instead of 32")]
    Length(usize),
    /// RECFMT.
    #[error(
        "the controller accepted the connection with private data of format {0}, this end knows format 0 only"
    )]
    RecordFormat(u16),
    /// CRQSIZE is 0.
    #[error("the controller accepted the connection without receives for commands (CRQSIZE 0)")]
    NoReceives,
}

impl CmAccept {
    /// Bytes on the wire.
    pub const BYTES: usize = 32;

    /// Wire form.
    pub fn encode(&self) -> [u8; 32] {
        words(&[RECORD_FORMAT, self.receives])
    }

    /// Reads an accept.
    pub fn decode(bytes: &[u8]) -> Result<Self, AcceptError> {
        let chunk = bytes.first_chunk::<32>().ok_or(AcceptError::Length(bytes.len()))?;
        match (word(chunk, 0), word(chunk, 1)) {
            (RECORD_FORMAT, 0) => Err(AcceptError::NoReceives),
            (RECORD_FORMAT, receives) => Ok(Self { receives }),
            (format, _) => Err(AcceptError::RecordFormat(format)),
        }
    }
}

/// The target's answer to a request that it rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Why.
    pub status: RejectStatus,
}

impl Reject {
    /// Bytes on the wire.
    pub const BYTES: usize = 4;

    /// Wire form.
    pub fn encode(&self) -> [u8; 4] {
        words(&[RECORD_FORMAT, self.status.0])
    }

    /// Reads a reject. `None`: it gives no reason that can be read, as when the connection manager
    /// itself rejects because nobody listens: then there is nothing, or zeros.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let chunk = bytes.first_chunk::<4>()?;
        let status = RejectStatus(word(chunk, 1));
        (word(chunk, 0) == RECORD_FORMAT && status.0 != 0).then_some(Self { status })
    }
}

/// A structure of 16 bit numbers and zeros behind them.
fn words<const N: usize>(numbers: &[u16]) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, number) in bytes.chunks_exact_mut(2).zip(numbers) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// The `n`th number of such a structure.
fn word<const N: usize>(bytes: &[u8; N], n: usize) -> u16 {
    u16::from_le_bytes([bytes[2 * n], bytes[2 * n + 1]])
}
