//! The outstanding commands of a session.

use super::command::{CommandOutcome, CommandResponse, SENSE_BYTES_MAX};
use crate::iscsi::pdu::{Lun, TaskTag};
use crate::iscsi::serial::Serial;
use crate::slab::{EntriesInUse, Slab, SlabSlot};
use crate::stream::Tag;
use core::time::Duration;

/// Use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// In the free list.
    Free,
    /// Submitted, but in no gather list yet.
    Submitted,
    /// The target may know the command.
    Active,
    /// It has ended, but the memory is still named in a gather list.
    Ending,
    /// The layer above knows how it ended.
    Done,
}

/// Direction of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    None,
    In,
    Out,
}

/// A command.
#[derive(Clone, Copy)]
pub(super) struct TaskSlot {
    pub state: TaskState,
    pub direction: Direction,
    /// True if the tag is in the queue of data to be sent.
    pub data_queued: bool,
    /// True if a data digest was wrong.
    pub damaged: bool,
    /// True if an abort is pending or in progress.
    pub aborting: bool,
    /// True if the time limit has passed.
    pub overdue: bool,
    /// R2Ts to be answered.
    pub r2ts: EntriesInUse,
    /// Bytes of sense data.
    pub sense_bytes: u8,
    /// Initiator Task Tag.
    pub itt: TaskTag,
    pub cmd_sn: Serial,
    /// Bytes of data.
    pub bytes: u32,
    /// Bytes received, or that the target has asked for or was sent unasked.
    pub moved: u32,
    /// DataSN or R2TSN that is to come next.
    pub sequence: Serial,
    /// Payloads named in gather lists and not sent yet.
    pub unsent: u32,
    pub started: Duration,
    /// Its outcome, once it has ended.
    pub end: CommandOutcome,
    pub lun: Lun,
    pub cdb: [u8; 16],
    pub sense: [u8; SENSE_BYTES_MAX],
}

/// Data that the target asked for and that is still to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct R2t {
    pub lun: Lun,
    pub transfer: TaskTag,
    pub next: u32,
    pub end: u32,
    /// DataSN of the next PDU.
    pub data_sn: Serial,
}

/// The tag is in the lower bits of an Initiator Task Tag, and in the upper ones a number that
/// changes whenever the slot is used again, so that a late PDU is not taken for another command's.
/// The highest bit is that of the session's own requests.
const TAG_BITS: u32 = 16;
const ITT_MASK: u32 = 0x7fff_ffff;

const EMPTY: TaskSlot = TaskSlot {
    state: TaskState::Free,
    direction: Direction::None,
    data_queued: false,
    damaged: false,
    aborting: false,
    overdue: false,
    r2ts: EntriesInUse::EMPTY,
    sense_bytes: 0,
    itt: TaskTag(0),
    cmd_sn: Serial(0),
    bytes: 0,
    moved: 0,
    sequence: Serial(0),
    unsent: 0,
    started: Duration::ZERO,
    end: CommandOutcome::Answered(CommandResponse::GOOD),
    lun: Lun(0),
    cdb: [0; 16],
    sense: [0; SENSE_BYTES_MAX],
};

impl SlabSlot for TaskSlot {
    fn new(tag: Tag) -> Self {
        Self { itt: TaskTag(tag.0.into()), ..EMPTY }
    }

    /// It gets a fresh Initiator Task Tag.
    #[inline]
    fn begin(&mut self) {
        self.itt = TaskTag(self.itt.0.wrapping_add(1 << TAG_BITS) & ITT_MASK);
        self.state = TaskState::Submitted;
        self.damaged = false;
        self.aborting = false;
        self.overdue = false;
        self.r2ts.clear();
        self.sense_bytes = 0;
        self.moved = 0;
        self.sequence = Serial(0);
        self.unsent = 0;
    }

    #[inline]
    fn end(&mut self) {
        self.state = TaskState::Free;
    }

    #[inline]
    fn is_free(&self) -> bool {
        self.state == TaskState::Free
    }
}

impl Slab<TaskSlot> {
    /// The command that the target may know under `itt`.
    #[inline]
    pub fn active(&mut self, itt: TaskTag) -> Option<(Tag, &mut TaskSlot)> {
        let tag = Tag(itt.0 as u16);
        let slot = self.at(tag)?;
        (slot.itt == itt && slot.state == TaskState::Active).then_some((tag, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_tags_are_used_again_late() {
        let mut slots = Slab::<TaskSlot>::new(1);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let (tag, slot) = slots.take().unwrap();
            assert!(seen.insert(slot.itt) && slot.itt.0 <= ITT_MASK);
            slot.state = TaskState::Active;
            let itt = slot.itt;
            assert!(
                slots.active(itt).is_some() && slots.active(TaskTag(itt.0 ^ 1 << 16)).is_none()
            );
            slots.give_back(tag);
        }
    }
}
