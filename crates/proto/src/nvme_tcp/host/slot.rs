//! The outstanding commands of a host on one connection: a slab whose memory is reserved once.

use crate::limits::{QUEUE_ENTRIES_MAX, R2T_OUTSTANDING_MAX};
use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::Cid;
use crate::stream::Tag;

/// What a slot is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandState {
    /// In the free list.
    Free,
    /// Submitted, but in no gather list yet.
    Submitted,
    /// The controller may know the command.
    Active,
    /// The response is here, but the memory is still named in a gather list.
    Answered,
    /// The layer above has the response.
    Done,
    /// Released, but still in the transmit queue: freed when that comes to it.
    Leaving,
}

/// Which way the data of a command goes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    None,
    /// From the controller, by C2HData.
    In,
    /// To the controller, in the capsule.
    Capsule,
    /// To the controller, by R2T and H2CData.
    Out,
}

/// A command.
#[derive(Clone, Copy)]
pub(super) struct CommandSlot {
    pub state: CommandState,
    pub direction: Direction,
    /// Whether the tag is in the transmit queue.
    pub queued: bool,
    /// Whether a data digest was wrong.
    pub damaged: bool,
    /// Whether a C2HData PDU was the last one.
    pub all_in: bool,
    /// R2Ts to be answered: where they start in the slot's ring, and how many there are.
    pub r2t_first: u8,
    pub r2t_count: u8,
    pub cid: Cid,
    /// Bytes of data.
    pub bytes: u32,
    /// Bytes received, or asked for by R2T.
    pub moved: u32,
    /// Payloads named in gather lists and not sent yet.
    pub unsent: u32,
    pub cqe: Cqe,
    pub sqe: Sqe,
}

/// What is still to be sent of an R2T.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct R2t {
    pub ttag: u16,
    pub next: u32,
    pub end: u32,
}

/// The tag is in the lower bits of a CID, and in the upper ones a number that changes whenever the slot is used again, so that a
/// late response is not taken for another command's. One bit stays clear, as FFFFh is no CID (Base §3.3.3.1).
const TAG_BITS: u32 = 10;
const CID_MASK: u16 = 0x7fff;
const _: () = assert!(QUEUE_ENTRIES_MAX as u32 <= 1 << TAG_BITS, "a tag does not fit into its part of a CID");

/// The slots and their R2Ts.
pub(super) struct CommandSlots {
    slots: Vec<CommandSlot>,
    r2ts: Vec<R2t>,
    free: Vec<Tag>,
    capacity: usize,
    max_r2t: u8,
}

impl CommandSlots {
    pub fn new(capacity: u16, max_r2t: u8) -> Self {
        let capacity = usize::from(capacity.clamp(1, QUEUE_ENTRIES_MAX));
        let max_r2t = max_r2t.clamp(1, R2T_OUTSTANDING_MAX);
        Self {
            slots: Vec::with_capacity(capacity),
            r2ts: Vec::with_capacity(capacity * usize::from(max_r2t)),
            free: Vec::with_capacity(capacity),
            capacity,
            max_r2t,
        }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn max_r2t(&self) -> u8 {
        self.max_r2t
    }

    /// Slots that name a command.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a slot with a fresh CID, unless all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<(Tag, &mut CommandSlot)> {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => self.push()?,
        };
        let slot = self.slots.get_mut(tag.index())?;
        slot.cid = Cid(slot.cid.0.wrapping_add(1 << TAG_BITS) & CID_MASK);
        slot.state = CommandState::Submitted;
        slot.damaged = false;
        slot.all_in = false;
        slot.moved = 0;
        Some((tag, slot))
    }

    #[cold]
    fn push(&mut self) -> Option<Tag> {
        if self.slots.len() == self.capacity {
            return None;
        }
        let tag = Tag(self.slots.len() as u16);
        self.slots.push(CommandSlot {
            state: CommandState::Free,
            direction: Direction::None,
            queued: false,
            damaged: false,
            all_in: false,
            r2t_first: 0,
            r2t_count: 0,
            cid: Cid(tag.0),
            bytes: 0,
            moved: 0,
            unsent: 0,
            cqe: Cqe::new(Cid(0), Status::SUCCESS),
            sqe: Sqe::default(),
        });
        self.r2ts.resize(self.slots.len() * usize::from(self.max_r2t), R2t::default());
        Some(tag)
    }

    /// Gives a slot back, or has the transmit queue do so when it comes to it: the next command must not take this one's place
    /// there, as commands are sent in order.
    #[inline]
    pub fn give_back(&mut self, tag: Tag) {
        let Some(slot) = self.slots.get_mut(tag.index()) else { return };
        if slot.queued {
            slot.state = CommandState::Leaving;
        } else {
            slot.state = CommandState::Free;
            self.free.push(tag);
        }
    }

    #[inline]
    pub fn at(&mut self, tag: Tag) -> Option<&mut CommandSlot> {
        self.slots.get_mut(tag.index())
    }

    pub fn peek(&self, tag: Tag) -> Option<&CommandSlot> {
        self.slots.get(tag.index())
    }

    /// The command that the controller may know under `cid`.
    #[inline]
    pub fn active(&mut self, cid: Cid) -> Option<(Tag, &mut CommandSlot)> {
        let tag = Tag(cid.0 & ((1 << TAG_BITS) - 1));
        let slot = self.slots.get_mut(tag.index())?;
        (slot.cid == cid && slot.state == CommandState::Active).then_some((tag, slot))
    }

    /// Remembers an R2T of a slot that has fewer than MAXR2T.
    pub fn push_r2t(&mut self, tag: Tag, r2t: R2t) {
        let Some(slot) = self.slots.get_mut(tag.index()) else { return };
        let place = tag.index() * usize::from(self.max_r2t) + usize::from((slot.r2t_first + slot.r2t_count) % self.max_r2t);
        if let Some(entry) = self.r2ts.get_mut(place) {
            *entry = r2t;
            slot.r2t_count += 1;
        }
    }

    /// A slot and the R2T of it that is to be answered next.
    pub fn first_r2t(&mut self, tag: Tag) -> Option<(&mut CommandSlot, &mut R2t)> {
        let slot = self.slots.get_mut(tag.index()).filter(|slot| slot.r2t_count > 0)?;
        let r2t = self.r2ts.get_mut(tag.index() * usize::from(self.max_r2t) + usize::from(slot.r2t_first))?;
        Some((slot, r2t))
    }

    /// Forgets that one.
    pub fn pop_r2t(&mut self, tag: Tag) {
        let max_r2t = self.max_r2t;
        if let Some(slot) = self.slots.get_mut(tag.index()) {
            slot.r2t_first = (slot.r2t_first + 1) % max_r2t;
            slot.r2t_count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_once() {
        let mut slots = CommandSlots::new(QUEUE_ENTRIES_MAX, 3);
        let memory = |slots: &CommandSlots| (slots.slots.as_ptr(), slots.r2ts.as_ptr(), slots.free.as_ptr());
        let before = memory(&slots);
        for _ in 0..2 {
            let tags: Vec<_> = (0..QUEUE_ENTRIES_MAX).map(|_| slots.take().unwrap().0).collect();
            assert!(slots.take().is_none());
            tags.into_iter().for_each(|tag| slots.give_back(tag));
        }
        assert_eq!(memory(&slots), before);
    }
}
