//! Next bytes that a target receives, and their task.

use super::config::TargetEvent;
use crate::iscsi::link::Tail;
use crate::iscsi::pdu::BHS_BYTES;
use crate::stream::{Rx, Tag};

/// Next part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiveStage {
    Header,
    /// Immediate data of a command.
    Immediate {
        tag: Tag,
        bytes: u32,
    },
    /// Padding and digest of data that the pump moved.
    Tail(Tail),
    /// The data of a PDU that the engine reads itself.
    Inline([u8; BHS_BYTES]),
}

impl ReceiveStage {
    /// Returns whether what the pump moved last is not judged before its digest is there.
    pub fn awaits_digest(&self) -> bool {
        matches!(self, Self::Tail(tail) if tail.has_digest())
    }
}

/// The data that the pump was told to move or throw away last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arriving {
    /// The task; `None`: unknown.
    pub tag: Option<Tag>,
    /// True if its unsolicited data ends with it.
    pub ends_unsolicited: bool,
    /// The header of its PDU.
    pub bhs: [u8; BHS_BYTES],
}

/// Result of a step.
pub(super) enum Step {
    /// This many bytes were used up, without an event.
    Used(usize),
    /// This many bytes were used up, with this event.
    Tell(usize, Rx<TargetEvent>),
    /// This many bytes are needed.
    More(usize),
}
