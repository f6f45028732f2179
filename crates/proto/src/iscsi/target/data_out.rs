//! The data that an initiator sends: immediate, unsolicited, and in answer to R2Ts (RFC 7143
//! §11.7).

use super::receive::Stepped;
use super::receive_stage::{Arriving, ReceiveStage, Step};
use super::slot::{TaskSlot, TaskState, is_current, slot_of, transfer_tag};
use super::{TargetConnection, TargetEvent, Violation};
use crate::iscsi::link::{Framed, Tail};
use crate::iscsi::pdu::{DataOut, RejectReason, TaskTag};
use crate::iscsi::serial::Serial;
use crate::stream::{Rx, Tag};

impl TargetConnection {
    pub(super) fn immediate_data(&mut self, tag: Tag, bytes: u32) -> Step {
        let digests = self.digests();
        let tail = Tail::of(bytes, digests);
        let ours = self.arriving.is_some_and(|arriving| arriving.tag == Some(tag));
        let Some(slot) = self.slots.at(tag).filter(|_| ours) else {
            return self.throw_away(bytes, tail);
        };
        slot.received += bytes;
        slot.damaged |= slot.state == TaskState::Held;
        if slot.state == TaskState::Fetching {
            return self.payload(0, tag, 0, bytes);
        }
        self.throw_away(bytes, tail)
    }

    fn throw_away(&mut self, bytes: u32, tail: Tail) -> Step {
        self.stage = ReceiveStage::Header;
        Step::Tell(0, Rx::Discard { len: bytes + tail.bytes() as u32 })
    }

    #[inline]
    fn payload(&mut self, used: usize, tag: Tag, offset: u32, bytes: u32) -> Step {
        let tail = Tail::of(bytes, self.digests());
        self.stage = if tail.is_empty() { ReceiveStage::Header } else { ReceiveStage::Tail(tail) };
        Step::Tell(used, Rx::Payload { tag, offset, len: bytes, digest: tail.has_digest() })
    }

    #[inline]
    pub(super) fn data_out(&mut self, framed: &Framed<'_>) -> Stepped {
        let data = DataOut::decode(framed.bhs);
        let found = if data.transfer == TaskTag::NONE {
            self.unsolicited(&data)
        } else {
            self.solicited(&data)
        };
        // Data for a task that was ignored or given up is thrown away.
        let Some(tag) = found? else { return Ok(self.ignore(framed)) };
        let (burst, most) = (self.parameters.max_burst_bytes, self.parameters.first_burst());
        let Some(slot) = self.slots.at(tag) else { return Ok(self.ignore(framed)) };
        let bytes = framed.head.data_bytes;
        let end = if slot.unsolicited { most.min(slot.expected) } else { slot.window_end(burst) };
        check_data(slot, &data, bytes, end)?;
        let complete = slot.received + bytes == end;
        if framed.head.last && !complete && !slot.unsolicited {
            return Err(Violation::DataOrder);
        }
        let ends_unsolicited = slot.unsolicited && (framed.head.last || complete);
        // A number that is left out stands for data that is lost: the command fails (§7.9).
        slot.damaged |= slot.state == TaskState::Held || data.data_sn != slot.data_sn;
        slot.data_sn = if complete { Serial(0) } else { data.data_sn.next() };
        slot.received += bytes;
        let wanted = slot.state == TaskState::Fetching;
        self.arriving = Some(Arriving { tag: Some(tag), ends_unsolicited, bhs: *framed.bhs });
        if bytes == 0 {
            let event = self.settle(true);
            return Ok(event.map_or(Step::Used(framed.bytes), |event| {
                Step::Tell(framed.bytes, Rx::Event(event))
            }));
        }
        if wanted {
            return Ok(self.payload(framed.bytes, tag, data.offset, bytes));
        }
        let tail = Tail::of(bytes, self.digests());
        Ok(Step::Tell(framed.bytes, Rx::Discard { len: bytes + tail.bytes() as u32 }))
    }

    /// Returns the command of unsolicited data.
    fn unsolicited(&mut self, data: &DataOut) -> Result<Option<Tag>, Violation> {
        let found = self.slots.used().find(|(_, slot)| slot.unsolicited && slot.task == data.task);
        Ok(found.map(|(tag, _)| tag))
    }

    /// Returns the command of solicited data, by the R2T that it names.
    #[inline]
    fn solicited(&mut self, data: &DataOut) -> Result<Option<Tag>, Violation> {
        let (tag, burst) = (slot_of(data.transfer), self.parameters.max_burst_bytes);
        let Some(slot) = self.slots.peek(tag) else { return Ok(None) };
        let alive = slot.state == TaskState::Fetching && is_current(data.transfer, slot.generation);
        if !alive {
            return Ok(None);
        }
        // R2Ts are answered in order (DataSequenceInOrder), so there is but one that can be meant.
        let due = transfer_tag(tag, slot.window(burst), slot.generation);
        if data.transfer != due || slot.asked <= slot.received || slot.task != data.task {
            return Err(Violation::DataOrder);
        }
        Ok(Some(tag))
    }

    /// The data named by `arriving` has passed.
    #[inline]
    pub(super) fn settle(&mut self, intact: bool) -> Option<TargetEvent> {
        let Arriving { tag, ends_unsolicited, bhs } = self.arriving.take()?;
        let tag = tag?;
        if !intact {
            // The room for replies ends the connection when it is used up.
            if let Err(violation) = self.reject(RejectReason::DATA_DIGEST, &bhs) {
                self.fail(violation);
            }
        }
        let slot = self.slots.at(tag)?;
        slot.damaged |= !intact;
        if ends_unsolicited {
            slot.unsolicited = false;
            slot.data_sn = Serial(0);
        }
        let (open, enough) = (slot.is_open(), slot.received >= slot.wanted);
        match slot.state {
            TaskState::Draining => {
                self.leave_window(tag);
                self.slots.give_back(tag);
                Some(TargetEvent::Dropped { tag })
            }
            TaskState::Completing if !open => {
                self.enqueue(tag);
                None
            }
            TaskState::Fetching if slot.unsolicited => None,
            TaskState::Fetching if !open && (slot.damaged || enough) => {
                self.fetching -= 1;
                Some(slot.arrived(tag))
            }
            TaskState::Fetching if !slot.damaged && !enough => {
                if slot.asked < slot.received || slot.asked == 0 {
                    self.ask_from_here(tag);
                } else if slot.asked < slot.wanted {
                    self.enqueue(tag);
                }
                None
            }
            _ => None,
        }
    }
}

impl TaskSlot {
    /// No more data is to come: the layer above has the command again.
    #[inline]
    fn arrived(&mut self, tag: Tag) -> TargetEvent {
        self.state = TaskState::Held;
        self.asked = self.received;
        if self.damaged {
            TargetEvent::DataFailed { tag }
        } else {
            TargetEvent::DataArrived { tag }
        }
    }
}

/// Checks that a Data-Out PDU continues the previous one, within a sequence that ends at `end`.
#[inline]
fn check_data(slot: &TaskSlot, data: &DataOut, bytes: u32, end: u32) -> Result<(), Violation> {
    if data.offset != slot.received {
        return Err(Violation::DataOrder);
    }
    if u64::from(slot.received) + u64::from(bytes) > u64::from(end) {
        return Err(if slot.unsolicited {
            Violation::UnsolicitedData
        } else {
            Violation::DataOrder
        });
    }
    Ok(())
}
