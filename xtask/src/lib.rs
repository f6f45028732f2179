//! The parts that `cargo xtask` and the tools of the lab (`lab/crates`) share: starting programs,
//! the table of Debian's packages, counting and timing tests, running steps, and reading the
//! repository's files.
//!
//! It compiles before the first output of `cargo xtask`, so it has few dependencies.
#![forbid(unsafe_code)]

pub mod built;
pub mod commands;
pub mod count;
pub mod excerpt;
pub mod files;
pub mod markdown;
pub mod packages;
pub mod published;
pub mod sh;
mod skips;
pub mod steps;
pub mod times;
pub mod tools;

/// Version of weft and of all crates of its workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub use plan::{Known, peers};
