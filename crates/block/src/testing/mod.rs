//! Rules for every block device, as code that runs on any of them: local ones here, network sources
//! where they live.
//!
//! [`conformance`] takes a device through the contract of [`crate::device`]. It works with a
//! [`Rig`]: event loops on threads of their own, a queue of the device on each, and plain blocking
//! calls for the test.

mod checks;
mod contention;
mod every_byte;
mod mirror;
mod plan;
mod rig;
mod worker;

pub use every_byte::holds_every_byte;
pub use mirror::{begin_mirror, mirror_labels, mirror_of_ram};
pub use plan::TestPlan;
pub use rig::Rig;
pub use worker::{TestOp, TestOutcome};

use crate::device::BlockDevice;
use std::sync::Arc;

/// Takes a device through its contract. It must have 4 MiB at least, and loses what it holds.
///
/// # Panics
/// When the device breaks the contract; the message says how.
pub fn conformance(device: &Arc<dyn BlockDevice>, plan: TestPlan) {
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
