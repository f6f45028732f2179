//! The initiator's side of SCSI: the queries to a disk before its use, the decoding of the
//! responses, and the meaning of a command's status. [`crate::scsi::cdb::Command::encode`] encodes
//! commands.
//!
//! * [`Probe`] queries everything that a host needs to know, one command after another, and results
//!   in a [`ScsiDisk`].
//! * [`CommandVerdict`] decides by status and sense data whether a command is done, should be
//!   repeated, or has failed.
//! * [`parameters`] writes the parameter lists of commands.

mod data;
pub mod parameters;
mod probe;
mod reservation;
#[cfg(test)]
mod tests;
mod verdict;

pub use data::{InquiryNames, NamesVerdict, PortState, ScsiDisk};
pub use probe::{Probe, ProbeCommand, ProbeError};
pub use reservation::{FullStatus, ReportedRegistrant};
pub use verdict::{AttentionChange, CommandVerdict};
