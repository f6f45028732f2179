//! The end of tasks: responses from the layer above, and tasks that it abandons (RFC 7143 §11.4,
//! §11.6).

use super::TargetConnection;
#[cfg(doc)]
use super::config::TargetEvent;
use super::config::TargetResponse;
use super::receive_stage::ReceiveStage;
use super::slot::{TaskKind, TaskState};
use crate::iscsi::pdu::{ResponseFlags, TaskResult};
use crate::iscsi::serial::Serial;
use crate::stream::Tag;

impl TargetConnection {
    /// Ends a command. Not to be called between a fetch and the end of its data. Returns whether
    /// its memory stays in use until [`Self::sent`].
    #[inline]
    pub fn complete(&mut self, tag: Tag, answer: &TargetResponse<'_>) -> bool {
        let Some(slot) = self.slots.at(tag) else { return false };
        debug_assert_eq!(
            slot.state,
            TaskState::Held,
            "complete() of a command that the layer above does not hold"
        );
        if slot.state != TaskState::Held {
            return false;
        }
        let moves = if slot.reads || slot.writes { slot.expected } else { 0 };
        (slot.residual_flags, slot.residual) = residual(moves, answer.total_bytes);
        slot.state = TaskState::Completing;
        slot.status = answer.status.0;
        slot.data_bytes = if slot.reads { answer.data_bytes.min(slot.expected) } else { 0 };
        slot.data_sent = 0;
        slot.data_sn = Serial(0);
        slot.sense_bytes = answer.sense.len().min(slot.sense.len()) as u8;
        let sense = &answer.sense[..usize::from(slot.sense_bytes)];
        slot.sense[..sense.len()].copy_from_slice(sense);
        let (open, keeps) = (slot.is_open(), slot.data_bytes > 0);
        self.answered(tag, open);
        keeps
    }

    /// Ends a task management function.
    pub fn complete_task(&mut self, tag: Tag, result: TaskResult) {
        let Some(slot) = self.slots.at(tag).filter(|slot| slot.state == TaskState::Held) else {
            return;
        };
        slot.kind = TaskKind::Function(result);
        slot.state = TaskState::Completing;
        self.answered(tag, false);
    }

    fn answered(&mut self, tag: Tag, wait: bool) {
        self.answers = self.answers.wrapping_add(1);
        let place = self.answers;
        if let Some(slot) = self.slots.at(tag) {
            slot.answered = place;
        }
        if !wait {
            self.enqueue(tag);
        }
    }

    /// The pump has sent everything before the [`Part::Release`](crate::stream::Part::Release) of
    /// `tag`: its memory is free, and the tag may name another command.
    #[inline]
    pub fn sent(&mut self, tag: Tag) {
        if self.slots.at(tag).is_some_and(|slot| slot.state == TaskState::Sending) {
            self.slots.give_back(tag);
        }
    }

    /// Abandons a command without a response, whether it waits for data or not. Returns whether its
    /// memory is free at once; otherwise data is just arriving in it, and [`TargetEvent::Dropped`]
    /// reports the end of that. Data that arrives later is discarded. Completed commands are not
    /// affected.
    pub fn abandon(&mut self, tag: Tag) -> bool {
        let arriving = self.arriving.is_some_and(|arriving| arriving.tag == Some(tag));
        let begun = arriving && !matches!(self.stage, ReceiveStage::Immediate { .. });
        let Some(slot) = self.slots.at(tag) else { return true };
        self.fetching -= u16::from(slot.state == TaskState::Fetching);
        match slot.state {
            TaskState::Fetching if begun => {
                slot.state = TaskState::Draining;
                false
            }
            TaskState::Held | TaskState::Fetching => {
                if arriving {
                    self.arriving = None;
                }
                self.leave_window(tag);
                self.slots.give_back(tag);
                true
            }
            _ => true,
        }
    }

    /// The place of a task in the window is free: its answer goes out, or there will be none.
    pub(super) fn leave_window(&mut self, tag: Tag) {
        let Some(slot) = self.slots.at(tag) else { return };
        let counter = if slot.immediate { &mut self.immediate } else { &mut self.in_window };
        *counter = counter.saturating_sub(1);
    }
}

/// The residual of a command that transfers `expected` bytes for the initiator and `total`
/// according to its CDB (§11.4.5).
#[inline]
fn residual(expected: u32, total: u32) -> (ResponseFlags, u32) {
    match expected.cmp(&total) {
        core::cmp::Ordering::Less => (ResponseFlags::OVERFLOW, total - expected),
        core::cmp::Ordering::Equal => (ResponseFlags::NONE, 0),
        core::cmp::Ordering::Greater => (ResponseFlags::UNDERFLOW, expected - total),
    }
}
