//! A time limit for the operations of a device that may hang.
//!
//! The system may hold an operation for ever: a disk that does not answer, a file on a server that
//! is gone. Hosts do not wait that long, so an operation that the device has not completed within
//! the limit is *overdue*:
//!
//! * It completes with [`StatusKind::TimedOut`], as possibly executed and not settled, and
//!   **without its memory**: the device may still read or fill it. The queue keeps the memory and
//!   gives it back by [`BlockQueue::overdue`] when the device has completed the operation.
//! * While any operation is overdue the device counts as away ([`Presence::Away`]) on all its
//!   queues, and takes no other operation: these end as not sent. So nothing that is accepted later
//!   can be overwritten by an overdue write.
//! * When the last overdue operation has come back, the device is back.
//!
//! An overdue operation still counts as in flight. Exports finish a reset, an abort of commands, or
//! the end of a connection only when none is left, because these promise that the device no longer
//! holds a write.
//!
//! [`StatusKind::TimedOut`]: crate::StatusKind::TimedOut

mod health;
mod memory;
mod queue;

use crate::device::{BlockDevice, BlockQueue, Device, Presence};
use crate::filter::{Filter, Relay};
use crate::outcome::error::Error;
use core::time::Duration;
use health::Health;
use memory::OwnMemory;
use std::sync::Arc;
use weft_io::{DriverId, Handle};

/// A device whose operations complete within a limit.
struct TimeLimited {
    inner: Device,
    limit: Duration,
    health: Arc<Health>,
    has_own_memory: bool,
}

/// `device`, with this limit for every operation. For devices whose queues are not shared
/// ([`BlockDevice::max_queues`]): the memory of overdue operations comes back only to the queue's
/// direct user.
pub fn limited(device: Device, limit: Duration) -> Device {
    with_memory(device, limit, false)
}

/// The same for a device in a composite one, whose users need their memory back, or whose queues
/// are shared: the device gets memory of the queue's own, and the data is copied. An overdue
/// operation completes *with* its memory then.
pub fn limited_with_own_memory(device: Device, limit: Duration) -> Device {
    with_memory(device, limit, true)
}

fn with_memory(device: Device, limit: Duration, has_own_memory: bool) -> Device {
    let health = Arc::new(Health::new(device.url(), limit));
    Arc::new(TimeLimited { inner: device, limit, health, has_own_memory })
}

impl Filter for TimeLimited {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn presence(&self) -> Presence {
        match self.inner.presence() {
            Presence::Here if self.health.is_hung() => Presence::Away,
            presence => presence,
        }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let relay = Relay::new(self.inner.open_queue(on, owner)?, on, owner);
        let own = self.has_own_memory.then(OwnMemory::new);
        Ok(Box::new(queue::TimeLimitedQueue::new(relay, self.limit, Arc::clone(&self.health), own)))
    }
}

#[cfg(test)]
mod tests;
