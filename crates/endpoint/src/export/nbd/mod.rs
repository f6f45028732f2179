//! The NBD server: each device is an export with a name, the first one also with the empty name, at
//! any number of addresses.

mod connection;
mod edge;
mod places;
mod request;
mod server;
mod session;
mod shared;

pub use server::{NbdLimits, NbdServer};
pub(super) use server::{check, place, start};
