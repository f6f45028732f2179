//! Commands to a running server, one file each.

pub mod ana;
pub mod apply;
pub mod capture;
pub mod control;
pub mod gateway;
pub mod host;
pub mod hosts;
pub mod mirror;
pub mod namespace;
