//! The NBD server: each device is an export with a name, the first one also with the empty name, at
//! any number of addresses.

mod connection;
mod partial_block;
mod request;
mod request_memory;
mod server;
mod server_state;
mod session;

pub use server::NbdServer;
pub(super) use server::{check, place, start};
pub use server_state::NbdLimits;
