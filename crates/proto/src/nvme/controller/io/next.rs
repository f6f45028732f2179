//! Requests of an I/O queue to its owner, and results of devices.

#[cfg(doc)]
use super::super::IoQueue;
use super::command::IoRequest;
use crate::nvme::cqe::Cqe;
use crate::nvme::status::Status;
use crate::stream::Tag;

/// Next action of the pump for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoNext {
    /// Bring in `bytes` bytes of the host's data, from the capsule or through the transport, then
    /// call [`IoQueue::data`].
    Fetch {
        /// Bytes, more than zero.
        bytes: u32,
    },
    /// Hand the request to the device, then call [`IoQueue::finished`]
    /// with the request's tag.
    Submit(IoRequest),
    /// Answer this command, and send the first `data_bytes` bytes of its memory before.
    Reply {
        /// The completion.
        cqe: Cqe,
        /// Bytes.
        data_bytes: u32,
    },
    /// Answer both commands of a fused operation, in this order, without data.
    ReplyPair {
        /// The first command.
        first: (Tag, Cqe),
        /// The second command.
        second: (Tag, Cqe),
    },
    /// Execute the operation that [`IoQueue::take_operation`]
    /// gives, on the reservations of the namespace, or without one only have their state put in
    /// force everywhere; then call [`IoQueue::reserved`].
    Reserve {
        /// Index of the namespace.
        namespace: usize,
    },
    /// Call [`IoQueue::report`] with `bytes` bytes of the tag's memory.
    Report {
        /// Bytes, more than zero.
        bytes: u32,
    },
    /// A message of an authentication, which is not for this queue to look at; of a queue for which
    /// [`IoQueue::set_authenticates`] was called.
    Authenticate,
    /// Nothing now: the command waits for the other one of its fused operation.
    Hold,
}

/// Outcome of a request at a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// Status for the host. For Compare and Compare and Write, [`Status::COMPARE_FAILURE`] says
    /// that the data differed.
    pub status: Status,
    /// True if the same request would fail again. Of no meaning on success.
    pub do_not_retry: bool,
}

impl DeviceOutcome {
    /// Success.
    pub const DONE: Self = Self { status: Status::SUCCESS, do_not_retry: false };

    /// A reservation of after the command's arrival keeps the host out.
    pub(super) const RESERVATION_CONFLICT: Self =
        Self { status: Status::RESERVATION_CONFLICT, do_not_retry: true };

    /// A failure that a retry might cure.
    pub const fn failed(status: Status) -> Self {
        Self { status, do_not_retry: false }
    }
}

/// State of the command that a host wants to abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortTarget {
    /// There is no such command.
    Unknown,
    /// The command has been completed as aborted: [`IoQueue::orphan`] has
    /// it.
    Aborted,
    /// The command under this tag will be completed as aborted when its data has come or failed;
    /// [`IoQueue::revoked`] has a status until then.
    Doomed(Tag),
    /// The device has the command under this tag: cancel it there and
    /// [`IoQueue::finished`] it.
    InDevice(Tag),
}

/// One command of a fused operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The Compare.
    First,
    /// The Write.
    Second {
        /// The Compare before it.
        first: Tag,
    },
}
