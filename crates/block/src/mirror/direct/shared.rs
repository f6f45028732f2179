//! State shared by the home of a mirror and the loops.

use super::failed_reads::FailedReads;
use super::locks::{LockRange, Locks};
use super::marks::Marks;
use super::permit::{Permit, Seen, Writers};
use super::waiting::{Waiter, Wanted};
use crate::device::Device;
use crate::mirror::bitmap::Bitmap;
use crate::mirror::counts::LegCounts;
use crate::mirror::record::{LEGS_MAX, MirrorRecord};
use crate::op::{OpKind, Outcome};
use crate::sync::{AtomicU64, Ordering};
use core::ops::Range;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::{DriverId, RemoteLoop};

/// A leg in sync that loops may use.
#[derive(Clone)]
pub(crate) struct DirectLeg {
    pub(crate) number: usize,
    pub(crate) device: Device,
    /// Kept as long as anything may be under way there by a queue of a loop.
    pub(crate) use_of_it: Arc<()>,
    pub(crate) counts: Arc<LegCounts>,
}

/// A write that did not succeed on all legs, and whose locks its loop holds until it is answered.
pub(crate) struct Undecided {
    pub(crate) kind: OpKind,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
    /// Its outcomes on the legs that got it.
    pub(crate) outcomes: [Option<Outcome>; LEGS_MAX],
    pub(crate) of: Arc<OneLoop>,
    /// Its name there.
    pub(crate) name: u64,
    /// The permit by which it was begun.
    pub(super) permit: Seen,
}

/// The result of beginning a write on a loop.
#[derive(Debug)]
pub(super) enum Begun {
    /// It has these locks, by this permit.
    Yes(LockRange, Seen),
    /// One of its regions is not marked.
    Unmarked,
    /// The home has to execute it.
    No,
}

/// Verdict of the home on an undecided write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HomeVerdict {
    /// It ends so.
    Ends(Outcome),
    /// The engine that had it has stopped: submit it to the home.
    Again,
}

/// Home's view of a loop.
pub(crate) struct OneLoop {
    pub(super) writers: Writers,
    pub(super) waiter: Waiter,
    pub(super) answers: Lock<Vec<(u64, HomeVerdict)>>,
    pub(super) remote: RemoteLoop,
    /// The driver that is woken there.
    pub(super) driver: DriverId,
}

impl OneLoop {
    /// Answers one of its writes.
    pub(crate) fn answer(&self, name: u64, answer: HomeVerdict) {
        self.answers.lock().push((name, answer));
        self.wake();
    }

    pub(super) fn wake(&self) {
        self.remote.wake(self.driver);
    }
}

/// State shared by the home and the loops.
pub(crate) struct Direct {
    pub(super) permit: Permit,
    pub(crate) locks: Locks,
    /// Regions whose bits are durable.
    marked: Marks,
    /// Regions that loops have written to since the home looked.
    pub(crate) touched: Marks,
    wanted: Wanted,
    region_blocks: u64,
    block_bytes: u32,
    /// Writes of loops that were acknowledged and need not be durable.
    pub(super) acknowledged: AtomicU64,
    pub(super) legs: Lock<Vec<DirectLeg>>,
    /// Changes with the legs.
    pub(super) legs_version: AtomicU64,
    loops: Lock<Vec<Arc<OneLoop>>>,
    pub(super) undecided: Lock<Vec<Undecided>>,
    pub(crate) failed_reads: FailedReads,
    /// Number of loops that have ended while they wrote.
    pub(super) abandoned: AtomicU64,
    home: RemoteLoop,
    keeper: DriverId,
}

impl Direct {
    /// For the mirror of this record, whose home is that driver.
    pub(crate) fn new(record: &MirrorRecord, home: RemoteLoop, keeper: DriverId) -> Self {
        let (regions, block_bytes) = (record.regions(), record.block_bytes);
        Self {
            permit: Permit::new(),
            locks: Locks::new(),
            marked: Marks::new(regions),
            touched: Marks::new(regions),
            wanted: Wanted::new(regions),
            region_blocks: record.region_bytes / u64::from(block_bytes),
            block_bytes,
            acknowledged: AtomicU64::new(0),
            legs: Lock::default(),
            legs_version: AtomicU64::new(0),
            loops: Lock::default(),
            undecided: Lock::default(),
            failed_reads: FailedReads::default(),
            abandoned: AtomicU64::new(0),
            home,
            keeper,
        }
    }

    /// The locks of some blocks; `None` if they are too many.
    pub(crate) fn locks_of(&self, lba: u64, blocks: u32) -> Option<LockRange> {
        let block = u64::from(self.block_bytes);
        LockRange::of(lba * block, u64::from(blocks) * block)
    }

    pub(super) fn regions_of(&self, lba: u64, blocks: u32) -> Range<usize> {
        let last = lba + u64::from(blocks).max(1) - 1;
        (lba / self.region_blocks) as usize..(last / self.region_blocks) as usize + 1
    }

    /// Writes of loops that were acknowledged, and need not be durable.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Says which regions may be written to.
    pub(crate) fn mark(&self, stored: &Bitmap) {
        self.marked.set(stored);
        self.tell_waiting();
    }

    /// Loops that wait look again.
    fn tell_waiting(&self) {
        self.loops.lock().iter().filter(|one| one.waiter.take()).for_each(|one| one.wake());
    }

    /// A loop waits for the marks of these blocks, and wakes the home when it has named all.
    pub(super) fn want(&self, lba: u64, blocks: u32) {
        self.wanted.add(self.regions_of(lba, blocks));
    }

    /// Regions that loops have asked for since the last call.
    pub(crate) fn wanted(&self) -> Option<Bitmap> {
        self.wanted.take()
    }

    /// Begins to wait for all writes that may have seen marks which were taken back before this;
    /// `false` if writes from before the last call are still under way.
    pub(crate) fn turn(&self) -> bool {
        let is_past = self.is_past();
        if is_past {
            self.permit.turn();
        }
        is_past
    }

    /// Returns true if all writes that began before the last [`Direct::turn`] have ended or were
    /// handed to the home.
    pub(crate) fn is_past(&self) -> bool {
        self.loops.lock().iter().all(|one| one.writers.is_past(&self.permit))
    }

    /// Lets loops use these legs from now on.
    pub(crate) fn permit(&self, legs: Vec<DirectLeg>) {
        let is_same = |a: &DirectLeg, b: &DirectLeg| {
            a.number == b.number && Arc::ptr_eq(&a.use_of_it, &b.use_of_it)
        };
        let mut known = self.legs.lock();
        if known.len() != legs.len() || !known.iter().zip(&legs).all(|(a, b)| is_same(a, b)) {
            *known = legs;
            self.legs_version.fetch_add(1, Ordering::SeqCst);
        }
        drop(known);
        self.permit.give();
    }

    /// Returns whether loops may go on by themselves.
    pub(crate) fn is_permitted(&self) -> bool {
        self.permit.see().holds()
    }

    /// Withdraws the permit.
    pub(crate) fn withdraw(&self) {
        if self.permit.withdraw() {
            self.tell_waiting();
        }
    }

    /// A leg is lost, or no longer in sync. Loops let go of it: their writes there have failed, and
    /// their queues of it stay until nothing can be executed there.
    pub(crate) fn take_back(&self, use_of_it: &Arc<()>) {
        self.keep_legs(|leg| !Arc::ptr_eq(&leg.use_of_it, use_of_it));
    }

    /// The mirror is gone.
    pub(crate) fn end(&self) {
        self.keep_legs(|_| false);
    }

    pub(super) fn keep_legs(&self, is_kept: impl Fn(&DirectLeg) -> bool) {
        let mut legs = self.legs.lock();
        if legs.iter().all(&is_kept) {
            return;
        }
        self.withdraw();
        legs.retain(is_kept);
        self.legs_version.fetch_add(1, Ordering::SeqCst);
        drop(legs);
        self.loops.lock().iter().for_each(|one| one.wake());
    }

    /// Returns whether no loop writes, after the permit was withdrawn.
    pub(crate) fn is_quiet(&self) -> bool {
        self.loops.lock().iter().all(|one| one.writers.is_none())
    }

    /// Returns the writes that need a verdict. From now on they are the home's.
    pub(crate) fn undecided(&self) -> Vec<Undecided> {
        let all = core::mem::take(&mut *self.undecided.lock());
        all.iter().for_each(|one| one.of.writers.end(one.permit));
        all
    }

    /// Returns whether a loop has ended while it wrote, so that nobody knows the outcome.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst) > 0
    }

    pub(super) fn enter(&self, one: &Arc<OneLoop>) {
        self.loops.lock().push(Arc::clone(one));
    }

    pub(super) fn leave(&self, one: &Arc<OneLoop>) {
        self.loops.lock().retain(|other| !Arc::ptr_eq(one, other));
        self.wake_home();
    }

    pub(super) fn wake_home(&self) {
        self.home.wake(self.keeper);
    }

    /// Ends a write of a loop; the home is woken if it waits for that.
    pub(super) fn end_write(&self, one: &OneLoop, seen: Seen) {
        one.writers.end(seen);
        if self.permit.see().waits_for(seen) {
            self.wake_home();
        }
    }

    /// Begins a write of a loop, unless the home has to be asked.
    #[inline(always)]
    pub(super) fn begin_write(&self, one: &OneLoop, seen: Seen, lba: u64, blocks: u32) -> Begun {
        let Some(range) = self.locks_of(lba, blocks) else { return Begun::No };
        let mut seen = seen;
        while !one.writers.begin(&self.permit, seen) {
            self.wake_home();
            let now = self.permit.see();
            if !now.holds() || !now.is_same(seen) {
                return Begun::No;
            }
            seen = now;
        }
        // It counts before it looks at the marks: whoever has taken one back sees that it is under
        // way, or it sees that.
        let regions = self.regions_of(lba, blocks);
        self.touched.add(regions.clone());
        if !self.marked.has_all(regions) {
            self.end_write(one, seen);
            return Begun::Unmarked;
        }
        if let Err(is_wanted) = self.locks.take(range) {
            self.end_write(one, seen);
            if is_wanted {
                self.wake_home();
            }
            return Begun::No;
        }
        Begun::Yes(range, seen)
    }

    pub(super) fn free(&self, range: LockRange) {
        if self.locks.free(range) {
            self.wake_home();
        }
    }
}
