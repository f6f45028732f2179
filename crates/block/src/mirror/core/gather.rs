//! Opens the legs and the state file, reads what they say, and starts the engine when that is
//! enough. It goes on without missing legs, and begins again when too few legs were left.

use super::leg::{Leg, Phase, kind_of};
use super::port::Port;
use super::{Before, Core, Mode, millis};
use crate::mirror::claim::name;
use crate::mirror::engine::MirrorEngine;
use crate::mirror::labels::FoundLeg;
use crate::mirror::record::{Claim, LEGS_MAX, LegMask};
use crate::mirror::start::{MirrorStart, decide};
use crate::op::Completion;
use crate::outcome::error::{Error, ErrorKind};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;
use weft_io::Time;

impl Core {
    fn place(&mut self, place: usize) -> Option<&mut Leg> {
        if place < self.legs.len() { self.legs.get_mut(place) } else { self.state.as_mut() }
    }

    /// Takes legs and state file further. Returns whether something came of it.
    pub(super) fn step_legs(&mut self) -> bool {
        match self.mode {
            Mode::Ended => return false,
            Mode::Leaving => return self.leave_legs(),
            Mode::Gathering | Mode::Running => {}
        }
        let mut some = false;
        for place in 0..=self.legs.len() {
            some |= self.step_leg(place);
        }
        if self.mode == Mode::Gathering && self.engine.is_none() {
            some |= self.try_start();
        }
        some
    }

    fn step_leg(&mut self, place: usize) -> bool {
        let (now, waker, is_state, pool) =
            (self.on.now(), self.waker.clone(), place == self.legs.len(), self.pool.clone());
        let name = name(self.opening);
        if self.place(place).and_then(|leg| leg.port.as_mut()).is_some_and(Port::look) {
            self.take_back(place);
            return self.is_alone() && self.lost(place);
        }
        let Some(leg) = self.place(place) else { return false };
        let (may_open, is_settled) = (leg.may_open(), leg.is_settled());
        match &mut leg.phase {
            Phase::Waiting(at) if *at <= now && may_open => {
                match (leg.source.open)(name) {
                    Ok(opening) => leg.phase = Phase::Opening(opening),
                    Err(e) => self.failed(place, &e),
                }
                true
            }
            Phase::Opening(opening) => {
                match Pin::new(opening).poll(&mut Context::from_waker(&waker)) {
                    Poll::Pending => false,
                    Poll::Ready(Ok(device)) => {
                        let counts = Arc::clone(&leg.counts);
                        let on = (&self.on, self.id);
                        match Port::open(device, is_state, self.most, &counts, on) {
                            Ok(port) => {
                                if let Some(leg) = self.place(place) {
                                    leg.opened(port);
                                }
                                self.see_devices();
                            }
                            Err(e) => self.failed(place, &e),
                        }
                        true
                    }
                    Poll::Ready(Err(e)) => {
                        self.failed(place, &e);
                        true
                    }
                }
            }
            Phase::Settling if is_settled => {
                leg.phase = Phase::Reading;
                leg.port.iter_mut().for_each(|port| port.read_area(&pool));
                true
            }
            Phase::Quiet(until) if *until <= now => {
                leg.phase = Phase::Reading;
                leg.port.iter_mut().for_each(|port| port.read_area(&pool));
                true
            }
            Phase::Here(_) if !is_state => self.is_alone() && self.greet(place),
            Phase::Reserving(_) => self.displace_on(place),
            _ => false,
        }
    }

    fn failed(&mut self, place: usize, error: &Error) {
        let (now, url) = (self.on.now(), self.options.url.clone());
        let is_opening = self.promise.is_some();
        if let Some(leg) = self.place(place) {
            leg.complain(&url, (error.kind(), &error.to_string()), is_opening);
            leg.wait(now);
        }
    }

    /// A device is gone.
    fn lost(&mut self, place: usize) -> bool {
        let number = self.place(place).and_then(|leg| leg.phase.number());
        match (number, &mut self.engine) {
            (Some(number), Some(engine)) if place < self.legs.len() => engine.leg_gone(number),
            _ => {}
        }
        // The engine may have let go of it already.
        self.retire(place);
        true
    }

    /// The area of a leg or of the state file was read.
    pub(super) fn area_read(&mut self, place: usize, completion: &Completion) {
        let Some(leg) = self.place(place).filter(|leg| matches!(leg.phase, Phase::Reading)) else {
            return;
        };
        let Some(port) = &leg.port else { return };
        if !completion.outcome.is_success() {
            let text = format!(
                "{}: its label cannot be read ({:?})",
                port.url,
                completion.outcome.status().kind
            );
            self.failed(place, &Error::new(ErrorKind::Io, text));
            return self.retire(place);
        }
        let area = completion.op.data.iter().flat_map(|segment| segment.iter().copied()).collect();
        leg.phase = Phase::Here(FoundLeg {
            url: leg.source.url.clone(),
            area,
            block_bytes: port.block_bytes,
        });
    }

    /// Starts when every leg has answered or failed.
    fn try_start(&mut self) -> bool {
        let is_state_ready =
            self.state.as_ref().is_none_or(|state| matches!(state.phase, Phase::Here(_)));
        let is_state_lost =
            self.state.as_ref().is_some_and(|state| state.is_decided() && !is_state_ready);
        if is_state_lost && self.promise.is_some() {
            let complaint = self.state.as_ref().and_then(|state| state.complaint.clone());
            let (kind, why) =
                complaint.map_or((ErrorKind::Io, String::new()), |it| (it.kind, it.text));
            let text = format!("{}: the state file cannot be opened: {why}", self.options.url);
            self.fail(Error::new(kind, text));
            return true;
        }
        let waits = matches!(self.before, Before::Until(at) if self.on.now() < at);
        if waits || !is_state_ready || !self.legs.iter().all(Leg::is_decided) || self.lends() {
            return false;
        }
        if matches!(self.before, Before::Until(_)) {
            self.before = Before::Settled;
            return self.read_again();
        }
        let found: Vec<Option<FoundLeg>> = self
            .legs
            .iter()
            .map(|leg| if let Phase::Here(found) = &leg.phase { Some(found.clone()) } else { None })
            .collect();
        let state = self.state.as_ref().and_then(|state| {
            if let Phase::Here(found) = &state.phase { Some(found.clone()) } else { None }
        });
        let force = self.options.force && self.promise.is_some();
        let started = decide(&found, state.as_ref(), Some(self.options.opener), force);
        match started.and_then(|start| self.check(&start).map(|()| start)) {
            Ok(start) if !self.is_own_run(&start.record) => {
                let text = "its legs were used by another process since, and closed there";
                self.superseded(text);
            }
            Ok(start) => {
                self.learn_bound(&start);
                if self.reserve_members(&start) {
                    return true;
                }
                if start.was_open && self.waits_for_the_last() {
                    self.wait_for_the_last()
                } else {
                    self.start(start)
                }
            }
            Err(why) => return self.refused(why),
        }
        true
    }

    /// The longest that any target may go on with what the last process has sent: by what that one
    /// has stored, by what the targets state to this one, and by its options for those that cannot
    /// be reached.
    fn learn_bound(&mut self, start: &MirrorStart) {
        self.bound = self.options.settle.max(start.bound).max(self.stated_bound());
    }

    /// The longest time that the targets of legs state.
    pub(super) fn stated_bound(&self) -> Duration {
        let stated = |leg: &Leg| leg.port.as_ref().and_then(|port| port.device.late_writes_bound());
        self.legs.iter().filter_map(stated).max().unwrap_or_default()
    }

    /// Returns whether a process before this one may have left anything behind, and nobody has
    /// waited for that.
    fn waits_for_the_last(&self) -> bool {
        self.before == Before::Unknown && !self.bound.is_zero()
    }

    /// The process that had the mirror open has not closed it. What it sent to targets must not be
    /// executed after what this one writes, or between two reads: nothing begins before that is
    /// over.
    fn wait_for_the_last(&mut self) {
        let at = self.began + self.bound;
        self.before = Before::Until(at);
        if at <= self.on.now() {
            // A leg that was reserved has been waited for.
            return;
        }
        let left = at - self.on.now();
        tracing::warn!(
            "{}: it was not closed; it opens in {:.0} s, when its targets have certainly ended what the last process sent to them",
            self.options.url,
            left.as_secs_f64().ceil()
        );
    }

    /// Reads labels and state file again, because they may have changed in the meantime.
    fn read_again(&mut self) -> bool {
        for leg in self
            .legs
            .iter_mut()
            .chain(&mut self.state)
            .filter(|leg| matches!(leg.phase, Phase::Here(_)))
        {
            if let Some(port) = &mut leg.port {
                port.read_area(&self.pool);
                leg.phase = Phase::Reading;
            }
        }
        true
    }

    fn refused(&mut self, why: String) -> bool {
        if self.promise.is_some() {
            let complaints = || self.legs.iter().filter_map(|leg| leg.complaint.as_ref());
            let kind = kind_of(complaints()).unwrap_or(ErrorKind::Refused);
            let why: Vec<String> = complaints().map(|it| it.text.clone()).chain([why]).collect();
            let text = format!("{}: {}", self.options.url, why.join("; "));
            self.fail(Error::new(kind, text));
            return true;
        }
        if self.complaint.as_ref() != Some(&why) {
            tracing::error!("{}: {why}", self.options.url);
            self.complaint = Some(why);
        }
        false
    }

    /// Checks that the legs fit their labels and the properties that users have seen.
    fn check(&self, start: &MirrorStart) -> Result<(), String> {
        let record = &start.record;
        for place in (0..LEGS_MAX)
            .filter(|leg| start.members >> leg & 1 != 0)
            .filter_map(|leg| start.places[leg])
        {
            let Some(port) = &self.legs[place].port else { continue };
            let room = crate::mirror::layout::area_of_leg(port.device.geometry().whole_bytes())
                .unwrap_or(0);
            if port.block_bytes != record.block_bytes || room < record.data_bytes {
                return Err(format!(
                    "{} is smaller than the mirror, or has other blocks",
                    port.url
                ));
            }
        }
        Ok(())
    }

    fn start(&mut self, mut start: MirrorStart) {
        let now = self.on.now();
        // From now on this process counts, and what the last one has sent is over.
        let own = self.options.settle.max(self.stated_bound());
        start.record.bound_ms =
            millis(if self.is_left_behind(&start) { own.max(start.bound) } else { own });
        self.run += 1;
        if self.before == Before::Unknown {
            // From now on it is this process that was there before, and it knows what it has sent.
            self.before = Before::Settled;
        }
        let record = &start.record;
        if let Some(warning) = &start.warning {
            tracing::warn!("{}: {warning}", self.options.url);
        }
        if self.geometry.is_none() {
            self.geometry = Some(self.shape(&start));
            self.loops.begin(&self.on, self.id, &start);
        }
        let is_whole = record.is_clean && start.members == record.all();
        if self.promise.is_some()
            && let Some(opener) = start.opener
        {
            self.options.opener = opener;
        }
        let options = &self.options;
        let claim =
            Claim { opener: options.opener, time: options.time, host: options.host.clone() };
        let kept = self.kept(&start);
        if self.run == 1 && !record.is_clean {
            self.unflushed.inherit();
        }
        for (number, place) in start.places.iter().enumerate() {
            if let Some(place) = place.filter(|_| start.members >> number & 1 != 0) {
                self.legs[place].used(number);
            }
        }
        self.state.iter_mut().for_each(|state| state.used(LEGS_MAX));
        // A leg that is not here may still be busy with what the last process sent to it, however
        // that ended.
        self.copies_at = Some(if is_whole { now } else { now.max(self.began + self.bound) });
        let seed = options.seed.wrapping_add(u64::from(self.run));
        self.engine = Some(MirrorEngine::new(start, claim, seed, options.hot));
        self.trust(kept);
        self.give_all();
    }

    /// The members that have all that was acknowledged, by what their devices say: those whose
    /// targets have not started again.
    fn kept(&self, start: &MirrorStart) -> LegMask {
        let has_kept =
            |leg: &usize| start.places[*leg].is_some_and(|place| self.legs[place].has_kept());
        (0..LEGS_MAX)
            .filter(|leg| start.members >> leg & 1 != 0)
            .filter(has_kept)
            .fold(0, |mask, leg| mask | 1 << leg)
    }

    /// Returns whether a leg that is not here may be busy still with what an earlier process has
    /// sent.
    fn is_left_behind(&self, start: &MirrorStart) -> bool {
        start.members != start.record.all()
    }

    /// When a leg is tried again.
    pub(super) fn next_attempt(&self) -> Option<Time> {
        if matches!(self.mode, Mode::Leaving | Mode::Ended) {
            return None;
        }
        let due = |leg: &Leg| match leg.phase {
            Phase::Waiting(at) if leg.may_open() => Some(at),
            Phase::Quiet(until) => Some(until),
            _ => None,
        };
        self.legs.iter().chain(&self.state).filter_map(due).min()
    }
}
