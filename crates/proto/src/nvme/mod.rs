//! NVMe: the command layer of both ends, without a transport.
//!
//! References: "Base" is the NVM Express Base Specification 2.0, "NVM" the NVM Command Set
//! Specification 1.0, both of 2021 with later errata; figures are cited by title where numbers
//! differ between revisions.

pub mod auth;
pub mod controller;
pub mod copy;
pub mod cqe;
pub mod cross_reset;
pub mod deviation;
pub mod fabrics;
pub mod feature;
pub mod host;
pub mod identify;
pub mod log_page;
pub mod opcode;
pub mod property;
pub mod reservation;
pub mod sqe;
pub mod status;
pub mod types;
pub mod wire;
