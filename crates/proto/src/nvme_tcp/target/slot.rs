//! The outstanding commands of a host on one connection.

use crate::limits::{QUEUE_ENTRIES_MAX, R2T_OUTSTANDING_MAX};
use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::Sgl;
use crate::nvme::status::Status;
use crate::nvme::types::Cid;
use crate::slab::SlabSlot;
use crate::stream::Tag;

/// Use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandState {
    /// In the free list.
    Free,
    /// The layer above has the command, and owes an answer.
    Held,
    /// The host's data is awaited.
    Fetching,
    /// The layer above abandoned the command while data was arriving; the slot stays until that has
    /// ended.
    Draining,
    /// Data and response must be sent.
    Completing,
    /// Everything is in a gather list; the memory is still in use until
    /// [`super::TcpTargetConnection::sent`].
    Sending,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandSlot {
    pub state: CommandState,
    /// True if the tag is in the transmit queue, where it stays when the slot becomes free or gets
    /// its next command: the state alone decides what is sent when its turn comes.
    pub queued: bool,
    /// True if a data digest was wrong.
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
    /// True if the R2T is outstanding: until the pump has moved its last byte.
    pub busy: bool,
}

/// The window that a TTAG names: the slot in the lower bits, the window in the upper ones.
const TAG_BITS: u32 = 10;
const _: () = assert!(
    QUEUE_ENTRIES_MAX as u32 <= 1 << TAG_BITS,
    "a tag does not fit into its part of a TTAG"
);
const _: () = assert!(
    R2T_OUTSTANDING_MAX as u32 <= 1 << (16 - TAG_BITS),
    "a window does not fit into its part of a TTAG"
);

#[inline]
pub(super) fn ttag(tag: Tag, window: u8) -> u16 {
    tag.0 | u16::from(window) << TAG_BITS
}

#[inline]
pub(super) fn from_ttag(ttag: u16) -> (Tag, u8) {
    (Tag(ttag & ((1 << TAG_BITS) - 1)), (ttag >> TAG_BITS) as u8)
}

impl SlabSlot for CommandSlot {
    fn new(_: Tag) -> Self {
        Self {
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
        }
    }

    #[inline]
    fn begin(&mut self) {
        self.state = CommandState::Held;
        self.damaged = false;
        self.wanted = 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_tags_name_slot_and_window() {
        for (tag, window) in [(0, 0), (QUEUE_ENTRIES_MAX - 1, R2T_OUTSTANDING_MAX - 1), (5, 1)] {
            assert_eq!(from_ttag(ttag(Tag(tag), window)), (Tag(tag), window));
        }
    }
}
