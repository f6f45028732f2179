//! When the home of a mirror is alone with its engine: what loops do by themselves
//! ([`crate::mirror::direct`]) is over, or the home has taken it over. Before that the engine
//! receives only changes of bits: no failure, no loss or return of a leg, no time, no end.
//!
//! It receives the rest later: a lost leg is still lost when the loops are quiet, and outcomes wait
//! here. Operations that arrive at the home until then go on.

use super::{Core, Mode};
use crate::device::Device;
use crate::mirror::direct::locks::Locks;
use crate::mirror::direct::{DirectLeg, HomeVerdict};
use crate::mirror::record::{LEGS_MAX, LegMask};
use crate::op::Outcome;
use crate::outcome::error::{Error, ErrorKind};
use crate::outcome::status::Status;
use std::sync::Arc;

impl Core {
    /// Returns whether nothing is under way that the engine does not know of. If something is, the
    /// loops begin nothing more, and the home is woken when they are quiet.
    pub(super) fn is_alone(&mut self) -> bool {
        let Some(direct) = self.loops.direct.clone() else { return true };
        direct.withdraw();
        self.loops.undecided.append(&mut direct.undecided());
        if !direct.is_quiet() {
            self.loops.is_waiting = true;
            return false;
        }
        // A write may have become undecided just before its loop was quiet.
        self.loops.undecided.append(&mut direct.undecided());
        self.judge();
        true
    }

    /// Loops let go of a leg that is lost, or they would keep the home waiting.
    pub(super) fn take_back(&mut self, place: usize) {
        let port = self.legs.get(place).and_then(|leg| leg.port.as_ref());
        if let (Some(direct), Some(port)) = (&self.loops.direct, port) {
            direct.take_back(&port.uses);
        }
    }

    /// An outcome that may change more than bits, for when the home is alone.
    pub(super) fn defer(&mut self, run: u32, name: u64, outcome: Outcome) {
        self.loops.outcomes.push((run, name, outcome));
    }

    /// The engine takes over what the loops could not end.
    fn judge(&mut self) {
        let all = core::mem::take(&mut self.loops.undecided);
        if all.is_empty() {
            return;
        }
        let Some(engine) = &mut self.engine else {
            let answer = self.without_engine();
            return all.iter().for_each(|one| one.of.answer(one.name, answer));
        };
        for one in all {
            let op = engine.adopt(one.kind, (one.lba, one.blocks), &one.outcomes);
            self.loops.judged.insert(op, one);
        }
        engine.go_on();
    }

    /// Returns the answer for writes of loops when there is no engine: the next one gets them from
    /// the beginning, if there will be one.
    fn without_engine(&self) -> HomeVerdict {
        match self.mode {
            Mode::Leaving | Mode::Ended => {
                HomeVerdict::Ends(Outcome::settled(Status::new(self.gone)))
            }
            Mode::Gathering | Mode::Running => HomeVerdict::Again,
        }
    }

    /// An engine has stopped, and has judged nothing more.
    pub(super) fn give_back_judged(&mut self) {
        let answer = self.without_engine();
        let judged = core::mem::take(&mut self.loops.judged).into_values();
        for one in judged.chain(core::mem::take(&mut self.loops.undecided)) {
            one.of.answer(one.name, answer);
        }
    }

    /// Processes the end of a write of a loop; `false` if it is not one.
    pub(super) fn answered(&mut self, op: u64, outcome: Outcome) -> bool {
        let Some(one) = self.loops.judged.remove(&op) else { return false };
        if outcome.is_success() {
            self.unflushed.ended(one.kind, 0);
        }
        one.of.answer(one.name, HomeVerdict::Ends(outcome));
        true
    }

    /// Looks after what loops have handed over, at the beginning of a turn. Returns whether there
    /// was anything.
    pub(super) fn turn_loops(&mut self) -> bool {
        self.loops.is_waiting = false;
        let Some(direct) = self.loops.direct.clone() else { return false };
        if direct.is_abandoned() && !matches!(self.mode, Mode::Leaving | Mode::Ended) {
            let text = "a loop ended while it wrote, so the outcome of the write is not known";
            let text = format!("{}: {text}: the mirror ends as it is", self.options.url);
            tracing::warn!("{text}");
            self.engine = None;
            self.by_name.clear();
            self.fail(Error::new(ErrorKind::Io, text));
        }
        self.loops.undecided.append(&mut direct.undecided());
        let mut some = self.lock_on();
        let is_due = !self.loops.undecided.is_empty() || !self.loops.outcomes.is_empty();
        if is_due && self.is_alone() {
            some = true;
            for (run, name, outcome) in core::mem::take(&mut self.loops.outcomes) {
                self.engine_done(run, name, outcome);
            }
        }
        some
    }

    /// Lets loops go on by themselves, at the end of a turn, if nothing needs a decision.
    pub(super) fn permit_loops(&mut self) {
        let Some(direct) = self.loops.direct.clone() else { return };
        let Some(engine) = self.engine.as_ref().filter(|_| self.mode == Mode::Running) else {
            return direct.withdraw();
        };
        let is_due = !self.loops.undecided.is_empty()
            || !self.loops.outcomes.is_empty()
            || self.loops.is_waiting
            || self.loops.long > 0;
        debug_assert!(
            engine.is_calm() || !direct.is_permitted(),
            "the engine has decided something while loops went on"
        );
        if is_due || self.is_closing || !engine.is_calm() {
            return direct.withdraw();
        }
        let members = engine.members();
        self.publish_marks(&direct);
        if direct.is_permitted() {
            return;
        }
        if let Some(legs) = self.direct_legs(members) {
            direct.permit(legs);
        }
    }

    /// Returns the legs in sync, if each grants loops a queue in addition to the home's.
    fn direct_legs(&self, members: LegMask) -> Option<Vec<DirectLeg>> {
        let numbers = (0..LEGS_MAX).filter(|leg| members >> leg & 1 != 0);
        numbers
            .map(|number| {
                let leg = &self.legs[self.place_of(number)?];
                let port = leg.port.as_ref()?;
                let device: &Device = &port.device;
                (device.max_queues() > 1).then(|| DirectLeg {
                    number,
                    device: Arc::clone(device),
                    use_of_it: Arc::clone(&port.uses),
                    counts: Arc::clone(&leg.counts),
                })
            })
            .collect()
    }

    /// Looks whether the home still reaches the legs that only loops have used lately.
    pub(super) fn probe_legs(&mut self) {
        let is_permitted = self.loops.direct.as_ref().is_some_and(|direct| direct.is_permitted());
        let is_used = |leg: &super::leg::Leg| leg.source.is_remote && leg.phase.number().is_some();
        if !is_permitted {
            return;
        }
        let pool = self.pool.clone();
        let ports = self.legs.iter_mut().filter(|leg| is_used(leg));
        ports.filter_map(|leg| leg.port.as_mut()).for_each(|port| port.probe(&pool));
        self.on.wake(self.id);
    }

    /// Takes the locks of an operation; `false` if a loop has one of them.
    pub(super) fn take_locks(&mut self, name: u64) -> bool {
        let Some(direct) = self.loops.direct.clone() else { return true };
        let Some(held) = self.held.get_mut(name) else { return true };
        let Some(range) = direct.locks_of(held.op.lba, held.op.blocks) else {
            if !self.is_alone() {
                return false;
            }
            self.loops.long += 1;
            return self.has_locks(name);
        };
        let (mut taken, mut is_free) = (Vec::new(), true);
        for number in range.numbers() {
            let count = self.loops.locked.entry(number).or_default();
            if *count == 0 && !direct.locks.take_for_home(number) {
                self.loops.locked.remove(&number);
                is_free = false;
                continue;
            }
            *count += 1;
            taken.push(number);
        }
        if !is_free {
            taken.into_iter().for_each(|number| self.free_lock(number, Locks::keep_for_home));
            return false;
        }
        self.has_locks(name)
    }

    fn has_locks(&mut self, name: u64) -> bool {
        self.held.get_mut(name).iter_mut().for_each(|held| held.has_locks = true);
        true
    }

    fn free_lock(&mut self, number: usize, free: fn(&Locks, usize)) {
        let Some(count) = self.loops.locked.get_mut(&number) else { return };
        *count -= 1;
        if *count == 0 {
            self.loops.locked.remove(&number);
            self.loops.direct.iter().for_each(|direct| free(&direct.locks, number));
        }
    }

    /// Gives the locks of an operation back that ends.
    pub(super) fn free_locks(&mut self, held: &crate::mirror::user_op::UserOp) {
        let Some(direct) = self.loops.direct.clone().filter(|_| held.has_locks) else { return };
        match direct.locks_of(held.op.lba, held.op.blocks) {
            Some(range) => {
                range.numbers().for_each(|number| self.free_lock(number, Locks::free_of_home))
            }
            None => self.loops.long -= 1,
        }
    }

    /// Begins operations that waited for locks. Returns whether there were any.
    fn lock_on(&mut self) -> bool {
        let mut some = false;
        for name in core::mem::take(&mut self.loops.locking) {
            if self.held.get(name).is_none_or(|held| held.has_locks) {
                continue;
            }
            if self.take_locks(name) {
                some = true;
                self.give(name);
            } else {
                self.loops.locking.push(name);
            }
        }
        some
    }
}
