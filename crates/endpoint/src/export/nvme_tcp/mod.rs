//! The NVMe/TCP target: one subsystem with a namespace per device, on any number of ports, and its
//! discovery subsystem.

mod others;
mod target;
mod transport;

pub use crate::nvme::target::TargetLimits;
pub use target::{Target, TargetConfig};
pub(super) use target::{check, place, start};
