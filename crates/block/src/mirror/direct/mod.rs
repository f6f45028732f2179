//! Reads and writes that need no decision, straight from the loop that has them.
//!
//! A read needs no decision when the legs are known to be equal in its range and nobody is writing
//! there. A write also needs the bits of its regions to be durable. Everything else, and every
//! operation whose outcome needs a decision, goes to the home of the mirror:
//!
//! * The home gives a *permit* ([`permit`]) while all legs are in sync or away, nothing is copied,
//!   and nothing is about to change but bits. It withdraws the permit, and waits for the writers,
//!   before the engine receives anything else ([`super::core::alone`]). So a write that succeeds on all
//!   legs by a permit may be acknowledged at once.
//! * Whoever changes blocks, or is at the home, has their *locks* ([`locks`]). A read looks at the
//!   permit and at the locks before and after: if they are the same, no write was under way there
//!   while it read, and any leg in sync would have said the same. Otherwise the home reads again.
//! * A write to a region without a mark is parked on its loop ([`parked`]), which asks the home for
//!   the mark. The home marks all regions that loops and its own operations wait for in one change.
//! * A write that fails on a leg keeps its locks, and the home judges it ([`Undecided`]) as one of
//!   the engine's own.
//!
//! See decision 26.

mod device;
mod flight;
pub(super) mod locks;
mod marks;
#[cfg(all(test, feature = "loom"))]
mod model;
mod permit;
mod queue;
mod unpark;
mod waiting;

use crate::device::{BlockQueue, Device, DeviceChange};
use crate::limits::{MIRROR_BARRED_MS, MIRROR_DRAIN_MS, MIRROR_QUEUE_OPS};
use crate::mirror::bitmap::Bitmap;
use crate::mirror::counts::{LegCounts, LegQueueCounts};
use crate::mirror::record::{LEGS_MAX, MirrorRecord};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::sync::{AtomicU64, Ordering};
use core::ops::Range;
use core::time::Duration;
pub(super) use device::DirectDevice;
use locks::{LockRange, Locks};
use marks::Marks;
use permit::{Permit, Seen, Writers};
use std::collections::VecDeque;
use std::sync::Arc;
use waiting::{Waiter, Wanted};
use weft_base::lock::Lock;
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop, Time};

/// The legs that a loop uses by itself: found, looked after, and let go of.
#[derive(Default)]
struct Legs {
    used: Vec<Leg>,
    /// Legs that are no longer used and still have operations in flight.
    leaving: Vec<Leg>,
    /// Version of the legs in use.
    version: u64,
    /// A leg cannot be used from here: the home does everything until then, or until the legs
    /// change.
    barred: Option<Time>,
}

impl Legs {
    /// Returns whether the loop can do without the home, as far as its queues are concerned.
    fn are_usable(&self) -> bool {
        self.barred.is_none() && !self.used.is_empty()
    }

    /// Tries again what could not be used for a while.
    fn try_again(&mut self, now: Time) {
        if self.barred.is_some_and(|until| until <= now) {
            // Whatever they are now.
            self.version = 0;
        }
    }

    /// Lets go of legs that are no longer in sync, and opens queues of others. Returns the numbers
    /// of the former: writes there have failed, and may still be executed.
    fn follow(&mut self, direct: &Direct, on: &Handle, owner: DriverId) -> Vec<usize> {
        let version = direct.legs_version.load(Ordering::SeqCst);
        if version == self.version {
            return Vec::new();
        }
        (self.version, self.barred) = (version, None);
        let wanted = direct.legs.lock().clone();
        let mut had = core::mem::take(&mut self.used);
        for of in wanted {
            let same = |leg: &Leg| Arc::ptr_eq(&leg.of.use_of_it, &of.use_of_it);
            if let Some(at) = had.iter().position(same) {
                self.used.push(had.swap_remove(at));
                continue;
            }
            match of.device.open_queue(on, owner) {
                Ok(queue) => {
                    let todo = VecDeque::new();
                    let counts = LegQueueCounts::new(&of.counts, of.device.geometry().block_bytes);
                    self.used.push(Leg { queue, todo, reads: 0, is_lost: false, counts, of });
                }
                Err(e) => {
                    // The home has a queue of it.
                    tracing::debug!("{}: no queue for another loop: {e}", of.device.url());
                    self.bar(on);
                }
            }
        }
        self.let_go(had)
    }

    fn bar(&mut self, on: &Handle) {
        self.barred = Some(on.now() + Duration::from_millis(MIRROR_BARRED_MS));
    }

    fn let_go(&mut self, legs: Vec<Leg>) -> Vec<usize> {
        let numbers = legs.iter().map(|leg| leg.of.number).collect();
        self.leaving.extend(legs);
        numbers
    }

    /// Puts what has ended on the leg at this place into `returned`, which is empty.
    fn reap(&mut self, place: usize, returned: &mut Vec<Completion>, now: Time) {
        let leg = &mut self.used[place];
        leg.reap(returned, now);
        while let Some(change) = leg.queue.change() {
            leg.is_lost |= matches!(
                change,
                DeviceChange::Gone | DeviceChange::Away | DeviceChange::Resized { .. }
            );
        }
    }

    /// Lets go of legs whose queues say that they are not there; their numbers.
    fn let_lost_go(&mut self, on: &Handle) -> Vec<usize> {
        if !self.used.iter().any(|leg| leg.is_lost) {
            return Vec::new();
        }
        self.bar(on);
        let lost = self.used.extract_if(.., |leg| leg.is_lost).collect();
        self.let_go(lost)
    }

    /// Returns the ended operations on legs that are no longer used, with their numbers.
    fn reap_leaving(&mut self, direct: &Direct, now: Time) -> Vec<(usize, Completion)> {
        let (mut returned, mut ended) = (Vec::new(), Vec::new());
        let before = self.leaving.len();
        self.leaving.retain_mut(|leg| {
            leg.reap(&mut returned, now);
            let number = leg.of.number;
            ended.extend(returned.drain(..).map(|completion| (number, completion)));
            !leg.is_settled()
        });
        if self.leaving.len() < before {
            direct.wake_home();
        }
        ended
    }

    /// Passes on what the queues have not taken yet. Returns whether there was anything.
    fn submit(&mut self, now: Time) -> bool {
        let mut some = false;
        for leg in self.used.iter_mut().chain(&mut self.leaving) {
            if !leg.todo.is_empty() {
                leg.submit(now);
                some = true;
            }
        }
        some
    }

    /// The loop has no user, or ends.
    fn drain(&mut self, on: &Handle) {
        self.used.drain(..).chain(self.leaving.drain(..)).for_each(|leg| leg.drain(on));
    }
}

/// A loop's queue of a leg, and how it ends.
struct Leg {
    queue: Box<dyn BlockQueue>,
    /// Operations that it has not taken yet.
    todo: VecDeque<Op>,
    /// Reads under way there.
    reads: u32,
    /// The queue reports that its device is gone.
    is_lost: bool,
    counts: LegQueueCounts,
    /// Given back after the queue: until then the leg is not settled.
    of: DirectLeg,
}

impl Leg {
    /// Submits what the queue has not taken yet.
    fn submit(&mut self, now: Time) {
        if self.counts.is_due(now)
            && let Some(op) = self.todo.get(self.todo.len() / 2)
        {
            self.counts.time(op, now);
        }
        self.queue.submit(&mut self.todo);
    }

    /// Puts what has ended into `returned`, which is empty.
    fn reap(&mut self, returned: &mut Vec<Completion>, now: Time) {
        self.queue.reap(returned);
        self.counts.ended(returned, now);
    }

    /// Returns whether none of its commands can be executed.
    fn is_settled(&mut self) -> bool {
        self.todo.is_empty()
            && self.queue.in_flight() == 0
            && self.queue.overdue(&mut Vec::new()) == 0
    }

    /// Drops it when it is settled.
    fn drain(mut self, on: &Handle) {
        self.todo.drain(..).for_each(Op::give_up);
        if self.is_settled() {
            return;
        }
        if on.is_stopping() {
            // The process ends, or nobody opens the leg again in it.
            core::mem::forget(self.of.use_of_it.clone());
            return;
        }
        on.spawn(|id| Draining { leg: self, id });
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.todo.drain(..).for_each(Op::give_up);
    }
}

/// Waits for the rest of a queue when its loop has no user. The queue wakes a driver that has
/// ended, so this looks from time to time.
struct Draining {
    leg: Leg,
    id: DriverId,
}

impl Driver for Draining {
    fn work(&mut self, on: &Handle) -> Activity {
        self.leg.reap(&mut Vec::new(), on.now());
        if self.leg.is_settled() {
            on.remove(self.id);
        } else {
            on.wake_at(self.id, on.now() + Duration::from_millis(MIRROR_DRAIN_MS));
        }
        Activity::Idle
    }
}

// State shared by the home of a mirror and the loops.

/// A leg in sync that loops may use.
#[derive(Clone)]
pub(super) struct DirectLeg {
    pub(crate) number: usize,
    pub(crate) device: Device,
    /// Kept as long as anything may be under way there by a queue of a loop.
    pub(crate) use_of_it: Arc<()>,
    pub(crate) counts: Arc<LegCounts>,
}

/// A write that did not succeed on all legs, and whose locks its loop holds until it is answered.
pub(super) struct Undecided {
    pub(crate) kind: OpKind,
    pub(crate) lba: u64,
    pub(crate) blocks: u32,
    /// Its outcomes on the legs that got it.
    pub(crate) outcomes: [Option<Outcome>; LEGS_MAX],
    pub(crate) of: Arc<OneLoop>,
    /// Its name there.
    pub(crate) name: u64,
    /// The permit by which it was begun.
    permit: Seen,
}

/// The result of beginning a write on a loop.
#[derive(Debug)]
enum Begun {
    /// It has these locks, by this permit.
    Yes(LockRange, Seen),
    /// One of its regions is not marked.
    Unmarked,
    /// The home has to execute it.
    No,
}

/// Verdict of the home on an undecided write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HomeVerdict {
    /// It ends so.
    Ends(Outcome),
    /// The engine that had it has stopped: submit it to the home.
    Again,
}

/// Home's view of a loop.
pub(crate) struct OneLoop {
    writers: Writers,
    waiter: Waiter,
    answers: Lock<Vec<(u64, HomeVerdict)>>,
    remote: RemoteLoop,
    /// The driver that is woken there.
    driver: DriverId,
}

impl OneLoop {
    /// Answers one of its writes.
    pub(crate) fn answer(&self, name: u64, answer: HomeVerdict) {
        self.answers.lock().push((name, answer));
        self.wake();
    }

    fn wake(&self) {
        self.remote.wake(self.driver);
    }
}

/// State shared by the home and the loops.
pub(super) struct Direct {
    permit: Permit,
    pub(crate) locks: Locks,
    /// Regions whose bits are durable.
    marked: Marks,
    /// Regions that loops have written to since the home looked.
    pub(crate) touched: Marks,
    wanted: Wanted,
    region_blocks: u64,
    block_bytes: u32,
    /// Writes of loops that were acknowledged and need not be durable.
    acknowledged: AtomicU64,
    legs: Lock<Vec<DirectLeg>>,
    /// Changes with the legs.
    legs_version: AtomicU64,
    loops: Lock<Vec<Arc<OneLoop>>>,
    undecided: Lock<Vec<Undecided>>,
    pub(crate) failed_reads: FailedReads,
    /// Number of loops that have ended while they wrote.
    abandoned: AtomicU64,
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

    fn regions_of(&self, lba: u64, blocks: u32) -> Range<usize> {
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
    fn want(&self, lba: u64, blocks: u32) {
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

    fn keep_legs(&self, is_kept: impl Fn(&DirectLeg) -> bool) {
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

    fn enter(&self, one: &Arc<OneLoop>) {
        self.loops.lock().push(Arc::clone(one));
    }

    fn leave(&self, one: &Arc<OneLoop>) {
        self.loops.lock().retain(|other| !Arc::ptr_eq(one, other));
        self.wake_home();
    }

    fn wake_home(&self) {
        self.home.wake(self.keeper);
    }

    /// Ends a write of a loop; the home is woken if it waits for that.
    fn end_write(&self, one: &OneLoop, seen: Seen) {
        one.writers.end(seen);
        if self.permit.see().waits_for(seen) {
            self.wake_home();
        }
    }

    /// Begins a write of a loop, unless the home has to be asked.
    #[inline(always)]
    fn begin_write(&self, one: &OneLoop, seen: Seen, lba: u64, blocks: u32) -> Begun {
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

    fn free(&self, range: LockRange) {
        if self.locks.free(range) {
            self.wake_home();
        }
    }
}

struct FailedRead {
    lba: u64,
    blocks: u32,
    leg: usize,
}

/// Reads of loops that have failed on a leg: the home, which reads again, tries that leg first. So
/// the engine learns of the failure, and mends the blocks or gives the leg up; another leg would
/// hide it. The oldest ones are forgotten: they are read from any leg.
#[derive(Default)]
pub(crate) struct FailedReads(Lock<Vec<FailedRead>>);

impl FailedReads {
    /// A read has failed on a leg, and goes to the home.
    fn add(&self, lba: u64, blocks: u32, leg: usize) {
        let mut all = self.0.lock();
        if all.len() == MIRROR_QUEUE_OPS {
            all.remove(0);
        }
        all.push(FailedRead { lba, blocks, leg });
    }

    /// The leg on which such a read has failed, if it is not known yet.
    pub(crate) fn take(&self, lba: u64, blocks: u32) -> Option<usize> {
        let mut all = self.0.lock();
        let at = all.iter().position(|read| (read.lba, read.blocks) == (lba, blocks))?;
        Some(all.remove(at).leg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_told_once_and_so_many_are_kept() {
        let failed = FailedReads::default();
        (0..=MIRROR_QUEUE_OPS as u64).for_each(|lba| failed.add(lba, 8, 1));
        assert_eq!((failed.take(0, 8), failed.take(1, 4)), (None, None));
        assert_eq!((failed.take(1, 8), failed.take(1, 8)), (Some(1), None));
    }
}
