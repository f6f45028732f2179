//! The receiving side of an initiator: PDU by PDU, without the data of reads.
//!
//! The pump receives the data of reads. The data segments of all other PDUs (text, sense data, the
//! header of a rejected PDU) are short and are collected here, each up to a limit; beyond it data
//! is discarded or ends the session.

use super::command::{InitiatorEvent, SENSE_BYTES_MAX};
use super::fault::{SessionFault, Violation};
use super::{Initiator, Phase};
use crate::iscsi::digest::{Digests, crc32c_append};
use crate::iscsi::link::{self, Framed, Tail, frame};
use crate::iscsi::pdu::{BHS_BYTES, Opcode};
use crate::stream::{Rx, Tag};

/// A basic header segment.
pub(super) type Bhs = [u8; BHS_BYTES];

/// Next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveStage {
    Header,
    /// Data that is collected.
    Collect,
    /// Padding and digest of data that was collected.
    CollectTail,
    /// Padding and digest of data that the pump has received.
    Tail,
}

/// Command whose data the pump receives last, and whether status came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arriving {
    pub tag: Tag,
    pub answered: bool,
}

/// The receiver's place in the stream.
pub(super) struct Receiver {
    stage: ReceiveStage,
    pub arriving: Option<Arriving>,
    /// Header of the PDU whose data is collected.
    bhs: Bhs,
    collected: Vec<u8>,
    /// Bytes still to come, and how many of all are kept.
    left: u32,
    keep: usize,
    tail: Tail,
    crc: u32,
}

/// Why a step was not made.
pub(super) enum Halt {
    /// This many bytes are needed.
    More(usize),
    Broken(SessionFault),
}

impl From<SessionFault> for Halt {
    fn from(fault: SessionFault) -> Self {
        Self::Broken(fault)
    }
}

impl From<Violation> for Halt {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation.into())
    }
}

impl From<link::Halt> for Halt {
    fn from(halt: link::Halt) -> Self {
        match halt {
            link::Halt::More(need) => Self::More(need),
            link::Halt::LongHeader => Violation::AdditionalHeader.into(),
            link::Halt::HeaderDigest => Violation::HeaderDigest.into(),
        }
    }
}

/// Bytes used up, and the event.
type Step = (usize, Option<Rx<InitiatorEvent>>);

impl Receiver {
    pub fn new() -> Self {
        Self {
            stage: ReceiveStage::Header,
            arriving: None,
            bhs: [0; BHS_BYTES],
            collected: Vec::new(),
            left: 0,
            keep: 0,
            tail: Tail::of(0, Digests::NONE),
            crc: 0,
        }
    }

    /// Data of a read comes next, for the pump.
    pub fn expect_tail(&mut self, tail: Tail) {
        self.tail = tail;
        self.stage = if tail.is_empty() { ReceiveStage::Header } else { ReceiveStage::Tail };
    }

    /// Bytes behind the payload that was named last.
    pub fn behind_payload(&self) -> Option<usize> {
        match self.stage {
            ReceiveStage::Header => Some(0),
            ReceiveStage::Tail => Some(self.tail.bytes()),
            ReceiveStage::Collect | ReceiveStage::CollectTail => None,
        }
    }

    fn collect(&mut self, bhs: &Bhs, bytes: u32, digests: Digests) {
        self.stage = ReceiveStage::Collect;
        self.bhs = *bhs;
        self.collected.clear();
        self.left = bytes;
        self.keep = keep(Opcode::of(bhs[0]));
        self.tail = Tail::of(bytes, digests);
        self.crc = 0;
    }
}

/// Bytes that are kept of the data of a PDU. Text is bounded by what a PDU may hold.
fn keep(opcode: Opcode) -> usize {
    match opcode {
        Opcode::LOGIN_RESPONSE | Opcode::TEXT_RESPONSE => usize::MAX,
        Opcode::SCSI_RESPONSE | Opcode::ASYNC_MESSAGE => 2 + SENSE_BYTES_MAX,
        Opcode::REJECT => BHS_BYTES,
        _ => 0,
    }
}

impl Initiator {
    #[inline]
    pub(super) fn receive_steps(&mut self, bytes: &[u8]) -> (usize, Rx<InitiatorEvent>) {
        let mut used = 0;
        loop {
            match self.step(&bytes[used..]) {
                Ok((n, None)) => used += n,
                Ok((n, Some(what))) => return (used + n, what),
                Err(Halt::More(need)) => return (used, Rx::More { need }),
                Err(Halt::Broken(fault)) => {
                    self.fail(fault);
                    return (used, Rx::Closed);
                }
            }
        }
    }

    #[inline]
    fn step(&mut self, bytes: &[u8]) -> Result<Step, Halt> {
        match self.receiver.stage {
            _ if self.phase == Phase::Closed => Ok((0, Some(Rx::Closed))),
            ReceiveStage::Header => self.header(bytes),
            ReceiveStage::Collect => self.collect(bytes),
            ReceiveStage::CollectTail => self.collect_tail(bytes),
            ReceiveStage::Tail => self.tail(bytes),
        }
    }

    #[inline]
    fn header(&mut self, bytes: &[u8]) -> Result<Step, Halt> {
        let Framed { bhs, head, bytes: end } = frame(bytes, self.digests())?;
        if head.ahs_bytes != 0 {
            return Err(Violation::AdditionalHeader.into());
        }
        if head.data_bytes > self.receive_limit() {
            return Err(Violation::DataLimit(head.data_bytes).into());
        }
        self.pings.hear();
        if head.opcode == Opcode::DATA_IN && self.phase == Phase::FullFeature {
            let event = self.data_in(bhs, head.data_bytes)?;
            return Ok((end, event));
        }
        if head.data_bytes > 0 {
            let digests = self.digests();
            self.receiver.collect(bhs, head.data_bytes, digests);
            return Ok((end, None));
        }
        let event = self.dispatch(bhs, &[])?;
        Ok((end, event.map(Rx::Event)))
    }

    fn collect(&mut self, bytes: &[u8]) -> Result<Step, Halt> {
        let digests = self.digests();
        let receiver = &mut self.receiver;
        let n = (receiver.left as usize).min(bytes.len());
        if n == 0 {
            return Err(Halt::More(1));
        }
        let (now, room) = (&bytes[..n], receiver.keep.saturating_sub(receiver.collected.len()));
        if digests.data {
            receiver.crc = crc32c_append(receiver.crc, now);
        }
        receiver.collected.extend_from_slice(&now[..n.min(room)]);
        receiver.left -= n as u32;
        if receiver.left == 0 {
            receiver.stage = ReceiveStage::CollectTail;
        }
        Ok((n, None))
    }

    /// Padding and digest, once they are there: their length, and the digest that the data has to
    /// have.
    fn whole_tail(&mut self, bytes: &[u8]) -> Result<(usize, Option<u32>), Halt> {
        let tail = self.receiver.tail;
        if bytes.len() < tail.bytes() {
            return Err(Halt::More(tail.bytes()));
        }
        self.receiver.stage = ReceiveStage::Header;
        Ok((tail.bytes(), tail.expected(bytes)))
    }

    fn collect_tail(&mut self, bytes: &[u8]) -> Result<Step, Halt> {
        let (end, expected) = self.whole_tail(bytes)?;
        if expected.is_some_and(|expected| expected != self.receiver.crc) {
            return Err(Violation::DataDigest.into());
        }
        let (bhs, data) = (self.receiver.bhs, core::mem::take(&mut self.receiver.collected));
        let event = self.dispatch(&bhs, &data);
        self.receiver.collected = data;
        Ok((end, event?.map(Rx::Event)))
    }

    fn tail(&mut self, bytes: &[u8]) -> Result<Step, Halt> {
        let (end, expected) = self.whole_tail(bytes)?;
        Ok((end, expected.map(|expected| Rx::Digest { expected })))
    }

    /// A whole PDU, other than data of a read.
    #[inline]
    fn dispatch(&mut self, bhs: &Bhs, data: &[u8]) -> Result<Option<InitiatorEvent>, SessionFault> {
        match (Opcode::of(bhs[0]), self.phase) {
            (Opcode::SCSI_RESPONSE, Phase::FullFeature) => Ok(self.scsi_response(bhs, data)?),
            (Opcode::R2T, Phase::FullFeature) => Ok(self.r2t(bhs)?),
            (Opcode::LOGIN_RESPONSE, Phase::Login) => self.login_response(bhs, data),
            (Opcode::REJECT, _) => self.reject(bhs, data),
            (opcode, Phase::FullFeature) => self.dispatch_rare(opcode, bhs, data),
            (opcode, _) => Err(Violation::Opcode(opcode.0).into()),
        }
    }
}
