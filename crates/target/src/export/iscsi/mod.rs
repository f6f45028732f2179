//! The iSCSI target: one target name, with the namespaces of a subsystem as logical units. Each
//! address at which it listens is a target port.
//!
//! A session has one connection, and runs on one loop with a queue of each device. The state that
//! sessions share (reservations, unit attention conditions, the list of sessions) is accessed only
//! when it changes.

mod config;
mod connection;
mod logins;
mod operations;
mod ports;
mod reset;
mod session;
mod split;
mod target;
mod target_state;
mod units;

pub use config::Settings;
pub use target::{Target, TargetConfig, TargetLimits};
pub(in crate::export) use target::{check, place, start};
