//! Why this end ended a queue pair.

use core::time::Duration;

use super::cm::AcceptError;
use super::work::WorkError;

/// Violation by the peer, or failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The private data of an accept.
    #[error(transparent)]
    Accept(#[from] AcceptError),
    /// A command capsule that is too short, or has more data than was announced.
    #[error("a command capsule has {bytes} bytes; it must have 64 to {max}")]
    CapsuleLength {
        /// Of the capsule.
        bytes: usize,
        /// As announced.
        max: u32,
    },
    /// A response capsule that is not a completion.
    #[error("a response capsule has {0} bytes instead of 16")]
    ResponseLength(usize),
    /// A message with immediate data, which the transport does not have.
    #[error("a message carries immediate data, which NVMe over RDMA does not have")]
    Immediate,
    /// A message that invalidated a key that it may not invalidate.
    #[error("a message invalidated key {0:#x}, which is not that of its command")]
    Invalidation(u32),
    /// A response to no command that is outstanding.
    #[error("a response names a command that is not outstanding")]
    ResponseCommandId,
    /// More commands than the queue has entries.
    #[error("the host submitted more commands than its queue holds")]
    QueueOverrun,
    /// A receive failed.
    #[error("receiving a capsule failed: {0}")]
    Receive(WorkError),
    /// A SEND failed.
    #[error("sending a capsule failed: {0}")]
    Send(WorkError),
    /// An RDMA READ failed.
    #[error("reading the host's memory failed: {0}")]
    Read(WorkError),
    /// An RDMA WRITE failed.
    #[error("writing to the host's memory failed: {0}")]
    Write(WorkError),
    /// A bind failed.
    #[error("giving the controller access to memory failed: {0}")]
    Bind(WorkError),
    /// An invalidation failed.
    #[error("ending the controller's access to memory failed: {0}")]
    Invalidate(WorkError),
    /// The device completed what was not posted.
    #[error("the RDMA device completed work that was not posted")]
    UnknownCompletion,
    /// The host did not get its Connect accepted in time.
    #[error("no Connect within {} s", .0.as_secs_f32())]
    ConnectLate(Duration),
    /// Data before the end was not taken in time.
    #[error("the last capsules were not taken within {} s", .0.as_secs_f32())]
    CloseLate(Duration),
}
