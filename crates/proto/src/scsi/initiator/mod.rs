//! The initiator's side of SCSI: what a host asks a disk before it uses it, how it reads the answers, and what it makes of the end of a
//! command. Commands themselves are made by [`crate::scsi::cdb::Command::encode`].
//!
//! * [`Probe`] asks all that a host wants to know, one command after another, and ends in a [`Disk`].
//! * [`Verdict`] says of status and sense data whether the command is done, worth another try, or has failed.
//! * [`parameters`] writes the lists that some commands send.

mod data;
pub mod parameters;
mod probe;
#[cfg(test)]
mod tests;
mod verdict;

pub use data::{Disk, Identity, Naming};
pub use probe::{Probe, ProbeError, Question};
pub use verdict::{Change, Verdict};
