//! The receiving side of a host.

use super::receive_stage::{Arriving, ReceiveStage};
use super::slot::{CommandSlot, CommandState, Direction, R2t};
use super::{HostConnection, TcpHostEvent};
use crate::nvme::cqe::Cqe;
use crate::nvme::deviation::Deviation;
use crate::nvme::opcode::NvmOpcode;
use crate::nvme::status::Status;
use crate::nvme_tcp::digest;
use crate::nvme_tcp::link::{
    Body, Format, Link, Negotiated, PDU_DATA_BYTES_MAX, Phase, Received, Receiver, Step,
    alignment_bytes, first, read_digest,
};
use crate::nvme_tcp::pdu::{
    ALIGNMENT_MAX, CAPSULE_RESP_BYTES, COMMON_BYTES, CommonHeader, DataTransfer, Flags, IC_BYTES,
    IcResp, MAX_H2C_DATA_BYTES_MIN, PduType, TRANSFER_BYTES, decode_capsule_resp,
};
use crate::nvme_tcp::violation::Violation;
use crate::stream::{Rx, Tag};

impl Receiver for HostConnection {
    type Event = TcpHostEvent;

    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    #[inline]
    fn step(&mut self, bytes: &[u8]) -> Received<TcpHostEvent> {
        match self.stage {
            ReceiveStage::Header => self.header(bytes),
            ReceiveStage::Digest => {
                let expected = read_digest(bytes)?;
                self.stage = ReceiveStage::Header;
                Ok(Step::Tell(digest::BYTES, Rx::Digest { expected }))
            }
        }
    }
}

impl HostConnection {
    #[inline]
    fn header(&mut self, bytes: &[u8]) -> Received<TcpHostEvent> {
        if self.link.phase == Phase::Closed {
            return Ok(Step::Tell(0, Rx::Closed));
        }
        let header = CommonHeader::decode(first(bytes, COMMON_BYTES)?);
        match header.pdu_type {
            PduType::C2H_DATA if self.link.phase == Phase::Open => self.c2h_data(header, bytes),
            PduType::CAPSULE_RESP if self.link.phase == Phase::Open => self.response(header, bytes),
            PduType::R2T if self.link.phase == Phase::Open => self.r2t(header, bytes),
            PduType::C2H_TERM_REQ => self.link.terminated(header, bytes, TcpHostEvent::Terminated),
            PduType::IC_RESP if self.link.phase == Phase::Connecting => self.ic_resp(header, bytes),
            PduType::IC_RESP => Err(Violation::InitializedTwice.into()),
            PduType::C2H_DATA | PduType::CAPSULE_RESP | PduType::R2T => {
                Err(Violation::NotInitialized.into())
            }
            PduType(other) => Err(Violation::PduType(other).into()),
        }
    }

    /// §3.6.2.3.
    fn ic_resp(&mut self, header: CommonHeader, bytes: &[u8]) -> Received<TcpHostEvent> {
        let IcResp { pfv, cpda, digests, max_h2c_data_bytes } =
            IcResp::decode(self.link.check_ic(header, bytes)?);
        if pfv != 0 {
            return Err(Violation::FormatVersion(pfv).into());
        }
        if cpda > ALIGNMENT_MAX {
            return Err(Violation::Alignment.into());
        }
        if digests.and(self.config.digests) != digests {
            return Err(Violation::UnrequestedDigest.into());
        }
        if max_h2c_data_bytes < MAX_H2C_DATA_BYTES_MIN || !max_h2c_data_bytes.is_multiple_of(4) {
            return Err(Violation::MaxH2cData.into());
        }
        let negotiated = Negotiated {
            digests,
            host_alignment_bytes: alignment_bytes(self.config.hpda),
            controller_alignment_bytes: alignment_bytes(cpda),
            max_r2t: u32::from(self.r2ts.per_slot()),
            max_h2c_data_bytes,
        };
        self.max_h2c_data_bytes = max_h2c_data_bytes.min(PDU_DATA_BYTES_MAX);
        self.link.phase = Phase::Open;
        self.link.format = Format::new(
            digests,
            negotiated.host_alignment_bytes,
            negotiated.controller_alignment_bytes,
        );
        Ok(Step::Tell(IC_BYTES, Rx::Event(TcpHostEvent::Ready(negotiated))))
    }

    /// §3.6.2.7.
    #[inline]
    fn response(&mut self, header: CommonHeader, bytes: &[u8]) -> Received<TcpHostEvent> {
        let (pdu, pdu_bytes) = self.link.format.check_plain::<CAPSULE_RESP_BYTES>(header, bytes)?;
        self.link.look_at_flags(header);
        let cqe = decode_capsule_resp(pdu);
        let (tag, slot) = self.slots.active(cqe.cid).ok_or(Violation::ResponseCommandId)?;
        if cqe.status.is_success() {
            slot.check_moved()?;
        }
        Ok(match slot.answered(tag, cqe) {
            Some(event) => Step::Tell(pdu_bytes, Rx::Event(event)),
            None => Step::Used(pdu_bytes),
        })
    }

    /// §3.6.2.9.
    #[inline]
    fn c2h_data(&mut self, header: CommonHeader, bytes: &[u8]) -> Received<TcpHostEvent> {
        let (pdu, body) = self.link.format.check_data::<TRANSFER_BYTES>(header, bytes)?;
        let (last, success) = (header.flags.has(Flags::LAST), header.flags.has(Flags::SUCCESS));
        if success && !last {
            return Err(Violation::SuccessNotLast.into());
        }
        self.link.look_at_flags(header);
        let transfer = DataTransfer::decode(pdu);
        let (tag, slot) = self.slots.active(transfer.cid).ok_or(Violation::DataCommandId)?;
        check_transfer(slot, transfer, body)?;
        slot.moved += body.bytes;
        slot.all_in = last;
        if success && slot.moved < slot.bytes {
            return Err(Violation::ShortData.into());
        }
        self.arriving = Arriving::Data { tag, success };
        if body.bytes > 0 {
            self.stage = if body.digest { ReceiveStage::Digest } else { ReceiveStage::Header };
            let payload =
                Rx::Payload { tag, offset: transfer.offset, len: body.bytes, digest: body.digest };
            return Ok(Step::Tell(body.start, payload));
        }
        Ok(self.no_data(body))
    }

    /// A C2HData PDU without data says at most that the command has succeeded.
    #[cold]
    fn no_data(&mut self, body: Body) -> Step<TcpHostEvent> {
        self.link.deviations.note(Deviation::EmptyData);
        if body.digest {
            return Step::Tell(body.start, Rx::Discard { len: body.wire_bytes() });
        }
        match self.settle(true) {
            Some(event) => Step::Tell(body.start, Rx::Event(event)),
            None => Step::Used(body.start),
        }
    }

    /// §3.6.2.10.
    fn r2t(&mut self, header: CommonHeader, bytes: &[u8]) -> Received<TcpHostEvent> {
        let (pdu, pdu_bytes) = self.link.format.check_plain::<TRANSFER_BYTES>(header, bytes)?;
        self.link.look_at_flags(header);
        let DataTransfer { cid, ttag, offset, bytes } = DataTransfer::decode(pdu);
        let max_r2t = self.r2ts.per_slot();
        let (tag, slot) = self.slots.active(cid).ok_or(Violation::DataCommandId)?;
        check_r2t(slot, offset, bytes, max_r2t)?;
        slot.moved += bytes;
        let place = slot.r2ts.push(max_r2t);
        self.r2ts.cover(tag);
        if let Some(r2t) = self.r2ts.at(tag, place) {
            *r2t = R2t { ttag, next: offset, end: offset + bytes };
        }
        self.enqueue(tag);
        Ok(Step::Used(pdu_bytes))
    }

    /// The data named by `arriving` has passed.
    #[inline]
    pub(super) fn settle(&mut self, intact: bool) -> Option<TcpHostEvent> {
        let Arriving::Data { tag, success } =
            core::mem::replace(&mut self.arriving, Arriving::Nothing)
        else {
            return None;
        };
        let slot = self.slots.at(tag)?;
        slot.damaged |= !intact;
        if !success {
            return None;
        }
        let cqe = Cqe::new(slot.cid, Status::SUCCESS);
        slot.answered(tag, cqe)
    }
}

impl CommandSlot {
    /// Checks that the command can have succeeded: all its data was transferred, or was requested
    /// and is in transit. Dataset Management is a hint, which a controller may complete without
    /// reading the data.
    #[inline]
    fn check_moved(&self) -> Result<(), Violation> {
        match self.direction {
            Direction::In if self.moved < self.bytes => Err(Violation::ShortData),
            Direction::Out if self.moved < self.bytes || self.r2ts.len() > 0 => {
                self.check_unfetched()
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn check_unfetched(&self) -> Result<(), Violation> {
        if self.sqe.opcode() == NvmOpcode::DATASET_MANAGEMENT.0 {
            Ok(())
        } else {
            Err(Violation::UnfetchedData)
        }
    }

    /// The controller has answered. R2Ts that are still to be answered are dropped; the event waits
    /// for what is being sent.
    #[inline]
    fn answered(&mut self, tag: Tag, cqe: Cqe) -> Option<TcpHostEvent> {
        self.cqe = cqe;
        self.r2ts.clear();
        if self.unsent > 0 {
            self.state = CommandState::Answered;
            return None;
        }
        Some(self.answer(tag))
    }

    /// Hands the answer to the layer above.
    #[inline]
    pub(super) fn answer(&mut self, tag: Tag) -> TcpHostEvent {
        self.state = CommandState::Done;
        if self.damaged {
            return TcpHostEvent::DataFailed { tag, cqe: self.cqe };
        }
        let received_bytes = if self.direction == Direction::In { self.moved } else { 0 };
        TcpHostEvent::Response { tag, cqe: self.cqe, received_bytes }
    }
}

/// Checks that a C2HData PDU continues the data of its command.
#[inline]
fn check_transfer(slot: &CommandSlot, transfer: DataTransfer, body: Body) -> Result<(), Violation> {
    if slot.direction != Direction::In || slot.all_in {
        return Err(Violation::UnexpectedTransfer);
    }
    if transfer.bytes != body.bytes {
        return Err(Violation::DataLength);
    }
    if u64::from(transfer.offset) + u64::from(transfer.bytes) > u64::from(slot.bytes) {
        return Err(Violation::OutOfRange);
    }
    if transfer.offset != slot.moved && transfer.bytes > 0 {
        return Err(Violation::OutOfOrder);
    }
    Ok(())
}

/// Checks that an R2T continues the requests of its command.
fn check_r2t(slot: &CommandSlot, offset: u32, bytes: u32, max_r2t: u8) -> Result<(), Violation> {
    if slot.direction != Direction::Out {
        return Err(Violation::UnexpectedTransfer);
    }
    if bytes == 0 {
        return Err(Violation::DataLength);
    }
    if u64::from(offset) + u64::from(bytes) > u64::from(slot.bytes) {
        return Err(Violation::OutOfRange);
    }
    if offset != slot.moved {
        return Err(Violation::OutOfOrder);
    }
    if slot.r2ts.len() >= max_r2t {
        return Err(Violation::R2tLimit(max_r2t));
    }
    Ok(())
}
