//! The outstanding commands of a host on one queue pair: a slab whose memory is reserved once; only slots that were ever used have
//! been touched.

use crate::limits::QUEUE_ENTRIES_MAX;
use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::Cid;
use crate::nvme_rdma::work::{Buffer, Remote};
use crate::stream::Tag;

/// What a slot is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandState {
    /// In the free list.
    Free,
    /// The layer above has the command, or is to hear of it, and owes an answer.
    Held,
    /// The host's data is being read, or copied from its capsule.
    Fetching,
    /// The data is there, or is not to be had; the layer above is to hear of it.
    Arrived,
    /// The layer above abandoned the command while it was fetching; the slot stays until its memory is not written to any more.
    Draining,
    /// Data and response are to be sent.
    Completing,
    /// Everything is posted; the memory is still in use.
    Sending,
    /// The memory is free; the layer above is to hear of it, or has, until [`super::TargetQueuePair::sent`].
    Released,
}

/// What the layer above is to hear of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Command,
    Arrived,
    Failed,
    Dropped,
    Released,
}

/// A command.
#[derive(Clone, Copy)]
pub(super) struct CommandSlot {
    pub state: CommandState,
    /// What is in the queue of events.
    pub news: Option<News>,
    /// Whether the tag is in the queue of those whose data is to be read, where it stays when the slot becomes free or gets its next
    /// command.
    pub queued: bool,
    /// Whether data could not be read.
    pub damaged: bool,
    /// Whether the data in the capsule is being copied.
    pub placing: bool,
    /// Entries of the send queue that the response gives back.
    pub entries: u16,
    /// RDMA READs and signaled RDMA WRITEs that are posted.
    pub posted: u16,
    /// Whether an unsignaled RDMA WRITE is posted.
    pub unsignaled: bool,
    /// The receive that has the data of the capsule, and how much that is.
    pub buffer: Option<Buffer>,
    pub in_capsule_bytes: u32,
    /// The host's memory, once it was found to be good for what is read or written.
    pub remote: Remote,
    /// Bytes wanted from the host; bytes asked for.
    pub wanted: u32,
    pub asked: u32,
    /// Bytes for the host; bytes posted.
    pub data_bytes: u32,
    pub data_sent: u32,
    pub cqe: Cqe,
    pub sqe: Sqe,
}

impl CommandSlot {
    const FREE: Self = Self {
        state: CommandState::Free,
        news: None,
        queued: false,
        damaged: false,
        placing: false,
        entries: 0,
        posted: 0,
        unsignaled: false,
        buffer: None,
        in_capsule_bytes: 0,
        remote: Remote { address: 0, key: 0 },
        wanted: 0,
        asked: 0,
        data_bytes: 0,
        data_sent: 0,
        cqe: Cqe {
            result: 0,
            sq_head: 0,
            sq_id: crate::nvme::types::Qid(0),
            cid: Cid(0),
            status: Status::SUCCESS,
            do_not_retry: false,
        },
        sqe: Sqe([0; 64]),
    };

    /// Whether something may still be put into its memory, or be taken from it.
    pub fn is_in_use(&self) -> bool {
        self.posted > 0 || self.placing || self.unsignaled
    }
}

/// The slots.
pub(super) struct CommandSlots {
    slots: Vec<CommandSlot>,
    /// Tags that were in use and are free again; the last one is taken first, as its memory is the warmest.
    free: Vec<Tag>,
    capacity: usize,
}

impl CommandSlots {
    pub fn new(capacity: u16) -> Self {
        let mut slots = Self { slots: Vec::new(), free: Vec::new(), capacity: 0 };
        slots.grow(capacity);
        slots
    }

    /// Makes room for `capacity` slots (at most [`QUEUE_ENTRIES_MAX`]); never fewer than there were.
    pub fn grow(&mut self, capacity: u16) {
        self.capacity = self.capacity.max(usize::from(capacity.clamp(1, QUEUE_ENTRIES_MAX)));
        self.slots.reserve_exact(self.capacity - self.slots.len());
        self.free.reserve_exact(self.capacity - self.free.len());
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes a slot for a command, unless all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<(Tag, &mut CommandSlot)> {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => self.push()?,
        };
        let slot = self.slots.get_mut(tag.index())?;
        slot.state = CommandState::Held;
        slot.damaged = false;
        Some((tag, slot))
    }

    #[cold]
    fn push(&mut self) -> Option<Tag> {
        if self.slots.len() == self.capacity {
            return None;
        }
        self.slots.push(CommandSlot::FREE);
        Some(Tag(self.slots.len() as u16 - 1))
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

    /// All tags that were ever in use.
    pub fn tags(&self) -> impl Iterator<Item = Tag> + use<> {
        (0..self.slots.len() as u16).map(Tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_once_and_never_taken_away() {
        let mut slots = CommandSlots::new(0);
        assert_eq!(slots.capacity(), 1);
        slots.grow(QUEUE_ENTRIES_MAX);
        slots.grow(4);
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
