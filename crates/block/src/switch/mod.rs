//! A device whose filters are exchanged while it is in use: `error:`, `delay:` and `limit:`, for
//! tests of programs that use it.
//!
//! Operations that were submitted under filters stay under them. So what an `error:` with
//! `kind=hang` holds does not complete when that filter is taken away; with `for=` it does in time.

mod queue;
mod state;

use crate::device::{BlockDevice, BlockQueue, Device, Presence};
use crate::error::Error;
use crate::filter::Filter;
use crate::sharing::share_on_each_loop;
use queue::SwitchQueue;
use state::SwitchState;
use std::sync::Arc;
use weft_io::{DriverId, Handle};

/// Exchanges the filters of a device. All clones are the same one.
#[derive(Clone)]
pub struct Switch(Arc<SwitchState>);

impl Switch {
    /// Returns a device that has no such filters yet, and the switch that exchanges them.
    pub fn new(device: Device) -> (Self, Device) {
        // The queues of old and new filters exist at the same time.
        let is_limited = device.max_queues() != usize::MAX;
        let inner = if is_limited { share_on_each_loop(device) } else { device };
        let state = Arc::new(SwitchState::new(inner));
        let device = Arc::new(SwitchDevice(Arc::clone(&state)));
        (Self(state), device)
    }

    /// Replaces the previous filters, for operations that are submitted from now on: the front of a
    /// URL, as in `error:rate=0.1,kind=media,delay:read=1ms`. An empty text removes them.
    ///
    /// # Errors
    /// The text is not the front of such a URL. Then nothing is changed.
    pub fn set(&self, filters: &str) -> Result<(), Error> {
        self.0.set(filters)
    }
}

struct SwitchDevice(Arc<SwitchState>);

impl Filter for SwitchDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.0.inner().as_ref()
    }

    fn presence(&self) -> Presence {
        self.0.front().presence()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(SwitchQueue::open(&self.0, on, owner)?))
    }
}

#[cfg(test)]
mod tests;
