//! The owners of all queues of a device, on any loops, to be woken when the device as a whole
//! changes.

use weft_base::lock::Lock;
use weft_io::{DriverId, RemoteLoop};

/// The drivers that own a queue of the device.
#[derive(Default)]
pub struct Owners(Lock<Vec<(RemoteLoop, DriverId)>>);

impl Owners {
    /// A queue was opened.
    pub fn enter(&self, on: RemoteLoop, owner: DriverId) {
        self.0.lock().push((on, owner));
    }

    /// A queue was dropped.
    pub fn leave(&self, on: &RemoteLoop, owner: DriverId) {
        let mut owners = self.0.lock();
        if let Some(at) =
            owners.iter().position(|(remote, driver)| *driver == owner && remote.is_same_loop(on))
        {
            owners.swap_remove(at);
        }
    }

    /// Wakes all of them.
    pub fn wake_all(&self) {
        self.0.lock().iter().for_each(|(remote, owner)| remote.wake(*owner));
    }
}
