//! The sending side of a target.

use super::TcpTargetConnection;
use super::slot::{CommandSlot, CommandState, ttag};
use crate::nvme_tcp::link::Format;
use crate::nvme_tcp::pdu::{
    CAPSULE_RESP_BYTES, DataTransfer, Flags, PduType, TRANSFER_BYTES, encode_capsule_resp,
};
use crate::stream::{Tag, Transmit};

impl TcpTargetConnection {
    #[inline]
    pub(super) fn transmit_queue(&mut self, out: &mut Transmit) {
        while !out.is_full() {
            let Some(tag) = self.queue.pop_front() else { return };
            self.taken += 1;
            let Some(slot) = self.slots.at(tag) else { continue };
            slot.queued = false;
            match slot.state {
                CommandState::Completing => self.answer(tag, out),
                CommandState::Fetching => self.ask(tag, out),
                _ => {}
            }
        }
    }

    /// Sends one C2HData PDU of a command that is complete, or its response, or the last of the one
    /// with the other.
    #[inline]
    fn answer(&mut self, tag: Tag, out: &mut Transmit) {
        let (format, max_bytes, success_flag) =
            (self.link.format, self.config.max_c2h_data_bytes, self.success_flag);
        let Some(slot) = self.slots.at(tag) else { return };
        if slot.data_bytes == 0 {
            put_response(&format, slot, out);
            return self.slots.give_back(tag);
        }
        let bytes = (slot.data_bytes - slot.data_sent).min(max_bytes);
        let last = slot.data_sent + bytes == slot.data_bytes;
        let success = last && success_flag && slot.succeeds_plainly();
        put_data(&format, slot, tag, bytes, last, success, out);
        slot.data_sent += bytes;
        if !last {
            return self.enqueue(tag);
        }
        slot.state = CommandState::Sending;
        // Ahead of the response, so that its header and that of the next PDU are neighbours.
        out.release(tag);
        if !success {
            put_response(&format, slot, out);
        }
    }

    /// Sends as many R2Ts as may be outstanding.
    fn ask(&mut self, tag: Tag, out: &mut Transmit) {
        let format = self.link.format;
        for index in 0..self.max_r2t {
            let (Some(slot), Some(window)) = (self.slots.at(tag), self.windows.at(tag, index))
            else {
                return;
            };
            let bytes = (slot.wanted - slot.asked).min(self.config.max_r2t_bytes);
            if window.busy || bytes == 0 {
                continue;
            }
            window.busy = true;
            window.start = slot.asked;
            window.end = slot.asked + bytes;
            let transfer =
                DataTransfer { cid: slot.cid, ttag: ttag(tag, index), offset: slot.asked, bytes };
            slot.asked += bytes;
            slot.windows_open += 1;
            format.put(&transfer.encode(format.plain(PduType::R2T, TRANSFER_BYTES)), out);
        }
    }
}

impl CommandSlot {
    /// Returns whether the completion reports plain success.
    #[inline]
    fn succeeds_plainly(&self) -> bool {
        self.cqe.status.is_success() && self.cqe.result == 0
    }
}

#[inline]
fn put_response(format: &Format, slot: &CommandSlot, out: &mut Transmit) {
    format.put(
        &encode_capsule_resp(format.plain(PduType::CAPSULE_RESP, CAPSULE_RESP_BYTES), &slot.cqe),
        out,
    );
}

#[inline]
fn put_data(
    format: &Format,
    slot: &CommandSlot,
    tag: Tag,
    bytes: u32,
    last: bool,
    success: bool,
    out: &mut Transmit,
) {
    let mut flags = if last { Flags::LAST } else { Flags(0) };
    if success {
        flags = flags.with(Flags::SUCCESS);
    }
    let common = format.with_data(PduType::C2H_DATA, TRANSFER_BYTES, flags, bytes);
    let transfer = DataTransfer { cid: slot.cid, ttag: 0, offset: slot.data_sent, bytes };
    format.put_data(&transfer.encode(common), tag, slot.data_sent, bytes, out);
}
