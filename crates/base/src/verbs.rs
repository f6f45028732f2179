//! Common terms of an engine of a protocol over RDMA and a queue pair: memory of the other end, and
//! the outcome of work. Neither knows of the other.

/// Memory of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// The first byte.
    pub address: u64,
    /// The key of the memory.
    pub key: u32,
}

/// Access of the other end to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// By a type 2 memory window of its own, until it is invalidated: by a message of the other
    /// end, or by a work request of this end.
    Window,
    /// By a registration of the memory alone, until that is ended, which takes no work request.
    Registration,
    /// By a key that is valid for as long as the queue pair is: nothing keeps whoever knows or
    /// guesses it from touching the memory later.
    Standing,
}

/// Outcome of posted work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOutcome {
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
    /// The other end no longer answers.
    #[error("the other end does not answer")]
    RetriesExceeded,
    /// The other end had no receive posted for too long.
    #[error("the other end has no receive posted")]
    ReceiverNotReady,
    /// The queue pair did not take it.
    #[error("it could not be posted")]
    NotPosted,
    /// Anything else, as the library numbers it.
    #[error("work completion status {0}")]
    Other(u32),
}
