//! The sending side of a host.

use super::HostConnection;
use super::slot::{CommandSlot, CommandState, Direction};
use crate::nvme_tcp::link::Format;
use crate::nvme_tcp::pdu::{
    CAPSULE_CMD_BYTES, DataTransfer, Flags, PduType, TRANSFER_BYTES, encode_capsule_cmd,
};
use crate::stream::{Tag, Transmit};

impl HostConnection {
    #[inline]
    pub(super) fn transmit_queue(&mut self, out: &mut Transmit) {
        while !out.is_full() {
            let Some(tag) = self.queue.pop_front() else { return };
            let Some(slot) = self.slots.at(tag) else { continue };
            slot.queued = false;
            match slot.state {
                CommandState::Submitted => put_command(&self.link.format, slot, tag, out),
                CommandState::Active => self.answer_r2t(tag, out),
                CommandState::Leaving => self.slots.give_back(tag),
                _ => {}
            }
        }
    }

    /// Sends one H2CData PDU. If there is more to send, for this R2T or the next one, other
    /// commands get their turn first.
    fn answer_r2t(&mut self, tag: Tag, out: &mut Transmit) {
        let format = self.link.format;
        let per_slot = self.r2ts.per_slot();
        let Some(slot) = self.slots.at(tag) else { return };
        let Some(r2t) = slot.r2ts.first().and_then(|first| self.r2ts.at(tag, first)) else {
            return;
        };
        let bytes = (r2t.end - r2t.next).min(self.max_h2c_data_bytes);
        let last = r2t.next + bytes == r2t.end;
        let flags = if last { Flags::LAST } else { Flags(0) };
        let common = format.with_data(PduType::H2C_DATA, TRANSFER_BYTES, flags, bytes);
        let transfer = DataTransfer { cid: slot.cid, ttag: r2t.ttag, offset: r2t.next, bytes };
        format.put_data(&transfer.encode(common), tag, r2t.next, bytes, out);
        out.release(tag);
        r2t.next += bytes;
        slot.unsent += 1;
        let more = !last || slot.r2ts.len() > 1;
        if last {
            slot.r2ts.pop(per_slot);
        }
        if more {
            self.enqueue(tag);
        }
    }
}

/// Sends a command capsule, with its data if that is where it goes.
#[inline]
fn put_command(format: &Format, slot: &mut CommandSlot, tag: Tag, out: &mut Transmit) {
    slot.state = CommandState::Active;
    if slot.direction != Direction::Capsule {
        let common = format.plain(PduType::CAPSULE_CMD, CAPSULE_CMD_BYTES);
        return format.put(&encode_capsule_cmd(common, &slot.sqe), out);
    }
    let common = format.with_data(PduType::CAPSULE_CMD, CAPSULE_CMD_BYTES, Flags(0), slot.bytes);
    format.put_data(&encode_capsule_cmd(common, &slot.sqe), tag, 0, slot.bytes, out);
    out.release(tag);
    slot.unsent += 1;
}
