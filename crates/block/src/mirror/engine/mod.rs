//! The state machine of a mirror, without I/O: it is told of operations, completions and legs, and
//! says what to read and write.
//!
//! * `write`, `read`: operations, each under the lock of its blocks ([`super::ranges`]).
//! * `meta`: changes of labels, state file and bitmaps, one at a time, each in steps: pages of the
//!   bitmaps, then the state file, then the labels.
//! * `copy`: what makes legs equal. `heal`: blocks that no leg can be read from, until they are
//!   written.
//! * `sound`: legs to copy from, where others have lost what was not flushed.
//! * `legs`: legs that fail, come back and are in sync again; the end.
//!
//! The rules: the bit of a region is durable before a write goes to any leg. A write is
//! acknowledged only when each leg that is in sync, by what is durable or being made so, has
//! executed it ([`Engine::missing`]).

mod copy;
mod flight;
mod heal;
mod legs;
mod meta;
mod read;
mod sound;
#[cfg(test)]
mod tests;
mod write;

use super::bitmap::Bitmap;
use super::layout::region_bytes;
use super::ranges::Ranges;
use super::record::{Claim, LEGS_MAX, Mask, Record, Slots};
use super::start::Start;
use super::unreadable::Unreadable;
use crate::op::{OpKind, Outcome};
use crate::status::Status;
use copy::Copier;
use flight::{Fault, Flight, Kind, Owner, Purpose, Stage, fault, is_fenced, is_unreachable};
use meta::Meta;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where an action goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A leg, by its number.
    Leg(usize),
    /// The state file.
    State,
}

/// What to do there. The data of operations and copies stays with the driver; the name says whose
/// it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Io {
    /// Reads into the memory of an operation.
    Read { op: u64 },
    /// Reads the blocks of an operation and compares them with (the first half of) its data.
    Compare { op: u64 },
    /// Executes an operation that changes data; of a compare-and-write the second half of its data
    /// is written.
    Write { op: u64 },
    /// Reads into the memory of a copy.
    Fetch { copy: u64, lba: u64, blocks: u32 },
    /// Writes the memory of a copy.
    Store { copy: u64, lba: u64, blocks: u32 },
    /// Flushes.
    Flush,
    /// Writes a page of a bitmap durably, at this offset in the area.
    Page { offset: u64, bytes: Vec<u8> },
    /// Writes a slot durably, if it still holds what it held; otherwise the outcome is
    /// [`StatusKind::CompareFailed`].
    Label { slot: usize, old: Vec<u8>, new: Vec<u8> },
}

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// An action, which is completed under its name with [`Engine::done`].
    Io { name: u64, target: Target, io: Io },
    /// The end of an operation.
    Complete { op: u64, outcome: Outcome },
    /// The memory of a copy is free.
    Release { copy: u64 },
    /// The mirror serves from now on.
    Opened,
    /// What was acknowledged and not flushed may be lost: no leg that certainly has it is left.
    Forgotten,
    /// A leg is not used any more; it may come back ([`Engine::leg_back`]).
    Leave { leg: usize },
    /// What the log is to say.
    Say(Event),
    /// Too few legs are left, or the state file failed: nothing more is done. What was not
    /// completed may be submitted to the next engine.
    Halted(Halt),
    /// The mirror is closed.
    Closed,
}

/// What happened, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A leg failed and is out of sync.
    Dropped { leg: usize, why: Status },
    /// A leg is copied to: so many regions of so many bytes.
    Resync { leg: usize, regions: usize, bytes: u64, is_whole: bool },
    /// A leg is in sync again; so many bytes were copied.
    InSync { leg: usize, copied: u64 },
    /// The legs are made equal after an unclean end.
    Equalising { regions: usize },
    /// They are equal.
    Equal { copied: u64 },
    /// So many blocks can be read from no leg, the first of which is this one.
    Unreadable { lba: u64, blocks: u64 },
    /// There are more of them than the mirror can remember.
    TooManyUnreadable,
}

/// Why an engine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// Fewer legs than the mirror needs.
    TooFewLegs,
    /// The state file cannot be written.
    State(Status),
    /// Another process has taken the mirror: its label says so.
    Taken,
    /// This leg refuses what this process asks of it, because of somebody else's reservation.
    Fenced(usize),
}

/// What a leg does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is not used.
    #[default]
    Away,
    /// Its label is being written: it is about to be copied to.
    Greeted,
    /// It is copied to, and gets all writes.
    Copying,
    /// It is in sync.
    Member,
}

/// What is to be made durable.
#[derive(Debug)]
struct Want {
    members: Mask,
    claim: Option<Claim>,
    is_clean: bool,
    /// A new generation, even with the same legs.
    is_new: bool,
    /// Blocks that no leg can be read from.
    unreadable: Unreadable,
    /// How long targets may go on with what was sent to them, in milliseconds.
    bound_ms: u32,
}

/// The regions that matter.
struct Maps {
    written: Bitmap,
    missed: Bitmap,
    /// What is stored of both.
    stored: [Bitmap; 2],
    /// Regions in which legs in sync may differ now.
    suspect: Bitmap,
    /// Regions that were written to since the last look for bits to clear.
    touched: Bitmap,
    /// Writes under way, by region.
    busy: Vec<u32>,
}

/// See the module.
pub(crate) struct Engine {
    /// The last record of which writing began.
    record: Record,
    /// The last record that is durable wherever it has to be.
    stable: Record,
    /// Legs in sync by any record that was begun since: some labels may say so, also if writing the
    /// others failed.
    written: Mask,
    want: Want,
    /// The tag of the run in the label of each leg.
    reached: [u64; LEGS_MAX],
    is_claimed: bool,
    is_open: bool,
    closing: legs::Closing,
    halted: Option<Halt>,
    roles: [Role; LEGS_MAX],
    slots: [Option<Slots>; LEGS_MAX],
    state: Option<Slots>,
    /// Where all pages have to be written.
    whole: BTreeSet<Target>,
    maps: Maps,
    /// See [`Engine::trust`].
    sound: Option<Mask>,
    ranges: Ranges,
    flights: BTreeMap<u64, Flight>,
    pending: BTreeMap<u64, (Owner, Target, bool)>,
    /// Flights to look at again.
    due: VecDeque<u64>,
    reads: [read::Reads; LEGS_MAX],
    meta: Option<Meta>,
    copier: Copier,
    /// Legs whose labels are to say that they are copied to.
    to_greet: Mask,
    tidying: Option<Bitmap>,
    random: u64,
    next: u64,
    out: Vec<Output>,
}

impl Engine {
    /// Starts: takes the mirror for `claim`. The driver waits for [`Output::Opened`]. `seed` makes
    /// the tags of generations.
    pub(crate) fn new(start: Start, claim: Claim, seed: u64) -> Self {
        let Start { record, members, slots, state, suspect, missed, is_new, .. } = start;
        let regions = regions(&record);
        let mut roles = [Role::Away; LEGS_MAX];
        (0..LEGS_MAX)
            .filter(|leg| members >> leg & 1 != 0)
            .for_each(|leg| roles[leg] = Role::Member);
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
            closing: legs::Closing::No,
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
            tidying: None,
            random: seed,
            next: 1,
            out: Vec::new(),
        };
        engine.whole = engine.homes(members).collect();
        let regions = engine.maps.suspect.count();
        if regions > 0 && members.count_ones() > 1 {
            engine.say(Event::Equalising { regions });
        }
        engine.pump();
        engine
    }

    /// What to do now; the caller does all of it.
    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        core::mem::take(&mut self.out)
    }

    /// Begins an operation of a user; [`Output::Complete`] names its end. It is in range.
    pub(crate) fn submit(&mut self, kind: OpKind, lba: u64, blocks: u32) -> u64 {
        let op = self.begin(Kind::User(kind), lba, blocks);
        self.pump();
        op
    }

    /// An action has ended.
    pub(crate) fn done(&mut self, name: u64, outcome: Outcome) {
        let Some((owner, target, _)) = self.pending.remove(&name) else { return };
        if self.halted.is_some() {
            return;
        }
        if let Target::Leg(leg) = target
            && is_fenced(&outcome)
        {
            return self.halt(Halt::Fenced(leg));
        }
        match (owner, target) {
            (Owner::Flight(op), Target::Leg(leg)) => self.flight_done(op, leg, outcome),
            (Owner::Meta, target) => self.meta_done(target, outcome),
            (Owner::Greeting, Target::Leg(leg)) => self.greeted(leg, outcome),
            (_, Target::State) => {}
        }
        self.pump();
    }

    /// What each leg does.
    pub(crate) fn roles(&self) -> [Role; LEGS_MAX] {
        self.roles
    }

    /// The record that is durable.
    pub(crate) fn durable(&self) -> &Record {
        &self.stable
    }

    /// Regions that are still to be copied to each leg.
    pub(crate) fn backlog(&self) -> [usize; LEGS_MAX] {
        self.copier.backlog()
    }

    /// Regions of a leg.
    pub(crate) fn regions(&self) -> usize {
        regions(&self.record)
    }

    fn begin(&mut self, kind: Kind, lba: u64, blocks: u32) -> u64 {
        let op = self.name();
        self.flights.insert(op, Flight::new(kind, lba, blocks));
        self.due.push_back(op);
        op
    }

    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn say(&mut self, event: Event) {
        self.out.push(Output::Say(event));
    }

    /// Gives an action to the driver. One that only reads (`is_read`) always comes back by itself;
    /// others are not waited for when their leg is gone.
    fn emit(&mut self, owner: Owner, target: Target, is_read: bool, io: Io) {
        let name = self.name();
        self.pending.insert(name, (owner, target, is_read));
        self.out.push(Output::Io { name, target, io });
    }

    /// The legs with a role.
    fn with(&self, wanted: impl Fn(Role) -> bool) -> Mask {
        (0..LEGS_MAX).filter(|leg| wanted(self.roles[*leg])).fold(0, |mask, leg| mask | 1 << leg)
    }

    fn region_blocks(&self) -> u64 {
        region_bytes(self.record.data_bytes) / u64::from(self.record.block_bytes)
    }

    /// The regions of some blocks.
    fn regions_of(&self, lba: u64, blocks: u32) -> core::ops::RangeInclusive<usize> {
        let (first, last) = (lba, lba + u64::from(blocks).max(1) - 1);
        (first / self.region_blocks()) as usize..=(last / self.region_blocks()) as usize
    }

    /// Legs in sync, by what is durable or may be, which did not execute a write: it is not
    /// acknowledged as long as there are any.
    fn missing(&self, good: Mask) -> Mask {
        (self.stable.members | self.written) & !good
    }

    fn pump(&mut self) {
        while self.halted.is_none() {
            if let Some(op) = self.due.pop_front() {
                self.advance(op);
                continue;
            }
            if self.begin_meta() || self.greet_on() || self.copy_on() || self.close_on() {
                continue;
            }
            return;
        }
        self.due.clear();
    }

    /// Does the next step of a flight, if it can.
    fn advance(&mut self, op: u64) {
        let Some(flight) = self.flights.get(&op) else { return };
        match flight.stage {
            Stage::Locked => self.lock(op),
            Stage::Alone if self.missing(self.with(|role| role == Role::Member)) == 0 => {
                self.fetch(op)
            }
            Stage::Bits if self.are_bits_stored(op) => self.store(op),
            Stage::Storing if flight.pending == 0 => self.judge_write(op),
            Stage::Loss if self.missing(flight.good | flight.exempt) == 0 => self.heal(op),
            Stage::Healed if self.is_healed(flight) => self.finish(op, Outcome::SUCCESS),
            Stage::Sound if self.sound.is_none() => self.store(op),
            Stage::Sound | Stage::Alone | Stage::Bits | Stage::Storing | Stage::Loss => {}
            Stage::Healing | Stage::Healed | Stage::Fetching | Stage::Queued => {}
        }
    }

    fn lock(&mut self, op: u64) {
        if !self.is_open {
            return;
        }
        let Some(flight) = self.flights.get_mut(&op) else { return };
        flight.stage = Stage::Queued;
        let reads = matches!(flight.kind, Kind::User(OpKind::Read | OpKind::Compare));
        let (lba, end, is_equal) =
            (flight.lba, flight.lba + u64::from(flight.blocks), flight.is_equal);
        let compares = matches!(flight.kind, Kind::User(OpKind::CompareAndWrite { .. }));
        if flight.blocks == 0 {
            return self.granted(op);
        }
        let blocks = flight.blocks;
        if (reads || compares) && !is_equal && self.is_suspect(op) {
            // Directly in front of the read, so that nothing comes between the two.
            let copy = self.name();
            self.flights.insert(copy, Flight::new(Kind::Copy { reader: Some(op) }, lba, blocks));
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
            return self.finish(op, heal::UNREADABLE);
        }
        match flight.kind {
            Kind::User(_) if flight.is_equal => {
                flight.stage = Stage::Alone;
                self.due.push_back(op);
            }
            Kind::User(OpKind::Read | OpKind::Compare | OpKind::CompareAndWrite { .. }) => {
                self.fetch(op)
            }
            Kind::Copy { .. } => self.begin_copy(op),
            Kind::User(OpKind::Flush) | Kind::Flush(_) => self.flush(op),
            Kind::User(_) => self.reserve(op),
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
            Kind::User(_) => self.out.push(Output::Complete { op, outcome }),
            Kind::Copy { reader } => {
                self.out.push(Output::Release { copy: op });
                match reader.and_then(|reader| self.flights.get_mut(&reader)) {
                    // What legs do not have in common is not shown: the next look might show
                    // something else.
                    Some(reader) if !outcome.is_success() => reader.failure = Some(outcome),
                    _ => {}
                }
                self.copied(&flight, reader.is_none(), outcome);
            }
            Kind::Flush(purpose) => self.flushed(purpose, flight.good, outcome),
        }
        if flight.blocks > 0 {
            let granted = self.ranges.release(op);
            granted.into_iter().for_each(|next| self.granted(next));
        }
    }
}

/// Regions of a mirror.
pub(crate) fn regions(record: &Record) -> usize {
    record.data_bytes.div_ceil(region_bytes(record.data_bytes)) as usize
}
