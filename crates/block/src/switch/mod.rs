//! A device whose filters are exchanged while it is in use: `error:`, `delay:` and `limit:`, for
//! tests of programs that use it.
//!
//! Operations that were submitted under filters stay under them. So what an `error:` with
//! `kind=hang` holds does not complete when that filter is taken away; with `for=` it does in time.

#[cfg(test)]
mod tests;

use crate::device::{BlockDevice, BlockQueue, Device, DeviceChange, InPlace, Presence};
use crate::filter::Filter;
use crate::op::{Completion, Op};
use crate::outcome::error::{Error, ErrorKind};
use crate::queue::queue_owners::QueueOwners;
use crate::sharing::share_on_each_loop;
use crate::url::grammar;
use crate::url::opening::Opening;
use crate::url::registry::{OpenOptions, open};
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_base::lock::SharedLock;
use weft_io::{DriverId, Handle, Segments};

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

// A queue that changes to other filters when they are exchanged.

struct SwitchQueue {
    state: Arc<SwitchState>,
    generation: u64,
    /// Under the present filters.
    queue: Box<dyn BlockQueue>,
    /// Under previous filters, with operations that have not completed.
    before: Vec<Box<dyn BlockQueue>>,
    on: Handle,
    owner: DriverId,
}

impl SwitchQueue {
    fn open(state: &Arc<SwitchState>, on: &Handle, owner: DriverId) -> Result<Self, Error> {
        let state = Arc::clone(state);
        // An exchange after this is noticed, also if its filters are in place already.
        let generation = state.generation();
        let queue = state.front().open_queue(on, owner)?;
        state.owners.enter(on.remote(), owner);
        Ok(Self { state, generation, queue, before: Vec::new(), on: on.clone(), owner })
    }

    /// Changes to the present filters.
    fn follow(&mut self) {
        let generation = self.state.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        match self.state.front().open_queue(&self.on, self.owner) {
            Ok(queue) => self.before.push(core::mem::replace(&mut self.queue, queue)),
            Err(e) => tracing::warn!("other filters are not used on one event loop: {e}"),
        }
    }
}

impl BlockQueue for SwitchQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.follow();
        self.queue.submit(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.follow();
        self.queue.reap(done);
        self.before.iter_mut().for_each(|queue| queue.reap(done));
        self.before.retain_mut(|queue| queue.in_flight() > 0);
    }

    fn cancel(&mut self, user: u64) {
        // Queues that do not have the operation do nothing.
        self.queue.cancel(user);
        self.before.iter_mut().for_each(|queue| queue.cancel(user));
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        // Whether there is access must not change while the queue is open, and filters decline it.
        None
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.before.iter().map(|queue| queue.in_flight()).sum::<usize>()
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        let mut overdue = self.queue.overdue(given_back);
        for queue in &mut self.before {
            overdue += queue.overdue(given_back);
        }
        overdue
    }

    fn holds_back(&self) -> bool {
        self.queue.holds_back()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.queue.change()
    }
}

impl Drop for SwitchQueue {
    fn drop(&mut self) {
        self.state.owners.leave(&self.on.remote(), self.owner);
    }
}

/// The filters that may be exchanged: those that change neither what a device holds nor what it
/// can do.
const EXCHANGED: [&str; 3] = ["delay", "error", "limit"];

/// The device behind the filters, in a URL that nobody else sees.
const INNER: &str = "switched:device";

/// State that a device and its queues share.
struct SwitchState {
    inner: Device,
    /// The device with its filters now.
    front: SharedLock<Device>,
    /// Another number with each exchange.
    generation: AtomicU64,
    /// Woken by an exchange, as an operation that a queue refused may be accepted now.
    owners: QueueOwners,
}

impl SwitchState {
    fn new(inner: Device) -> Self {
        let front = SharedLock::new(Arc::clone(&inner));
        Self { inner, front, generation: AtomicU64::new(0), owners: QueueOwners::default() }
    }

    fn inner(&self) -> &Device {
        &self.inner
    }

    /// See [`super::Switch::set`].
    fn set(&self, filters: &str) -> Result<(), Error> {
        let front = self.filtered(filters)?;
        *self.front.write() = front;
        self.generation.fetch_add(1, Ordering::Release);
        self.owners.wake_all();
        Ok(())
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn filtered(&self, filters: &str) -> Result<Device, Error> {
        let comma = if filters.is_empty() || filters.ends_with([',', ':']) { "" } else { "," };
        let url = format!("{filters}{comma}{INNER}");
        let sources = grammar::sources(&url);
        let is_known = |of: &grammar::Source<'_>| {
            of.url == INNER && of.above.iter().all(|kind| EXCHANGED.contains(kind))
        };
        if sources.len() != 1 || !sources.iter().all(is_known) {
            let text = format!(
                "\"{filters}\" is not the front of a URL with the filters {}, as in error:rate=0.1,kind=media",
                EXCHANGED.join(", ")
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let resolver =
            |url: &str| (url == INNER).then(|| Opening::ready(Ok(Arc::clone(&self.inner))));
        open(&url, &OpenOptions::with_resolver(&resolver))
    }

    /// The device with its filters.
    fn front(&self) -> Device {
        Arc::clone(&self.front.read())
    }
}
