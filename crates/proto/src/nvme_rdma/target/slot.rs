//! The outstanding commands of a host on one queue pair.

use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::Cid;
use crate::nvme_rdma::work::{ReceiveBuffer, RemoteMemory};
use crate::slab::SlabSlot;
use crate::stream::Tag;

/// Use of a slot.
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
    /// The layer above abandoned the command while it was fetching; the slot stays until its memory
    /// is no longer written to.
    Draining,
    /// Data and response must be sent.
    Completing,
    /// Everything is posted; the memory is still in use.
    Sending,
    /// The memory is free; the layer above is to hear of it, or has, until
    /// [`super::TargetQueuePair::sent`].
    Released,
}

/// Event of a command for the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingEvent {
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
    /// Its event in the queue of events.
    pub news: Option<PendingEvent>,
    /// True if the tag is in the queue of those with data to read, where it stays when the slot
    /// becomes free or gets its next command.
    pub queued: bool,
    /// True if data could not be read.
    pub damaged: bool,
    /// True if the data in the capsule is being copied.
    pub placing: bool,
    /// Entries of the send queue that the response gives back.
    pub entries: u16,
    /// RDMA READs and signaled RDMA WRITEs that are posted.
    pub posted: u16,
    /// True if an unsignaled RDMA WRITE is posted.
    pub unsignaled: bool,
    /// The receive that has the data of the capsule, and how much that is.
    pub buffer: Option<ReceiveBuffer>,
    pub in_capsule_bytes: u32,
    /// The host's memory, once it was found to be good for what is read or written.
    pub remote: RemoteMemory,
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
        remote: RemoteMemory { address: 0, key: 0 },
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
            more: false,
        },
        sqe: Sqe([0; 64]),
    };

    /// Returns whether something may still be put into its memory, or be taken from it.
    pub fn is_in_use(&self) -> bool {
        self.posted > 0 || self.placing || self.unsignaled
    }
}

impl SlabSlot for CommandSlot {
    fn new(_: Tag) -> Self {
        Self::FREE
    }

    #[inline]
    fn begin(&mut self) {
        self.state = CommandState::Held;
        self.damaged = false;
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
