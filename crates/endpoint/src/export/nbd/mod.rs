//! The NBD server: each device is an export by name, the first one also by the empty name, at any number of places.

mod connection;
mod edge;
mod places;
mod request;
mod server;
mod session;
mod shared;

pub(super) use server::start;
pub use server::{NbdLimits, NbdServer};
