//! Parts that the reservations of all namespaces share: the exports that are notified of changes,
//! and the thread that writes state files.

use super::ReservationFollower;
use super::pending::PendingChange;
use super::pool::Pool;
use std::sync::{Arc, Weak};
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_proto::reservation::Changes;

/// What the reservations of all namespaces have in common.
pub(super) struct Common {
    followers: Lock<Vec<Weak<dyn ReservationFollower>>>,
    /// Writes state files.
    pub storing: Pool,
}

impl Common {
    pub(super) fn new() -> Self {
        Self { followers: Lock::default(), storing: Pool::new("weft-reservations", 1) }
    }

    /// Tells all exports. Those whose commands are aborted keep `pending` until no device has any
    /// of them.
    pub(super) fn tell(&self, namespace: Uuid, changes: &Changes, pending: &Arc<PendingChange>) {
        let followers: Vec<_> = {
            let mut followers = self.followers.lock();
            followers.retain(|follower| follower.strong_count() > 0);
            followers.iter().filter_map(Weak::upgrade).collect()
        };
        followers
            .iter()
            .for_each(|follower| follower.reservations_changed(namespace, changes, pending));
    }

    /// Adds an export, for as long as it is there.
    pub(super) fn join<F: ReservationFollower + 'static>(&self, follower: &Arc<F>) {
        let weak: Weak<F> = Arc::downgrade(follower);
        self.followers.lock().push(weak);
    }
}
