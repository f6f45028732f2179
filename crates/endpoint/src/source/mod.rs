//! Initiators: what opens a block device somewhere else. One folder each; none imports an export.
//!
//! Beside the folders stands what they share: options, opening a connection, connections that wait for a queue, and the queue of a device whose
//! connections are independent of each other.

mod dial;
mod idle;
pub mod iscsi;
pub mod nbd;
pub mod nvme_tcp;
pub(crate) mod opening;
mod options;
mod queue;

pub use options::ConnectOptions;
