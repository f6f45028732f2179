//! The requests in progress at a server: a slab that grows up to its limit and keeps its memory.

use crate::nbd::code::{CommandCode, ErrorCode};
use crate::stream::Tag;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    Free,
    /// Its payload is arriving.
    Receiving,
    /// With the layer above.
    Busy,
    /// Its reply is in the queue.
    Ready,
    /// Its reply is named in a gather list.
    Sending,
}

/// A request.
#[derive(Clone, Copy)]
pub(super) struct RequestSlot {
    pub state: RequestState,
    pub command: CommandCode,
    pub error: ErrorCode,
    pub cookie: u64,
    pub offset: u64,
    pub length: u64,
}

/// All of them.
pub(super) struct RequestSlots {
    slots: Vec<RequestSlot>,
    free: Vec<Tag>,
    capacity: u16,
}

impl RequestSlots {
    pub fn new(capacity: u16) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), capacity }
    }

    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == usize::from(self.capacity)
    }

    /// Takes a slot, unless all are in use.
    #[inline]
    pub fn take(&mut self, slot: RequestSlot) -> Option<Tag> {
        if let Some(tag) = self.free.pop() {
            self.slots[tag.index()] = slot;
            return Some(tag);
        }
        if self.is_full() {
            return None;
        }
        self.slots.push(slot);
        Some(Tag(self.slots.len() as u16 - 1))
    }

    #[inline]
    pub fn at(&mut self, tag: Tag) -> Option<&mut RequestSlot> {
        self.slots.get_mut(tag.index())
    }

    #[inline]
    pub fn give_back(&mut self, tag: Tag) {
        if let Some(slot) = self.slots.get_mut(tag.index()).filter(|slot| slot.state != RequestState::Free) {
            slot.state = RequestState::Free;
            self.free.push(tag);
        }
    }
}
