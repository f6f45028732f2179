//! Initiators, which open a block device somewhere else. One folder each; none imports an export.
//!
//! Next to the folders stands what they share: options, opening a connection, connections that wait
//! for a queue, and the queue of a device with the driver of its connection.

mod authentication;
mod dial;
mod digits;
pub mod discovered;
mod idle;
pub mod iscsi;
pub(crate) mod link;
pub mod nbd;
pub mod nvme;
pub(crate) mod opening;
mod options;

pub(crate) mod queue;
#[doc(hidden)]
pub mod rbd;

pub use authentication::HostSecrets;
pub use options::ConnectOptions;
