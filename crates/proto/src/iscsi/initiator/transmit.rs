//! The sending side of an initiator.

use super::receive::Bhs;
use super::slot::{Direction, TaskState};
use super::{Burst, Initiator, PING_TASK, Phase};
use crate::iscsi::digest::Digests;
use crate::iscsi::link::{self, put_header};
use crate::iscsi::pdu::{
    CommandFlags, DataOut, DataOutFlags, NopOut, ScsiCommand, TaskAttribute, TaskRequest, TaskTag,
    padding,
};
use crate::iscsi::serial::Serial;
use crate::limits::ISCSI_DATA_OUT_BYTES;
use crate::stream::{Tag, Transmit};

/// Appends a payload with its padding and digest. Zeroes do for padding; where a digest covers
/// them, the pump has to find them in the memory.
#[inline]
fn put_payload(digests: Digests, tag: Tag, offset: u32, bytes: u32, out: &mut Transmit) {
    if digests.data {
        link::put_payload(tag, offset, bytes, digests, out);
    } else {
        out.payload(tag, offset, bytes, false);
        let padding = padding(bytes);
        if padding > 0 {
            out.header(&[0; 3][..padding]);
        }
    }
    out.release(tag);
}

impl Initiator {
    /// Queues a login or text request with its text.
    pub(super) fn send_text(&mut self, bhs: &Bhs, text: &[u8]) {
        link::encode(bhs, text, self.digests(), &mut self.outgoing.bytes);
    }

    pub(super) fn transmit_all(&mut self, out: &mut Transmit) {
        self.outgoing.transmit(out);
        if self.phase != Phase::FullFeature || !self.outgoing.is_empty() {
            return;
        }
        self.transmit_requests(out);
        self.transmit_work(out);
    }

    /// Pings and their answers, task management, logout.
    fn transmit_requests(&mut self, out: &mut Transmit) {
        let digests = self.digests();
        while !out.is_full()
            && let Some(question) = self.pings.take_question()
        {
            let answer =
                NopOut { lun: question.lun, transfer: question.transfer, ..self.nop_out() };
            put_header(&answer.encode(0), digests, out);
        }
        if !out.is_full() && self.pings.take_ping() {
            let ping = NopOut { task: PING_TASK, ..self.nop_out() };
            put_header(&ping.encode(0), digests, out);
        }
        if !out.is_full()
            && let Some(running) = self.recovery.take_unsent()
        {
            let request = TaskRequest {
                immediate: true,
                function: running.function,
                lun: running.lun,
                task: running.task,
                referenced: running.referenced,
                cmd_sn: self.window.cmd_sn,
                exp_stat_sn: self.window.exp_stat_sn,
                ref_cmd_sn: running.ref_cmd_sn,
                exp_data_sn: Serial(0),
            };
            put_header(&request.encode(0), digests, out);
        }
        if !out.is_full() && self.logout_is_due() {
            let request = self.take_logout();
            put_header(&request.encode(0), digests, out);
        }
    }

    fn nop_out(&self) -> NopOut {
        NopOut {
            immediate: true,
            cmd_sn: self.window.cmd_sn,
            exp_stat_sn: self.window.exp_stat_sn,
            ..NopOut::default()
        }
    }

    /// Commands and data, in turn.
    #[inline]
    fn transmit_work(&mut self, out: &mut Transmit) {
        while !out.is_full() {
            let data = self.data.pop_front();
            if let Some(tag) = data {
                self.answer_r2t(tag, out);
            }
            if out.is_full() {
                return;
            }
            if self.burst.is_some() {
                self.continue_burst(out);
            } else if self.window.is_open()
                && let Some(tag) = self.commands.pop_front()
            {
                self.put_command(tag, out);
            } else if data.is_none() {
                return;
            }
        }
    }

    /// Sends a command, with immediate data if it has some.
    #[inline]
    fn put_command(&mut self, tag: Tag, out: &mut Transmit) {
        let (digests, exp_stat_sn) = (self.digests(), self.window.exp_stat_sn);
        let (immediate_limit, unsolicited_limit) = self.unsolicited_limits();
        let Some(slot) = self.slots.at(tag).filter(|slot| slot.state == TaskState::Submitted)
        else {
            return;
        };
        slot.state = TaskState::Active;
        slot.cmd_sn = self.window.cmd_sn.take();
        let (mut flags, mut immediate) = (CommandFlags::FINAL, 0);
        match slot.direction {
            Direction::None => {}
            Direction::In => flags = flags.with(CommandFlags::READ),
            Direction::Out => {
                immediate = slot.bytes.min(immediate_limit);
                slot.moved = slot.bytes.min(unsolicited_limit).max(immediate);
                flags = if slot.moved > immediate {
                    CommandFlags::WRITE
                } else {
                    flags.with(CommandFlags::WRITE)
                };
                slot.unsent += u32::from(immediate > 0);
                if slot.moved > immediate {
                    self.burst =
                        Some(Burst { tag, next: immediate, end: slot.moved, data_sn: Serial(0) });
                }
            }
        }
        let command = ScsiCommand {
            immediate: false,
            flags: flags.attribute(TaskAttribute::SIMPLE),
            lun: slot.lun,
            task: slot.itt,
            expected_bytes: slot.bytes,
            cmd_sn: slot.cmd_sn,
            exp_stat_sn,
            cdb: slot.cdb,
        };
        put_header(&command.encode(immediate), digests, out);
        if immediate > 0 {
            put_payload(digests, tag, 0, immediate, out);
        }
    }

    /// Data that goes with a command, and all that goes unasked. Where a first burst cannot be sent
    /// in whole PDUs without padding in the middle, none is sent.
    fn unsolicited_limits(&self) -> (u32, u32) {
        let first_burst = self.parameters.first_burst();
        let immediate = if self.parameters.immediate_data {
            first_burst.min(self.data_out_limit()) & !3
        } else {
            0
        };
        let unsolicited = if self.parameters.initial_r2t || !first_burst.is_multiple_of(4) {
            0
        } else {
            first_burst
        };
        (immediate, unsolicited)
    }

    /// Data in one PDU, a multiple of 4.
    pub(super) fn data_out_limit(&self) -> u32 {
        self.parameters.max_send_bytes.min(ISCSI_DATA_OUT_BYTES) & !3
    }

    fn continue_burst(&mut self, out: &mut Transmit) {
        let (digests, limit, exp_stat_sn) =
            (self.digests(), self.data_out_limit(), self.window.exp_stat_sn);
        let Some(mut burst) = self.burst.take() else { return };
        let Some(slot) = self.slots.at(burst.tag) else { return };
        let bytes = (burst.end - burst.next).min(limit);
        let last = burst.next + bytes == burst.end;
        let pdu = DataOut {
            flags: if last { DataOutFlags::FINAL } else { DataOutFlags::NONE },
            lun: slot.lun,
            task: slot.itt,
            transfer: TaskTag::NONE,
            exp_stat_sn,
            data_sn: burst.data_sn.take(),
            offset: burst.next,
        };
        slot.unsent += 1;
        put_header(&pdu.encode(bytes), digests, out);
        put_payload(digests, burst.tag, burst.next, bytes, out);
        burst.next += bytes;
        self.burst = (!last).then_some(burst);
    }

    /// Sends one PDU of what an R2T asked for. If there is more to send, for this R2T or the next
    /// one, others get their turn first.
    fn answer_r2t(&mut self, tag: Tag, out: &mut Transmit) {
        let (digests, limit, exp_stat_sn) =
            (self.digests(), self.data_out_limit(), self.window.exp_stat_sn);
        let per_slot = self.r2ts.per_slot();
        let Some(slot) = self.slots.at(tag) else { return };
        let Some(r2t) = slot.r2ts.first().and_then(|first| self.r2ts.at(tag, first)) else {
            return;
        };
        slot.data_queued = false;
        let bytes = (r2t.end - r2t.next).min(limit);
        let last = r2t.next + bytes == r2t.end;
        let pdu = DataOut {
            flags: if last { DataOutFlags::FINAL } else { DataOutFlags::NONE },
            lun: r2t.lun,
            task: slot.itt,
            transfer: r2t.transfer,
            exp_stat_sn,
            data_sn: r2t.data_sn.take(),
            offset: r2t.next,
        };
        slot.unsent += 1;
        put_header(&pdu.encode(bytes), digests, out);
        put_payload(digests, tag, r2t.next, bytes, out);
        r2t.next += bytes;
        let more = !last || slot.r2ts.len() > 1;
        if last {
            slot.r2ts.pop(per_slot);
        }
        if more {
            self.enqueue_data(tag);
        }
    }
}
