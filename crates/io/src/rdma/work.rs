//! What a queue pair reports.

/// Memory of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The first byte.
    pub address: u64,
    /// The key of the memory.
    pub key: u32,
}

/// An event of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The device that leads to the other end is known: the queues can be made.
    Resolved,
    /// The connection stands. [`QueuePair::private_data`](super::QueuePair::private_data) is what the other end accepted it with; on the
    /// accepting side it stays that of the request.
    Established,
    /// The other end rejected the connection, with this private data.
    Rejected,
    /// There will be no connection; [`QueuePair::trouble`](super::QueuePair::trouble) says why.
    Failed,
    /// The connection is over: the other end ended it, or it was lost. What is posted is flushed once
    /// [`QueuePair::disconnect`](super::QueuePair::disconnect) is called.
    Disconnected,
    /// The device is gone: destroy the queue pair, as nothing that is posted may ever complete.
    DeviceRemoved,
    /// A message has come. [`QueuePair::received`](super::QueuePair::received) has it until the buffer is posted again.
    Received {
        /// The receive that it used up.
        buffer: u16,
        /// Immediate data, if there was some.
        immediate: Option<u32>,
        /// The key of this end that it invalidated, if it did.
        invalidated: Option<u32>,
    },
    /// A receive has ended without a message.
    ReceiveEnded {
        /// Which.
        buffer: u16,
        /// Why; `None`: it was flushed.
        error: Option<WorkError>,
    },
    /// What was posted to the send queue has ended: it was signaled, or did not succeed.
    WorkEnded {
        /// The number that it was given.
        id: u64,
        /// How.
        ended: Ended,
    },
}

/// How posted work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is done.
    Done,
    /// It failed, and the queue pair with it.
    Failed(WorkError),
    /// The queue pair had failed or was disconnected before.
    Flushed,
}

/// Why work failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// More bytes than fit: into a receive of this end, or into a message.
    #[error("the message is too long")]
    LocalLength,
    /// This end's memory or key is not what the work needs.
    #[error("this end's memory cannot be accessed")]
    LocalProtection,
    /// A memory window could not be bound.
    #[error("a memory window cannot be bound")]
    Bind,
    /// The other end refused the message: it has no room for it, or does not support it.
    #[error("the other end refused the message as invalid")]
    RemoteInvalid,
    /// The other end's memory or key does not allow the access.
    #[error("the other end's memory may not be accessed by this key")]
    RemoteAccess,
    /// The other end failed over the message.
    #[error("the other end failed to execute it")]
    RemoteOperation,
    /// The other end does not answer any more.
    #[error("the other end does not answer")]
    RetriesExceeded,
    /// The other end had no receive posted for too long.
    #[error("the other end has no receive posted")]
    ReceiverNotReady,
    /// The queue pair did not take it: there is no room, or the system refused it.
    #[error("it could not be posted")]
    NotPosted,
    /// Anything else, as the library numbers it.
    #[error("work completion status {0}")]
    Other(u32),
}
