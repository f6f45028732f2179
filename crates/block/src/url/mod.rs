//! From a URL to a device.

pub mod grammar;
pub mod naming;
pub mod opening;
pub(super) mod parts;
pub mod registry;
