//! The iSCSI target: one target name with a logical unit per device, on any number of ports.
//!
//! A session has one connection, and lives on one loop with a queue of each device. What sessions share (reservations, unit attention
//! conditions, who is logged in) is touched only when it changes.

mod config;
mod connection;
mod memory;
mod reset;
mod session;
mod shared;
mod status;
mod target;
mod unit;

pub use config::Settings;
pub(in crate::export) use target::start;
pub use target::{Target, TargetConfig, TargetLimits};
