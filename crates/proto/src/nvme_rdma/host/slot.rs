//! The outstanding commands of a host on one queue pair.

use crate::nvme::cqe::Cqe;
use crate::nvme::host::command_id::{next_cid, tag_of};
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::Cid;
use crate::slab::{Slab, SlabSlot};
use crate::stream::Tag;

/// Use of a slot.
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
    /// The layer above gets, or has got, its event.
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
    /// True if its SEND is posted.
    pub sending: bool,
    /// True if an unsignaled bind is posted.
    pub binding: bool,
    /// Entries of the send queue that its SEND gives back.
    pub entries: u16,
    /// True if the controller has access to its memory.
    pub exposed: bool,
    /// True if an invalidation is posted.
    pub invalidating: bool,
    /// The key of the memory, while it is exposed.
    pub key: u32,
    pub cid: Cid,
    /// Bytes of data.
    pub bytes: u32,
    pub cqe: Cqe,
    pub sqe: Sqe,
}

impl SlabSlot for CommandSlot {
    fn new(tag: Tag) -> Self {
        Self {
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
        }
    }

    #[inline]
    fn begin(&mut self) {
        self.cid = next_cid(self.cid);
        self.state = CommandState::Submitted;
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
    /// The command that a controller knows under this identifier and has not answered.
    #[inline]
    pub fn active(&mut self, cid: Cid) -> Option<(Tag, &mut CommandSlot)> {
        let tag = tag_of(cid);
        let slot = self.at(tag)?;
        (slot.cid == cid && slot.state == CommandState::Active).then_some((tag, slot))
    }
}
