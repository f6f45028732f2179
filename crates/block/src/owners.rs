//! The owners of all queues of a device, on any loops, to be woken when the device as a whole
//! changes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_io::{DriverId, RemoteLoop};

/// The drivers that own a queue of the device.
#[derive(Default)]
pub struct Owners(Mutex<Vec<(RemoteLoop, DriverId)>>);

impl Owners {
    fn lock(&self) -> MutexGuard<'_, Vec<(RemoteLoop, DriverId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue was opened.
    pub fn enter(&self, on: RemoteLoop, owner: DriverId) {
        self.lock().push((on, owner));
    }

    /// A queue was dropped.
    pub fn leave(&self, on: &RemoteLoop, owner: DriverId) {
        let mut owners = self.lock();
        if let Some(at) =
            owners.iter().position(|(remote, driver)| *driver == owner && remote.is_same_loop(on))
        {
            owners.swap_remove(at);
        }
    }

    /// Wakes all of them.
    pub fn wake_all(&self) {
        self.lock().iter().for_each(|(remote, owner)| remote.wake(*owner));
    }
}
