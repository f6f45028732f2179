//! From a URL to a device.

pub mod grammar;
pub mod naming;
pub mod opening;
pub mod registry;
pub(super) mod spec;
