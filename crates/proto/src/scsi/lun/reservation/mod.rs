//! Persistent reservations (SPC-4 §5.12), as initiators ask for them: the commands of
//! [`crate::reservation`] in SCSI's terms.
//!
//! Registrations exist as long as the state that the logical unit was made with: they survive
//! nexuses, resets, sessions and the logical unit itself, and a loss of power where an initiator
//! asks for it (APTPL) and the owner of the state stores it.

mod command;
mod out;
mod report;

pub(super) use command::{effect, is_exempt};
pub(super) use out::{Out, Refusal};
pub(super) use report::{report, response_bytes};
