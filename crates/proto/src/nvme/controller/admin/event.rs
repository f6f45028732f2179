//! Requests between a controller and its owner.

#[cfg(doc)]
use super::super::{ControllerCore, IoQueue, Subsystem};
use crate::nvme::cqe::Cqe;
use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::types::{Cid, Nsid, Qid};
use crate::stream::Tag;

/// Next action of the pump for a command of the admin queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Bring in `bytes` bytes of the host's data. That of a Connect is for
    /// [`super::super::before_connect`], that of another command for
    /// [`ControllerCore::data`].
    Fetch {
        /// Bytes.
        bytes: u32,
    },
    /// Call [`ControllerCore::produce`] with `bytes` bytes of the
    /// tag's memory.
    Produce {
        /// Bytes.
        bytes: u32,
    },
    /// Answer the command, and send the first `data_bytes` bytes of its memory before.
    Reply {
        /// The completion.
        cqe: Cqe,
        /// Bytes.
        data_bytes: u32,
    },
    /// Nothing now: a [`ControlEvent::Reply`] will follow, maybe never.
    Hold,
}

/// Names an Abort command that waits for
/// [`ControllerCore::abort_result`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortTicket(pub(in crate::nvme::controller) u32);

/// Names a Set Features command that waits for
/// [`ControllerCore::persisted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationTicket(pub(in crate::nvme::controller) u32);

/// Names a Set Features command that waits for
/// [`ControllerCore::queues_allocated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTicket(pub(in crate::nvme::controller) u32);

/// Request of a controller to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    /// Answer this command of the admin queue, without data.
    Reply {
        /// The tag.
        tag: Tag,
        /// The completion.
        cqe: Cqe,
    },
    /// Stop all I/O queues of this controller for good: end their connections, cancel what the
    /// devices have, wait until no device holds a write, with `flush` make everything durable, and
    /// then call [`ControllerCore::quiesced`]. No new queue is
    /// admitted from now on; those to stop are the ones that the subsystem knows.
    Quiesce {
        /// It is a shutdown.
        flush: bool,
    },
    /// Abort a command of an I/O queue ([`IoQueue::abort`]) and call
    /// [`ControllerCore::abort_result`].
    Abort {
        /// For the answer.
        ticket: AbortTicket,
        /// The queue.
        sqid: Qid,
        /// The command.
        cid: Cid,
    },
    /// Allocate I/O queues to the host, as many as are left, and call
    /// [`ControllerCore::queues_allocated`].
    Queues {
        /// For the answer.
        ticket: QueueTicket,
        /// The most that the host can use and the controller may have, at least 1.
        wanted: u16,
    },
    /// Find out what is to become of this controller ([`Subsystem::cross_reset`]), end its
    /// association if that is under way, and call
    /// [`ControllerCore::cross_reset`]; when it has ended,
    /// [`ControllerCore::cross_reset_over`].
    CrossReset(CrossControllerReset),
    /// Execute [`ControllerCore::persistence`] on the
    /// reservations of the namespace and call
    /// [`ControllerCore::persisted`].
    Persist {
        /// For the answer.
        ticket: ReservationTicket,
        /// The namespace.
        nsid: Nsid,
        /// The new value.
        persist: bool,
    },
    /// The host has not been heard of for too long: end the association, that is all connections of
    /// the controller.
    KeepAliveExpired,
}
