//! Counting connections: none is taken beyond an export's limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As many seats as an export has room for.
pub(crate) struct Seats {
    taken: AtomicUsize,
    max: usize,
}

/// Counts a connection for as long as it lives, on whatever loop.
pub(crate) struct Seat(Arc<Seats>);

impl Seats {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), max })
    }

    /// Seats that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// A seat for a connection that was just accepted. Without one it is to be dropped; the log has the reason.
    pub(crate) fn take(self: &Arc<Self>, peer: impl FnOnce() -> String) -> Option<Seat> {
        let room = |taken: usize| (taken < self.max).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, room);
        if taken.is_err() {
            tracing::warn!("{}: refused, {} connections are already open", peer(), self.max);
        }
        taken.ok().map(|_| Seat(Arc::clone(self)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}
