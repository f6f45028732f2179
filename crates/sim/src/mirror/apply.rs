//! Carries out what goes wrong, and ends it again.

use super::faults::{Fault, stall_max};
use super::{End, Run};
use crate::faults::fraction;
use crate::holds;
use crate::store::Behaviour;
use core::time::Duration;
use weft_block::Presence;
use weft_io::Time;
use weft_io::sim::Cut;

/// How long a fault waits at most for what it is to follow.
const AWAIT: Duration = Duration::from_secs(3);

/// How exactly that is noticed.
const STEP: Duration = Duration::from_micros(100);

impl Run {
    /// When the next fault begins or ends. None begins while the mirror is started by force, which
    /// may lose what is not there.
    pub(super) fn next_fault(&self) -> Option<Time> {
        let begins = self
            .planned
            .front()
            .map(|(at, _)| *at)
            .filter(|_| !self.owner.needs_force && !self.owner.is_forcing());
        self.ending.iter().map(|(at, _)| *at).chain(begins).min()
    }

    /// Begins and ends what is due.
    pub(super) fn apply_due(&mut self) {
        self.journal.catch_up(&self.world);
        let now = self.world.now();
        let (due, later) =
            core::mem::take(&mut self.ending).into_iter().partition(|(at, _)| *at <= now);
        self.ending = later;
        Vec::into_iter(due).for_each(|(_, end)| self.end(end));
        while !self.owner.needs_force
            && let Some((_, fault)) = self.planned.pop_front_if(|(at, _)| *at <= now)
        {
            self.journal.tell("fault", format_args!("{fault}"));
            self.apply(&fault);
        }
    }

    /// Ends everything.
    pub(super) fn heal(&mut self) {
        self.journal.tell("run", format_args!("everything heals"));
        self.planned.clear();
        core::mem::take(&mut self.ending).into_iter().for_each(|(_, end)| self.end(end));
    }

    fn later(&mut self, after: Duration, end: End) {
        self.ending.push((self.world.now() + after, end));
    }

    pub(super) fn end(&mut self, end: End) {
        self.journal.tell("fault", format_args!("ends: {end:?}"));
        match end {
            End::Partition(host) => self.world.heal(self.owner.host, host),
            End::Disk(leg) => self.disks.stores[leg].behave(Behaviour::SOUND),
            End::Pause => {}
            End::Start(leg) => {
                let Self { world, targets, disks, journal, .. } = self;
                let target = &mut targets[leg];
                if !target.is_running() {
                    world.power_on(target.host);
                    disks.stores[leg].note_start();
                    target.start(world, journal);
                }
            }
        }
    }

    fn apply(&mut self, fault: &Fault) {
        match *fault {
            Fault::Cut(how, which) => self.cut(how, which),
            Fault::Partition(which, span) => {
                let host = self.targets[self.leg(which)].host;
                self.world.partition(self.owner.host, host);
                self.later(span, End::Partition(host));
            }
            Fault::Pause(which, span) => {
                let servers = self.targets.iter().map(|it| it.loops.clone());
                let all: Vec<Vec<_>> = servers.chain([self.owner.loops().to_vec()]).collect();
                all[which as usize % all.len()].iter().for_each(|id| self.world.pause(*id, span));
                self.later(span, End::Pause);
            }
            Fault::Kill(which, away) => self.kill(self.leg(which), away),
            Fault::PowerFailure(which, away) => self.power_failure(self.leg(which), away),
            Fault::Disk(which, span) => self.disturb(self.leg(which), span),
            Fault::KillOwner { after, leg, loses_state } => {
                self.kill_owner(after, leg, loses_state)
            }
            Fault::Loss(loss) => self.lose(loss),
            Fault::Late(which, after) => self.leave_late(which, after),
            Fault::LateLeg(which, after) => self.leave_late_on_leg(which, after),
            Fault::Together { which, ended, away, is_overtaken } => {
                self.lose_power_together(which, ended, away, is_overtaken)
            }
            Fault::Stranger => {
                if self.owner.device().is_some() {
                    let seed = self.rng.bits();
                    let Self { stranger, world, what, .. } = self;
                    stranger.stop(world);
                    stranger.begin(world, what, seed);
                }
            }
        }
    }

    pub(super) fn leg(&self, which: u64) -> usize {
        which as usize % self.targets.len()
    }

    fn cut(&mut self, how: Cut, which: u64) {
        let open: Vec<_> =
            self.world.connections().into_iter().filter(|it| it.open).map(|it| it.id).collect();
        if !open.is_empty() {
            self.world.cut(open[which as usize % open.len()], how);
        }
    }

    pub(super) fn kill(&mut self, leg: usize, away: Duration) {
        let Self { world, targets, journal, .. } = self;
        if targets[leg].is_running() {
            targets[leg].kill(world, journal);
            self.later(away, End::Start(leg));
        }
    }

    /// What was not flushed is lost if no other leg in sync has it.
    pub(super) fn power_failure(&mut self, leg: usize, away: Duration) {
        let Self { world, targets, journal, disks, .. } = self;
        if !targets[leg].is_running() {
            return;
        }
        targets[leg].lose_power(world, journal);
        disks.stores[leg].power_fails();
        // While the mirror is not open nobody notices that a leg has forgotten something.
        let is_noticed =
            self.owner.device().is_some_and(|device| device.presence() == Presence::Here);
        let is_gone = self.memory.power_fails(leg, &self.disks);
        if is_gone || !is_noticed && self.memory.owner_ends(&self.disks) {
            self.journal.tell("run", format_args!("no leg remembers what was not flushed"));
            self.oracle.borrow_mut().power_failed();
            if self.owner.device().is_none() {
                self.oracle.borrow_mut().owner_ended();
            }
        }
        self.later(away, End::Start(leg));
    }

    fn disturb(&mut self, leg: usize, span: Duration) {
        let rng = &mut self.rng;
        let behaviour = Behaviour {
            delay: (
                Duration::from_micros(rng.magnitude(1000)),
                Duration::from_micros(1000 + rng.magnitude(50_000)),
            ),
            hold_one_in: *rng.pick(&[0, 2, 8]),
            hold: fraction(stall_max(&self.config), rng),
            error_one_in: *rng.pick(&[0, 0, 4, 20]),
            cancel_one_in: *rng.pick(&[0, 1, 2]),
            ..Behaviour::SOUND
        };
        let behaviour = holds::raise(&self.config, behaviour);
        self.journal.tell("disk", format_args!("of leg {leg}: {behaviour:?}"));
        self.disks.stores[leg].behave(behaviour);
        self.later(span, End::Disk(leg));
    }

    /// The owner is killed while an operation is under way, perhaps while it notices that a leg was
    /// killed.
    fn kill_owner(&mut self, after: Duration, leg: Option<u64>, loses_state: bool) {
        if self.owner.is_down() || self.owner.is_forcing() {
            return;
        }
        self.await_write();
        if let Some(which) = leg {
            self.kill(self.leg(which), after * 50);
        }
        self.world.run_for(after);
        self.end_owner(loses_state);
    }

    /// Lets time pass until an operation that writes is under way.
    pub(super) fn await_write(&mut self) {
        let end = self.world.now() + AWAIT;
        while !self.owner.is_writing() && self.world.now() < end {
            self.world.run_for(Duration::from_micros(200));
        }
    }

    /// Lets time pass until so many operations have ended.
    pub(super) fn await_ended(&mut self, operations: u64) {
        let ended = self.owner.ended() + operations;
        self.await_that(|run| run.owner.ended() >= ended);
    }

    /// Lets time pass until a condition holds.
    pub(super) fn await_that(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        let end = self.world.now() + AWAIT;
        while self.world.now() < end && !holds(self) {
            self.world.run_for(STEP);
        }
    }

    pub(super) fn end_owner(&mut self, loses_state: bool) {
        self.journal.catch_up(&self.world);
        let Self { world, owner, stranger, journal, .. } = self;
        stranger.stop(world);
        owner.kill(world, journal);
        if self.memory.owner_ends(&self.disks) {
            self.journal.tell("run", format_args!("a leg may have forgotten what was not flushed"));
            self.oracle.borrow_mut().power_failed();
        }
        self.oracle.borrow_mut().owner_ended();
        self.loses_state |= loses_state;
        // Without the state file, only the labels know who had the mirror open.
        self.owner.needs_force |= loses_state || self.disks.state.is_none();
    }
}
