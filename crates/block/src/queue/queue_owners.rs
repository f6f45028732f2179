//! The owners of all queues of a device, on any loops, to be woken when the device as a whole
//! changes.

use weft_base::lock::Lock;
use weft_io::{DriverId, RemoteLoop};

/// The drivers that own a queue of the device.
#[derive(Default)]
pub struct QueueOwners(Lock<Vec<(RemoteLoop, DriverId)>>);

impl QueueOwners {
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

    /// Returns whether no queue is open.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Wakes all of them.
    pub fn wake_all(&self) {
        self.0.lock().iter().for_each(|(remote, owner)| remote.wake(*owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_io::{Activity, Driver, Handle, Loop, LoopConfig};

    struct Idle;

    impl Driver for Idle {
        fn work(&mut self, _: &Handle) -> Activity {
            Activity::Idle
        }
    }

    #[test]
    fn an_owner_that_leaves_is_told_from_those_of_other_loops_and_of_its_own() {
        let loops = [(), ()].map(|()| Loop::new(LoopConfig::default()).unwrap());
        let remotes = loops.each_ref().map(|of| of.handle().remote());
        let [first, second] = [(); 2].map(|()| loops[0].handle().spawn(|_| Idle));
        let other = loops[1].handle().spawn(|_| Idle);
        assert_eq!(first, other, "names are of one loop");
        let owners = QueueOwners::default();
        for (on, owner) in [(0, first), (1, other), (0, second), (0, first)] {
            owners.enter(remotes[on].clone(), owner);
        }
        for (left, (on, owner)) in
            [(3, (0, first)), (2, (0, first)), (2, (1, second)), (1, (0, second))]
        {
            owners.leave(&remotes[on], owner);
            assert_eq!(owners.0.lock().len(), left);
        }
        assert!(owners.0.lock()[0].0.is_same_loop(&remotes[1]) && !owners.is_empty());
    }
}
