//! Output of an engine to its driver: actions, ends of operations, and events.

#[cfg(doc)]
use super::MirrorEngine;
use crate::op::Outcome;
use crate::outcome::status::Status;
#[cfg(doc)]
use crate::outcome::status::StatusKind;

/// Place of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IoTarget {
    /// A leg, by its number.
    Leg(usize),
    /// The state file.
    State,
}

/// The action there. The data of operations and copies stays with the driver; the name says whose
/// it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    /// Reads into the memory of an operation.
    Read { op: u64 },
    /// Reads the blocks of an operation and compares them with (the first half of) its data.
    Compare { op: u64 },
    /// Executes an operation that changes data; of a compare-and-write the second half of its data
    /// is written.
    Write { op: u64 },
    /// Reads into the memory of a copy.
    Fetch { copy: u64, lba: u64, blocks: u32 },
    /// Writes the memory of a copy.
    Store { copy: u64, lba: u64, blocks: u32 },
    /// The same, except where the leg holds it already.
    Equalise { copy: u64, lba: u64, blocks: u32 },
    /// Flushes.
    Flush,
    /// Writes a page of a bitmap durably, at this offset in the area.
    Page { offset: u64, bytes: Vec<u8> },
    /// Writes a slot durably, if it still holds what it held; otherwise the outcome is
    /// [`StatusKind::CompareFailed`].
    Label { slot: usize, old: Vec<u8>, new: Vec<u8> },
}

/// Next action of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MirrorOutput {
    /// An action, which is completed under its name with [`MirrorEngine::done`].
    Io { name: u64, target: IoTarget, io: Io },
    /// The end of an operation.
    Complete { op: u64, outcome: Outcome },
    /// The memory of a copy is free.
    Release { copy: u64 },
    /// The mirror serves from now on.
    Opened,
    /// Acknowledged, unflushed writes may be lost: no leg that certainly has them is left.
    Forgotten,
    /// A leg that came back has all that was acknowledged.
    Joined { leg: usize },
    /// A leg is no longer used; it may come back ([`MirrorEngine::leg_back`]).
    Leave { leg: usize },
    /// An entry of the log.
    Say(MirrorEvent),
    /// Too few legs are left, or the state file failed: nothing more is done. What was not
    /// completed may be submitted to the next engine.
    Halted(Halt),
    /// The mirror is closed.
    Closed,
}

/// An event, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MirrorEvent {
    /// A leg failed and is out of sync.
    Dropped { leg: usize, why: Status },
    /// A leg is copied to: the number of regions, and their length in bytes.
    Resync { leg: usize, regions: usize, bytes: u64, is_whole: bool },
    /// A leg is in sync again; `copied` bytes were copied.
    InSync { leg: usize, copied: u64 },
    /// The legs are made equal after an unclean end.
    Equalising { regions: usize },
    /// They are equal; `compared` bytes of each were compared.
    Equal { compared: u64 },
    /// `blocks` blocks can be read from no leg, the first of which is `lba`.
    Unreadable { lba: u64, blocks: u64 },
    /// There are more of them than the mirror can remember.
    TooManyUnreadable,
}

/// Why an engine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// Fewer legs than the mirror needs.
    TooFewLegs,
    /// The state file cannot be written.
    State(Status),
    /// Another process has taken the mirror: its label says so.
    Taken,
    /// This leg refuses what this process asks of it, because of somebody else's reservation.
    Fenced(usize),
}

/// Role of a leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LegRole {
    /// It is not used.
    #[default]
    Away,
    /// Its label is being written: it is about to be copied to.
    Greeted,
    /// It is copied to, and gets all writes.
    Copying,
    /// It is in sync.
    Member,
}
