//! Cost of a group for its store.

use core::time::Duration;

/// Requests to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub beats: u64,
    pub reads: u64,
    pub writes: u64,
    pub conflicts: u64,
    pub fences: u64,
    pub notifications: u64,
    /// Bytes of records and beats that gateways read and wrote.
    pub bytes: u64,
}

impl Counts {
    pub fn since(self, before: Self) -> Self {
        Self {
            beats: self.beats - before.beats,
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            conflicts: self.conflicts - before.conflicts,
            fences: self.fences - before.fences,
            notifications: self.notifications - before.notifications,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// Cost of an event, and the time until everything is settled again.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub took: Duration,
    pub counts: Counts,
}
