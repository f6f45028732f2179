//! Parts of queues that several devices need: slots, waiting, overlaps, divided operations.

pub(super) mod interlock;
pub mod queue_owners;
pub(super) mod scatter;
pub mod slots;
pub mod spare;
pub mod split;
pub mod waiting;
