//! State of each command of an I/O queue that is not completed yet.

use super::command::{IoRequest, IoRequestKind};
use super::reservation_command::ReservationCommand;
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Lba, Nsid};
use crate::stream::Tag;

/// Stage of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandStage {
    /// The tag is free.
    Idle,
    /// The host's data is awaited.
    Fetching,
    /// Half of a fused operation: its data is there, the other half's is awaited.
    Held,
    /// The device has it.
    Device,
}

/// Role of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A command of its own, one operation.
    Alone,
    /// Dataset Management: the number of ranges, and the next one to look at.
    Ranges { count: u16, next: u16 },
    /// Copy; what is left of it stands in [`super::copy_work::CopyWork`].
    Copy,
    /// Flush of all namespaces, and the index from which on namespaces are still to be flushed.
    Everywhere { next: usize },
    /// An operation on reservations.
    Reserve(ReservationCommand),
    /// Reservation Report; it is held until there is memory for it.
    Report,
    /// First command of a fused operation; the second one, when it is here.
    First { second: Option<Tag> },
    /// Second command of a fused operation.
    Second { first: Tag },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct IoSlot {
    pub cid: Cid,
    pub opcode: u8,
    pub stage: CommandStage,
    pub role: Role,
    /// Status with which the command is completed instead of being executed, as soon as its data
    /// has passed.
    pub doom: Option<Status>,
    /// Identifier of the namespace.
    pub nsid: Nsid,
    pub request: IoRequest,
}

pub(super) const IDLE: IoSlot = IoSlot {
    cid: Cid(0),
    opcode: 0,
    stage: CommandStage::Idle,
    role: Role::Alone,
    doom: None,
    nsid: Nsid(0),
    request: IoRequest {
        tag: Tag(0),
        namespace: 0,
        kind: IoRequestKind::Flush,
        lba: Lba(0),
        blocks: 0,
        bytes: 0,
        fua: false,
    },
};

/// The first command of a fused operation that waits for its second one (Base §3.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// None.
    None,
    /// This one: the next command has to be the second one.
    Open(Tag),
    /// It was refused: should a second one follow, it is aborted.
    Refused,
}
