//! Completion queue entry (Base §3.3.3.2).

use super::status::Status;
use super::types::{Cid, Qid};

/// A completion, 16 bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cqe {
    /// Dwords 0 and 1: command specific (for Connect the controller identifier, for Property Get up
    /// to eight bytes of value).
    pub result: u64,
    /// Submission queue head pointer.
    pub sq_head: u16,
    /// Submission queue identifier (reserved on message transports).
    pub sq_id: Qid,
    /// Of the command that this completes.
    pub cid: Cid,
    /// Outcome.
    pub status: Status,
    /// Do Not Retry: the same command will fail again.
    pub do_not_retry: bool,
    /// More: the Error Information log page has an entry about the command.
    pub more: bool,
}

impl Cqe {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// A completion of `cid` without a result.
    #[inline]
    pub fn new(cid: Cid, status: Status) -> Self {
        Self { result: 0, sq_head: 0, sq_id: Qid(0), cid, status, do_not_retry: false, more: false }
    }

    /// The same with Do Not Retry.
    pub fn refuse(cid: Cid, status: Status) -> Self {
        Self { do_not_retry: true, ..Self::new(cid, status) }
    }

    /// Wire form.
    #[inline]
    pub fn encode(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out[0..8].copy_from_slice(&self.result.to_le_bytes());
        out[8..10].copy_from_slice(&self.sq_head.to_le_bytes());
        out[10..12].copy_from_slice(&self.sq_id.0.to_le_bytes());
        out[12..14].copy_from_slice(&self.cid.0.to_le_bytes());
        let field = if self.status.is_success() { 0 } else { self.field() };
        out[14..16].copy_from_slice(&(field << 1).to_le_bytes());
        out
    }

    /// The status field without phase tag.
    #[cold]
    pub fn field(&self) -> u16 {
        let bit = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
        self.status.0 & 0x7ff | bit(self.do_not_retry, Status::DNR) | bit(self.more, Status::MORE)
    }

    /// Reads the wire form; the phase tag, the retry delay, and the bits next to the status of a
    /// success, which have no meaning, are ignored.
    #[inline]
    pub fn decode(bytes: &[u8; 16]) -> Self {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let field = half(14) >> 1;
        let mut result = [0; 8];
        result.copy_from_slice(&bytes[..8]);
        let mut cqe = Self {
            result: u64::from_le_bytes(result),
            sq_head: half(8),
            sq_id: Qid(half(10)),
            cid: Cid(half(12)),
            status: Status(field & 0x7ff),
            do_not_retry: false,
            more: false,
        };
        if !cqe.status.is_success() {
            cqe.set_bits(field);
        }
        cqe
    }

    #[cold]
    fn set_bits(&mut self, field: u16) {
        self.do_not_retry = field & Status::DNR != 0;
        self.more = field & Status::MORE != 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_written_the_same_way() {
        for field in [0, Status::DNR, Status::MORE, 2, 2 | Status::DNR, 2 | Status::MORE] {
            let mut bytes = [0xff; 16];
            bytes[14..].copy_from_slice(&(field << 1).to_le_bytes());
            let cqe = Cqe::decode(&bytes);
            assert_eq!(Cqe::decode(&cqe.encode()), cqe, "{field:#x}");
            assert_eq!(cqe.do_not_retry, field == 2 | Status::DNR);
        }
    }
}
