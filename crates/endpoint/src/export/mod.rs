//! Targets: what serves block devices to somebody else. One folder each; none imports a source.
//!
//! [`start`] listens at URLs of any protocol. What all protocols need stands beside their folders: listening and handing
//! connections to loops, counting them, the devices' queues, mailboxes, and the orderly end.

pub(crate) mod budget;
pub(crate) mod devices;
pub(crate) mod driver;
pub mod iscsi;
mod listen;
pub(crate) mod mailbox;
pub(crate) mod members;
pub mod nbd;
pub mod nvme_tcp;
mod origin;
mod reach;
mod refusals;
pub(crate) mod seats;
mod serving;

pub use serving::{Export, ExportConfig, Exports, start, stop_all};
