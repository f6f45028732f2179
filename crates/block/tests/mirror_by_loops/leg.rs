//! A leg whose operations end in any order, and that can be lost while it has some.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weft_block::filter::Filter;
use weft_block::mirror::{LegSource, admin};
use weft_block::testing::{Rig, TestPlan};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, DeviceChange, Error, ErrorKind, Op, OpKind,
    OpenOptions, Opening, Outcome, Presence, Status, StatusKind, open,
};
use weft_io::{DriverId, Handle};

pub(super) const LEG_BYTES: u64 = 9 << 20;

/// Operations that the queues of a leg have given back.
#[derive(Default)]
struct Ended {
    operations: AtomicU64,
    blocks: AtomicU64,
    failed: AtomicU64,
}

/// A disk, and how often its connections were lost.
#[derive(Clone)]
pub(super) struct Leg {
    pub(super) disk: Device,
    lost: Arc<AtomicU64>,
    is_away: Arc<AtomicBool>,
    /// The next write fails.
    is_broken: Arc<AtomicBool>,
    /// It was opened since it was lost or a write failed.
    is_back: Arc<AtomicBool>,
    /// Blocks that cannot be read before they are written.
    unreadable: Arc<Mutex<BTreeSet<u64>>>,
    ended: Arc<Ended>,
}

impl Leg {
    pub(super) fn new(area: &[u8]) -> Self {
        let disk = open(&format!("ram:{LEG_BYTES}"), &OpenOptions::default()).unwrap();
        let rig = Rig::new(&disk, TestPlan::default());
        rig.write(0, admin::area(LEG_BYTES).unwrap().0 / 512, area);
        rig.end();
        Self {
            disk,
            lost: Arc::default(),
            is_away: Arc::default(),
            is_broken: Arc::default(),
            is_back: Arc::default(),
            unreadable: Arc::default(),
            ended: Arc::default(),
        }
    }

    /// All connections are lost; new ones are refused until it is back.
    pub(super) fn lose(&self) {
        self.is_back.store(false, Ordering::SeqCst);
        self.is_away.store(true, Ordering::SeqCst);
        self.lost.fetch_add(1, Ordering::SeqCst);
    }

    /// The next write fails, and the connections stay.
    pub(super) fn fail_once(&self) {
        self.is_back.store(false, Ordering::SeqCst);
        self.is_broken.store(true, Ordering::SeqCst);
    }

    /// Blocks cannot be read before they are written again.
    pub(super) fn make_unreadable(&self, blocks: impl IntoIterator<Item = u64>) {
        self.unreadable.lock().unwrap().extend(blocks);
    }

    pub(super) fn unreadable(&self) -> BTreeSet<u64> {
        self.unreadable.lock().unwrap().clone()
    }

    /// The operations that its queues have given back, their bytes, and those of them that failed.
    pub(super) fn ended(&self) -> [u64; 3] {
        let Ended { operations, blocks, failed } = &*self.ended;
        let [operations, blocks, failed] =
            [operations, blocks, failed].map(|count| count.load(Ordering::SeqCst));
        [operations, blocks * 512, failed]
    }

    fn count(&self, done: &[Completion]) {
        for completion in done {
            let failed = !completion.outcome.is_success();
            self.ended.operations.fetch_add(1, Ordering::SeqCst);
            self.ended.blocks.fetch_add(completion.op.blocks.into(), Ordering::SeqCst);
            self.ended.failed.fetch_add(failed.into(), Ordering::SeqCst);
        }
    }

    /// Returns whether an operation fails because of its blocks.
    fn fails(&self, op: &Op) -> bool {
        let blocks = op.lba..op.lba + u64::from(op.blocks);
        let mut unreadable = self.unreadable.lock().unwrap();
        if op.kind.is_write() {
            unreadable.retain(|block| !blocks.contains(block));
        }
        op.kind == OpKind::Read && unreadable.range(blocks).next().is_some()
    }

    pub(super) fn come_back(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    pub(super) fn has_come_back(&self) -> bool {
        self.is_back.load(Ordering::SeqCst)
    }

    pub(super) fn source(&self) -> LegSource {
        let leg = self.clone();
        let open = move |_| match leg.is_away.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::NotFound, "the leg is away")),
            false => {
                leg.is_back.store(true, Ordering::SeqCst);
                let since = leg.lost.load(Ordering::SeqCst);
                let leg = leg.clone();
                Ok(Opening::ready(Ok(Arc::new(Connected { leg, since }) as Device)))
            }
        };
        LegSource { url: "a leg".into(), is_remote: true, open: Box::new(open) }
    }
}

struct Connected {
    leg: Leg,
    since: u64,
}

impl Connected {
    fn is_lost(&self) -> bool {
        self.leg.lost.load(Ordering::SeqCst) != self.since
    }
}

impl Filter for Connected {
    fn inner(&self) -> &dyn BlockDevice {
        self.leg.disk.as_ref()
    }

    fn presence(&self) -> Presence {
        if self.is_lost() { Presence::Gone } else { Presence::Here }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(Queue {
            of: Self { leg: self.leg.clone(), since: self.since },
            inner: self.leg.disk.open_queue(on, owner)?,
            held: VecDeque::new(),
            doubtful: BTreeSet::new(),
            turns: 0,
            is_told: false,
            on: on.clone(),
            owner,
        }))
    }
}

struct Queue {
    of: Connected,
    inner: Box<dyn BlockQueue>,
    /// Operations that have not begun.
    held: VecDeque<Op>,
    /// Operations in progress when the connection was lost.
    doubtful: BTreeSet<u64>,
    turns: usize,
    is_told: bool,
    on: Handle,
    owner: DriverId,
}

impl BlockQueue for Queue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.held.append(ops);
        self.on.wake(self.owner);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.turns += 1;
        let first = done.len();
        let is_lost = self.of.is_lost();
        // Some later ones first, and some not now.
        let mut now: VecDeque<Op> = VecDeque::new();
        for nth in 0..self.held.len() {
            let Some(op) = self.held.pop_front() else { break };
            match (self.turns + nth) % 3 {
                // Of what was under way, some was executed, and nobody knows.
                0 if is_lost => done.push(op.done(Outcome::NotSent(Status::new(StatusKind::Gone)))),
                0 => self.held.push_back(op),
                _ if op.kind.is_write() && self.of.leg.is_broken.swap(false, Ordering::SeqCst) => {
                    done.push(op.done(Outcome::Done(Status::new(StatusKind::Media))));
                }
                _ if self.of.leg.fails(&op) => {
                    done.push(op.done(Outcome::Done(Status::new(StatusKind::Media))));
                }
                1 => now.push_front(op),
                _ => now.push_back(op),
            }
        }
        if is_lost {
            self.doubtful.extend(now.iter().map(|op| op.user));
        }
        self.inner.submit(&mut now);
        let before = done.len();
        self.inner.reap(done);
        for completion in &mut done[before..] {
            if self.doubtful.remove(&completion.op.user) {
                completion.outcome = Outcome::settled(Status::new(StatusKind::Gone));
            }
        }
        self.of.leg.count(&done[first..]);
        self.held.extend(now);
        if !self.held.is_empty() || self.inner.in_flight() > 0 {
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, _: u64) {}

    fn in_flight(&self) -> usize {
        self.held.len() + self.inner.in_flight()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        (self.of.is_lost() && !core::mem::replace(&mut self.is_told, true))
            .then_some(DeviceChange::Gone)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.held.drain(..).for_each(Op::give_up);
    }
}
