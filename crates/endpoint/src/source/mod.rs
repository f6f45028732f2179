//! Initiators: what opens a block device somewhere else. One folder each; none imports an export.

pub mod nvme_tcp;
mod options;

pub use options::ConnectOptions;
