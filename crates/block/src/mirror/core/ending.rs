//! End of a mirror: closed cleanly, refused, or taken over by another opener. What it has reserved
//! is given back first. And what the end of an engine means for unflushed writes
//! ([`super::unflushed`]).

use super::reserve::reserved;
use super::{Core, Mode};
use crate::device::{DeviceChange, Presence};
use crate::mirror::engine::Halt;
use crate::mirror::record::{LegMask, MirrorRecord};
use crate::mirror::start::names;
use crate::op::{OpKind, Outcome};
use crate::outcome::error::{Error, ErrorKind};
use crate::outcome::status::{Status, StatusKind};

impl Core {
    /// The engine stopped.
    pub(super) fn halted(&mut self, why: Halt) {
        let url = &self.options.url;
        let text = match why {
            Halt::TooFewLegs => {
                format!("{url}: too few legs can be reached; operations wait until they are back")
            }
            Halt::State(status) => format!(
                "{url}: the state file cannot be written ({:?}); operations wait",
                status.kind
            ),
            Halt::Taken => {
                format!("{url}: another process has taken the mirror; this one no longer uses it")
            }
            Halt::Fenced(number) => {
                let leg = self.place_of(number).map_or_else(
                    || names(1 << number),
                    |place| self.legs[place].source.url.clone(),
                );
                return self.superseded(&reserved(&leg));
            }
        };
        tracing::error!("{text}");
        // A time that nobody waits for any more would wake the loop again and again.
        self.copies_at = None;
        self.remember_runs();
        self.unflushed.halted(self.engine.take().and_then(|engine| engine.sound()));
        self.by_name.clear();
        self.copies.clear();
        self.give_back_judged();
        if why == Halt::Taken || self.promise.is_some() {
            return self.fail(Error::new(ErrorKind::InUse, text));
        }
        for place in 0..=self.legs.len() {
            self.retire(place);
        }
        self.mode = Mode::Gathering;
        self.halted_since = Some(self.on.now());
        self.changes.add(DeviceChange::Away);
        self.see(Presence::Away);
        self.tell();
    }

    /// Remembers the runs of this process for the time when it comes back to legs that it had lost.
    fn remember_runs(&mut self) {
        let of = |record: &MirrorRecord| [record.run.tag, record.base];
        self.runs = self.engine.as_ref().map(|engine| of(engine.durable())).or(self.runs);
    }

    /// Returns whether the last run in which the mirror was used, by this record, was one of this
    /// process, as far as it has had the mirror open. Runs that only began do not count: nothing
    /// was written in them.
    pub(super) fn is_own_run(&self, record: &MirrorRecord) -> bool {
        self.runs.is_none_or(|runs| runs.contains(&record.base))
    }

    /// Another opener has the mirror, or had it since: acknowledges nothing.
    pub(super) fn superseded(&mut self, why: &str) {
        let text = format!(
            "{}: another opener has taken the mirror over: {why}; nothing more is acknowledged here. Open the mirror again when it is closed there",
            self.options.url
        );
        tracing::error!("{text}");
        self.gone = StatusKind::ReservationConflict;
        self.by_name.clear();
        self.copies.clear();
        self.fail(Error::new(ErrorKind::InUse, text));
    }

    /// Reports the reason to those who wait for the mirror; nobody gets it.
    pub(super) fn fail(&mut self, error: Error) {
        self.refusal = Some(error);
        self.fail_held();
        self.closed();
    }

    /// Operations end, except for those whose memory a leg has; those end when it gives that back.
    pub(super) fn fail_held(&mut self) {
        let idle = |name: &u64| self.held.get(*name).is_some_and(|held| !held.is_lent);
        let names: Vec<u64> = self.held.names().filter(idle).collect();
        names.into_iter().for_each(|name| self.end_held(name, self.gone));
    }

    /// Everything is done, except that reservations are given back.
    pub(super) fn closed(&mut self) {
        if self.mode == Mode::Ended {
            return self.on.remove(self.id);
        }
        (self.engine, self.copies_at, self.mode) = (None, None, Mode::Leaving);
        self.give_back_judged();
        if !self.gives_back() {
            self.end();
        }
    }

    /// Stops all work.
    pub(super) fn end(&mut self) {
        self.mode = Mode::Ended;
        for place in 0..=self.legs.len() {
            self.retire(place);
        }
        let is_unopened = self.promise.is_some();
        if let (Some(promise), Some(error)) = (self.promise.take(), self.refusal.take()) {
            promise.complete(Err(error));
        }
        self.fail_held();
        self.changes.add(DeviceChange::Gone);
        self.see(Presence::Gone);
        self.tell();
        self.options.guard = Box::new(());
        // Whoever still has the device is told why it does nothing.
        if is_unopened || self.is_closing {
            self.on.remove(self.id);
        }
    }

    /// An engine has just begun with legs of which these have kept what they had.
    pub(super) fn trust(&mut self, kept: LegMask) {
        if !self.unflushed.may_be_lost(self.loops.acknowledged()) {
            return;
        }
        let sound = self.unflushed.sound(kept);
        match &mut self.engine {
            Some(engine) if sound != 0 => engine.trust(sound),
            _ => self.forgotten(),
        }
    }

    /// Acknowledged, unflushed writes may be lost: each user's next flush fails.
    pub(super) fn forgotten(&mut self) {
        if !self.unflushed.may_be_lost(self.loops.acknowledged()) {
            return;
        }
        tracing::error!(
            "{}: no leg is left that certainly has what was written and not flushed, as targets have started again: the next flush fails; check file \
             systems and databases on the disk",
            self.options.url
        );
        self.unflushed.reported(self.loops.acknowledged());
        self.see_loss();
        let flushes: Vec<u64> = self
            .held
            .names()
            .filter(|name| self.held.get(*name).is_some_and(|it| it.op.kind == OpKind::Flush))
            .collect();
        for name in flushes {
            let Some(held) = self.held.remove(name) else { continue };
            self.free_locks(&held);
            if let Some(name) = held.name {
                self.by_name.remove(&name);
            }
            self.complete(held.op.done(Outcome::Done(Status::new(StatusKind::Internal))));
        }
    }
}
