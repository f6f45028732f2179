//! The host's end of an association: its state machine, its I/O queues and its devices, and what
//! its user holds.

pub(crate) mod admin;
pub(crate) mod association;
mod authenticating;
pub(crate) mod device;
mod fault;
pub(crate) mod greeting;
mod queue;
mod reserve;
pub(crate) mod session;
mod table;
pub(crate) mod transport;
