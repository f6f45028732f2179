//! Reads and writes that need no decision, straight from the loop that has them.
//!
//! A read needs none if it is known that the legs do not differ there and nobody is changing these
//! blocks; a write, if besides the bits of its regions are durable. Everything else, and everything
//! whose end needs a decision, goes to the home of the mirror:
//!
//! * The home gives a *permit* ([`permit`]) while all legs are in sync or away, nothing is copied,
//!   and nothing is about to change but bits that are added. It withdraws the permit, and waits for
//!   the writers, before the engine is told of anything else ([`super::alone`]): so a write that
//!   succeeds on all legs by a permit may be acknowledged at once.
//! * Whoever changes blocks, or is at the home, has their *locks* ([`locks`]). A read looks at the
//!   permit and at the locks before and after: if they are the same, no write was under way there
//!   while it read, and any leg in sync would have said the same. Otherwise the home reads again.
//! * A write that fails on a leg keeps its locks, and the home judges it ([`Undecided`]) as one of
//!   the engine's own.
//!
//! See decision 26.

mod device;
mod flight;
mod leg;
pub(super) mod locks;
mod marks;
#[cfg(all(test, loom))]
mod model;
mod permit;
mod queue;

pub(super) use device::DirectDevice;

use super::bitmap::Bitmap;
use super::layout::region_bytes;
use super::record::LEGS_MAX;
use crate::device::Device;
use crate::op::{OpKind, Outcome};
use crate::sync::{AtomicU64, Ordering};
use core::ops::RangeInclusive;
use locks::{LockRange, Locks};
use marks::Marks;
use permit::{Permit, Seen, Writers};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_io::{DriverId, RemoteLoop};

/// A leg in sync that loops may use.
#[derive(Clone)]
pub(super) struct DirectLeg {
    pub(super) number: usize,
    pub(super) device: Device,
    /// Kept as long as anything may be under way there by a queue of a loop.
    pub(super) use_of_it: Arc<()>,
}

/// A write that did not succeed on all legs, and whose locks its loop holds until it is answered.
pub(super) struct Undecided {
    pub(super) kind: OpKind,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    /// What became of it on the legs that it was sent to.
    pub(super) outcomes: [Option<Outcome>; LEGS_MAX],
    pub(super) of: Arc<OneLoop>,
    /// Its name there.
    pub(super) name: u64,
}

/// What the home says of an undecided write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It ends so.
    Ends(Outcome),
    /// The engine that had it has stopped: it is to be submitted to the home.
    Again,
}

/// What the home sees of a loop.
pub(super) struct OneLoop {
    writers: Writers,
    answers: Mutex<Vec<(u64, Answer)>>,
    remote: RemoteLoop,
    /// The driver that is woken there.
    driver: DriverId,
}

impl OneLoop {
    /// Answers one of its writes.
    pub(super) fn answer(&self, name: u64, answer: Answer) {
        lock(&self.answers).push((name, answer));
        self.wake();
    }

    fn wake(&self) {
        self.remote.wake(self.driver);
    }
}

/// What the home and the loops share.
pub(super) struct Direct {
    permit: Permit,
    pub(super) locks: Locks,
    /// Regions whose bits are durable.
    marked: Marks,
    /// Regions that loops have written to since the home looked.
    pub(super) touched: Marks,
    region_blocks: u64,
    block_bytes: u32,
    /// Writes of loops that were acknowledged and need not be durable.
    acknowledged: AtomicU64,
    legs: Mutex<Vec<DirectLeg>>,
    /// Changes with the legs.
    legs_version: AtomicU64,
    loops: Mutex<Vec<Arc<OneLoop>>>,
    undecided: Mutex<Vec<Undecided>>,
    /// So many loops have ended while they wrote.
    abandoned: AtomicU64,
    home: RemoteLoop,
    keeper: DriverId,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Direct {
    /// For a mirror of this size, whose home is that driver.
    pub(super) fn new(
        (data_bytes, block_bytes): (u64, u32),
        regions: usize,
        home: RemoteLoop,
        keeper: DriverId,
    ) -> Self {
        Self {
            permit: Permit::new(),
            locks: Locks::new(),
            marked: Marks::new(regions),
            touched: Marks::new(regions),
            region_blocks: region_bytes(data_bytes) / u64::from(block_bytes),
            block_bytes,
            acknowledged: AtomicU64::new(0),
            legs: Mutex::default(),
            legs_version: AtomicU64::new(0),
            loops: Mutex::default(),
            undecided: Mutex::default(),
            abandoned: AtomicU64::new(0),
            home,
            keeper,
        }
    }

    /// The locks of some blocks; `None` if they are too many.
    pub(super) fn locks_of(&self, lba: u64, blocks: u32) -> Option<LockRange> {
        let block = u64::from(self.block_bytes);
        LockRange::of(lba * block, u64::from(blocks) * block)
    }

    fn regions_of(&self, lba: u64, blocks: u32) -> RangeInclusive<usize> {
        let last = lba + u64::from(blocks).max(1) - 1;
        (lba / self.region_blocks) as usize..=(last / self.region_blocks) as usize
    }

    /// Writes of loops that were acknowledged, and need not be durable.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Says which regions may be written to.
    pub(super) fn mark(&self, stored: &Bitmap) {
        self.marked.set(stored);
    }

    /// Lets loops use these legs from now on.
    pub(super) fn permit(&self, legs: Vec<DirectLeg>) {
        let is_same = |a: &DirectLeg, b: &DirectLeg| {
            a.number == b.number && Arc::ptr_eq(&a.use_of_it, &b.use_of_it)
        };
        let mut known = lock(&self.legs);
        if known.len() != legs.len() || !known.iter().zip(&legs).all(|(a, b)| is_same(a, b)) {
            *known = legs;
            self.legs_version.fetch_add(1, Ordering::SeqCst);
        }
        drop(known);
        self.permit.give();
    }

    /// Whether loops may go on by themselves.
    pub(super) fn is_permitted(&self) -> bool {
        self.permit.see().holds()
    }

    /// They may not any more.
    pub(super) fn withdraw(&self) {
        self.permit.withdraw();
    }

    /// A leg is lost, or not in sync any more. Loops let go of it: what they write there has failed,
    /// and their queues of it stay until nothing can be executed there any more.
    pub(super) fn take_back(&self, use_of_it: &Arc<()>) {
        self.keep_legs(|leg| !Arc::ptr_eq(&leg.use_of_it, use_of_it));
    }

    /// There is no mirror any more.
    pub(super) fn end(&self) {
        self.keep_legs(|_| false);
    }

    fn keep_legs(&self, is_kept: impl Fn(&DirectLeg) -> bool) {
        let mut legs = lock(&self.legs);
        if legs.iter().all(&is_kept) {
            return;
        }
        self.withdraw();
        legs.retain(is_kept);
        self.legs_version.fetch_add(1, Ordering::SeqCst);
        drop(legs);
        lock(&self.loops).iter().for_each(|one| one.wake());
    }

    /// Whether no loop writes, after the permit was withdrawn.
    pub(super) fn is_quiet(&self) -> bool {
        lock(&self.loops).iter().all(|one| one.writers.is_none())
    }

    /// Writes that are to be judged. From now on they are the home's.
    pub(super) fn undecided(&self) -> Vec<Undecided> {
        let all = core::mem::take(&mut *lock(&self.undecided));
        all.iter().for_each(|one| one.of.writers.end());
        all
    }

    /// Whether a loop has ended while it wrote, so that nobody knows what became of that.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst) > 0
    }

    fn enter(&self, one: &Arc<OneLoop>) {
        lock(&self.loops).push(Arc::clone(one));
    }

    fn leave(&self, one: &Arc<OneLoop>) {
        lock(&self.loops).retain(|other| !Arc::ptr_eq(one, other));
        self.wake_home();
    }

    fn wake_home(&self) {
        self.home.wake(self.keeper);
    }

    /// Ends a write of a loop; the home is woken if it waits for that.
    fn end_write(&self, one: &OneLoop) {
        one.writers.end();
        if !self.is_permitted() {
            self.wake_home();
        }
    }

    /// Begins a write of a loop, unless the home has to be asked.
    fn begin_write(&self, one: &OneLoop, seen: Seen, lba: u64, blocks: u32) -> Option<LockRange> {
        let range = self.locks_of(lba, blocks)?;
        if !one.writers.begin(&self.permit, seen) {
            self.wake_home();
            return None;
        }
        // Marked before the look at the bits: who is about to clear them sees one or the other.
        let regions = self.regions_of(lba, blocks);
        self.touched.add(regions.clone());
        let taken = if self.marked.has_all(regions) { self.locks.take(range) } else { Err(false) };
        if let Err(is_wanted) = taken {
            self.end_write(one);
            if is_wanted {
                self.wake_home();
            }
            return None;
        }
        Some(range)
    }

    fn free(&self, range: LockRange) {
        if self.locks.free(range) {
            self.wake_home();
        }
    }
}
