//! The device whose queues do without the home where they can: one queue on each loop.

use super::Direct;
use super::queue::DirectQueue;
use crate::device::{BlockDevice, BlockQueue, Device};
use crate::filter::Filter;
use crate::outcome::error::Error;
use std::sync::Arc;
use weft_io::{DriverId, Handle};

/// See the module.
pub(crate) struct DirectDevice {
    /// The home's, for any loop.
    pub(crate) inner: Device,
    pub(crate) direct: Arc<Direct>,
}

impl Filter for DirectDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(DirectQueue::open((&self.inner, &self.direct), on, owner)?))
    }
}
