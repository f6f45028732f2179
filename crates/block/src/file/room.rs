//! Number of operations on one file that use our memory at a time, over all loops. That memory is
//! beyond the cap of the loops' pools, as a disk that has begun must not wait for what others hold;
//! so the number is bounded for the file, however many queues it has.

use crate::limits::FILE_SCRATCH_OPS;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::{DriverId, RemoteLoop};

/// The room of one file.
#[derive(Default)]
pub(super) struct Room(Lock<Occupancy>);

#[derive(Default)]
struct Occupancy {
    taken: usize,
    waiters: Vec<(RemoteLoop, DriverId)>,
}

/// A part of the room, given back when it is dropped.
pub(super) struct ReservedRoom(Arc<Room>);

impl Room {
    /// Room for one operation. Without any, `waiter` is woken when there may be some; it then tries
    /// again with `again`, which puts it before those that did not wait yet.
    pub(super) fn take(
        self: &Arc<Self>,
        again: bool,
        waiter: impl FnOnce() -> (RemoteLoop, DriverId),
    ) -> Option<ReservedRoom> {
        let mut state = self.0.lock();
        if state.taken < FILE_SCRATCH_OPS && (again || state.waiters.is_empty()) {
            state.taken += 1;
            return Some(ReservedRoom(Arc::clone(self)));
        }
        let (remote, driver) = waiter();
        if !state.waiters.iter().any(|(r, d)| *d == driver && r.is_same_loop(&remote)) {
            state.waiters.push((remote, driver));
        }
        None
    }
}

impl Drop for ReservedRoom {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.taken -= 1;
        let waiters = core::mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().for_each(|(remote, driver)| remote.wake(driver));
    }
}
