//! Commands that weft itself starts, as processes of their own.

pub(super) mod child;
#[cfg(target_os = "linux")]
pub mod study_kernel;
#[cfg(target_os = "linux")]
pub mod study_peer;
pub mod study_relay;
pub mod ublk_owner;
