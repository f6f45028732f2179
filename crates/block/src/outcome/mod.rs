//! Outcomes of operations and openings: statuses, errors and losses.

pub mod error;
pub(super) mod error_kind;
pub mod losses;
pub(super) mod refusal;
pub mod status;
