//! NVMe over RDMA: the private data of connections, capsules, keyed SGLs, and both ends of a queue
//! pair (NVMe RDMA Transport Specification 1.0 and 1.1). No verbs: an engine requests work by name,
//! and receives its outcome.
//!
//! * [`cm`]: the private data of connection requests, accepts and rejects.
//! * [`keyed`]: the SGL descriptors by which commands name the host's memory.
//! * [`work`]: what an engine asks the queue pair to do, and how that ends; [`violation`]: why a
//!   queue pair is ended.
//! * [`host`]: the host's end. It makes the memory of a command accessible, sends the command, and
//!   ends the access with the response.
//! * [`target`]: the controller's end. It turns capsules into events, reads the host's memory,
//!   writes to it, and sends responses.
//!
//! The pump, which owns the queue pair, takes [`Work`] from `next_work` until there is none, and
//! does each at once and in order. It tells the engine of each completion, and then takes its
//! events from `poll_event`. Afterwards there may be work again.
//!
//! # Flow control
//! A queue pair is reliable and connected: what is sent without a receive that is posted for it is
//! tried again and again, and holds up everything behind it. Neither end gets there by itself. The
//! controller announces its receives (CRQSIZE); the host has at most that many commands
//! outstanding, and only as many as it has receives posted for their responses. The controller
//! sends one response per command, and no more at a time than the host has announced receives
//! (HRQSIZE).

mod address;
pub mod cm;
mod engine;
pub mod host;
pub mod keyed;
mod link;
pub mod target;
pub mod violation;
pub mod work;

pub use address::{PORT, RdmaProvider, transport_address};
pub use engine::QueuePairEngine;
pub use host::{HostData, HostQueuePair, RdmaHostConfig, RdmaHostEvent};
pub use link::QueuePairLimits;
pub use target::{RdmaTargetConfig, RdmaTargetEvent, TargetQueuePair};
pub use work::{
    Exposure, ReceiveBuffer, Received, RemoteMemory, Work, WorkError, WorkId, WorkKind, WorkOutcome,
};
