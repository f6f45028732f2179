//! The outstanding commands of a host on one connection.

use crate::nvme::cqe::Cqe;
use crate::nvme::host::command_id::{next_cid, tag_of};
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::Cid;
use crate::slab::{EntriesInUse, Slab, SlabSlot};
use crate::stream::Tag;

/// Use of a slot.
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
    /// True if the tag is in the transmit queue.
    pub queued: bool,
    /// True if a data digest was wrong.
    pub damaged: bool,
    /// True if a C2HData PDU was the last one.
    pub all_in: bool,
    /// R2Ts to be answered.
    pub r2ts: EntriesInUse,
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

/// Unsent part of an R2T.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct R2t {
    pub ttag: u16,
    pub next: u32,
    pub end: u32,
}

impl SlabSlot for CommandSlot {
    fn new(tag: Tag) -> Self {
        Self {
            state: CommandState::Free,
            direction: Direction::None,
            queued: false,
            damaged: false,
            all_in: false,
            r2ts: EntriesInUse::default(),
            cid: Cid(tag.0),
            bytes: 0,
            moved: 0,
            unsent: 0,
            cqe: Cqe::new(Cid(0), Status::SUCCESS),
            sqe: Sqe::default(),
        }
    }

    #[inline]
    fn begin(&mut self) {
        self.cid = next_cid(self.cid);
        self.state = CommandState::Submitted;
        self.damaged = false;
        self.all_in = false;
        self.moved = 0;
    }

    #[inline]
    fn end(&mut self) {
        self.state = CommandState::Free;
    }

    #[inline]
    fn is_free(&self) -> bool {
        self.state == CommandState::Free
    }
}

impl Slab<CommandSlot> {
    /// Gives a slot back, or has the transmit queue do so when it comes to it: the next command
    /// must not take this one's place there, as commands are sent in order.
    #[inline]
    pub fn release(&mut self, tag: Tag) {
        match self.at(tag) {
            Some(slot) if slot.queued => slot.state = CommandState::Leaving,
            _ => self.give_back(tag),
        }
    }

    /// The command that the controller may know under `cid`.
    #[inline]
    pub fn active(&mut self, cid: Cid) -> Option<(Tag, &mut CommandSlot)> {
        let tag = tag_of(cid);
        let slot = self.at(tag)?;
        (slot.cid == cid && slot.state == CommandState::Active).then_some((tag, slot))
    }
}
