//! From one stage of a job to the next.

use super::direction::{Direction, Rw};
use super::floor::Watch;
use super::job::{Job, JobStage, Schedule};
use super::job_report::{Broken, JobReport};
use super::pace::Pace;
use super::record::Recorder;
use super::search::{Look, Search};
use super::shared::{Event, JobProgress};
use super::steady::Settling;
use super::think::Pauses;
use crate::limits::{DRAIN_MAX, STOP_MAX};
use core::time::Duration;
use std::sync::atomic::Ordering::Relaxed;
use weft_block::{Outcome, Status, StatusKind};
use weft_io::{Handle, Time};

impl Job {
    /// Returns whether the job has to end because of what it found.
    fn has_failed(&self) -> bool {
        let spec = &self.shared.plan.spec;
        let bad = || self.report.verify.as_ref().is_some_and(|v| v.bad_blocks() > 0);
        let mut errors = self.report.errors.iter();
        errors.any(|e| !spec.continue_on_error.continues(e.direction, e.status.kind))
            || self.report.broken.is_some()
            || (spec.verify_fatal && bad())
    }

    fn stopped(&self) -> bool {
        self.shared.stop.load(Relaxed)
    }

    /// Moves to the next stage when it is time.
    pub(super) fn advance(&mut self, on: &Handle) {
        let now = on.now();
        match self.stage {
            JobStage::Opening => self.stage = JobStage::Connecting,
            JobStage::Connecting if self.spare.len() == self.slots.len() => {
                self.stage = JobStage::Waiting;
                self.tell(Event::Ready);
            }
            JobStage::Connecting | JobStage::Waiting if self.stopped() => self.end_measurement(on),
            JobStage::Waiting => self.start(on),
            JobStage::Running => self.run_on(on),
            JobStage::Draining { give_up } if self.is_idle() || now >= give_up => self.flush(on),
            JobStage::Flushing { give_up }
                if self.is_idle() && !self.syncs.ends_with_sync() || now >= give_up =>
            {
                self.end_measurement(on)
            }
            JobStage::Draining { give_up }
            | JobStage::Flushing { give_up }
            | JobStage::DrainingVerify { give_up } => self.hurry(on, give_up),
            JobStage::Verifying
                if self.cursor >= self.share.units || self.stopped() || self.has_failed() =>
            {
                self.drain(on)
            }
            _ => {}
        }
        if let JobStage::DrainingVerify { give_up } = self.stage
            && (self.is_idle() || on.now() >= give_up)
        {
            self.end(on);
        }
    }

    fn is_idle(&self) -> bool {
        self.in_flight() + self.queued.len() == 0
    }

    fn start(&mut self, on: &Handle) {
        if !self.shared.go.load(Relaxed) {
            return;
        }
        // By the clock of now: a loop that was kept from running until now does not lose measuring
        // time.
        let now = on.clock();
        let start = match self.schedule.start {
            Some(start) => start,
            None => now + self.start_delay(),
        };
        if now < start {
            if self.schedule.start.replace(start).is_none() {
                on.wake_at(self.id, start);
            }
            return;
        }
        self.begin_running(on, now);
    }

    /// Time before the job starts (`startdelay`).
    fn start_delay(&mut self) -> Duration {
        let [least, most] = self.shared.plan.spec.start_delay;
        if least == most { least } else { least + (most - least).mul_f64(self.rng.unit()) }
    }

    fn begin_running(&mut self, on: &Handle, start: Time) {
        let plan = &self.shared.plan;
        let spec = &plan.spec;
        let record = start + spec.ramp_time;
        let end = spec.runtime.map(|runtime| record + runtime);
        self.schedule = Schedule { start: Some(start), record, end };
        self.pace = Pace::new(spec, start, plan.seed_of(self.share.index));
        self.pauses = Pauses::new(spec.think, start);
        self.search = Search::new(spec.latency_target, spec.iodepth, start);
        self.stage = JobStage::Running;
        for at in [Some(record), end].into_iter().flatten() {
            on.wake_at(self.id, at);
        }
        if spec.verify_only {
            return self.only_verify(on);
        }
        self.run_on(on);
    }

    /// Does what a run that wrote would have done, without operations, and verifies the result.
    fn only_verify(&mut self, on: &Handle) {
        while !self.is_over_by_count() {
            let paced = self.pace.as_ref().and_then(|pace| pace.next().0);
            let direction = paced.unwrap_or_else(|| self.draw_direction());
            let Some(span) = self.draw_span(direction) else { break };
            let unit = self.order.next(direction, span, &mut self.rng);
            if let (Some(ledger), Direction::Write) = (&mut self.ledger, direction) {
                ledger.begin_write(unit);
                ledger.end_write(unit);
            }
            self.note_begun(direction, span);
        }
        self.end_measurement(on);
    }

    /// Begins to record after the ramp; ends when time or work is over.
    fn run_on(&mut self, on: &Handle) {
        // The turn may have begun before the start.
        let now = if self.recording { on.now() } else { on.clock() };
        if !self.recording && now >= self.schedule.record {
            self.recording = true;
            self.on_loop.begin(on);
            let begin = on.clock();
            self.recorder.begin(begin);
            self.watch = Watch::new(self.shared.plan.spec.rate_floor, begin);
            self.watch.iter().for_each(|watch| on.wake_at(self.id, watch.due()));
            self.settling = Settling::new(self.shared.plan.spec.steady, begin);
            self.settling.iter().for_each(|settling| on.wake_at(self.id, settling.due()));
        }
        self.watch_rate(on, now);
        let is_found = self.search_depth(now);
        let over = is_found
            || self.has_settled(on, now)
            || self.schedule.end.is_some_and(|end| now >= end)
            || self.stopped()
            || self.has_failed();
        if over {
            self.missed();
            self.withdraw();
        }
        if over || self.is_over_by_count() && !self.owes_sync() {
            self.drain(on);
        }
    }

    /// Looks whether the job is too slow (`rate_min`).
    fn watch_rate(&mut self, on: &Handle, now: Time) {
        let Some(watch) = self.watch.as_mut().filter(|watch| now >= watch.due()) else { return };
        if let Some((direction, rate)) = watch.check(now, self.recorder.counts()) {
            self.report.broken = Some(Broken::Rate { direction, rate });
        }
        on.wake_at(self.id, watch.due());
    }

    /// Tries the next depth if it is time (`latency_target`). Tells whether the job ends with it.
    fn search_depth(&mut self, now: Time) -> bool {
        let Some(search) = &mut self.search else { return false };
        let look = search.look(now);
        self.report.depth = Some(search.depth());
        if look == Look::OutOfReach {
            self.report.broken = Some(Broken::Target);
        }
        look != Look::GoesOn
    }

    /// Returns whether the rates have settled (`steadystate`), of this job or of all together.
    fn has_settled(&mut self, on: &Handle, now: Time) -> bool {
        let (spec, id) = (&self.shared.plan.spec, self.id);
        let Some(settling) = &mut self.settling else { return false };
        let together = spec.numjobs > 1 && spec.group_reporting == Some(true);
        let mut is_over = together && self.shared.settled.load(Relaxed);
        if now >= settling.due() {
            let add = |sum: (u64, u64), one: (u64, u64)| (sum.0 + one.0, sum.1 + one.1);
            let counts = match together {
                true => self.shared.progress.iter().flat_map(JobProgress::counts).fold((0, 0), add),
                false => self.recorder.counts().into_iter().fold((0, 0), add),
            };
            is_over |= settling.look(now, counts);
            self.report.steady = Some(settling.report());
            on.wake_at(id, settling.due());
        }
        if is_over && together {
            self.shared.settled.store(true, Relaxed);
        }
        is_over
    }

    /// Counts what was due by the end and never begun.
    fn missed(&mut self) {
        if let (Some(pace), Some(end)) = (&self.pace, self.schedule.end) {
            let left = self.share.limit.map_or(u64::MAX, |limit| limit - self.begun);
            self.report.missed = pace.missed(end).min(left);
        }
    }

    /// Takes back what the device did not take.
    fn withdraw(&mut self) {
        while let (Some(op), Some(slot)) = (self.queued.pop_back(), self.queued_slots.pop_back()) {
            let slot = self.slots[slot as usize];
            if let Some(ledger) = self.ledger.as_mut().filter(|_| !slot.is_sync) {
                match slot.direction {
                    Direction::Write => ledger.withdraw_write(slot.unit),
                    _ => ledger.end_read(slot.unit),
                }
            }
            let withdrawn = op.done(Outcome::NotSent(Status::new(StatusKind::Aborted)));
            self.rest(withdrawn.op);
        }
    }

    fn drain(&mut self, on: &Handle) {
        let give_up = on.now() + if self.stopped() { STOP_MAX } else { DRAIN_MAX };
        on.wake_at(self.id, give_up);
        self.stage = match self.stage {
            JobStage::Verifying => JobStage::DrainingVerify { give_up },
            _ => JobStage::Draining { give_up },
        };
    }

    /// Flushes the device after the last write, if that was asked for and all is well.
    fn flush(&mut self, on: &Handle) {
        if !self.syncs.ends_with_sync() || !self.is_idle() || self.stopped() || self.has_failed() {
            return self.end_measurement(on);
        }
        let give_up = on.now() + DRAIN_MAX;
        on.wake_at(self.id, give_up);
        self.stage = JobStage::Flushing { give_up };
    }

    /// Brings the end of waiting forward when the user has lost patience.
    fn hurry(&mut self, on: &Handle, give_up: Time) {
        if self.stopped() && give_up > on.now() + STOP_MAX {
            let verify = matches!(self.stage, JobStage::DrainingVerify { .. });
            if matches!(self.stage, JobStage::Flushing { .. }) {
                self.syncs.ended();
            }
            self.withdraw();
            self.stage = if verify { JobStage::Verifying } else { JobStage::Running };
            self.drain(on);
        }
    }

    /// The measurement is over; what follows is checking.
    fn end_measurement(&mut self, on: &Handle) {
        self.report.unfinished = (self.in_flight() + self.queued.len()) as u64;
        self.recorder.finish(&mut self.report);
        self.recording = false;
        if let Some(event) = self.on_loop.end(on) {
            self.tell(event);
        }
        let plan = &self.shared.plan;
        let check = plan.writes_pattern() && plan.spec.do_verify && self.report.unfinished == 0;
        if check && !self.stopped() && !self.has_failed() {
            self.begin_verify(on);
        } else {
            self.end(on);
        }
    }

    fn begin_verify(&mut self, on: &Handle) {
        self.stage = JobStage::Verifying;
        self.held = None;
        self.recorder = Recorder::new(Rw::Read, false);
        self.recorder.begin(on.clock());
        self.recording = true;
        let written = self.ledger.as_ref().map_or(0, |ledger| ledger.written());
        self.progress().set([(0, 0); 3]);
        self.progress().to_verify.store(written, Relaxed);
    }

    /// All is over.
    fn end(&mut self, on: &Handle) {
        if matches!(self.stage, JobStage::DrainingVerify { .. }) {
            self.report.unfinished = (self.in_flight() + self.queued.len()) as u64;
            let mut phase = JobReport::default();
            self.recorder.finish(&mut phase);
            if let Some(verify) = &mut self.report.verify {
                verify.phase = core::mem::take(&mut phase.directions[Direction::Read.index()]);
            }
        }
        if let (Some(ledger), Some(verify)) = (&self.ledger, &mut self.report.verify) {
            verify.unknown_units = ledger.unknown();
        }
        self.stage = JobStage::Over;
        let report = core::mem::take(&mut self.report);
        self.tell(Event::Done(Box::new(report)));
        on.remove(self.id);
        self.on_loop.leave(on);
    }

    /// The runner is gone only if it gave up on all jobs; then nobody needs the message.
    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}
