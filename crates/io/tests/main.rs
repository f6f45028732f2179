//! The integration tests of this crate, in one program, since each program links all of weft.
//! Those that need a process of their own stand in `Cargo.toml`.

mod common;
#[path = "common/exchange.rs"]
mod exchange;
mod quiet;
mod sim;
mod sockets;
mod verbs;
