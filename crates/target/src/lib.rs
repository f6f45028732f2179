//! Serves block devices to other hosts.
//!
//! * [`export`]: targets, one directory for each protocol.
//! * [`inventory`]: what is served, to which hosts and at which addresses, and changes of it.
//! * [`reservations`]: the reservations of the namespaces, for hosts of all protocols.
//! * [`health`]: the counters of SMART logs, which go on after a restart.
//! * [`report`]: the state of a serving process, as `weft status` tells it.
//! * [`disk_record`]: how the next process takes a disk over.
#![deny(unreachable_pub)]
#![forbid(unsafe_code)]

pub mod disk_record;
pub mod export;
pub mod health;
pub mod inventory;
mod replaced_file;
pub mod report;
pub mod reservations;

#[cfg(test)]
mod tests;
