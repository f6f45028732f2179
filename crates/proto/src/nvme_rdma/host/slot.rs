//! The outstanding commands of a host on one queue pair: a slab whose memory is reserved once.

use crate::limits::QUEUE_ENTRIES_MAX;
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
    /// Submitted, and not asked to be sent.
    Submitted,
    /// Its memory is being made accessible.
    Exposing,
    /// The controller may know the command.
    Active,
    /// The response is here, but the memory may still be touched.
    Answered,
    /// The layer above is being told, or has been.
    Done,
}

/// Which way the data of a command goes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    None,
    /// From the controller, by RDMA WRITE.
    In,
    /// To the controller, in the capsule.
    Capsule,
    /// To the controller, by RDMA READ.
    Out,
}

/// A command.
#[derive(Clone, Copy)]
pub(super) struct CommandSlot {
    pub state: CommandState,
    pub direction: Direction,
    /// Whether its SEND is posted.
    pub sending: bool,
    /// Whether an unsignaled bind is posted.
    pub binding: bool,
    /// Entries of the send queue that its SEND gives back.
    pub entries: u16,
    /// Whether the controller has access to its memory.
    pub exposed: bool,
    /// Whether an invalidation is posted.
    pub invalidating: bool,
    /// The key of the memory, while it is exposed.
    pub key: u32,
    pub cid: Cid,
    /// Bytes of data.
    pub bytes: u32,
    pub cqe: Cqe,
    pub sqe: Sqe,
}

/// The tag is in the lower bits of a CID, and in the upper ones a number that changes whenever the slot is used again, so that a
/// late response is not taken for another command's. One bit stays clear, as FFFFh is no CID (Base §3.3.3.1).
const TAG_BITS: u32 = 10;
const CID_MASK: u16 = 0x7fff;
const _: () = assert!(QUEUE_ENTRIES_MAX as u32 <= 1 << TAG_BITS, "a tag does not fit into its part of a CID");

/// The slots.
pub(super) struct CommandSlots {
    slots: Vec<CommandSlot>,
    free: Vec<Tag>,
    capacity: usize,
}

impl CommandSlots {
    pub fn new(capacity: u16) -> Self {
        let capacity = usize::from(capacity.clamp(1, QUEUE_ENTRIES_MAX));
        Self { slots: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity), capacity }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
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
            sending: false,
            binding: false,
            entries: 0,
            exposed: false,
            invalidating: false,
            key: 0,
            cid: Cid(tag.0),
            bytes: 0,
            cqe: Cqe::new(Cid(0), Status::SUCCESS),
            sqe: Sqe::default(),
        });
        Some(tag)
    }

    /// Gives a slot back.
    #[inline]
    pub fn give_back(&mut self, tag: Tag) {
        let Some(slot) = self.slots.get_mut(tag.index()) else { return };
        slot.state = CommandState::Free;
        self.free.push(tag);
    }

    #[inline]
    pub fn at(&mut self, tag: Tag) -> Option<&mut CommandSlot> {
        self.slots.get_mut(tag.index())
    }

    #[inline]
    pub fn peek(&self, tag: Tag) -> Option<&CommandSlot> {
        self.slots.get(tag.index())
    }

    /// The command that a controller knows under this identifier and has not answered.
    #[inline]
    pub fn active(&mut self, cid: Cid) -> Option<(Tag, &mut CommandSlot)> {
        let tag = Tag(cid.0 & ((1 << TAG_BITS) - 1));
        let slot = self.slots.get_mut(tag.index())?;
        (slot.cid == cid && slot.state == CommandState::Active).then_some((tag, slot))
    }

    /// All tags that were ever in use.
    pub fn tags(&self) -> impl Iterator<Item = Tag> + use<> {
        (0..self.slots.len() as u16).map(Tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_once() {
        let mut slots = CommandSlots::new(QUEUE_ENTRIES_MAX);
        let memory = |slots: &CommandSlots| (slots.slots.as_ptr(), slots.free.as_ptr());
        let before = memory(&slots);
        for _ in 0..2 {
            let tags: Vec<_> = (0..QUEUE_ENTRIES_MAX).map(|_| slots.take().unwrap().0).collect();
            assert!(slots.take().is_none());
            tags.into_iter().for_each(|tag| slots.give_back(tag));
        }
        assert_eq!(memory(&slots), before);
    }
}
