//! A mirror over two or three targets with a disk each: its owner is weft's own mirror over weft's
//! own initiators, and is killed at any step.
//!
//! The oracle is that of all scenes, and the mirror has to keep its promises to it: a write that
//! was acknowledged is read back, whichever legs are lost, killed or away; what was in doubt is
//! decided by the first read and stays so; a leg that was away serves nothing old. And nobody else
//! gets the mirror while it is open, and at the end all legs are in sync, equal, closed in order,
//! and hold what the oracle expects.
//!
//! An owner that was killed starts again at once, while what it had sent may still be executed.

mod apply;
mod copies;
mod disks;
mod faults;
mod late_writes;
mod lost_leg;
mod owner;
mod power;
mod sectors;
mod setup;

use crate::config::Config;
use crate::every_run::{QUIET, STANDSTILL, SimReport, TICK};
use crate::journal::SimJournal;
use crate::oracle::Oracle;
use crate::serving::ServingHost;
use crate::wanted::Wanted;
use core::cell::RefCell;
use core::time::Duration;
use disks::Disks;
use faults::Fault;
use owner::{Owner, Stranger, What};
use std::collections::VecDeque;
use std::rc::Rc;
use weft_block::Presence;
use weft_io::Time;
use weft_io::sim::{HostId, Rng, World};

/// How long it takes at most until legs are equal when nothing goes wrong any more: what an unclean
/// end leaves is settled after three keep alive timeouts and the quiesce time.
const EQUAL: Duration = Duration::from_secs(120);

/// The end of something that goes wrong.
#[derive(Clone, Copy, Debug)]
enum End {
    Partition(HostId),
    /// The process of a leg starts again.
    Start(usize),
    Disk(usize),
    /// Nothing is held back from then on.
    Pause,
}

/// A block that goes bad.
#[derive(Debug)]
struct Sector {
    at: Time,
    lba: u64,
    /// On which leg; `None`: on all of them.
    leg: Option<u64>,
}

struct Run {
    config: Config,
    world: World,
    disks: Disks,
    memory: Memory,
    oracle: Rc<RefCell<Oracle>>,
    targets: Vec<ServingHost>,
    owner: Owner,
    stranger: Stranger,
    what: What,
    planned: VecDeque<(Time, Fault)>,
    /// Sectors that go bad.
    sectors: VecDeque<Sector>,
    /// What ends again, and when.
    ending: Vec<(Time, End)>,
    /// The state file is lost before it starts again.
    loses_state: bool,
    rng: Rng,
    journal: SimJournal,
}

/// Runs a seed as a mirror.
pub fn run(seed: u64, wanted: Wanted, journal: &SimJournal) -> SimReport {
    let mut run = Run::new(seed, wanted, journal);
    let setup = run.setup();
    journal.tell("run", format_args!("seed {seed}: {setup}"));
    run.whole();
    run.after(seed);
    journal.catch_up(&run.world);
    SimReport::of(
        (seed, setup),
        run.owner.workloads.iter(),
        run.owner.opened,
        (&run.world, journal),
    )
}

impl Run {
    fn whole(&mut self) {
        let trouble = Time::ZERO + self.config.trouble;
        self.phase(trouble, |_| false);
        self.heal();
        if !self.goes_on("the operations have not ended", STANDSTILL, |run| run.owner.is_over()) {
            return;
        }
        self.owner.workloads.iter().for_each(|it| it.borrow_mut().begin_sweep());
        if !self.goes_on("what was written cannot be read", STANDSTILL, |run| run.owner.is_over()) {
            return;
        }
        if !self.goes_on("the legs are not in sync", STANDSTILL, |run| run.owner.is_whole()) {
            return;
        }
        self.phase(self.world.now() + EQUAL, |_| false);
        self.check_legs();
        self.owner.close();
        self.phase(self.world.now() + QUIET, |run| run.left().is_none());
        if let Some(left) = self.left() {
            self.journal
                .violation(format!("after {QUIET:?} without the mirror there are still {left}"));
        }
        self.oracle.borrow_mut().owner_ended();
        self.check_labels();
    }

    /// Lets time pass until then or until a condition holds; whether it does. Ends as soon as
    /// something is wrong.
    fn phase(&mut self, end: Time, holds: impl Fn(&Self) -> bool) -> bool {
        while self.world.now() < end && !self.journal.is_violated() {
            if holds(self) {
                return true;
            }
            let tick = (self.world.now() + TICK).min(end);
            while let Some(at) = self.next_fault().filter(|at| *at <= tick) {
                self.pass(at.max(self.world.now()));
                self.apply_due();
            }
            self.pass(tick.max(self.world.now()));
            self.journal.catch_up(&self.world);
            self.age();
            self.look_after();
        }
        holds(self)
    }

    fn goes_on(&mut self, what: &str, limit: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.world.now() + limit;
        if !self.phase(end, holds) && !self.journal.is_violated() {
            let legs = self.owner.legs();
            self.journal
                .violation(format!("nothing went wrong for {limit:?}, and {what}: {legs:?}"));
        }
        !self.journal.is_violated()
    }

    fn pass(&mut self, until: Time) {
        let span = until - self.world.now();
        self.world.run_for(span);
    }

    fn look_after(&mut self) {
        let is_away = self.owner.device().is_some_and(|device| device.presence() == Presence::Away);
        if is_away && self.memory.owner_ends(&self.disks) {
            self.oracle.borrow_mut().power_failed();
        }
        self.memory.look(&self.disks);
        let is_calm = self.ending.is_empty();
        let Self { world, targets, owner, stranger, journal, .. } = self;
        targets.iter_mut().for_each(|target| target.look_after(world, journal));
        owner.look_after(world, journal, is_calm);
        owner.check_sleep(world, journal);
        stranger.look_after(world, journal);
        if self.owner.is_down() && self.may_start() {
            if core::mem::take(&mut self.loses_state) {
                self.disks.lose_state();
            }
            let Self { world, owner, journal, .. } = self;
            owner.start(world, journal);
        }
    }

    /// Returns whether the system has ended what the last process of the owner did with the state
    /// file, which is its own; what it has sent to targets may still be under way. A start by force
    /// needs all legs besides.
    fn may_start(&self) -> bool {
        self.disks.is_state_idle(self.world.now())
            && (!self.owner.needs_force || self.ending.is_empty())
    }

    /// Whether all legs hold the same, and what the oracle expects.
    fn check_legs(&self) {
        let now = self.world.now();
        let first = self.disks.data(0, now);
        let units = u64::from(self.config.blocks() * self.config.units());
        let oracle = self.oracle.borrow();
        for (unit, content) in Disks::units(&first)
            .take_while(|(unit, _)| *unit < units)
            .filter(|(unit, _)| !self.is_unreadable(*unit))
        {
            if let Err(text) = oracle.check_stored(unit, content) {
                self.journal.violation(text);
            }
        }
        for leg in 1..self.targets.len() {
            let other = self.disks.data(leg, now);
            let pairs = Disks::units(&first).zip(Disks::units(&other));
            let pairs = pairs
                .filter(|((unit, ours), (_, theirs))| ours != theirs && !self.is_unreadable(*unit));
            for ((unit, ours), (_, theirs)) in pairs {
                let (ours, theirs) =
                    (crate::stamp::read(ours, unit), crate::stamp::read(theirs, unit));
                self.journal
                    .violation(format!("all legs are in sync, and block {unit} is {ours:?} on leg 0, {theirs:?} on leg {leg}"));
            }
        }
    }

    /// Whether the labels say that the mirror was closed in order.
    fn check_labels(&self) {
        for leg in 0..self.targets.len() {
            let label = self.disks.label(leg);
            let all: Vec<usize> = (0..self.targets.len()).collect();
            let is_right = |label: &weft_block::mirror::admin::Label| {
                label.is_clean && label.claim.is_none() && label.in_sync == all
            };
            if !label.as_ref().is_some_and(is_right) {
                self.journal
                    .violation(format!("the mirror was closed, and leg {leg} says {label:?}"));
            }
        }
    }

    /// What is left of connections, drivers and memory, in words.
    fn left(&self) -> Option<String> {
        let on_targets = self.targets.iter().find_map(|it| it.remains(&self.world, true));
        let (drivers, bytes) = self.owner.left(&self.world);
        on_targets.or_else(|| {
            (drivers > 0 || bytes > 0)
                .then(|| format!("{drivers} drivers and {bytes} bytes of memory at the owner"))
        })
    }
}

/// Legs that have forgotten something that the mirror does not know yet: those that lost their
/// power, until the labels of all others durably exclude them. What was written and not flushed is
/// lost with the last leg that remembers it, and may be lost with the first one where the owner
/// ends before it has written down which leg that was.
struct Memory {
    /// By leg: it lost its power and nobody has noticed durably.
    forgetful: Vec<bool>,
}

impl Memory {
    pub fn new(legs: usize) -> Self {
        Self { forgetful: vec![false; legs] }
    }

    /// Legs that are excluded get everything again.
    pub fn look(&mut self, disks: &Disks) {
        for leg in 0..self.forgetful.len() {
            if self.forgetful[leg] && disks.is_excluded(leg) {
                self.forgetful[leg] = false;
            }
        }
    }

    /// A leg loses its power; whether what was not flushed may be gone.
    pub fn power_fails(&mut self, leg: usize, disks: &Disks) -> bool {
        self.look(disks);
        self.forgetful[leg] = !disks.is_excluded(leg);
        let is_gone = disks.in_sync().iter().all(|leg| self.forgetful[*leg]);
        self.forgetful.iter_mut().for_each(|forgetful| *forgetful &= !is_gone);
        is_gone
    }

    /// The owner, or its engine, ends; whether what was not flushed may be gone.
    pub fn owner_ends(&mut self, disks: &Disks) -> bool {
        self.look(disks);
        let is_any = self.forgetful.contains(&true);
        self.forgetful.fill(false);
        is_any
    }
}
