//! State of each command of the admin queue that is not completed yet.

use super::event::{AbortTicket, QueueTicket, ReservationTicket};
use super::identify::IdentifyRequest;
use super::log_request::LogRequest;
use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::status::Status;
use crate::nvme::types::Cid;

/// Data that a command wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) enum Production {
    Identify(IdentifyRequest),
    Log(LogRequest),
    HostIdentifier,
    HostBehavior,
}

/// Stage of a command of the admin queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) enum AdminStage {
    Idle,
    /// Data must be produced.
    Produce(Production),
    /// Host Behavior Support is set by data that is asked for.
    HostBehavior,
    /// An Asynchronous Event Request waits.
    Event,
    /// An Abort waits for the I/O queue.
    Abort(AbortTicket),
    /// Number of Queues waits for what is left.
    Queues(QueueTicket),
    /// A Cross-Controller Reset waits for what the subsystem knows.
    CrossReset(CrossControllerReset),
    /// A feature waits for the reservations of this many namespaces; the first failure, if any.
    Persist {
        ticket: ReservationTicket,
        left: usize,
        failed: Status,
    },
}

impl AdminStage {
    /// Returns whether the command waits for something that a reset ends.
    pub fn waits(self) -> bool {
        !matches!(self, Self::Idle | Self::Produce(_) | Self::HostBehavior)
    }
}

/// A command of the admin queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::nvme::controller) struct AdminSlot {
    pub cid: Cid,
    pub stage: AdminStage,
}
