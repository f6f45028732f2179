//! Shared state of all queues of a device: whether operations are overdue.

use crate::queue::queue_owners::QueueOwners;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

pub(super) struct Health {
    url: String,
    limit: Duration,
    /// Overdue operations of all queues.
    overdue: AtomicUsize,
    /// The owners of all queues.
    pub(super) owners: QueueOwners,
}

impl Health {
    pub(super) fn new(url: &str, limit: Duration) -> Self {
        Self {
            url: url.to_owned(),
            limit,
            overdue: AtomicUsize::new(0),
            owners: QueueOwners::default(),
        }
    }

    /// Returns whether operations are overdue, so that no other is accepted.
    #[inline]
    pub(super) fn is_hung(&self) -> bool {
        self.overdue.load(Ordering::Acquire) > 0
    }

    /// `count` more operations are overdue.
    #[cold]
    pub(super) fn overdue(&self, count: usize) {
        if count > 0 && self.overdue.fetch_add(count, Ordering::AcqRel) == 0 {
            tracing::error!(
                "{}: {count} operations were not completed within {:?}; the device is refused to hosts until it completes them",
                self.url,
                self.limit
            );
            self.owners.wake_all();
        }
    }

    /// `count` overdue operations have come back.
    #[cold]
    pub(super) fn came_back(&self, count: usize) {
        if count > 0 && self.overdue.fetch_sub(count, Ordering::AcqRel) == count {
            tracing::warn!(
                "{}: the device has completed all overdue operations and is served again",
                self.url
            );
            self.owners.wake_all();
        }
    }
}
