//! The controllers of a subsystem: associations, their queues, and their use of devices.

mod admin_session;
mod admission;
mod arithmetic;
mod attempts;
mod authenticating;
mod authentication_session;
pub(crate) mod connection;
mod counting;
mod demands;
mod flush;
pub(crate) mod generated;
mod identifiers;
mod io_authentication;
mod io_fused;
mod io_reserve;
mod io_session;
mod mailbox;
mod namespaces;
mod new_session;
pub(crate) mod ports;
pub(crate) mod session;
pub(crate) mod shared;
mod start;
mod subsystems;
pub(crate) mod transport;

pub use shared::TargetLimits;
