//! The sending side of a target.

use super::slot::{TaskKind, TaskSlot, TaskState, transfer_tag};
use super::{Phase, TargetConnection};
use crate::iscsi::link::{put_header, put_payload, put_whole};
use crate::iscsi::pdu::{
    DataIn, DataInFlags, R2t, ResponseFlags, ScsiResponse, ScsiResponseCode, TaskResponse,
    TaskResult,
};
use crate::limits::DATA_IN_MAX_BYTES;
use crate::scsi::sense::SENSE_BYTES_MAX;
use crate::stream::{Tag, Transmit};

/// Bytes of a waiting PDU that one step appends.
const STEP_BYTES: usize = 448;

impl TargetConnection {
    /// Returns whether commands, data and responses may go out.
    #[inline]
    pub(super) fn sends_tasks(&self) -> bool {
        matches!(self.phase, Phase::Full | Phase::LoggingOut)
    }

    /// Sends urgent PDUs; returns whether tasks may follow.
    #[inline]
    pub(super) fn transmit_urgent(&mut self, out: &mut Transmit) -> bool {
        while self.urgent_sent < self.urgent.len() {
            if out.is_full() {
                return false;
            }
            let end = self.urgent.len().min(self.urgent_sent + STEP_BYTES);
            out.header(&self.urgent[self.urgent_sent..end]);
            self.urgent_sent = end;
        }
        if !self.urgent.is_empty() {
            self.urgent = Vec::new();
            self.urgent_sent = 0;
        }
        self.sends_tasks()
    }

    #[inline]
    pub(super) fn transmit_queue(&mut self, out: &mut Transmit) {
        while !out.is_full() {
            let Some(tag) = self.queue.pop_front() else { return };
            let Some(slot) = self.slots.at(tag) else { continue };
            slot.queued = false;
            match (slot.state, slot.kind) {
                (TaskState::Completing, TaskKind::Command) => self.answer(tag, out),
                (TaskState::Completing, TaskKind::Function(result)) => {
                    self.answer_function(tag, result, out)
                }
                (TaskState::Fetching, _) => self.ask(tag, out),
                _ => {}
            }
        }
    }

    /// Once everything else is out, answers a logout that is done.
    pub(super) fn transmit_logout(&mut self, out: &mut Transmit) {
        if self.logout_due && self.queue.is_empty() && !out.is_full() {
            self.answer_logout();
            self.transmit_urgent(out);
        }
    }

    /// Sends one Data-In PDU of a command, or its response, or the last of the one with the other.
    #[inline]
    fn answer(&mut self, tag: Tag, out: &mut Transmit) {
        if self.slots.peek(tag).is_none_or(|slot| slot.data_bytes == 0) {
            self.put_response(tag, out);
            return self.slots.give_back(tag);
        }
        let last = self.put_data(tag, out);
        if !last {
            return self.enqueue(tag);
        }
        let Some(slot) = self.slots.at(tag) else { return };
        slot.state = TaskState::Sending;
        // Ahead of the response, so that its header and that of the next PDU are neighbours.
        out.release(tag);
        if slot.status != 0 {
            self.put_response(tag, out);
        }
    }

    /// One Data-In PDU; returns whether it was the last. With GOOD status the last one carries it
    /// (§11.7.3).
    #[inline]
    fn put_data(&mut self, tag: Tag, out: &mut Transmit) -> bool {
        let (burst, pdu_bytes) = (
            self.parameters.max_burst_bytes,
            self.parameters.max_send_bytes.min(DATA_IN_MAX_BYTES),
        );
        let Some(&slot) = self.slots.peek(tag) else { return true };
        let sequence_end = (slot.data_sent / burst + 1).saturating_mul(burst).min(slot.data_bytes);
        let bytes = (sequence_end - slot.data_sent).min(pdu_bytes);
        let sent = slot.data_sent + bytes;
        let (last, with_status) =
            (sent == slot.data_bytes, sent == slot.data_bytes && slot.status == 0);
        let mut flags = if sent == sequence_end { DataInFlags::FINAL } else { DataInFlags::NONE };
        let mut data = DataIn {
            task: slot.task,
            data_sn: slot.data_sn,
            offset: slot.data_sent,
            ..DataIn::default()
        };
        if with_status {
            self.leave_window(tag);
            flags = flags.with(DataInFlags::STATUS).with(DataInFlags(slot.residual_flags.0));
            data.stat_sn = self.stat_sn.take();
            data.residual = slot.residual;
        }
        data.flags = flags;
        data.exp_cmd_sn = self.exp_cmd_sn;
        data.max_cmd_sn = self.max_cmd_sn();
        put_header(&data.encode(bytes), self.parameters.digests, out);
        put_payload(tag, slot.data_sent, bytes, self.parameters.digests, out);
        if let Some(slot) = self.slots.at(tag) {
            slot.data_sent = sent;
            slot.data_sn = slot.data_sn.next();
        }
        last
    }

    #[inline]
    fn put_response(&mut self, tag: Tag, out: &mut Transmit) {
        self.leave_window(tag);
        let Some(&slot) = self.slots.peek(tag) else { return };
        let exp_data_sn = slot.data_sn.plus(slot.r2t_sn.0);
        let response = ScsiResponse {
            flags: ResponseFlags(slot.residual_flags.0),
            response: ScsiResponseCode::COMPLETED,
            status: slot.status,
            task: slot.task,
            stat_sn: self.stat_sn.take(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            exp_data_sn,
            residual: slot.residual,
            ..ScsiResponse::default()
        };
        let sense = usize::from(slot.sense_bytes);
        if sense == 0 {
            return put_header(&response.encode(0), self.parameters.digests, out);
        }
        let mut data = [0; 2 + SENSE_BYTES_MAX];
        data[1] = slot.sense_bytes;
        data[2..2 + sense].copy_from_slice(&slot.sense[..sense]);
        put_whole(
            &response.encode(2 + sense as u32),
            &data[..2 + sense],
            self.parameters.digests,
            out,
        );
    }

    /// Sends as many R2Ts as may be outstanding.
    fn ask(&mut self, tag: Tag, out: &mut Transmit) {
        let (burst, most, digests) =
            (self.parameters.max_burst_bytes, self.max_r2t(), self.parameters.digests);
        let (stat_sn, exp_cmd_sn, max_cmd_sn) = (self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn());
        let Some(slot) = self.slots.at(tag) else { return };
        while slot.asked < slot.wanted && slot.windows_open(burst) < most {
            let bytes = (slot.wanted - slot.asked).min(burst);
            let window = (slot.asked - slot.solicited_from) / burst;
            let r2t = R2t {
                lun: slot.lun,
                task: slot.task,
                transfer: transfer_tag(tag, window, slot.generation),
                stat_sn,
                exp_cmd_sn,
                max_cmd_sn,
                r2t_sn: slot.r2t_sn.take(),
                offset: slot.asked,
                desired_bytes: bytes,
            };
            slot.asked += bytes;
            put_header(&r2t.encode(0), digests, out);
        }
    }

    /// Answers a task management function, once everything that was answered before it is out.
    fn answer_function(&mut self, tag: Tag, result: TaskResult, out: &mut Transmit) {
        let Some(&TaskSlot { answered, task, .. }) = self.slots.peek(tag) else { return };
        let earlier = |slot: &TaskSlot| {
            slot.state == TaskState::Completing
                && slot.queued
                && answered.wrapping_sub(slot.answered) as i32 > 0
        };
        if self.slots.used().any(|(_, slot)| earlier(slot)) {
            return self.enqueue(tag);
        }
        self.leave_window(tag);
        let response = TaskResponse {
            response: result,
            task,
            stat_sn: self.stat_sn.take(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
        };
        put_header(&response.encode(0), self.parameters.digests, out);
        self.slots.give_back(tag);
    }
}
