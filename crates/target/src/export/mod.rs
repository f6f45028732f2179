//! Targets: serve block devices to other hosts. One directory per protocol; none imports a source.
//!
//! [`start`] listens at URLs of any protocol. [`in_process`], `ublk` and `fuse` have no network.
//! The code shared by all protocols is next to their directories: listening, assigning connections
//! to loops, counting them, the queues of devices, mailboxes, and the orderly end.

pub(crate) mod budget;
pub(crate) mod connection_limit;
mod device_side;
pub(crate) mod devices;
mod dialect;
pub(crate) mod driver;
mod failures;
#[cfg(target_os = "linux")]
mod fuse;
pub(crate) mod hosts;
pub mod in_process;
pub mod iscsi;
mod listen;
mod local;
pub(crate) mod mailbox;
pub(crate) mod members;
pub(crate) mod memory;
pub mod nbd;
pub mod nvme;
pub mod origin;
mod reachable_address;
mod running;
mod serving;
mod shares;
mod shell_word;
#[cfg(target_os = "linux")]
mod ublk;
#[cfg(target_os = "linux")]
mod vhost_user;

pub use hosts::{ConnectedHost, HostProtocol};
pub use running::{Export, ExportConfig, ListeningExport, stop_all};
pub use serving::{Exports, check_listen, listen_address, start, start_captured};
#[cfg(target_os = "linux")]
pub use ublk::owner as ublk_owner;
