//! A device that counts who uses it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use weft_block::{
    BlockDevice, BlockQueue, Completion, DeviceChange, Error, Features, Geometry, InPlace, Op,
};
use weft_io::{DriverId, Handle};

/// Another device, with a number of queues of its own.
pub struct Watched {
    inner: Arc<dyn BlockDevice>,
    queues: usize,
    seen: Arc<Mutex<DeviceUse>>,
}

#[derive(Default)]
struct DeviceUse {
    /// Operations that each thread submitted.
    operations: HashMap<ThreadId, usize>,
    open: usize,
    most_open: usize,
}

impl Watched {
    pub fn new(inner: Arc<dyn BlockDevice>, queues: usize) -> Self {
        Self { inner, queues, seen: Arc::default() }
    }

    /// Operations of each thread that submitted some.
    pub fn used(&self) -> Vec<usize> {
        self.seen.lock().unwrap().operations.values().copied().collect()
    }

    /// Queues that were open together, at most.
    pub fn most_open(&self) -> usize {
        self.seen.lock().unwrap().most_open
    }
}

impl BlockDevice for Watched {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        self.inner.renew_size()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn max_queues(&self) -> usize {
        self.queues
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let inner = self.inner.open_queue(on, owner)?;
        let seen = &mut *self.seen.lock().unwrap();
        seen.open += 1;
        seen.most_open = seen.most_open.max(seen.open);
        Ok(Box::new(WatchedQueue { inner, seen: Arc::clone(&self.seen) }))
    }
}

struct WatchedQueue {
    inner: Box<dyn BlockQueue>,
    seen: Arc<Mutex<DeviceUse>>,
}

impl BlockQueue for WatchedQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let before = ops.len();
        self.inner.submit(ops);
        *self.seen.lock().unwrap().operations.entry(std::thread::current().id()).or_default() +=
            before - ops.len();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.inner.reap(done);
    }

    fn cancel(&mut self, user: u64) {
        self.inner.cancel(user);
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        self.inner.in_place()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.inner.change()
    }
}

impl Drop for WatchedQueue {
    fn drop(&mut self) {
        self.seen.lock().unwrap().open -= 1;
    }
}
