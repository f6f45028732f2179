//! The outstanding commands of a session: a slab whose memory is reserved once.

use super::command::{Answer, End, SENSE_BYTES_MAX};
use crate::iscsi::pdu::{Lun, TaskTag};
use crate::iscsi::serial::Serial;
use crate::limits::{QUEUE_ENTRIES_MAX, R2T_OUTSTANDING_MAX};
use crate::stream::Tag;
use core::time::Duration;

/// What a slot is about.
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

/// Which way the data of a command goes.
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
    /// Whether the tag is in the queue of data to be sent.
    pub data_queued: bool,
    /// Whether a data digest was wrong.
    pub damaged: bool,
    /// Whether an abort is pending or in progress.
    pub aborting: bool,
    /// Whether the time limit has passed.
    pub overdue: bool,
    /// R2Ts to be answered: where they start in the slot's ring, and how many there are.
    pub r2t_first: u8,
    pub r2t_count: u8,
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
    /// How it ended, once it has.
    pub end: End,
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

/// The tag is in the lower bits of an Initiator Task Tag, and in the upper ones a number that changes whenever the slot is used
/// again, so that a late PDU is not taken for another command's. The highest bit is that of the session's own requests.
const TAG_BITS: u32 = 16;
const ITT_MASK: u32 = 0x7fff_ffff;

const EMPTY: TaskSlot = TaskSlot {
    state: TaskState::Free,
    direction: Direction::None,
    data_queued: false,
    damaged: false,
    aborting: false,
    overdue: false,
    r2t_first: 0,
    r2t_count: 0,
    sense_bytes: 0,
    itt: TaskTag(0),
    cmd_sn: Serial(0),
    bytes: 0,
    moved: 0,
    sequence: Serial(0),
    unsent: 0,
    started: Duration::ZERO,
    end: End::Answered(Answer::GOOD),
    lun: Lun(0),
    cdb: [0; 16],
    sense: [0; SENSE_BYTES_MAX],
};

/// The slots and their R2Ts.
pub(super) struct TaskSlots {
    slots: Vec<TaskSlot>,
    r2ts: Vec<R2t>,
    free: Vec<Tag>,
    capacity: usize,
}

impl TaskSlots {
    pub fn new(capacity: u16) -> Self {
        let capacity = usize::from(capacity.clamp(1, QUEUE_ENTRIES_MAX));
        Self {
            slots: Vec::with_capacity(capacity),
            r2ts: Vec::with_capacity(capacity * usize::from(R2T_OUTSTANDING_MAX)),
            free: Vec::with_capacity(capacity),
            capacity,
        }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Slots that name a command.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a slot with a fresh Initiator Task Tag, unless all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<(Tag, &mut TaskSlot)> {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => self.push()?,
        };
        let slot = self.slots.get_mut(tag.index())?;
        slot.itt = TaskTag(slot.itt.0.wrapping_add(1 << TAG_BITS) & ITT_MASK);
        slot.state = TaskState::Submitted;
        slot.damaged = false;
        slot.aborting = false;
        slot.overdue = false;
        slot.r2t_count = 0;
        slot.sense_bytes = 0;
        slot.moved = 0;
        slot.sequence = Serial(0);
        slot.unsent = 0;
        Some((tag, slot))
    }

    #[cold]
    fn push(&mut self) -> Option<Tag> {
        if self.slots.len() == self.capacity {
            return None;
        }
        let tag = Tag(self.slots.len() as u16);
        self.slots.push(TaskSlot { itt: TaskTag(tag.0.into()), ..EMPTY });
        self.r2ts.resize(self.slots.len() * usize::from(R2T_OUTSTANDING_MAX), R2t::default());
        Some(tag)
    }

    #[inline]
    pub fn give_back(&mut self, tag: Tag) {
        if let Some(slot) = self.slots.get_mut(tag.index()) {
            slot.state = TaskState::Free;
            self.free.push(tag);
        }
    }

    #[inline]
    pub fn at(&mut self, tag: Tag) -> Option<&mut TaskSlot> {
        self.slots.get_mut(tag.index())
    }

    pub fn peek(&self, tag: Tag) -> Option<&TaskSlot> {
        self.slots.get(tag.index())
    }

    /// All that name a command.
    pub fn all(&mut self) -> impl Iterator<Item = (Tag, &mut TaskSlot)> {
        (0..).map(Tag).zip(&mut self.slots).filter(|(_, slot)| slot.state != TaskState::Free)
    }

    /// The command that the target may know under `itt`.
    #[inline]
    pub fn active(&mut self, itt: TaskTag) -> Option<(Tag, &mut TaskSlot)> {
        let tag = Tag(itt.0 as u16);
        let slot = self.slots.get_mut(tag.index())?;
        (slot.itt == itt && slot.state == TaskState::Active).then_some((tag, slot))
    }

    /// Remembers an R2T of a slot that has fewer than [`R2T_OUTSTANDING_MAX`].
    pub fn push_r2t(&mut self, tag: Tag, r2t: R2t) {
        let Some(slot) = self.slots.get_mut(tag.index()) else { return };
        let place = place(tag, (slot.r2t_first + slot.r2t_count) % R2T_OUTSTANDING_MAX);
        if let Some(entry) = self.r2ts.get_mut(place) {
            *entry = r2t;
            slot.r2t_count += 1;
        }
    }

    /// A slot and the R2T of it that is to be answered next.
    pub fn first_r2t(&mut self, tag: Tag) -> Option<(&mut TaskSlot, &mut R2t)> {
        let slot = self.slots.get_mut(tag.index()).filter(|slot| slot.r2t_count > 0)?;
        let r2t = self.r2ts.get_mut(place(tag, slot.r2t_first))?;
        Some((slot, r2t))
    }

    /// Forgets that one.
    pub fn pop_r2t(&mut self, tag: Tag) {
        if let Some(slot) = self.slots.get_mut(tag.index()) {
            slot.r2t_first = (slot.r2t_first + 1) % R2T_OUTSTANDING_MAX;
            slot.r2t_count -= 1;
        }
    }
}

fn place(tag: Tag, n: u8) -> usize {
    tag.index() * usize::from(R2T_OUTSTANDING_MAX) + usize::from(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_once() {
        let mut slots = TaskSlots::new(QUEUE_ENTRIES_MAX);
        let memory = |slots: &TaskSlots| (slots.slots.as_ptr(), slots.r2ts.as_ptr(), slots.free.as_ptr());
        let before = memory(&slots);
        for _ in 0..2 {
            let tags: Vec<_> = (0..QUEUE_ENTRIES_MAX).map(|_| slots.take().unwrap().0).collect();
            assert!(slots.take().is_none());
            tags.into_iter().for_each(|tag| slots.give_back(tag));
        }
        assert_eq!(memory(&slots), before);
    }

    #[test]
    fn task_tags_are_used_again_late() {
        let mut slots = TaskSlots::new(1);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let (tag, slot) = slots.take().unwrap();
            assert!(seen.insert(slot.itt) && slot.itt.0 <= ITT_MASK);
            slot.state = TaskState::Active;
            let itt = slot.itt;
            assert!(slots.active(itt).is_some() && slots.active(TaskTag(itt.0 ^ 1 << 16)).is_none());
            slots.give_back(tag);
        }
    }
}
