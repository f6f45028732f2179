//! Events of a queue pair.

pub use weft_base::verbs::{Exposure, RemoteMemory, WorkError, WorkOutcome};

/// An event of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairEvent {
    /// The device that leads to the other end is known: the queues can be made.
    Resolved,
    /// The connection stands. [`QueuePair::private_data`](super::QueuePair::private_data) is what
    /// the other end accepted it with; on the accepting side it stays that of the request.
    Established,
    /// The other end rejected the connection, with this private data.
    Rejected,
    /// There will be no connection; [`QueuePair::trouble`](super::QueuePair::trouble) says why.
    Failed,
    /// The connection is over: the other end ended it, or it was lost. What is posted is flushed
    /// once [`QueuePair::disconnect`](super::QueuePair::disconnect) is called.
    Disconnected,
    /// The device is gone: destroy the queue pair, as nothing that is posted may ever complete.
    DeviceRemoved,
    /// A message has come. [`QueuePair::received`](super::QueuePair::received) has it until the
    /// buffer is posted again.
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
        /// The buffer.
        buffer: u16,
        /// Why; `None`: it was flushed.
        error: Option<WorkError>,
    },
    /// Work of the send queue has ended: it was signaled, or did not succeed.
    WorkEnded {
        /// The number that it was given.
        id: u64,
        /// Its outcome.
        ended: WorkOutcome,
    },
}
