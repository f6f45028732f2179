//! Command responses and data transfers: SCSI Response, Data-In and R2T (RFC 7143 §11.4, §11.7,
//! §11.8).

use super::Initiator;
use super::command::{CommandOutcome, CommandResponse, InitiatorEvent, Residual};
use super::fault::Violation;
use super::receive::{Arriving, Bhs};
use super::slot::{Direction, R2t as Asked, TaskSlot, TaskState};
use crate::iscsi::deviation::Deviation;
use crate::iscsi::link::Tail;
use crate::iscsi::pdu::{
    DataIn, DataInFlags, R2t, ResponseFlags, ScsiResponse, ScsiResponseCode, TaskTag,
};
use crate::iscsi::serial::Serial;
use crate::stream::{Rx, Tag};

impl Initiator {
    #[inline]
    pub(super) fn scsi_response(
        &mut self,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<Option<InitiatorEvent>, Violation> {
        let response = ScsiResponse::decode(bhs);
        self.window.update(response.exp_cmd_sn, response.max_cmd_sn);
        self.window.status(response.stat_sn);
        let (tag, slot) = self.slots.active(response.task).ok_or(Violation::Task)?;
        if !data.is_empty() {
            slot.keep_sense(data);
        }
        let residual = residual(
            response.flags.has(ResponseFlags::OVERFLOW),
            response.flags.has(ResponseFlags::UNDERFLOW),
            response.residual,
        );
        let answer = slot.answer(response.response, response.status, residual);
        Ok(self.end(tag, CommandOutcome::Answered(answer)))
    }

    /// Data of a read, which is the pump's to receive.
    #[inline]
    pub(super) fn data_in(
        &mut self,
        bhs: &Bhs,
        bytes: u32,
    ) -> Result<Option<Rx<InitiatorEvent>>, Violation> {
        let pdu = DataIn::decode(bhs);
        let answered = pdu.flags.has(DataInFlags::STATUS);
        self.window.update(pdu.exp_cmd_sn, pdu.max_cmd_sn);
        let (tag, slot) = self.slots.active(pdu.task).ok_or(Violation::Task)?;
        check_data_in(slot, &pdu, bytes)?;
        slot.moved += bytes;
        if pdu.data_sn == slot.sequence {
            slot.sequence = slot.sequence.next();
        }
        if answered {
            self.window.status(pdu.stat_sn);
            let residual = residual(
                pdu.flags.has(DataInFlags::OVERFLOW),
                pdu.flags.has(DataInFlags::UNDERFLOW),
                pdu.residual,
            );
            slot.end = CommandOutcome::Answered(slot.answer(
                ScsiResponseCode::COMPLETED,
                pdu.status,
                residual,
            ));
        }
        self.receiver.arriving = Some(Arriving { tag, answered });
        if bytes == 0 {
            return Ok(self.settle(true).map(Rx::Event));
        }
        let tail = Tail::of(bytes, self.digests());
        self.receiver.expect_tail(tail);
        Ok(Some(Rx::Payload { tag, offset: pdu.offset, len: bytes, digest: tail.has_digest() }))
    }

    /// The data named by `arriving` has passed.
    #[inline]
    pub(super) fn settle(&mut self, intact: bool) -> Option<InitiatorEvent> {
        let Arriving { tag, answered } = self.receiver.arriving.take()?;
        let slot = self.slots.at(tag)?;
        slot.damaged |= !intact;
        if !answered {
            return None;
        }
        let end = match slot.end {
            CommandOutcome::Answered(answer) => {
                CommandOutcome::Answered(CommandResponse { damaged: slot.damaged, ..answer })
            }
            other => other,
        };
        self.end(tag, end)
    }

    pub(super) fn r2t(&mut self, bhs: &Bhs) -> Result<Option<InitiatorEvent>, Violation> {
        let pdu = R2t::decode(bhs);
        self.window.update(pdu.exp_cmd_sn, pdu.max_cmd_sn);
        let (max_burst, outstanding) = (self.parameters.max_burst_bytes, self.outstanding_r2t());
        let digest = self.digests().data;
        let (tag, slot) = self.slots.active(pdu.task).ok_or(Violation::Task)?;
        check_r2t(slot, &pdu, outstanding)?;
        if digest && !pdu.offset.is_multiple_of(4) {
            return Err(Violation::Alignment);
        }
        slot.sequence = slot.sequence.next();
        let end = pdu.offset + pdu.desired_bytes;
        slot.moved = end;
        let place = slot.r2ts.push(self.r2ts.per_slot());
        self.r2ts.cover(tag);
        if let Some(asked) = self.r2ts.at(tag, place) {
            *asked = Asked {
                lun: pdu.lun,
                transfer: pdu.transfer,
                next: pdu.offset,
                end,
                data_sn: Serial(0),
            };
        }
        self.enqueue_data(tag);
        Ok(if pdu.desired_bytes > max_burst {
            self.deviations.note(Deviation::LongBurst).map(InitiatorEvent::Deviation)
        } else {
            None
        })
    }

    /// A command has ended. The event waits for what is being sent of it.
    #[inline]
    pub(super) fn end(&mut self, tag: Tag, end: CommandOutcome) -> Option<InitiatorEvent> {
        let slot = self.slots.at(tag)?;
        slot.end = end;
        slot.r2ts.clear();
        let (queued, aborting) = (core::mem::take(&mut slot.data_queued), slot.aborting);
        slot.state = if slot.unsent > 0 { TaskState::Ending } else { TaskState::Done };
        let told = slot.state == TaskState::Done;
        if queued || aborting {
            self.forget(tag);
        }
        self.burst.take_if(|burst| burst.tag == tag);
        told.then_some(InitiatorEvent::Ended { tag, end })
    }
}

impl TaskSlot {
    fn answer(
        &self,
        response: ScsiResponseCode,
        status: u8,
        residual: Residual,
    ) -> CommandResponse {
        let received_bytes = if self.direction == Direction::In { self.moved } else { 0 };
        CommandResponse { response, status, residual, received_bytes, damaged: self.damaged }
    }

    /// Keeps the sense data of a response: two bytes of length, and the data (§11.4.7).
    #[cold]
    fn keep_sense(&mut self, data: &[u8]) {
        let Some((length, sense)) = data.split_first_chunk() else { return };
        let bytes = usize::from(u16::from_be_bytes(*length)).min(sense.len()).min(self.sense.len());
        self.sense[..bytes].copy_from_slice(&sense[..bytes]);
        self.sense_bytes = bytes as u8;
    }
}

fn residual(overflow: bool, underflow: bool, bytes: u32) -> Residual {
    match (overflow, underflow) {
        (true, _) => Residual::Overflow(bytes),
        (false, true) => Residual::Underflow(bytes),
        (false, false) => Residual::None,
    }
}

/// Checks that a Data-In PDU continues the data of its command. Both orders were negotiated, so
/// there is one way only.
#[inline]
fn check_data_in(slot: &TaskSlot, pdu: &DataIn, bytes: u32) -> Result<(), Violation> {
    if slot.direction != Direction::In && (bytes > 0 || slot.direction == Direction::Out) {
        return Err(Violation::Direction);
    }
    // One without data may be numbered or not.
    if pdu.data_sn != slot.sequence && bytes > 0 {
        return Err(Violation::Sequence);
    }
    if u64::from(pdu.offset) + u64::from(bytes) > u64::from(slot.bytes) {
        return Err(Violation::Range);
    }
    if pdu.offset != slot.moved && bytes > 0 {
        return Err(Violation::Offset);
    }
    Ok(())
}

/// Checks that an R2T continues the requests of its command.
fn check_r2t(slot: &TaskSlot, pdu: &R2t, outstanding: u8) -> Result<(), Violation> {
    if slot.direction != Direction::Out || pdu.transfer == TaskTag::NONE {
        return Err(Violation::Direction);
    }
    if pdu.r2t_sn != slot.sequence {
        return Err(Violation::Sequence);
    }
    // A target that goes beyond MaxBurstLength knows what it can take.
    if pdu.desired_bytes == 0 {
        return Err(Violation::Burst);
    }
    if u64::from(pdu.offset) + u64::from(pdu.desired_bytes) > u64::from(slot.bytes) {
        return Err(Violation::Range);
    }
    if pdu.offset != slot.moved {
        return Err(Violation::Offset);
    }
    if slot.r2ts.len() >= outstanding {
        return Err(Violation::Outstanding(outstanding));
    }
    Ok(())
}
