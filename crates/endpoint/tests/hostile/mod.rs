//! Peers that break the rules, over real sockets: hosts against the target, targets against the
//! source.

mod crowded;
mod digests;
mod fake;
mod garbage;
mod hosts;
mod iscsi;
mod nameless;
mod nbd;
mod open_door;
mod targets;
pub mod tcp;
mod timeouts;
mod units;
