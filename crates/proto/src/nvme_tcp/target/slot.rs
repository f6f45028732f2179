//! The outstanding commands of a host on one connection: a slab whose memory is reserved once; only slots that were ever used
//! have been touched.

use crate::limits::{QUEUE_ENTRIES_MAX, R2T_OUTSTANDING_MAX};
use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::Sgl;
use crate::nvme::status::Status;
use crate::nvme::types::Cid;
use crate::stream::Tag;

/// What a slot is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandState {
    /// In the free list.
    Free,
    /// The layer above has the command, and owes an answer.
    Held,
    /// The host's data is awaited.
    Fetching,
    /// The layer above abandoned the command while data was arriving; the slot stays until that has ended.
    Draining,
    /// Data and response are to be sent.
    Completing,
    /// Everything is in a gather list; the memory is still in use until [`super::TargetConnection::sent`].
    Sending,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandSlot {
    pub state: CommandState,
    /// Whether the tag is in the transmit queue, where it stays when the slot becomes free or gets its next command: what is
    /// sent when the queue comes to it depends on the state alone.
    pub queued: bool,
    /// Whether a data digest was wrong.
    pub damaged: bool,
    /// While draining: report to the layer above when the slot's memory is no longer written to.
    pub owes_event: bool,
    /// R2Ts outstanding.
    pub windows_open: u8,
    pub cid: Cid,
    pub sgl: Sgl,
    /// Bytes wanted from the host; bytes asked for by R2T; bytes received.
    pub wanted: u32,
    pub asked: u32,
    pub received: u32,
    /// Bytes to send to the host, and those in a gather list already.
    pub data_bytes: u32,
    pub data_sent: u32,
    pub cqe: Cqe,
}

/// The bytes of an R2T.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub start: u32,
    pub end: u32,
    /// Whether the R2T is outstanding: until the pump has moved its last byte.
    pub busy: bool,
}

/// The window that a TTAG names: the slot in the lower bits, the window in the upper ones.
const TAG_BITS: u32 = 10;
const _: () = assert!(QUEUE_ENTRIES_MAX as u32 <= 1 << TAG_BITS, "a tag does not fit into its part of a TTAG");
const _: () = assert!(R2T_OUTSTANDING_MAX as u32 <= 1 << (16 - TAG_BITS), "a window does not fit into its part of a TTAG");

#[inline]
pub(super) fn ttag(tag: Tag, window: u8) -> u16 {
    tag.0 | u16::from(window) << TAG_BITS
}

#[inline]
pub(super) fn from_ttag(ttag: u16) -> (Tag, u8) {
    (Tag(ttag & ((1 << TAG_BITS) - 1)), (ttag >> TAG_BITS) as u8)
}

/// The slots and their windows.
pub(super) struct CommandSlots {
    slots: Vec<CommandSlot>,
    windows: Vec<Window>,
    /// Tags that were in use and are free again; the last one is taken first, as its memory is the warmest.
    free: Vec<Tag>,
    capacity: usize,
    windows_per_slot: u8,
}

impl CommandSlots {
    pub fn new(capacity: u16, windows_per_slot: u8) -> Self {
        let windows_per_slot = windows_per_slot.clamp(1, R2T_OUTSTANDING_MAX);
        let mut slots = Self { slots: Vec::new(), windows: Vec::new(), free: Vec::new(), capacity: 0, windows_per_slot };
        slots.grow(capacity);
        slots
    }

    /// Makes room for `capacity` slots (at most [`QUEUE_ENTRIES_MAX`]); never fewer than there were.
    pub fn grow(&mut self, capacity: u16) {
        self.capacity = self.capacity.max(usize::from(capacity.clamp(1, QUEUE_ENTRIES_MAX)));
        let more = self.capacity - self.slots.len();
        self.slots.reserve_exact(more);
        self.windows.reserve_exact(more * usize::from(self.windows_per_slot));
        self.free.reserve_exact(self.capacity - self.free.len());
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn windows_per_slot(&self) -> u8 {
        self.windows_per_slot
    }

    /// Takes a slot for a command, unless all are in use.
    #[inline]
    pub fn take(&mut self, cid: Cid, sgl: Sgl) -> Option<Tag> {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => self.push()?,
        };
        let slot = self.slots.get_mut(tag.index())?;
        slot.state = CommandState::Held;
        slot.damaged = false;
        slot.cid = cid;
        slot.sgl = sgl;
        slot.wanted = 0;
        Some(tag)
    }

    #[cold]
    fn push(&mut self) -> Option<Tag> {
        if self.slots.len() == self.capacity {
            return None;
        }
        let tag = Tag(self.slots.len() as u16);
        self.slots.push(CommandSlot {
            state: CommandState::Free,
            queued: false,
            damaged: false,
            owes_event: false,
            windows_open: 0,
            cid: Cid(0),
            sgl: Sgl::transport(0),
            wanted: 0,
            asked: 0,
            received: 0,
            data_bytes: 0,
            data_sent: 0,
            cqe: Cqe::new(Cid(0), Status::SUCCESS),
        });
        self.windows.resize(self.slots.len() * usize::from(self.windows_per_slot), Window::default());
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

    /// A slot and one of its windows.
    #[inline]
    pub fn at_window(&mut self, tag: Tag, window: u8) -> Option<(&mut CommandSlot, &mut Window)> {
        if window >= self.windows_per_slot {
            return None;
        }
        let at = tag.index() * usize::from(self.windows_per_slot) + usize::from(window);
        Some((self.slots.get_mut(tag.index())?, self.windows.get_mut(at)?))
    }

    /// All tags that were ever in use.
    pub fn tags(&self) -> impl Iterator<Item = Tag> + use<> {
        (0..self.slots.len() as u16).map(Tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the slab's memory is, and how much.
    fn memory(slots: &CommandSlots) -> [(usize, usize); 3] {
        [
            (slots.slots.as_ptr() as usize, slots.slots.capacity()),
            (slots.windows.as_ptr() as usize, slots.windows.capacity()),
            (slots.free.as_ptr() as usize, slots.free.capacity()),
        ]
    }

    #[test]
    fn memory_is_reserved_once() {
        let mut slots = CommandSlots::new(1, 3);
        slots.grow(QUEUE_ENTRIES_MAX);
        let before = memory(&slots);
        for _ in 0..2 {
            let tags: Vec<_> = (0..QUEUE_ENTRIES_MAX).map(|cid| slots.take(Cid(cid), Sgl::transport(0)).unwrap()).collect();
            assert_eq!(slots.take(Cid(0), Sgl::transport(0)), None);
            tags.into_iter().for_each(|tag| slots.give_back(tag));
        }
        assert_eq!(memory(&slots), before);
    }

    #[test]
    fn slots_are_never_taken_away() {
        let mut slots = CommandSlots::new(0, 0);
        assert_eq!((slots.capacity(), slots.windows_per_slot()), (1, 1));
        slots.grow(16);
        slots.grow(4);
        assert_eq!(slots.capacity(), 16);
        slots.grow(u16::MAX);
        assert_eq!(slots.capacity(), usize::from(QUEUE_ENTRIES_MAX));
    }

    #[test]
    fn transfer_tags_name_slot_and_window() {
        for (tag, window) in [(0, 0), (QUEUE_ENTRIES_MAX - 1, R2T_OUTSTANDING_MAX - 1), (5, 1)] {
            assert_eq!(from_ttag(ttag(Tag(tag), window)), (Tag(tag), window));
        }
    }
}
