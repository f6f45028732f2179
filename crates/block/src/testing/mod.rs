//! What every block device must do, as code that runs on any of them: local ones here, network
//! sources where they live.
//!
//! [`conformance`] takes a device through the contract of [`crate::device`]. It works with a
//! [`Rig`]: event loops on threads of their own, a queue of the device on each, and plain blocking
//! calls for the test.

mod checks;
mod contention;
mod rig;
mod worker;

pub use rig::Rig;
pub use worker::{Answer, Request};

use crate::device::BlockDevice;
use std::sync::Arc;

/// What a device is put through.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Event loops, each with a queue of its own; at least 1. Two or more are needed to see whether
    /// blocks are torn.
    pub loops: usize,
    /// Whether the device keeps what is written; [`crate::null`] does not.
    pub keeps_data: bool,
    /// How the loops read and write files.
    pub disk: weft_io::disk::DiskMode,
    /// Rounds of the tests in which loops fight for the same blocks.
    pub rounds: usize,
    /// Blocks of the longest compare-and-write that is tried, at least 1: a path may take fewer
    /// than the device itself.
    pub compare_blocks: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            loops: 1,
            keeps_data: true,
            disk: weft_io::disk::DiskMode::Auto,
            rounds: 200,
            compare_blocks: 3,
        }
    }
}

/// Takes a device through its contract. It must have 4 MiB at least, and loses what it holds.
///
/// # Panics
/// When the device breaks the contract; the message says how.
pub fn conformance(device: &Arc<dyn BlockDevice>, plan: Plan) {
    conformance_of(Rig::new(device, plan));
}

/// As [`conformance`], for the device of a rig.
///
/// # Panics
/// When the device breaks the contract; the message says how.
pub fn conformance_of(rig: Rig) {
    checks::geometry(&rig);
    checks::reads(&rig);
    checks::refusals(&rig);
    checks::cancelling(&rig);
    if rig.features().write {
        checks::sizes_and_places(&rig);
        checks::memory_in_pieces(&rig);
        checks::durability(&rig);
        checks::zeroing(&rig);
        checks::comparing(&rig);
        checks::backpressure(&rig);
        checks::dropping(&rig);
        contention::visibility(&rig);
        contention::tearing(&rig);
        contention::counting(&rig);
    }
    rig.end();
}
