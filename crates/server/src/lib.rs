//! A server of block devices, as a library: what it serves, how that changes, and what it is a part
//! of.
//!
//! A change of the configuration travels like this:
//!
//! 1. A text ([`config::read()`]), an order of an administrator ([`served::verbs`]) or another
//!    gateway of the group ([`group::GroupConfiguration`]) says what is wanted:
//!    [`served::ServedState`].
//! 2. [`served::Served::change`] compares that with what is served, refuses what connected hosts
//!    still use, opens the devices and addresses that are missing, and makes the next inventory.
//! 3. One inventory takes the place of the other.
//! 4. Each export (`weft_endpoint::export`) receives the new inventory, and tells its connections.
//!
//! Nothing here parses a command line, prints, or ends the process. Errors are [`Error`] and, for
//! requests to a running server, [`management::protocol::RequestFault`].
//!
//! * [`server`]: a whole server, from its start to its end.
//! * [`config`]: the configuration file, and what it asks for.
//! * [`served`]: what is served, and every change of it.
//! * [`management`]: the control socket, for both ends.
//! * [`group`]: this server as a gateway of a group.
//! * [`attach`]: disks that this system attaches by itself.
//! * [`connections`]: those disks as a service: recorded, and made again.
//! * [`metrics`]: the state for Prometheus.
//! * [`service`]: the service manager, and the process that takes over.
//! * [`sources`]: sources that are lost.
#![forbid(unsafe_code)]

pub mod attach;
pub mod config;
pub mod connections;
pub mod dhchap;
pub mod group;
pub mod limits;
pub mod management;
pub mod metrics;
mod open_released;
pub mod permitted;
pub mod private_files;
pub mod programs;
pub mod psk;
pub mod secret;
pub mod served;
pub mod server;
pub mod service;
pub mod sources;
pub mod values;

pub use server::{Environment, Server, ServerNotice};
pub use weft_block::{Error, ErrorKind};
