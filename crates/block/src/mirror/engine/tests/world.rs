//! Legs and a state file in memory, under an engine: what a crash leaves of them is decided block
//! by block.

use super::oracle::Oracle;
use crate::limits::MIRROR_HOT_REGIONS;
use crate::mirror::engine::{Halt, Io, IoTarget, MirrorEngine, MirrorOutput};
use crate::mirror::labels::FoundLeg;
use crate::mirror::layout::{AREA_BYTES, HotLimit, UNIT};
use crate::mirror::record::{Claim, Format, LEGS_MAX, MirrorRecord, RecordSlots};
use crate::mirror::start::{MirrorStart, decide, first_area};
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;
use weft_io::sim::Rng;

/// The process that has the mirror open.
pub(super) const OPENER: Uuid = Uuid::from_u128(77);
pub(super) const BLOCK: u32 = 512;
pub(super) const REGION: u64 = 128;
pub(super) const BLOCKS: u64 = 3 * REGION;

/// A leg or the state file. A block of data is the number of the write that it comes from.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) area: Vec<u8>,
    pub(super) now: Vec<u64>,
    pub(super) durable: Vec<u64>,
}

/// Number of rests after which copying goes on.
const RESTS_MAX: u32 = 100;

/// Fate of an operation in flight at a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Lands,
    Torn,
    Never,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self {
            area: vec![0; AREA_BYTES],
            now: vec![0; BLOCKS as usize],
            durable: vec![0; BLOCKS as usize],
        }
    }

    pub(super) fn lose_cache(&mut self) {
        self.now.clone_from(&self.durable);
    }
}

/// An operation of the user.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) kind: OpKind,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) version: u64,
    /// Acknowledged writes, for a flush.
    pub(super) covers: Vec<u64>,
    read: Vec<u64>,
}

pub(super) struct World {
    pub(super) disks: [Disk; LEGS_MAX],
    pub(super) state: Option<Disk>,
    /// Blocks of legs that cannot be read until they are written.
    pub(super) bad: BTreeSet<(usize, u64)>,
    /// Legs that can be reached.
    pub(super) here: [bool; LEGS_MAX],
    pub(super) engine: Option<MirrorEngine>,
    pub(super) users: BTreeMap<u64, User>,
    copies: BTreeMap<u64, Vec<u64>>,
    /// Actions that the engine has requested, oldest first.
    pub(super) todo: Vec<(u64, IoTarget, Io)>,
    /// Actions on their way to a leg when it was lost.
    pub(super) stray: Vec<(u64, IoTarget, Io)>,
    pub(super) oracle: Oracle,
    pub(super) halted: Option<Halt>,
    pub(super) is_open: bool,
    pub(super) is_closed: bool,
    pub(super) legs: usize,
    pub(super) format: Format,
    /// The most regions that are marked.
    pub(super) hot: usize,
    /// Loops take long until they have ended what they write to regions that are evicted.
    pub(super) is_slow: bool,
    starts: u64,
    pub(super) failures: u32,
    /// Blocks that copies have read.
    pub(super) fetched: u64,
    /// Number of reports that unflushed writes may be lost.
    pub(super) forgotten: u32,
    /// Legs that the engine has reported as in sync again.
    pub(super) joined: Vec<usize>,
}

impl World {
    /// A mirror as it is made.
    pub(super) fn new(legs: usize, min_legs: u8, with_state: bool) -> Self {
        Self::of_format(Format::Three, legs, min_legs, with_state)
    }

    /// One whose labels have this version.
    pub(super) fn of_format(format: Format, legs: usize, min_legs: u8, with_state: bool) -> Self {
        let mut disks = core::array::from_fn(|_| Disk::new());
        for (leg, disk) in disks.iter_mut().enumerate().take(legs) {
            let first = crate::mirror::start::first_record(
                Uuid::from_u128(1),
                legs as u8,
                min_legs,
                BLOCK,
                BLOCKS * u64::from(BLOCK),
                99,
            );
            disk.area = first_area(&MirrorRecord { format, leg: leg as u8, ..first });
        }
        Self {
            disks,
            state: with_state.then(Disk::new),
            bad: BTreeSet::new(),
            here: core::array::from_fn(|leg| leg < legs),
            engine: None,
            users: BTreeMap::new(),
            copies: BTreeMap::new(),
            todo: Vec::new(),
            stray: Vec::new(),
            oracle: Oracle::new(BLOCKS),
            halted: None,
            is_open: false,
            is_closed: false,
            legs,
            format,
            hot: MIRROR_HOT_REGIONS,
            is_slow: false,
            starts: 0,
            failures: 0,
            fetched: 0,
            forgotten: 0,
            joined: Vec::new(),
        }
    }

    /// The same legs, without the process that uses them.
    pub(super) fn remains(&self) -> Self {
        Self {
            disks: self.disks.clone(),
            state: self.state.clone(),
            bad: self.bad.clone(),
            here: self.here,
            engine: None,
            users: self.users.clone(),
            copies: self.copies.clone(),
            todo: self.todo.clone(),
            stray: self.stray.clone(),
            oracle: self.oracle.clone(),
            joined: Vec::new(),
            ..*self
        }
    }

    fn found(&self, with_state: bool) -> (Vec<Option<FoundLeg>>, Option<FoundLeg>) {
        let found = |name: String, disk: &Disk| FoundLeg {
            url: name,
            area: disk.area.clone(),
            block_bytes: BLOCK,
        };
        let legs = (0..self.legs)
            .map(|leg| self.here[leg].then(|| found(format!("url-{leg}"), &self.disks[leg])))
            .collect();
        let state =
            self.state.as_ref().filter(|_| with_state).map(|disk| found("state".into(), disk));
        (legs, state)
    }

    pub(super) fn decide(
        &self,
        with_state: bool,
        own: bool,
        force: bool,
    ) -> Result<MirrorStart, String> {
        let (legs, state) = self.found(with_state);
        decide(&legs, state.as_ref(), own.then_some(OPENER), force)
    }

    /// Starts from what is here, as the process that had it open before.
    pub(super) fn start(&mut self, with_state: bool, force: bool) -> Result<(), String> {
        let start = self.decide(with_state, true, force)?;
        self.starts += 1;
        let claim = Claim { opener: OPENER, time: 5, host: "here".into() };
        (self.halted, self.is_open, self.is_closed) = (None, false, false);
        self.engine =
            Some(MirrorEngine::new(start, claim, self.starts, HotLimit::Regions(self.hot)));
        self.take();
        Ok(())
    }

    pub(super) fn with(&mut self, act: impl FnOnce(&mut MirrorEngine)) {
        if let Some(engine) = &mut self.engine {
            act(engine);
        }
        self.take();
    }

    pub(super) fn submit(&mut self, kind: OpKind, lba: u64, blocks: u32) {
        let Some(engine) = &mut self.engine else { return };
        let (version, covers) = self.oracle.begin(kind, lba, blocks);
        let op = engine.submit(kind, lba, blocks);
        self.users.insert(op, User { kind, lba, blocks, version, covers, read: Vec::new() });
        self.take();
    }

    /// Takes what the engine says.
    fn take(&mut self) {
        loop {
            let outputs = self.engine.as_mut().map(MirrorEngine::outputs).unwrap_or_default();
            if outputs.is_empty() {
                if self.evict() {
                    continue;
                }
                return;
            }
            for output in outputs {
                match output {
                    MirrorOutput::Io { name, target, io } => self.todo.push((name, target, io)),
                    MirrorOutput::Complete { op, outcome } => self.complete(op, &outcome),
                    MirrorOutput::Release { copy } => drop(self.copies.remove(&copy)),
                    MirrorOutput::Opened => self.is_open = true,
                    MirrorOutput::Closed => self.is_closed = true,
                    MirrorOutput::Halted(why) => self.halted = Some(why),
                    MirrorOutput::Leave { leg } => self.lose_path(leg),
                    MirrorOutput::Forgotten => self.forgotten += 1,
                    MirrorOutput::Joined { leg } => self.joined.push(leg),
                    MirrorOutput::Say(_) => {}
                }
            }
        }
    }

    fn complete(&mut self, op: u64, outcome: &Outcome) {
        let user = self.users.remove(&op).expect("an operation completes once");
        self.failures += u32::from(!outcome.is_success());
        self.oracle.end(
            &user.kind,
            user.lba,
            user.blocks,
            user.version,
            &user.covers,
            outcome.is_success(),
            &user.read,
        );
    }

    /// Operations in flight to a leg may still be executed, but without an answer; reads end.
    fn lose_path(&mut self, leg: usize) {
        let (lost, kept) = core::mem::take(&mut self.todo)
            .into_iter()
            .partition(|(_, target, _)| *target == IoTarget::Leg(leg));
        (self.stray, self.todo) =
            (core::mem::take(&mut self.stray).into_iter().chain(lost).collect(), kept);
        let reads: Vec<u64> =
            self.stray.iter().filter(|(_, _, io)| is_read(io)).map(|(name, ..)| *name).collect();
        self.stray.retain(|(_, _, io)| !is_read(io));
        for name in reads {
            self.with(|engine| engine.done(name, Outcome::NotSent(Status::new(StatusKind::Gone))));
        }
    }

    /// A leg is lost.
    pub(super) fn gone(&mut self, leg: usize) {
        self.here[leg] = false;
        self.lose_path(leg);
        self.with(|engine| engine.leg_gone(leg));
    }

    /// Operations in flight to lost legs are executed or not, and then never.
    pub(super) fn settle(&mut self, rng: &mut Rng) {
        for (_, target, io) in core::mem::take(&mut self.stray) {
            if rng.one_in(2) {
                self.apply(target, &io, Fate::Lands);
            }
        }
    }

    /// A leg is here again. Its earlier work is settled.
    pub(super) fn back(&mut self, leg: usize) -> Result<(), String> {
        assert!(
            !self.stray.iter().any(|(_, target, _)| *target == IoTarget::Leg(leg)),
            "a leg comes back when its writes are settled"
        );
        self.here[leg] = true;
        let found = FoundLeg {
            url: format!("url-{leg}"),
            area: self.disks[leg].area.clone(),
            block_bytes: BLOCK,
        };
        let result = self.engine.as_mut().map_or(Ok(0), |engine| engine.leg_back(&found)).map(drop);
        self.take();
        result
    }

    /// Executes one of the pending actions.
    pub(super) fn step(&mut self, at: usize) {
        let (name, target, io) = self.todo.remove(at);
        let outcome = self.apply(target, &io, Fate::Lands);
        self.with(|engine| engine.done(name, outcome));
    }

    /// The first of them fails on its leg.
    pub(super) fn fail(&mut self, at: usize, outcome: Outcome) {
        let (name, ..) = self.todo.remove(at);
        self.with(|engine| engine.done(name, outcome));
    }

    pub(super) fn run(&mut self) {
        let mut steps = 0;
        for _ in 0..RESTS_MAX {
            while !self.todo.is_empty() && self.halted.is_none() {
                self.step(0);
                steps += 1;
                assert!(steps < 100_000, "it does not come to rest");
            }
            if self.engine.as_ref().is_some_and(|engine| engine.evicting().is_some()) {
                self.unmark();
                continue;
            }
            if self.engine.as_ref().is_none_or(|engine| engine.rests().is_none()) {
                return;
            }
            self.with(|engine| engine.allow_copies());
        }
    }

    fn apply(&mut self, target: IoTarget, io: &Io, fate: Fate) -> Outcome {
        let user = |op: &u64, users: &BTreeMap<u64, User>| users.get(op).cloned();
        if fate == Fate::Lands && self.meets_bad(target, io) {
            return Outcome::Done(Status::new(StatusKind::Media));
        }
        let disk = match target {
            IoTarget::Leg(leg) => &mut self.disks[leg],
            IoTarget::State => self.state.as_mut().expect("there is a state file"),
        };
        let part = |blocks: u32| if fate == Fate::Torn { blocks / 2 } else { blocks } as usize;
        match io {
            _ if fate == Fate::Never => {}
            Io::Read { op } | Io::Compare { op } => {
                let Some(read) = self.users.get_mut(op) else { return Outcome::SUCCESS };
                read.read = disk.now[read.lba as usize..][..read.blocks as usize].to_vec();
            }
            Io::Write { op } => {
                let Some(user) = user(op, &self.users) else { return Outcome::SUCCESS };
                let range = user.lba as usize..user.lba as usize + part(user.blocks);
                disk.now[range.clone()].fill(user.version);
                if matches!(user.kind, OpKind::Write { fua: true }) {
                    disk.durable[range].fill(user.version);
                }
            }
            Io::Fetch { copy, lba, blocks } => {
                self.fetched += u64::from(*blocks);
                self.copies.insert(*copy, disk.now[*lba as usize..][..*blocks as usize].to_vec());
            }
            Io::Store { copy, lba, blocks } | Io::Equalise { copy, lba, blocks } => {
                let Some(data) = self.copies.get(copy) else { return Outcome::SUCCESS };
                disk.now[*lba as usize..][..part(*blocks)].copy_from_slice(&data[..part(*blocks)]);
            }
            Io::Flush => disk.durable.clone_from(&disk.now),
            Io::Page { offset, bytes } => {
                let len = part(bytes.len() as u32);
                disk.area[*offset as usize..][..len].copy_from_slice(&bytes[..len]);
            }
            Io::Label { slot, old, new } => {
                let place = &mut disk.area[slot * UNIT..][..old.len()];
                if place != old.as_slice() {
                    return Outcome::Done(Status::new(StatusKind::CompareFailed));
                }
                place.copy_from_slice(new);
            }
        }
        Outcome::SUCCESS
    }

    /// Returns whether it reads a block that cannot be read. One that is written can be read again.
    fn meets_bad(&mut self, target: IoTarget, io: &Io) -> bool {
        let IoTarget::Leg(leg) = target else { return false };
        let (lba, blocks) = match io {
            Io::Read { op } | Io::Compare { op } | Io::Write { op } => match self.users.get(op) {
                Some(user) => (user.lba, user.blocks),
                None => return false,
            },
            Io::Fetch { lba, blocks, .. }
            | Io::Store { lba, blocks, .. }
            | Io::Equalise { lba, blocks, .. } => (*lba, *blocks),
            _ => return false,
        };
        let is_met =
            |bad: &(usize, u64)| bad.0 == leg && (lba..lba + u64::from(blocks)).contains(&bad.1);
        if is_read(io) {
            return self.bad.iter().any(is_met);
        }
        self.bad.retain(|bad| !is_met(bad));
        false
    }

    /// The process ends, and what was under way has this fate, by its place; where `loses_cache`,
    /// what was not flushed is gone.
    pub(super) fn crash(
        &mut self,
        fate: impl Fn(usize) -> Fate,
        loses_cache: impl Fn(usize) -> bool,
    ) {
        for (at, (_, target, io)) in core::mem::take(&mut self.todo).into_iter().enumerate() {
            let fate = if matches!(io, Io::Label { .. }) && fate(at) == Fate::Torn {
                Fate::Never
            } else {
                fate(at)
            };
            self.apply(target, &io, fate);
        }
        for (_, target, io) in core::mem::take(&mut self.stray) {
            self.apply(target, &io, fate(0));
        }
        let mut is_lost = false;
        for leg in (0..self.legs).filter(|leg| loses_cache(*leg)) {
            self.disks[leg].lose_cache();
            is_lost = true;
        }
        if is_lost {
            self.oracle.power_failed();
        }
        self.oracle.crash();
        self.engine = None;
        self.users.clear();
        self.copies.clear();
        (self.is_open, self.halted) = (false, None);
    }

    /// The newest label of a leg.
    pub(super) fn label(&self, leg: usize) -> MirrorRecord {
        RecordSlots::of(&self.disks[leg].area, BLOCK).newest().expect("it has a label").1
    }
}

fn is_read(io: &Io) -> bool {
    matches!(io, Io::Read { .. } | Io::Compare { .. } | Io::Fetch { .. })
}
