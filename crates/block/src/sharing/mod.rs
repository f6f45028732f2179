//! Shared queues of a device: by all users on a loop, and by loops if the device grants fewer
//! queues than there are loops.
//!
//! [`share`] wraps a device with a limited number of queues ([`BlockDevice::max_queues`]). Then
//!
//! * all users on a loop share the one queue of that loop ([`SharedQueue`]). It is opened for the
//!   first user and closed after the last. Operations are passed on within the loop, without a lock
//!   or an allocation.
//! * as many loops as the device grants queues have a queue of the device. Each other loop sends
//!   its operations to one of these by mailbox, assigned in turn.
//!
//! Each user gets reports of losses ([`crate::losses`]).
//!
//! A device without such a limit shares nothing between queues, so each user opens a queue.

mod mailbox;
mod queue;
mod shared_queue;
mod sharer;

pub use shared_queue::SharedQueue;

use crate::device::{BlockDevice, BlockQueue, Device};
use crate::error::Error;
use crate::filter::Filter;
use crate::losses::report_losses;
use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use queue::Core;
use std::rc::Weak;
use std::sync::Arc;
use weft_io::{DriverId, Handle, RemoteLoop};

/// Wraps the device for any number of users on any loops. `loops` are the loops that get a queue of
/// the device, as far as it grants that many, in this order. A device without a limit of queues is
/// returned unchanged.
pub fn share(device: Device, loops: &[RemoteLoop]) -> Device {
    if device.max_queues() == usize::MAX || loops.is_empty() {
        return device;
    }
    report_losses(shared(device, loops))
}

/// Like [`share`], without a word of losses.
pub(crate) fn shared(device: Device, loops: &[RemoteLoop]) -> Device {
    let homes = loops.iter().take(device.max_queues().max(1)).cloned().collect();
    Arc::new(SharedDevice::new(device, Some(homes), loops))
}

/// Wraps the device for any number of users on any loops, with a queue of the device on each loop
/// that has users.
pub(crate) fn share_on_each_loop(device: Device) -> Device {
    report_losses(Arc::new(SharedDevice::new(device, None, &[])))
}

/// See [`share`].
#[derive(Clone)]
struct SharedDevice {
    device: Device,
    inside: Arc<QueueHomes>,
}

struct QueueHomes {
    /// Unique per device.
    name: u64,
    /// The loops with a queue of the device; `None`: each.
    homes: Option<Vec<RemoteLoop>>,
    loops: Vec<RemoteLoop>,
    /// Number of queues that were opened on other loops than `loops`.
    strangers: AtomicUsize,
}

/// The shared queues of one loop, by device ID.
#[derive(Default)]
struct OnLoop(RefCell<Vec<(u64, Weak<RefCell<Core>>)>>);

impl SharedDevice {
    fn new(device: Device, homes: Option<Vec<RemoteLoop>>, loops: &[RemoteLoop]) -> Self {
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let name = NAMES.fetch_add(1, Ordering::Relaxed);
        let (strangers, loops) = (AtomicUsize::new(0), loops.into());
        Self { device, inside: Arc::new(QueueHomes { name, homes, strangers, loops }) }
    }

    /// The loop whose queue serves the loop of `on`; `None` if it has its own.
    fn home(&self, on: &Handle) -> Option<&RemoteLoop> {
        let QueueHomes { homes, loops, strangers, .. } = &*self.inside;
        let homes = homes.as_ref()?;
        let here = on.remote();
        if homes.iter().any(|home| home.is_same_loop(&here)) {
            return None;
        }
        let number = loops.iter().position(|one| one.is_same_loop(&here));
        let number = number.unwrap_or_else(|| strangers.fetch_add(1, Ordering::Relaxed));
        Some(&homes[number % homes.len()])
    }

    fn open_shared(&self, on: &Handle) -> Result<SharedQueue, Error> {
        match self.home(on) {
            None => SharedQueue::open(self.device.as_ref(), on),
            Some(home) => SharedQueue::open_with(on, |owner| {
                Ok(mailbox::open(Arc::new(self.clone()), home, on, owner))
            }),
        }
    }
}

impl Filter for SharedDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.device.as_ref()
    }

    fn max_queues(&self) -> usize {
        usize::MAX
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let open = on.local::<OnLoop>();
        let name = self.inside.name;
        let known = open
            .0
            .borrow()
            .iter()
            .find(|(of, _)| *of == name)
            .and_then(|(_, core)| core.upgrade())
            .map(SharedQueue);
        if let Some(queue) = known.filter(SharedQueue::is_open) {
            return Ok(queue.join(owner));
        }
        let queue = self.open_shared(on)?;
        let mut open = open.0.borrow_mut();
        open.retain(|(of, core)| *of != name && core.strong_count() > 0);
        open.push((name, queue.downgrade()));
        Ok(queue.join(owner))
    }
}

#[cfg(test)]
mod tests;
