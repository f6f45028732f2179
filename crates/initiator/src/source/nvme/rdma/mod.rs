//! The NVMe over RDMA initiator: its connections. Its parent has what does not depend on the
//! transport.

mod opening;
mod transport;

pub use transport::RdmaLink;
