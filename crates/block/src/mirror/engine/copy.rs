//! Makes legs equal, region by region, while users read and write: first the legs in sync where
//! they may differ, then legs that came back.
//!
//! A region is copied in chunks, each under the lock of its blocks: read from one leg in sync,
//! written to the others that need it. Writes of users go to a leg that is copied to as well, from
//! the moment at which copying begins, so that a region that was copied stays equal.

use super::{
    Flight, FlightKind, FlightStage, LegRole, MirrorEngine, MirrorEvent, Purpose, UNREADABLE, has,
};
use crate::limits::{MIRROR_COPY_BYTES, MIRROR_COPY_OPS};
use crate::mirror::bitmap::Bitmap;
use crate::mirror::record::{LEGS_MAX, LegMask};
use crate::op::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// Attempts to read a region before its unreadable part counts as unreadable.
const TRIES: u8 = 2;

/// The background job.
pub(super) struct Copier {
    is_allowed: bool,
    /// It waits until the driver lets it go on, as something could not be copied: so often it did
    /// so since a region could.
    rests: Option<u32>,
    attempts: u32,
    /// Regions that could not be copied since it last rested.
    aside: BTreeSet<usize>,
    /// Number of times that something in a region could be read from no leg.
    tries: BTreeMap<usize, u8>,
    /// The log has reported that there are more unreadable blocks than can be recorded.
    pub(super) is_too_much: bool,
    /// For each leg that came back, the regions that are still to be copied to it.
    todo: [Option<Bitmap>; LEGS_MAX],
    /// Regions that a leg must get whose label is being written.
    greeted: [Option<Bitmap>; LEGS_MAX],
    copied: [u64; LEGS_MAX],
    equalised: u64,
    job: Option<Job>,
    /// The flush of a leg, before it is in sync, is under way.
    joining: LegMask,
}

/// A region that is being copied.
pub(super) struct Job {
    region: usize,
    /// The next block, and the end.
    next: u64,
    end: u64,
    /// Legs that came back to which it is copied.
    pub(super) legs: LegMask,
    /// Parts of it that are looked at by themselves, as something in them cannot be read; the next
    /// one last.
    pub(super) probes: Vec<(u64, u32)>,
    /// Something in it can be read from no leg.
    is_unreadable: bool,
    /// The first block that was found unreadable, and how many there were.
    pub(super) unreadable: Option<(u64, u64)>,
    /// It is also made equal on the legs in sync.
    is_suspect: bool,
    under_way: u32,
    failed: bool,
}

impl Copier {
    pub(super) fn new() -> Self {
        Self {
            is_allowed: false,
            rests: None,
            attempts: 0,
            aside: BTreeSet::new(),
            tries: BTreeMap::new(),
            is_too_much: false,
            todo: Default::default(),
            greeted: Default::default(),
            copied: [0; LEGS_MAX],
            equalised: 0,
            job: None,
            joining: 0,
        }
    }

    pub(super) fn backlog(&self) -> [usize; LEGS_MAX] {
        core::array::from_fn(|leg| self.todo[leg].as_ref().map_or(0, Bitmap::count))
    }

    /// The first region of a set that was not tried since the job last rested.
    fn first(&self, regions: &Bitmap) -> Option<usize> {
        regions.regions().find(|region| !self.aside.contains(region))
    }

    /// Returns whether something in a region failed so often that it counts as unreadable, and not
    /// as a failure that passes.
    fn is_tried(&self, region: usize) -> bool {
        self.tries.get(&region).is_some_and(|tries| *tries >= TRIES)
    }

    /// Does nothing until it is allowed to: what failed may fail again at once, for ever.
    fn rest(&mut self) {
        self.rests = Some(self.attempts);
    }

    /// Legs may differ in a region: it counts as not copied, also to a leg that has it already.
    pub(super) fn disturb(&mut self, region: usize) {
        self.job.iter_mut().filter(|job| job.region == region).for_each(|job| job.failed = true);
        self.todo.iter_mut().flatten().for_each(|todo| todo.set(region));
    }

    /// A leg is in sync; returns the bytes that were copied to it.
    pub(super) fn joined(&mut self, leg: usize) -> u64 {
        self.todo[leg] = None;
        self.joining &= !(1 << leg);
        core::mem::take(&mut self.copied[leg])
    }

    /// A leg is lost. What is being copied to it counts for nothing when it comes back.
    pub(super) fn abandon(&mut self, leg: usize) {
        self.joined(leg);
        self.job.iter_mut().for_each(|job| job.legs &= !(1 << leg));
    }

    /// A leg is about to be copied to; `all` regions if what it missed is not known.
    pub(super) fn greet(&mut self, leg: usize, all: Option<Bitmap>) {
        self.greeted[leg] = all;
    }

    /// Returns whether all of a leg will have to be copied.
    pub(super) fn is_whole(&self, leg: usize) -> bool {
        self.greeted[leg].is_some()
    }

    /// From now on it gets all writes, and what it missed is copied. Returns whether that is
    /// everything.
    pub(super) fn begin(&mut self, leg: usize, missed: &Bitmap) -> bool {
        let all = self.greeted[leg].take();
        let is_whole = all.is_some();
        let regions = all.unwrap_or_else(|| missed.clone());
        self.todo[leg] = Some(regions);
        self.copied[leg] = 0;
        is_whole
    }
}

impl MirrorEngine {
    /// Lets copying begin: what an earlier process, or an earlier connection to a leg, has sent is
    /// settled.
    pub(crate) fn allow_copies(&mut self) {
        self.copier.is_allowed = true;
        self.copier.rests = None;
        self.copier.aside.clear();
        self.pump();
    }

    /// Returns whether copying waits to be allowed again after a failure, and the number of such
    /// waits without any success.
    pub(crate) fn rests(&self) -> Option<u32> {
        self.copier.rests
    }

    /// Goes on with copying; `false` if there is nothing to begin.
    pub(super) fn copy_on(&mut self) -> bool {
        if !self.is_open
            || !self.copier.is_allowed
            || self.closing.is_begun() && !self.has_to_copy()
        {
            return false;
        }
        let Some(job) = &mut self.copier.job else { return self.next_job() || self.join_next() };
        if job.under_way as usize == MIRROR_COPY_OPS {
            return false;
        }
        let most = u64::from(MIRROR_COPY_BYTES / self.record.block_bytes);
        let (lba, blocks) = match job.probes.pop() {
            Some(part) => part,
            None if job.next == job.end => return false,
            None => (job.next, (job.end - job.next).min(most) as u32),
        };
        job.next = job.next.max(lba + u64::from(blocks));
        job.under_way += 1;
        self.begin(FlightKind::Copy { reader: None }, lba, blocks);
        true
    }

    fn next_job(&mut self) -> bool {
        if self.copier.rests.is_some() {
            return false;
        }
        let suspect = if self.want.members.count_ones() > 1 {
            self.copier.first(&self.maps.suspect)
        } else {
            None
        };
        let todo =
            |leg: usize| self.copier.todo[leg].as_ref().and_then(|todo| self.copier.first(todo));
        let Some(region) = suspect.or_else(|| (0..LEGS_MAX).find_map(todo)) else {
            if !self.copier.aside.is_empty() {
                self.forget_unflushed();
                self.copier.attempts += 1;
                self.copier.rest();
            }
            return false;
        };
        let is_due =
            |leg: usize| self.copier.todo[leg].as_ref().is_some_and(|todo| todo.has(region));
        let legs = (0..LEGS_MAX).filter(|leg| is_due(*leg)).fold(0, |mask, leg| mask | 1 << leg);
        let blocks = self.record.data_bytes / u64::from(self.record.block_bytes);
        let next = region as u64 * self.region_blocks();
        let end = (next + self.region_blocks()).min(blocks);
        let is_suspect = suspect.is_some();
        self.copier.job = Some(Job {
            region,
            next,
            end,
            legs,
            probes: Vec::new(),
            is_unreadable: false,
            unreadable: None,
            is_suspect,
            under_way: 0,
            failed: false,
        });
        true
    }

    /// A leg that has everything is flushed, and is in sync then.
    fn join_next(&mut self) -> bool {
        let is_ready = |leg: &usize| {
            self.roles[*leg] == LegRole::Copying
                && !has(self.copier.joining, *leg)
                && self.copier.todo[*leg].as_ref().is_some_and(Bitmap::is_empty)
        };
        let Some(leg) = (0..LEGS_MAX).find(is_ready) else { return false };
        self.copier.joining |= 1 << leg;
        self.begin(FlightKind::Flush(Purpose::Join(leg)), 0, 0);
        true
    }

    /// A copy has its blocks: it is read, unless it is known that some of them cannot be.
    pub(super) fn begin_copy(&mut self, op: u64) {
        if self.flights.get(&op).is_some_and(|flight| self.is_known(flight)) {
            self.finish(op, UNREADABLE)
        } else {
            self.fetch(op)
        }
    }

    /// A copy was read from `source`: it is written to the others.
    pub(super) fn store_copy(&mut self, op: u64, source: usize) {
        let Some(flight) = self.flights.get(&op) else { return };
        let is_suspect = self.is_suspect(op);
        let members = self.with(|role| role == LegRole::Member) & !(1 << source);
        let FlightKind::Copy { reader } = flight.kind else { return };
        let job = self.copier.job.as_ref().filter(|_| reader.is_none());
        let copying = self.with(|role| role == LegRole::Copying);
        // A leg that is about to be in sync must not show something else then.
        let others = if is_suspect { copying } else { job.map_or(0, |job| job.legs) & copying };
        let targets = others | if is_suspect { members } else { 0 };
        let Some(flight) = self.flights.get_mut(&op) else { return };
        flight.pending = targets;
        if is_suspect && targets != 0 {
            return self.reserve(op);
        }
        flight.stage = FlightStage::Bits;
        self.store(op);
    }

    /// A copy has ended.
    pub(super) fn copied(&mut self, flight: &Flight, is_job: bool, outcome: Outcome) {
        let Some(mut job) = self.copier.job.take_if(|_| is_job) else { return };
        job.under_way -= 1;
        let is_unreadable = self.cannot_be_read(flight, &outcome);
        job.is_unreadable |= is_unreadable;
        let is_certain = self.is_known(flight) || self.copier.is_tried(job.region);
        job.failed |=
            !(outcome.is_success() || is_unreadable && is_certain && self.probe(&mut job, flight));
        let bytes = u64::from(flight.blocks) * u64::from(self.record.block_bytes);
        let legs = job.legs;
        (0..LEGS_MAX)
            .filter(|leg| has(legs & flight.good, *leg))
            .for_each(|leg| self.copier.copied[leg] += bytes);
        if outcome.is_success() && job.is_suspect {
            self.copier.equalised += bytes;
        }
        if job.failed {
            job.next = job.end;
            job.probes.clear();
        }
        if job.next < job.end || job.under_way > 0 || !job.probes.is_empty() {
            self.copier.job = Some(job);
            return;
        }
        if let Some((lba, blocks)) = job.unreadable {
            self.say(MirrorEvent::Unreadable { lba, blocks });
            self.copier.rest();
        }
        if job.failed {
            if job.is_unreadable {
                let tries = self.copier.tries.entry(job.region).or_default();
                *tries = tries.saturating_add(1);
            }
            self.copier.aside.insert(job.region);
            return;
        }
        self.copier.tries.remove(&job.region);
        self.copier.attempts = 0;
        for leg in (0..LEGS_MAX).filter(|leg| has(job.legs, *leg)) {
            self.copier.todo[leg].iter_mut().for_each(|todo| todo.clear(job.region));
        }
        if job.is_suspect {
            self.maps.suspect.clear(job.region);
            self.hot.is_due = true;
            if self.maps.suspect.is_empty() {
                self.made_sound();
                let compared = core::mem::take(&mut self.copier.equalised);
                self.say(MirrorEvent::Equal { compared });
            }
        }
    }
}
