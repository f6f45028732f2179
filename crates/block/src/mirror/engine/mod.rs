//! The state machine of a mirror, without I/O. It receives operations, completions and events of
//! legs, and returns reads and writes.
//!
//! * `write`, `read`: operations, each under the lock of its blocks ([`super::ranges`]).
//! * `output`: what the engine says to its driver.
//! * `meta`: changes of labels, state file and bitmaps, one at a time, each in steps: pages of the
//!   bitmaps, then the state file, then the labels.
//! * `copy`: what makes legs equal. `heal`: blocks that no leg can be read from, until they are
//!   written.
//! * `direct`: what loops do without it.
//! * `sound`: legs to copy from, where others have lost what was not flushed.
//! * `hot`: which regions are marked as being written to, and when they no longer are.
//! * `legs`: legs that fail, come back and are in sync again; the end.
//!
//! The rules: the bit of a region is durable before a write goes to any leg. A write is
//! acknowledged only when each leg that is in sync, by what is durable or being made so, has
//! executed it ([`MirrorEngine::missing`]).

mod copy;
mod direct;
mod flight;
mod heal;
mod hot;
mod legs;
mod meta;
mod output;
mod read;
mod sound;
#[cfg(test)]
mod tests;
mod write;

use super::bitmap::Bitmap;
use super::layout::HotLimit;
use super::ranges::Ranges;
use super::record::{Claim, LEGS_MAX, LegMask, MirrorRecord, RecordSlots};
use super::start::MirrorStart;
use super::unreadable::UnreadableBlocks;
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use copy::Copier;
pub(crate) use flight::{FailureMeaning, fault};
use flight::{Flight, FlightKind, FlightStage, Owner, Purpose, is_fenced, is_unreachable};
use hot::Hot;
use meta::Meta;
pub(crate) use output::{Halt, Io, IoTarget, LegRole, MirrorEvent, MirrorOutput};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
pub(crate) use write::RETRIES_MAX;

/// State that must become durable.
#[derive(Debug)]
struct Want {
    members: LegMask,
    claim: Option<Claim>,
    is_clean: bool,
    /// A new generation, even with the same legs.
    is_new: bool,
    /// Blocks that no leg can be read from.
    unreadable: UnreadableBlocks,
    /// Time for which targets may go on with commands, in milliseconds.
    bound_ms: u32,
}

/// The regions that matter.
struct Maps {
    written: Bitmap,
    missed: Bitmap,
    /// Stored contents of both.
    stored: [Bitmap; 2],
    /// Regions in which legs in sync may differ now.
    suspect: Bitmap,
    /// Regions that were written to since the hand of the clock came by ([`hot`]).
    touched: Bitmap,
    /// Writes under way, by region.
    busy: Vec<u32>,
    /// Counts changes of `stored`, and bits that are cleared.
    version: u64,
}

/// Outcome of reads of blocks that no leg can be read from.
const UNREADABLE: Outcome = Outcome::Done(Status::new(StatusKind::Media));

/// Progress of closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// Operations end.
    Draining,
    /// All legs are flushed.
    Flushing,
    /// The labels say so.
    Releasing,
    Done,
}

impl Closing {
    fn is_begun(self) -> bool {
        self != Self::No
    }
}

/// The reads of a leg.
#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    in_flight: u32,
    /// End of the last one.
    end: u64,
}

/// See the module.
pub(crate) struct MirrorEngine {
    /// The last record of which writing began.
    record: MirrorRecord,
    /// The last record that is durable wherever it has to be.
    stable: MirrorRecord,
    /// Legs in sync by any record that was begun since: some labels may say so, also if writing the
    /// others failed.
    written: LegMask,
    want: Want,
    /// The tag of the run in the label of each leg.
    reached: [u64; LEGS_MAX],
    is_claimed: bool,
    is_open: bool,
    closing: Closing,
    halted: Option<Halt>,
    roles: [LegRole; LEGS_MAX],
    slots: [Option<RecordSlots>; LEGS_MAX],
    state: Option<RecordSlots>,
    /// Targets on which all pages must be written.
    whole: BTreeSet<IoTarget>,
    maps: Maps,
    /// See [`MirrorEngine::trust`].
    sound: Option<LegMask>,
    ranges: Ranges,
    flights: BTreeMap<u64, Flight>,
    pending: BTreeMap<u64, (Owner, IoTarget, bool)>,
    /// Flights to look at again.
    due: VecDeque<u64>,
    reads: [Reads; LEGS_MAX],
    meta: Option<Meta>,
    copier: Copier,
    /// Legs whose labels are to say that they are copied to.
    to_greet: LegMask,
    hot: Hot,
    random: u64,
    next: u64,
    out: Vec<MirrorOutput>,
}

impl MirrorEngine {
    /// Starts: takes the mirror for `claim`. The driver waits for [`MirrorOutput::Opened`]. `seed`
    /// makes the tags of generations. `hot` limits what is marked at a time.
    pub(crate) fn new(start: MirrorStart, claim: Claim, seed: u64, hot: HotLimit) -> Self {
        let MirrorStart { record, members, slots, state, suspect, missed, is_new, .. } = start;
        let (regions, limit) = (record.regions(), hot.regions(record.region_bytes));
        let mut roles = [LegRole::Away; LEGS_MAX];
        (0..LEGS_MAX)
            .filter(|leg| members >> leg & 1 != 0)
            .for_each(|leg| roles[leg] = LegRole::Member);
        let mut engine = Self {
            want: Want {
                members,
                claim: Some(claim),
                is_clean: false,
                is_new,
                unreadable: record.unreadable.clone(),
                bound_ms: record.bound_ms,
            },
            reached: [record.run.tag; LEGS_MAX],
            is_claimed: false,
            is_open: false,
            closing: Closing::No,
            halted: None,
            roles,
            slots,
            state,
            whole: BTreeSet::new(),
            maps: Maps {
                written: suspect.clone(),
                missed,
                stored: [Bitmap::new(regions), Bitmap::new(regions)],
                suspect,
                touched: Bitmap::new(regions),
                busy: vec![0; regions],
                version: 0,
            },
            sound: None,
            stable: record.clone(),
            written: 0,
            record,
            ranges: Ranges::default(),
            flights: BTreeMap::new(),
            pending: BTreeMap::new(),
            due: VecDeque::new(),
            reads: Default::default(),
            meta: None,
            copier: Copier::new(),
            to_greet: 0,
            hot: Hot::new(regions, limit),
            random: seed,
            next: 1,
            out: Vec::new(),
        };
        engine.whole = engine.homes(members).collect();
        let regions = engine.maps.suspect.count();
        if regions > 0 && members.count_ones() > 1 {
            engine.say(MirrorEvent::Equalising { regions });
        }
        engine.pump();
        engine
    }

    /// Returns the next actions; the caller does all of them.
    pub(crate) fn outputs(&mut self) -> Vec<MirrorOutput> {
        core::mem::take(&mut self.out)
    }

    /// Begins an operation of a user; [`MirrorOutput::Complete`] names its end. It is in range.
    pub(crate) fn submit(&mut self, kind: OpKind, lba: u64, blocks: u32) -> u64 {
        let op = self.begin(FlightKind::User(kind), lba, blocks);
        self.pump();
        op
    }

    /// Takes a read that has failed on a leg: it is tried there first.
    pub(crate) fn read_again(&mut self, lba: u64, blocks: u32, failed_on: usize) -> u64 {
        let op = self.begin(FlightKind::User(OpKind::Read), lba, blocks);
        if let Some(flight) = self.flights.get_mut(&op) {
            flight.failed_on = Some(failed_on);
        }
        self.pump();
        op
    }

    /// An action has ended.
    pub(crate) fn done(&mut self, name: u64, outcome: Outcome) {
        let Some((owner, target, _)) = self.pending.remove(&name) else { return };
        if self.halted.is_some() {
            return;
        }
        if let IoTarget::Leg(leg) = target
            && is_fenced(&outcome)
        {
            return self.halt(Halt::Fenced(leg));
        }
        match (owner, target) {
            (Owner::Flight(op), IoTarget::Leg(leg)) => self.flight_done(op, leg, outcome),
            (Owner::Meta, target) => self.meta_done(target, outcome),
            (Owner::Greeting, IoTarget::Leg(leg)) => self.greeted(leg, outcome),
            (_, IoTarget::State) => {}
        }
        self.pump();
    }

    /// Returns the role of each leg.
    pub(crate) fn roles(&self) -> [LegRole; LEGS_MAX] {
        self.roles
    }

    /// The record that is durable.
    pub(crate) fn durable(&self) -> &MirrorRecord {
        &self.stable
    }

    /// Regions that are still to be copied to each leg.
    pub(crate) fn backlog(&self) -> [usize; LEGS_MAX] {
        self.copier.backlog()
    }

    /// Regions of a leg.
    pub(crate) fn regions(&self) -> usize {
        self.record.regions()
    }

    fn begin(&mut self, kind: FlightKind, lba: u64, blocks: u32) -> u64 {
        let op = self.name();
        self.flights.insert(op, Flight::new(kind, lba, blocks));
        self.due.push_back(op);
        op
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn say(&mut self, event: MirrorEvent) {
        self.out.push(MirrorOutput::Say(event));
    }

    /// Gives an action to the driver. One that only reads (`is_read`) always comes back by itself;
    /// others are not waited for when their leg is gone.
    fn emit(&mut self, owner: Owner, target: IoTarget, is_read: bool, io: Io) {
        let name = self.name();
        self.pending.insert(name, (owner, target, is_read));
        self.out.push(MirrorOutput::Io { name, target, io });
    }

    /// The legs with a role.
    fn with(&self, wanted: impl Fn(LegRole) -> bool) -> LegMask {
        (0..LEGS_MAX).filter(|leg| wanted(self.roles[*leg])).fold(0, |mask, leg| mask | 1 << leg)
    }

    fn region_blocks(&self) -> u64 {
        self.record.region_bytes / u64::from(self.record.block_bytes)
    }

    /// The regions of some blocks.
    fn regions_of(&self, lba: u64, blocks: u32) -> core::ops::RangeInclusive<usize> {
        let (first, last) = (lba, lba + u64::from(blocks).max(1) - 1);
        (first / self.region_blocks()) as usize..=(last / self.region_blocks()) as usize
    }

    /// Legs in sync, by what is durable or may be, which did not execute a write: it is not
    /// acknowledged as long as there are any.
    fn missing(&self, good: LegMask) -> LegMask {
        (self.stable.members | self.written) & !good
    }

    fn pump(&mut self) {
        while self.halted.is_none() {
            if let Some(op) = self.due.pop_front() {
                self.advance(op);
                continue;
            }
            let has_begun = self.mark_on()
                || self.begin_meta()
                || self.greet_on()
                || self.copy_on()
                || self.close_on();
            // What begins nothing may still end the wait of an operation.
            if !has_begun && self.due.is_empty() {
                return;
            }
        }
        self.due.clear();
    }

    /// Does the next step of a flight, if it can.
    fn advance(&mut self, op: u64) {
        let Some(flight) = self.flights.get(&op) else { return };
        match flight.stage {
            FlightStage::New => self.lock(op),
            FlightStage::Alone if self.missing(self.with(|role| role == LegRole::Member)) == 0 => {
                self.fetch(op)
            }
            FlightStage::Bits if self.are_bits_stored(op) => self.store(op),
            FlightStage::Storing if flight.pending == 0 => self.judge_write(op),
            FlightStage::Loss if self.missing(flight.good | flight.exempt) == 0 => self.heal(op),
            FlightStage::Healed if self.is_healed(flight) => self.finish(op, Outcome::SUCCESS),
            FlightStage::Sound if self.sound.is_none() => self.store(op),
            FlightStage::Sound
            | FlightStage::Alone
            | FlightStage::Bits
            | FlightStage::Storing
            | FlightStage::Loss => {}
            FlightStage::Healing
            | FlightStage::Healed
            | FlightStage::Fetching
            | FlightStage::Queued => {}
        }
    }

    fn lock(&mut self, op: u64) {
        if !self.is_open {
            return;
        }
        let Some(flight) = self.flights.get_mut(&op) else { return };
        flight.stage = FlightStage::Queued;
        let reads = matches!(flight.kind, FlightKind::User(OpKind::Read | OpKind::Compare));
        let (lba, end, is_equal) =
            (flight.lba, flight.lba + u64::from(flight.blocks), flight.is_equal);
        let compares = matches!(flight.kind, FlightKind::User(OpKind::CompareAndWrite { .. }));
        if flight.blocks == 0 {
            return self.granted(op);
        }
        let blocks = flight.blocks;
        if (reads || compares) && !is_equal && self.is_suspect(op) {
            // Directly in front of the read, so that nothing comes between the two.
            let copy = self.name();
            self.flights
                .insert(copy, Flight::new(FlightKind::Copy { reader: Some(op) }, lba, blocks));
            if self.ranges.request(copy, lba, end, true) {
                self.granted(copy);
            }
            if let Some(flight) = self.flights.get_mut(&op) {
                flight.is_equal = true;
            }
        }
        if self.ranges.request(op, lba, end, !reads) {
            self.granted(op);
        }
    }

    /// A flight has its blocks.
    fn granted(&mut self, op: u64) {
        let Some(flight) = self.flights.get_mut(&op) else { return };
        if let Some(failure) = flight.failure {
            return self.finish(op, Outcome::Done(failure.status()));
        }
        if flight.kind.shows() && self.want.unreadable.overlaps(flight.lba, flight.end()) {
            return self.finish(op, UNREADABLE);
        }
        match flight.kind {
            FlightKind::User(_) if flight.is_equal => {
                flight.stage = FlightStage::Alone;
                self.due.push_back(op);
            }
            FlightKind::User(OpKind::Read | OpKind::Compare | OpKind::CompareAndWrite { .. }) => {
                self.fetch(op)
            }
            FlightKind::Copy { .. } => self.begin_copy(op),
            FlightKind::User(OpKind::Flush) | FlightKind::Flush(_) => self.flush(op),
            FlightKind::User(_) => self.reserve(op),
        }
    }

    /// Ends a flight.
    fn finish(&mut self, op: u64, outcome: Outcome) {
        let Some(flight) = self.flights.remove(&op) else { return };
        if flight.is_busy {
            for region in self.regions_of(flight.lba, flight.blocks) {
                self.maps.busy[region] -= 1;
            }
        }
        match flight.kind {
            FlightKind::User(_) => self.out.push(MirrorOutput::Complete { op, outcome }),
            FlightKind::Copy { reader } => {
                self.out.push(MirrorOutput::Release { copy: op });
                match reader.and_then(|reader| self.flights.get_mut(&reader)) {
                    // What legs do not have in common is not shown: the next look might show
                    // something else.
                    Some(reader) if !outcome.is_success() => reader.failure = Some(outcome),
                    _ => {}
                }
                self.copied(&flight, reader.is_none(), outcome);
            }
            FlightKind::Flush(purpose) => self.flushed(purpose, flight.good, outcome),
        }
        if flight.blocks > 0 {
            let granted = self.ranges.release(op);
            granted.into_iter().for_each(|next| self.granted(next));
        }
    }
}

/// Returns whether a mask has this leg.
const fn has(mask: LegMask, leg: usize) -> bool {
    mask >> leg & 1 != 0
}
