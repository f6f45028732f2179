//! Counts connections, up to an export's limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The seats of an export.
pub(crate) struct Seats {
    taken: AtomicUsize,
    max: usize,
}

/// Counts a connection while it exists, on any loop.
pub(crate) struct Seat(Arc<Seats>);

impl Seats {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), max })
    }

    /// Occupied seats.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// A seat for an accepted connection. If there is none, the reason is logged and the connection must be dropped.
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
