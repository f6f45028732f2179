//! The receiving side of a target.

use super::receive_stage::{Arriving, ReceiveStage};
use super::slot::{CommandSlot, CommandState, Window, from_ttag};
use super::{TcpTargetConnection, TcpTargetEvent};
use crate::nvme::deviation::Deviation;
use crate::nvme_tcp::digest;
use crate::nvme_tcp::link::{
    Body, Format, Link, Negotiated, Phase, Received, Receiver, Step, alignment_bytes, first,
    read_digest,
};
use crate::nvme_tcp::pdu::{
    ALIGNMENT_MAX, CAPSULE_CMD_BYTES, COMMON_BYTES, CommonHeader, DataTransfer,
    FABRICS_CAPSULE_DATA_BYTES, Flags, IC_BYTES, IcReq, IcResp, PduType, TRANSFER_BYTES,
    decode_capsule_cmd,
};
use crate::nvme_tcp::violation::Violation;
use crate::stream::{Rx, Tag};

impl Receiver for TcpTargetConnection {
    type Event = TcpTargetEvent;

    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    #[inline]
    fn step(&mut self, bytes: &[u8]) -> Received<TcpTargetEvent> {
        match self.stage {
            ReceiveStage::Header => self.header(bytes),
            ReceiveStage::Capsule { tag, body, fetched } => {
                Ok(self.capsule_data(tag, body, fetched))
            }
            ReceiveStage::Digest => {
                let expected = read_digest(bytes)?;
                self.stage = ReceiveStage::Header;
                Ok(Step::Tell(digest::BYTES, Rx::Digest { expected }))
            }
        }
    }
}

impl TcpTargetConnection {
    #[inline]
    fn header(&mut self, bytes: &[u8]) -> Received<TcpTargetEvent> {
        if self.link.phase == Phase::Closed {
            return Ok(Step::Tell(0, Rx::Closed));
        }
        let header = CommonHeader::decode(first(bytes, COMMON_BYTES)?);
        match header.pdu_type {
            PduType::CAPSULE_CMD if self.link.phase == Phase::Open => self.capsule(header, bytes),
            PduType::H2C_DATA if self.link.phase == Phase::Open => self.h2c_data(header, bytes),
            PduType::H2C_TERM_REQ => {
                self.link.terminated(header, bytes, TcpTargetEvent::Terminated)
            }
            PduType::IC_REQ if self.link.phase == Phase::Connecting => self.ic_req(header, bytes),
            PduType::IC_REQ => Err(Violation::InitializedTwice.into()),
            PduType::CAPSULE_CMD | PduType::H2C_DATA => Err(Violation::NotInitialized.into()),
            PduType(other) => Err(Violation::PduType(other).into()),
        }
    }

    /// §3.6.2.2.
    fn ic_req(&mut self, header: CommonHeader, bytes: &[u8]) -> Received<TcpTargetEvent> {
        let request = IcReq::decode(self.link.check_ic(header, bytes)?);
        if request.pfv != 0 {
            return Err(Violation::FormatVersion(request.pfv).into());
        }
        if request.hpda > ALIGNMENT_MAX {
            return Err(Violation::Alignment.into());
        }
        let negotiated = Negotiated {
            digests: request.digests.and(self.config.digests),
            host_alignment_bytes: alignment_bytes(request.hpda),
            controller_alignment_bytes: alignment_bytes(self.config.cpda),
            max_r2t: request.maxr2t.saturating_add(1),
            max_h2c_data_bytes: self.config.max_h2c_data_bytes,
        };
        self.open(&negotiated);
        Ok(Step::Tell(IC_BYTES, Rx::Event(TcpTargetEvent::Ready(negotiated))))
    }

    fn open(&mut self, negotiated: &Negotiated) {
        let Negotiated {
            digests,
            host_alignment_bytes,
            controller_alignment_bytes,
            max_r2t,
            max_h2c_data_bytes,
        } = *negotiated;
        self.max_r2t = u32::from(self.windows.per_slot()).min(max_r2t) as u8;
        self.link.phase = Phase::Open;
        self.link.format = Format::new(digests, controller_alignment_bytes, host_alignment_bytes);
        self.link.greet(
            &IcResp { pfv: 0, cpda: self.config.cpda, digests, max_h2c_data_bytes }.encode(),
        );
    }

    /// §3.6.2.6.
    #[inline]
    fn capsule(&mut self, header: CommonHeader, bytes: &[u8]) -> Received<TcpTargetEvent> {
        let (pdu, body) = self.link.format.check_data::<CAPSULE_CMD_BYTES>(header, bytes)?;
        let limit = self.config.in_capsule_bytes.max(FABRICS_CAPSULE_DATA_BYTES);
        if body.bytes > limit {
            return Err(Violation::InCapsuleLimit(limit).into());
        }
        self.link.look_at_flags(header);
        let sqe = decode_capsule_cmd(pdu);
        let (tag, slot) = self.slots.take().ok_or(Violation::QueueOverrun)?;
        (slot.cid, slot.sgl) = (sqe.cid(), sqe.sgl());
        self.windows.cover(tag);
        if body.wire_bytes() > 0 {
            self.stage = ReceiveStage::Capsule { tag, body, fetched: false };
        }
        self.sqe = sqe;
        let event = TcpTargetEvent::Command { tag, in_capsule_bytes: body.bytes };
        Ok(Step::Tell(body.start, Rx::Event(event)))
    }

    /// The data behind a capsule's header.
    fn capsule_data(&mut self, tag: Tag, body: Body, fetched: bool) -> Step<TcpTargetEvent> {
        if fetched {
            self.arriving = Arriving::Capsule(tag);
            return self.payload(tag, 0, body);
        }
        self.stage = ReceiveStage::Header;
        Step::Tell(0, Rx::Discard { len: body.wire_bytes() })
    }

    #[inline]
    fn payload(&mut self, tag: Tag, offset: u32, body: Body) -> Step<TcpTargetEvent> {
        self.stage = if body.digest { ReceiveStage::Digest } else { ReceiveStage::Header };
        Step::Tell(0, Rx::Payload { tag, offset, len: body.bytes, digest: body.digest })
    }

    /// §3.6.2.8.
    #[inline]
    fn h2c_data(&mut self, header: CommonHeader, bytes: &[u8]) -> Received<TcpTargetEvent> {
        let (pdu, body) = self.link.format.check_data::<TRANSFER_BYTES>(header, bytes)?;
        self.link.look_at_flags(header);
        let transfer = DataTransfer::decode(pdu);
        if body.bytes == 0 && transfer.bytes == 0 {
            return Ok(self.no_data(body));
        }
        let (tag, window_index) = from_ttag(transfer.ttag);
        let slot = self.slots.at(tag).ok_or(Violation::TransferTag)?;
        let window = self.windows.at(tag, window_index).ok_or(Violation::TransferTag)?;
        check_transfer(slot, window, transfer, body, self.config.max_h2c_data_bytes)?;
        slot.received += body.bytes;
        let complete = slot.received == window.end;
        // LAST_PDU is only noted: some hosts set it in every PDU. What was asked for is known
        // without it.
        self.link.deviations.note_if(header.flags.has(Flags::LAST) != complete, Deviation::LastPdu);
        self.arriving = Arriving::Window(tag, window_index, complete);
        let step = if slot.state == CommandState::Draining {
            Step::Tell(0, Rx::Discard { len: body.wire_bytes() })
        } else {
            self.payload(tag, transfer.offset, body)
        };
        Ok(step.behind(body.start))
    }

    /// An H2CData PDU without data is of no consequence, whatever it says.
    #[cold]
    fn no_data(&mut self, body: Body) -> Step<TcpTargetEvent> {
        self.link.deviations.note(Deviation::EmptyData);
        match body.wire_bytes() {
            0 => Step::Used(body.start),
            len => Step::Tell(body.start, Rx::Discard { len }),
        }
    }

    /// The data named by `arriving` has passed.
    #[inline]
    pub(super) fn settle(&mut self, intact: bool) -> Option<TcpTargetEvent> {
        match core::mem::replace(&mut self.arriving, Arriving::Nothing) {
            Arriving::Nothing => None,
            Arriving::Capsule(tag) => self.settle_capsule(tag, intact),
            Arriving::Window(tag, window, complete) => {
                self.settle_window(tag, window, complete, intact)
            }
        }
    }

    #[inline]
    fn settle_capsule(&mut self, tag: Tag, intact: bool) -> Option<TcpTargetEvent> {
        let slot = self.slots.at(tag)?;
        slot.damaged = !intact;
        if slot.state == CommandState::Draining {
            self.slots.give_back(tag);
            return Some(TcpTargetEvent::Dropped { tag });
        }
        self.fetching -= 1;
        Some(slot.arrived(tag))
    }

    fn settle_window(
        &mut self,
        tag: Tag,
        window: u8,
        complete: bool,
        intact: bool,
    ) -> Option<TcpTargetEvent> {
        let (slot, window) = (self.slots.at(tag)?, self.windows.at(tag, window)?);
        slot.damaged |= !intact;
        if complete {
            window.busy = false;
            slot.windows_open -= 1;
        }
        let all_here = slot.windows_open == 0 && (slot.damaged || slot.received == slot.wanted);
        match slot.state {
            CommandState::Draining => {
                let owed = core::mem::replace(&mut slot.owes_event, false);
                if slot.windows_open == 0 {
                    self.slots.give_back(tag);
                }
                owed.then_some(TcpTargetEvent::Dropped { tag })
            }
            _ if all_here => {
                self.fetching -= 1;
                Some(slot.arrived(tag))
            }
            _ => {
                if complete && slot.asked < slot.wanted && !slot.damaged {
                    self.enqueue(tag);
                }
                None
            }
        }
    }
}

impl CommandSlot {
    /// No more data is to come: the layer above has the command again.
    #[inline]
    fn arrived(&mut self, tag: Tag) -> TcpTargetEvent {
        self.state = CommandState::Held;
        if self.damaged {
            TcpTargetEvent::DataFailed { tag }
        } else {
            TcpTargetEvent::DataArrived { tag }
        }
    }
}

/// Checks that an H2CData PDU with data answers the R2T that it names, and continues the previous
/// data. R2Ts of one command are answered in order (§3.3.2.2).
#[inline]
fn check_transfer(
    slot: &CommandSlot,
    window: &Window,
    transfer: DataTransfer,
    body: Body,
    max_bytes: u32,
) -> Result<(), Violation> {
    if !window.busy || !matches!(slot.state, CommandState::Fetching | CommandState::Draining) {
        return Err(Violation::TransferTag);
    }
    if slot.cid != transfer.cid {
        return Err(Violation::DataCommandId);
    }
    if transfer.bytes != body.bytes {
        return Err(Violation::DataLength);
    }
    if body.bytes > max_bytes {
        return Err(Violation::H2cDataLimit(max_bytes));
    }
    let end = u64::from(transfer.offset) + u64::from(transfer.bytes);
    if transfer.offset < window.start || end > u64::from(window.end) {
        return Err(Violation::OutOfRange);
    }
    if transfer.offset != slot.received {
        return Err(Violation::OutOfOrder);
    }
    Ok(())
}
