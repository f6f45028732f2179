//! The NVMe/TCP target: one subsystem with a namespace per device, on any number of ports, and its discovery subsystem.

mod admin_session;
mod connection;
mod flush;
mod io_session;
mod mailbox;
mod new_session;
mod ports;
mod shared;
mod status;
mod target;

pub(super) use target::start;
pub use target::{Target, TargetConfig, TargetLimits};
