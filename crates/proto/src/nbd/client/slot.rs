//! The outstanding requests of a client: a slab that grows up to its limit and keeps its memory.

use super::coverage::Coverage;
use super::{ClientEvent, Command};
use crate::nbd::code::ErrorCode;
use crate::stream::Tag;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    Free,
    /// In no gather list yet.
    Submitted,
    /// The server may know it.
    Active,
    /// The reply is here, but the memory is still named in a gather list.
    Answered,
    /// The layer above has the response.
    Done,
}

/// A request.
pub(super) struct RequestSlot {
    pub state: RequestState,
    /// Its data is named in a gather list and not sent yet.
    pub unsent: bool,
    pub cookie: u64,
    pub command: Command,
    /// The first error that the server told of.
    pub error: ErrorCode,
    /// What of a read has come.
    pub coverage: Coverage,
}

impl RequestSlot {
    pub fn answer(&mut self, tag: Tag) -> ClientEvent {
        self.state = RequestState::Done;
        ClientEvent::Response { tag, error: self.error }
    }
}

/// All of them. A cookie is the tag and, above it, a number that changes whenever the slot is used again, so that a late reply is not
/// taken for another request's.
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

    /// Takes a slot, unless all are in use.
    #[inline]
    pub fn take(&mut self, command: Command) -> Option<Tag> {
        if let Some(tag) = self.free.pop() {
            let slot = &mut self.slots[tag.index()];
            slot.cookie = slot.cookie.wrapping_add(1 << 16);
            (slot.state, slot.command, slot.error) = (RequestState::Submitted, command, ErrorCode::SUCCESS);
            slot.coverage.clear();
            return Some(tag);
        }
        if self.slots.len() == usize::from(self.capacity) {
            return None;
        }
        let tag = Tag(self.slots.len() as u16);
        let (error, coverage) = (ErrorCode::SUCCESS, Coverage::default());
        self.slots.push(RequestSlot {
            state: RequestState::Submitted,
            unsent: false,
            cookie: tag.0.into(),
            command,
            error,
            coverage,
        });
        Some(tag)
    }

    #[inline]
    pub fn at(&mut self, tag: Tag) -> Option<&mut RequestSlot> {
        self.slots.get_mut(tag.index())
    }

    #[inline]
    pub fn peek(&self, tag: Tag) -> Option<&RequestSlot> {
        self.slots.get(tag.index())
    }

    /// The request that a reply names, if it is outstanding.
    #[inline]
    pub fn by_cookie(&mut self, cookie: u64) -> Option<(Tag, &mut RequestSlot)> {
        let tag = Tag(cookie as u16);
        let slot = self.slots.get_mut(tag.index())?;
        (slot.cookie == cookie && slot.state == RequestState::Active).then_some((tag, slot))
    }

    #[inline]
    pub fn give_back(&mut self, tag: Tag) {
        if let Some(slot) = self.slots.get_mut(tag.index()) {
            slot.state = RequestState::Free;
            self.free.push(tag);
        }
    }
}
