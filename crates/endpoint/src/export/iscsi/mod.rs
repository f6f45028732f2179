//! The iSCSI target: one target name, whose logical units are the namespaces of a subsystem, on any number of ports.
//!
//! A session has one connection, and lives on one loop with a queue of each device. What sessions share (reservations, unit attention
//! conditions, who is logged in) is touched only when it changes.

mod config;
mod connection;
mod logins;
mod memory;
mod reset;
mod session;
mod shared;
mod split;
mod target;
mod unit;
mod units;

pub use config::Settings;
pub(in crate::export) use target::start;
pub use target::{Target, TargetConfig, TargetLimits};
