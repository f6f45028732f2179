//! Shared by the tests of several crates. Only tests depend on it, and it depends on nothing of
//! ours.

#![deny(unsafe_code)]
#![allow(
    clippy::missing_const_for_thread_local,
    reason = "it is const; for Windows the lint overlooks that"
)]

pub mod allocations;
#[cfg(unix)]
pub mod ceph;
pub mod committed;
pub mod port;
pub mod process;
pub mod programs;
pub mod seeds;
mod skip;
pub mod wait;

pub use skip::skip;
