//! Everything on the home loop of a mirror: the engine, the ports of legs and state file, and the
//! operations of users.

mod actions;
pub(super) mod alone;
pub(super) mod device;
mod ending;
pub(super) mod equalise;
mod gather;
mod hot;
mod leg;
mod operations;
mod port;
pub(super) mod reserve;
mod status;
mod unflushed;

use self::leg::{Leg, Phase, Store, pause};
use self::port::ActionPurpose;
use self::unflushed::Unflushed;
use super::counts::LegCounts;
use super::direct::{Direct, Undecided};
use super::engine::{MirrorEngine, MirrorOutput};
use super::options::MirrorOptions;
use super::start::MirrorStart;
use super::user_op::UserOp;
use crate::device::{
    BlockDevice, Device, DeviceChange, DeviceChanges, Features, Geometry, Presence,
};
use crate::limits::{MIRROR_POOL_BYTES, MIRROR_PROBE_S, MIRROR_ROUNDS};
use crate::op::{Completion, Outcome};
use crate::outcome::error::{Error, ErrorKind};
use crate::outcome::status::StatusKind;
use crate::path::PathStatus;
use crate::queue::slots::Slots;
use crate::url::opening::Promise;
use core::task::Waker;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_io::event_loop::TimerSlot;
use weft_io::segment::Divided;
use weft_io::{DriverId, Handle, Pool, Time};

/// Activity of a mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Legs are opened and read.
    Gathering,
    Running,
    /// It no longer serves, and gives its reservations back.
    Leaving,
    /// It has ended, and does nothing.
    Ended,
}

/// Remains of the previous process at the legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nobody has looked yet, or there is nothing.
    Unknown,
    /// It may be executed until then.
    Until(Time),
    /// It is over.
    Settled,
}

/// A home's knowledge of its loops.
#[derive(Default)]
struct Loops {
    direct: Option<Arc<Direct>>,
    /// Somebody waits until the loops are quiet.
    is_waiting: bool,
    /// Outcomes of the engine's actions, for when they are: the run, the name, the outcome.
    outcomes: Vec<(u32, u64, Outcome)>,
    /// Writes of loops, for when they are.
    undecided: Vec<Undecided>,
    /// Writes of loops that the engine judges, by their names there.
    judged: BTreeMap<u64, Undecided>,
    /// Operations that wait for locks, by their names in `held`.
    locking: Vec<u64>,
    /// Number of the home's operations that have each lock.
    locked: BTreeMap<usize, u32>,
    /// Operations of the home that are too long for locks: no loop does anything during them.
    long: u32,
    /// The last marks: the run, and the version there.
    marks_version: Option<(u32, u64)>,
    /// The eviction, by its run and its name, since whose marks were taken back the home waits for
    /// the writes of loops.
    turned: Option<(u32, u64)>,
}

impl Loops {
    /// For a mirror of this shape.
    fn begin(&mut self, core: &weft_io::Handle, keeper: DriverId, start: &MirrorStart) {
        self.direct = Some(Arc::new(Direct::new(&start.record, core.remote(), keeper)));
    }

    /// Writes of loops that were acknowledged, and need not be durable.
    fn acknowledged(&self) -> u64 {
        self.direct.as_ref().map_or(0, |direct| direct.acknowledged())
    }
}

impl Drop for Loops {
    /// The loop of the home ends: other loops find nobody.
    fn drop(&mut self) {
        if let Some(direct) = &self.direct {
            direct.end();
        }
    }
}

/// View of a mirror for other threads: whether it works, and the state of its legs.
#[derive(Default)]
struct MirrorStatus {
    presence: Presence,
    legs: Vec<PathStatus>,
    /// Counts of the legs, in the same order.
    counts: Vec<Arc<LegCounts>>,
    /// Number of losses of acknowledged, unflushed writes.
    losses: u64,
    /// The devices of the legs that are open.
    devices: Vec<Weak<dyn BlockDevice>>,
}

impl MirrorStatus {
    /// Of a mirror that opens these legs.
    fn of(legs: &[Leg]) -> Arc<Lock<Self>> {
        let counts = legs.iter().map(|leg| Arc::clone(&leg.counts)).collect();
        Arc::new(Lock::new(Self { counts, ..Self::default() }))
    }

    /// The legs with what was counted on them so far.
    fn paths(&self) -> Vec<PathStatus> {
        let mut legs = self.legs.clone();
        legs.iter_mut().zip(&self.counts).for_each(|(leg, counts)| counts.fill(leg));
        legs
    }
}

/// The blocks of a leg that are made equal to a copy.
struct Equalising {
    run: u32,
    name: u64,
    copy: u64,
    lba: u64,
    blocks: u32,
    /// Parts still to write: the first block of each behind `lba`, and its blocks.
    parts: VecDeque<(u32, u32)>,
}

/// See the module.
pub(super) struct Core {
    on: Handle,
    id: DriverId,
    options: MirrorOptions,
    mode: Mode,
    engine: Option<MirrorEngine>,
    /// Number of the engine.
    run: u32,
    legs: Vec<Leg>,
    state: Option<Store>,
    pool: Pool,
    promise: Option<Promise<Device>>,
    seen: Arc<Lock<MirrorStatus>>,
    waker: Waker,
    /// Properties with which the device was opened.
    geometry: Option<(Geometry, Features)>,
    most: u32,
    held: Slots<UserOp>,
    /// Operations by their names in the engine.
    by_name: BTreeMap<u64, u64>,
    copies: BTreeMap<u64, Divided>,
    unflushed: Unflushed,
    loops: Loops,
    ended: Vec<(ActionPurpose, Completion)>,
    ready: Vec<Completion>,
    changes: DeviceChanges,
    owner: Option<DriverId>,
    refused: bool,
    is_closing: bool,
    timer: TimerSlot,
    tidy_at: Time,
    probe_at: Time,
    copies_at: Option<Time>,
    /// When opening began.
    began: Time,
    before: Before,
    /// Time after an unclean end for which legs may still execute commands of the previous process.
    bound: Duration,
    halted_since: Option<Time>,
    complaint: Option<String>,
    /// The last runs of the mirror that this opening began, or began from ([`Core::is_own_run`]).
    runs: Option<[u64; 2]>,
    /// The name of this opening, under which it reserves legs.
    opening: Uuid,
    /// Reason why it could not be opened, reported when nothing is reserved.
    refusal: Option<Error>,
    /// Failure of operations when it has ended.
    gone: StatusKind,
}

impl Core {
    pub(super) fn new(
        on: &Handle,
        id: DriverId,
        options: MirrorOptions,
        promise: Promise<Device>,
        waker: Waker,
    ) -> Self {
        let now = on.now();
        let mut options = options;
        let opening = options.opener;
        let legs: Vec<Leg> = core::mem::take(&mut options.legs)
            .into_iter()
            .map(|source| Leg::new(source, now))
            .collect();
        let seen = MirrorStatus::of(&legs);
        let state = options.state.take().map(|source| Store::new(source, now));
        Self {
            on: on.clone(),
            id,
            options,
            mode: Mode::Gathering,
            engine: None,
            run: 0,
            legs,
            state,
            pool: Pool::new(MIRROR_POOL_BYTES),
            promise: Some(promise),
            seen,
            waker,
            geometry: None,
            most: crate::limits::MAX_TRANSFER_BYTES,
            held: Slots::default(),
            by_name: BTreeMap::new(),
            copies: BTreeMap::new(),
            unflushed: Unflushed::default(),
            loops: Loops::default(),
            ended: Vec::new(),
            ready: Vec::new(),
            changes: DeviceChanges::default(),
            owner: None,
            refused: false,
            is_closing: false,
            timer: TimerSlot::default(),
            tidy_at: now,
            probe_at: now,
            copies_at: None,
            began: now,
            before: Before::Unknown,
            bound: Duration::ZERO,
            halted_since: None,
            complaint: None,
            runs: None,
            opening,
            refusal: None,
            gone: StatusKind::Gone,
        }
    }

    /// Closes in order, as soon as nothing is under way.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        self.on.wake(self.id);
    }

    /// Works for a limited time, so that others get their turn. Returns whether something was done.
    pub(super) fn turn(&mut self) -> bool {
        let mut busy = false;
        for _ in 0..MIRROR_ROUNDS {
            let mut some = self.turn_loops();
            some |= self.turn_ports();
            some |= self.turn_engine();
            some |= self.turn_hot();
            some |= self.step_legs();
            if matches!(self.mode, Mode::Leaving | Mode::Ended) {
                self.fail_held();
            }
            busy |= some;
            if !some {
                break;
            }
        }
        self.look_at_clock();
        if self.turn_engine() {
            self.on.wake(self.id);
        }
        self.permit_loops();
        if !self.ready.is_empty() || busy && core::mem::take(&mut self.refused) {
            self.tell();
        }
        busy
    }

    fn turn_ports(&mut self) -> bool {
        let (mut ended, now) = (core::mem::take(&mut self.ended), self.on.now());
        let mut some = false;
        for place in 0..=self.legs.len() {
            for index in 0..self.ports(place) {
                if let Some(port) = self.port_at(place, index) {
                    port.turn(&mut ended, now);
                }
                some |= !ended.is_empty();
                while let Some((what, completion)) = ended.pop() {
                    self.take_in(place, index, what, completion);
                }
            }
        }
        self.ended = ended;
        self.legs.iter_mut().for_each(|leg| leg.old.retain_mut(|port| !port.is_settled()));
        self.state.iter_mut().for_each(|state| state.old.retain_mut(|port| !port.is_settled()));
        some
    }

    pub(super) fn engine_done(&mut self, run: u32, name: u64, outcome: Outcome) {
        let is_due = run == self.run && self.engine.is_some();
        if is_due && !outcome.is_success() && !self.is_alone() {
            return self.defer(run, name, outcome);
        }
        self.tell_engine(run, name, outcome);
    }

    /// The end of an action that changes nothing but the operation that it is for.
    pub(super) fn tell_engine(&mut self, run: u32, name: u64, outcome: Outcome) {
        if run == self.run
            && let Some(engine) = &mut self.engine
        {
            engine.done(name, outcome);
        }
    }

    fn turn_engine(&mut self) -> bool {
        let mut some = false;
        while let Some(outputs) =
            self.engine.as_mut().map(MirrorEngine::outputs).filter(|outputs| !outputs.is_empty())
        {
            some = true;
            outputs.into_iter().for_each(|output| self.follow(output));
        }
        some
    }

    fn follow(&mut self, output: MirrorOutput) {
        match output {
            MirrorOutput::Io { name, target, io } => self.act(name, target, io),
            MirrorOutput::Complete { op, outcome } => {
                if self.answered(op, outcome) {
                    return;
                }
                if let Some(held) = self.by_name.remove(&op).and_then(|name| self.held.remove(name))
                {
                    self.free_locks(&held);
                    if outcome.is_success() {
                        self.unflushed.ended(held.op.kind, held.covers);
                    }
                    self.ready.push(held.op.done(outcome));
                }
            }
            MirrorOutput::Release { copy } => drop(self.copies.remove(&copy)),
            MirrorOutput::Opened => self.opened(),
            MirrorOutput::Forgotten => self.forgotten(),
            MirrorOutput::Leave { leg } => self.leave(leg),
            MirrorOutput::Joined { leg } => self.joined(leg),
            MirrorOutput::Say(event) => self.say(event),
            MirrorOutput::Halted(why) => self.halted(why),
            MirrorOutput::Closed => self.closed(),
        }
    }

    /// The engine serves.
    fn opened(&mut self) {
        self.mode = Mode::Running;
        let waited = self.halted_since.take();
        self.see(Presence::Here);
        self.see_legs();
        if waited.is_some() {
            tracing::warn!("{}: enough legs are there again; operations go on", self.options.url);
            self.changes.add(DeviceChange::Back);
        }
        if let (Some(promise), Some((geometry, features))) = (self.promise.take(), self.geometry) {
            self.legs.iter().for_each(|leg| leg.say(&self.options.url));
            promise.complete(Ok(self.device(geometry, features)));
        }
    }

    fn look_at_clock(&mut self) {
        let now = self.on.now();
        if self.is_closing && self.held.is_empty() && self.is_alone() {
            match &mut self.engine {
                Some(engine) if !engine.is_closing() => {
                    engine.close();
                    self.on.wake(self.id);
                }
                Some(_) => {}
                None => self.closed(),
            }
        }
        if let Some(engine) = &mut self.engine {
            if self.copies_at.is_some_and(|at| at <= now) {
                self.copies_at = None;
                engine.allow_copies();
            }
            if let Some(attempts) = engine.rests() {
                self.copies_at.get_or_insert(now + pause(attempts));
            }
        }
        self.tidy(now);
        if self.engine.is_some() && self.probe_at <= now {
            self.probe_legs();
            self.probe_at = now + Duration::from_secs(MIRROR_PROBE_S);
        }
        let patience =
            self.halted_since.zip(self.options.patience).map(|(since, patience)| since + patience);
        if patience.is_some_and(|at| at <= now) {
            let idle = |name: &u64| self.held.get(*name).is_some_and(|held| !held.is_lent);
            let names: Vec<u64> = self.held.names().filter(idle).collect();
            names.into_iter().for_each(|name| self.end_held(name, StatusKind::Path));
        }
        self.see_legs();
        let settled = if let Before::Until(at) = self.before {
            Some(at).filter(|at| *at > now)
        } else {
            None
        };
        let of_engine = |at: Time| self.engine.is_some().then_some(at).filter(|at| *at > now);
        let times = [
            of_engine(self.tidy_at),
            of_engine(self.probe_at),
            self.copies_at,
            settled,
            patience.filter(|at| *at > now),
            self.next_attempt(),
        ];
        if let Some(at) = times.into_iter().flatten().min() {
            self.timer.arm(&self.on, self.id, at);
        }
    }

    /// A leg is no longer used.
    fn leave(&mut self, number: usize) {
        if let Some(place) = self.place_of(number) {
            self.retire(place);
        }
    }

    /// The place of the leg that the engine uses under this number.
    pub(super) fn place_of(&self, number: usize) -> Option<usize> {
        self.legs.iter().position(|leg| leg.phase.number() == Some(number))
    }

    /// Ends the port of a place; it is opened again when none of its commands can be executed.
    pub(super) fn retire(&mut self, place: usize) {
        let now = self.on.now();
        let mut ended = Vec::new();
        let (port, old) = match self.legs.get_mut(place) {
            Some(leg) => {
                leg.wait(now);
                (leg.port.take(), &mut leg.old)
            }
            None => match &mut self.state {
                Some(state) => {
                    state.wait(now);
                    (state.port.take(), &mut state.old)
                }
                None => return,
            },
        };
        let Some(mut port) = port else { return };
        if let Some(direct) = &self.loops.direct {
            direct.take_back(&port.uses);
        }
        port.withdraw(&mut ended);
        old.push(port);
        let index = old.len();
        for (what, completion) in ended {
            self.take_in(place, index, what, completion);
        }
    }

    /// A leg whose label was not asked for yet is shown to the engine.
    pub(super) fn greet(&mut self, place: usize) -> bool {
        let bound_ms = millis(self.stated_bound());
        let Some(engine) =
            self.engine.as_mut().filter(|_| self.mode == Mode::Running && !self.is_closing)
        else {
            return false;
        };
        let Phase::Here(found) = &self.legs[place].phase else { return false };
        let label = match engine.label_of(found) {
            Ok((_, label)) => label,
            Err(why) => {
                self.refuse_leg(place, &why);
                return true;
            }
        };
        let is_newer = label.run.number > engine.durable().run.number;
        if self.reserve(place, label.mirror, is_newer) {
            return true;
        }
        let (Some(engine), Phase::Here(found)) = (&mut self.engine, &self.legs[place].phase) else {
            return false;
        };
        engine.bound(bound_ms);
        match engine.leg_back(found) {
            Ok(number) => self.legs[place].returned(number),
            Err(why) => self.refuse_leg(place, &why),
        }
        true
    }

    /// A leg that was copied to has everything now.
    fn joined(&mut self, number: usize) {
        if let Some(place) = self.place_of(number) {
            self.legs[place].joined();
        }
    }

    /// A leg cannot be used; it is tried again.
    pub(super) fn refuse_leg(&mut self, place: usize, why: &str) {
        let is_opening = self.promise.is_some();
        self.legs[place].complain(&self.options.url, (ErrorKind::Refused, why), is_opening);
        self.retire(place);
    }
}

/// As a record tells it: the longest time that fits for one that is longer.
fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
