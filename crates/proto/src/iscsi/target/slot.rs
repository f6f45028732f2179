//! The tasks of a connection.

use crate::iscsi::pdu::{Lun, ResponseFlags, TaskResult, TaskTag};
use crate::iscsi::serial::Serial;
use crate::scsi::sense::SENSE_BYTES_MAX;
use crate::slab::SlabSlot;
use crate::stream::Tag;

/// Use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// In the free list.
    Free,
    /// The layer above has the task, and owes an answer.
    Held,
    /// The initiator's data is awaited.
    Fetching,
    /// The layer above gave the task up while data arrived in its memory; the slot lives until that
    /// has passed.
    Draining,
    /// Data and response must be sent.
    Completing,
    /// Everything is in a gather list; the memory is still in use.
    Sending,
}

/// Kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskKind {
    /// A SCSI command.
    Command,
    /// A task management function, and its outcome.
    Function(TaskResult),
}

/// A task.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskSlot {
    pub state: TaskState,
    pub kind: TaskKind,
    /// True if the tag is in the transmit queue, in which it is at most once.
    pub queued: bool,
    /// True if the request was sent ahead of the ordered ones.
    pub immediate: bool,
    /// True if a data digest was wrong.
    pub damaged: bool,
    /// True if unsolicited data is still to come.
    pub unsolicited: bool,
    pub reads: bool,
    pub writes: bool,
    /// Counts the uses of the slot, to distinguish data for a former task from data for this one.
    pub generation: u16,
    pub task: TaskTag,
    pub lun: Lun,
    /// Bytes that the initiator expects to move.
    pub expected: u32,
    /// Bytes wanted from the initiator.
    pub wanted: u32,
    /// Bytes received, including discarded ones.
    pub received: u32,
    /// Where the data that is asked for begins, and how far it was asked for.
    pub solicited_from: u32,
    pub asked: u32,
    /// Counts the data PDUs of the current sequence, or those sent; and the R2Ts.
    pub data_sn: Serial,
    pub r2t_sn: Serial,
    /// Bytes to send, and those in a gather list already.
    pub data_bytes: u32,
    pub data_sent: u32,
    pub status: u8,
    pub residual: u32,
    pub residual_flags: ResponseFlags,
    pub sense_bytes: u8,
    pub sense: [u8; SENSE_BYTES_MAX],
    /// Its place among the answers.
    pub answered: u32,
}

impl TaskSlot {
    const FREE: Self = Self {
        state: TaskState::Free,
        kind: TaskKind::Command,
        queued: false,
        immediate: false,
        damaged: false,
        unsolicited: false,
        reads: false,
        writes: false,
        generation: 0,
        task: TaskTag::NONE,
        lun: Lun(0),
        expected: 0,
        wanted: 0,
        received: 0,
        solicited_from: 0,
        asked: 0,
        data_sn: Serial(0),
        r2t_sn: Serial(0),
        data_bytes: 0,
        data_sent: 0,
        status: 0,
        residual: 0,
        residual_flags: ResponseFlags::NONE,
        sense_bytes: 0,
        sense: [0; SENSE_BYTES_MAX],
        answered: 0,
    };

    /// Returns whether data is in transit that must pass before anything else happens to the task.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.unsolicited || self.asked > self.received
    }

    /// The R2T, counted from 0, that the next byte answers, where each asks for `burst` bytes.
    #[inline]
    pub fn window(&self, burst: u32) -> u32 {
        (self.received - self.solicited_from) / burst
    }

    /// End of the R2T's data that contains the next byte.
    #[inline]
    pub fn window_end(&self, burst: u32) -> u32 {
        let end =
            u64::from(self.solicited_from) + (u64::from(self.window(burst)) + 1) * u64::from(burst);
        u32::try_from(end).map_or(self.asked, |end| end.min(self.asked))
    }

    /// R2Ts that are not wholly answered.
    #[inline]
    pub fn windows_open(&self, burst: u32) -> u32 {
        (self.asked - self.solicited_from).div_ceil(burst) - self.window(burst)
    }
}

/// Bits of a Target Transfer Tag: the slot, the R2T, the slot's generation. The top bit stays
/// clear, so that none is the tag of no transfer.
const TAG_BITS: u32 = 10;
const WINDOW_BITS: u32 = 6;

/// Slots, at most.
pub(super) const SLOTS_MAX: u16 = 1 << TAG_BITS;

/// The tag of the R2T `window` of a slot in its `generation`.
#[inline]
pub(super) fn transfer_tag(tag: Tag, window: u32, generation: u16) -> TaskTag {
    let window = window & ((1 << WINDOW_BITS) - 1);
    TaskTag(
        u32::from(generation & 0x7fff) << (TAG_BITS + WINDOW_BITS)
            | window << TAG_BITS
            | u32::from(tag.0),
    )
}

/// The slot that a transfer tag names.
#[inline]
pub(super) fn slot_of(transfer: TaskTag) -> Tag {
    Tag(transfer.0 as u16 & (SLOTS_MAX - 1))
}

/// Returns whether a transfer tag is one of this generation.
#[inline]
pub(super) fn is_current(transfer: TaskTag, generation: u16) -> bool {
    transfer.0 >> (TAG_BITS + WINDOW_BITS) == u32::from(generation & 0x7fff)
}

impl SlabSlot for TaskSlot {
    fn new(_: Tag) -> Self {
        Self::FREE
    }

    /// It is held, and nothing is known of it but its generation.
    #[inline]
    fn begin(&mut self) {
        *self = Self {
            state: TaskState::Held,
            generation: self.generation.wrapping_add(1),
            queued: self.queued,
            ..Self::FREE
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn transfer_tags_name_slot_window_and_generation() {
        let tag = transfer_tag(Tag(1023), 70, 0xffff);
        assert_ne!(tag, TaskTag::NONE);
        assert_eq!(slot_of(tag), Tag(1023));
        assert!(is_current(tag, 0x7fff) && !is_current(tag, 0));
    }

    #[test]
    fn windows_follow_each_other() {
        let mut slot =
            TaskSlot { solicited_from: 100, received: 100, asked: 350, ..TaskSlot::FREE };
        assert_eq!((slot.window(100), slot.window_end(100), slot.windows_open(100)), (0, 200, 3));
        slot.received = 200;
        assert_eq!((slot.window(100), slot.window_end(100), slot.windows_open(100)), (1, 300, 2));
        slot.received = 349;
        assert_eq!((slot.window(100), slot.window_end(100), slot.windows_open(100)), (2, 350, 1));
    }

    #[test]
    fn slots_come_back_with_another_generation() {
        let mut slots = Slab::<TaskSlot>::new(2);
        let (tag, generation) = slots.take().map(|(tag, slot)| (tag, slot.generation)).unwrap();
        slots.give_back(tag);
        let again = slots.take().unwrap();
        assert_eq!((again.0, again.1.generation), (tag, generation + 1));
    }
}
