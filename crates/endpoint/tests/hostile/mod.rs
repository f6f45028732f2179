//! Peers that break the rules, over real sockets: hosts against the target, targets against the
//! source.

mod crowded;
mod digests;
mod fake;
mod garbage;
mod hosts;
mod intruders;
mod iscsi;
mod nameless;
mod nbd;
mod operations;
mod sockets;
pub mod table;
mod targets;
pub mod tcp;
mod timeouts;
mod units;
