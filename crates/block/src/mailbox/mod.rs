//! One queue of a device, shared by queues on any number of loops: for devices that grant fewer queues than there are loops.
//!
//! A *keeper* on one loop owns the real queue. Queues of the mailbox send it their operations, memory on loan
//! ([`weft_io::Segment::lend`]), all of a `submit` in one message; it answers all that completed in one turn together. Nobody
//! waits for a lock longer than it takes to move a list.
//!
//! When the keeper's loop ends, what did not reach the device completes as not sent, and what is with the device as possibly
//! executed, both with [`StatusKind::Gone`](crate::StatusKind::Gone); the latter without its memory, which the system may still
//! write to and which is leaked.

mod keeper;
mod post;
mod proxy;

use crate::device::{BlockDevice, BlockQueue, Features, Geometry, Identity};
use crate::error::Error;
use crate::registry::Device;
use keeper::Keeper;
use post::Door;
use std::sync::Arc;
use weft_io::{DriverId, Handle};

/// A device whose one queue many share.
pub struct Mailbox {
    device: Device,
    door: Arc<Door>,
}

impl Mailbox {
    /// Opens a queue of `device` on the loop of `on` and shares it. The queue is closed when the mailbox and its queues are gone.
    ///
    /// # Errors
    /// Those of [`BlockDevice::open_queue`].
    pub fn open(device: Device, on: &Handle) -> Result<Arc<dyn BlockDevice>, Error> {
        let door = Keeper::start(&device, on)?;
        Ok(Arc::new(Self { device, door }))
    }
}

impl BlockDevice for Mailbox {
    fn url(&self) -> &str {
        self.device.url()
    }

    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn features(&self) -> Features {
        self.device.features()
    }

    fn identity(&self) -> Identity {
        self.device.identity()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(proxy::Proxy::start(&self.door, on, owner)))
    }
}

#[cfg(test)]
mod tests;
