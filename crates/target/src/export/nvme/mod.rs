//! The NVMe target: subsystems with a namespace per device, on any number of ports, and the
//! discovery subsystem. [`Target`] starts and stops it; `tcp` and `rdma` hold its transports;
//! all else is the same for both: associations, their queues, and their use of devices.

mod admin_session;
mod admission;
mod admitting;
mod arithmetic;
mod associations;
mod attempts;
mod authenticating;
mod authentication_session;
mod connecting;
pub(crate) mod connection;
mod counting;
mod flush;
pub(crate) mod generated;
mod identifiers;
mod io_operations;
mod io_reserve;
mod io_session;
mod mailbox;
mod namespaces;
mod new_session;
pub(crate) mod ports;
pub(crate) mod rdma;
pub(crate) mod session;
mod start;
mod subsystems;
mod target;
pub(crate) mod target_state;
mod tcp;
pub(crate) mod transport;

pub use target::{Target, TargetConfig};
pub(super) use target::{check, place, start};
pub use target_state::TargetLimits;
