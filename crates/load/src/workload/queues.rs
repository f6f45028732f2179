//! Assigns the queues of a loop to its jobs: one each if the device grants enough, otherwise shared
//! ones.

use crate::error::Error;
use weft_block::sharing::SharedQueue;
use weft_block::{BlockDevice, BlockQueue};
use weft_io::{DriverId, Handle};

/// Assigns the queues of one loop to its jobs.
pub(super) struct Queues<'a> {
    device: &'a dyn BlockDevice,
    /// Queues that this loop may open.
    granted: usize,
    /// Number of its jobs.
    jobs: usize,
    shared: Vec<SharedQueue>,
    opened: usize,
}

impl<'a> Queues<'a> {
    /// For `jobs` jobs, on a loop that may open at most `granted` queues of the device, at least
    /// one.
    pub fn new(device: &'a dyn BlockDevice, granted: usize, jobs: usize) -> Self {
        Self { device, granted: granted.max(1), jobs, shared: Vec::new(), opened: 0 }
    }

    /// A queue for the next job, whose driver is `owner`: its own if there are enough, otherwise a
    /// share of one.
    ///
    /// # Errors
    /// Those of [`BlockDevice::open_queue`].
    pub fn open(&mut self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let job = self.opened;
        self.opened += 1;
        if self.jobs <= self.granted {
            return Ok(self.device.open_queue(on, owner)?);
        }
        if job < self.granted {
            self.shared.push(SharedQueue::open(self.device, on)?);
        }
        Ok(self.shared[job % self.granted].join(owner))
    }
}
