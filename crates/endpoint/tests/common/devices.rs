//! A device whose completions come when a test wants them, and which changes when a test says so.

#![allow(dead_code, reason = "each test program uses what it needs")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_block::{
    BlockDevice, BlockQueue, Completion, DeviceChange, Error, Features, Geometry, Op, OpKind,
    OpenOptions, Outcome, Status, StatusKind,
};
use weft_io::{DriverId, Handle, RemoteLoop, Time};

/// Settings that tests change, and counters that they look at.
pub(super) struct Knobs {
    /// How long an operation takes, in nanoseconds.
    delay_ns: AtomicU64,
    /// Operations whose time has come wait all the same.
    frozen: AtomicBool,
    /// Whether a cancelled operation ends at once, undone.
    cancels: AtomicBool,
    /// Operations that some queue holds.
    held: AtomicUsize,
    flushes: AtomicUsize,
    writes: AtomicUsize,
    cancelled: AtomicUsize,
    /// Calls that cancel an operation, whatever came of them.
    cancels_asked: AtomicUsize,
    /// What all reads and writes end with from now on.
    failing: Mutex<Option<Status>>,
    /// Changes so far, in order.
    changes: Mutex<Vec<DeviceChange>>,
    owners: Mutex<Vec<(RemoteLoop, DriverId)>>,
}

impl Knobs {
    pub(super) fn set_delay(&self, delay: Duration) {
        self.delay_ns.store(delay.as_nanos() as u64, SeqCst);
    }

    /// Holds everything back until `false`.
    pub(super) fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, SeqCst);
        self.wake_owners();
    }

    pub(super) fn honour_cancel(&self, cancels: bool) {
        self.cancels.store(cancels, SeqCst);
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(SeqCst)
    }

    /// Flushes and writes that were executed, and operations that were cancelled.
    pub(super) fn flushes(&self) -> usize {
        self.flushes.load(SeqCst)
    }

    pub(super) fn writes(&self) -> usize {
        self.writes.load(SeqCst)
    }

    pub(super) fn cancelled(&self) -> usize {
        self.cancelled.load(SeqCst)
    }

    /// Calls that cancel an operation, also where that is not honoured.
    pub(super) fn cancels_asked(&self) -> usize {
        self.cancels_asked.load(SeqCst)
    }

    /// Has all reads and writes end with this status.
    pub(super) fn fail_with(&self, status: Status) {
        *self.failing.lock().unwrap() = Some(status);
    }

    pub(super) fn change(&self, change: DeviceChange) {
        self.changes.lock().unwrap().push(change);
        self.wake_owners();
    }

    fn wake_owners(&self) {
        for (remote, owner) in self.owners.lock().unwrap().iter() {
            let owner = *owner;
            remote.post(move |on| on.wake(owner));
        }
    }
}

/// A RAM disk behind the knobs.
pub(super) struct Testing {
    inner: Arc<dyn BlockDevice>,
    pub knobs: Arc<Knobs>,
}

impl Testing {
    pub(super) fn new(url: &str) -> Arc<Self> {
        Self::over(weft_block::open(url, &OpenOptions::default()).unwrap())
    }

    /// A device whose blocks are those of another one.
    pub(super) fn over(inner: Arc<dyn BlockDevice>) -> Arc<Self> {
        let knobs = Knobs {
            delay_ns: AtomicU64::new(0),
            frozen: AtomicBool::new(false),
            cancels: AtomicBool::new(false),
            held: AtomicUsize::new(0),
            flushes: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            cancels_asked: AtomicUsize::new(0),
            failing: Mutex::default(),
            changes: Mutex::default(),
            owners: Mutex::default(),
        };
        Arc::new(Self { inner, knobs: Arc::new(knobs) })
    }
}

impl BlockDevice for Testing {
    fn url(&self) -> &str {
        "testing:"
    }

    /// The same in each run of a seed; that of a RAM disk is random.
    fn cache_epoch(&self) -> Option<u64> {
        Some(1)
    }

    fn geometry(&self) -> Geometry {
        let mut geometry = self.inner.geometry();
        for change in self.knobs.changes.lock().unwrap().iter() {
            if let DeviceChange::Resized { blocks } = change {
                geometry.blocks = *blocks;
            }
        }
        geometry
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        Ok(weft_block::SizeAnswer::Now)
    }

    fn features(&self) -> Features {
        Features { volatile_cache: true, ..self.inner.features() }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        self.knobs.owners.lock().unwrap().push((on.remote(), owner));
        Ok(Box::new(TestingQueue {
            inner: self.inner.open_queue(on, owner)?,
            knobs: Arc::clone(&self.knobs),
            on: on.clone(),
            owner,
            pending: VecDeque::new(),
            done: Vec::new(),
            changes_seen: self.knobs.changes.lock().unwrap().len(),
        }))
    }
}

struct TestingQueue {
    inner: Box<dyn BlockQueue>,
    knobs: Arc<Knobs>,
    on: Handle,
    owner: DriverId,
    pending: VecDeque<(Time, Op)>,
    done: Vec<Completion>,
    changes_seen: usize,
}

impl TestingQueue {
    fn execute(&mut self, op: Op) {
        match op.kind {
            OpKind::Flush => drop(self.knobs.flushes.fetch_add(1, SeqCst)),
            kind if kind.is_write() => drop(self.knobs.writes.fetch_add(1, SeqCst)),
            _ => {}
        }
        self.inner.submit(&mut VecDeque::from([op]));
    }
}

impl BlockQueue for TestingQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let at = self.on.now() + Duration::from_nanos(self.knobs.delay_ns.load(SeqCst));
        self.knobs.held.fetch_add(ops.len(), SeqCst);
        self.pending.extend(ops.drain(..).map(|op| (at, op)));
        self.on.wake_at(self.owner, at);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let now = self.on.now();
        while !self.knobs.frozen.load(SeqCst)
            && let Some((_, op)) = self.pending.pop_front_if(|(at, _)| *at <= now)
        {
            self.execute(op);
        }
        self.inner.reap(&mut self.done);
        self.knobs.held.fetch_sub(self.done.len(), SeqCst);
        if let Some(status) = *self.knobs.failing.lock().unwrap() {
            let moved = self.done.iter_mut().filter(|ended| ended.op.kind.data_factor() > 0);
            moved.for_each(|ended| ended.outcome = Outcome::Done(status));
        }
        done.append(&mut self.done);
    }

    fn cancel(&mut self, user: u64) {
        self.knobs.cancels_asked.fetch_add(1, SeqCst);
        if !self.knobs.cancels.load(SeqCst) {
            return;
        }
        if let Some(at) = self.pending.iter().position(|(_, op)| op.user == user) {
            let (_, op) = self.pending.remove(at).unwrap();
            self.knobs.cancelled.fetch_add(1, SeqCst);
            self.done.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
            self.on.wake(self.owner);
        }
    }

    fn in_flight(&self) -> usize {
        self.pending.len() + self.inner.in_flight() + self.done.len()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        let change = self.knobs.changes.lock().unwrap().get(self.changes_seen).copied()?;
        self.changes_seen += 1;
        Some(change)
    }
}

impl Drop for TestingQueue {
    fn drop(&mut self) {
        self.knobs.held.fetch_sub(self.pending.len() + self.done.len(), SeqCst);
        self.pending.drain(..).for_each(|(_, op)| op.give_up());
    }
}
