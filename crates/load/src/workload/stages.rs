//! From one stage of a job to the next.

use super::direction::{Direction, Rw};
use super::job::{Job, JobStage, Schedule};
use super::job_report::JobReport;
use super::pace::Pace;
use super::record::Recorder;
use super::shared::Event;
use crate::limits::{DRAIN_MAX, STOP_MAX};
use std::sync::atomic::Ordering::Relaxed;
use weft_block::{Outcome, Status, StatusKind};
use weft_io::{Handle, Time};

impl Job {
    /// Whether the job has to end because of what it found.
    fn has_failed(&self) -> bool {
        let spec = &self.shared.plan.spec;
        let bad = || self.report.verify.as_ref().is_some_and(|v| v.bad_blocks() > 0);
        (!spec.continue_on_error && !self.report.errors.is_empty()) || (spec.verify_fatal && bad())
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
            JobStage::Draining { give_up }
                if self.in_flight() + self.queued.len() == 0 || now >= give_up =>
            {
                self.end_measurement(on)
            }
            JobStage::Draining { give_up } | JobStage::DrainingVerify { give_up } => {
                self.hurry(on, give_up)
            }
            JobStage::Verifying
                if self.cursor >= self.share.units || self.stopped() || self.has_failed() =>
            {
                self.drain(on)
            }
            _ => {}
        }
        if let JobStage::DrainingVerify { give_up } = self.stage
            && (self.in_flight() + self.queued.len() == 0 || on.now() >= give_up)
        {
            self.end(on);
        }
    }

    fn start(&mut self, on: &Handle) {
        if !self.shared.go.load(Relaxed) {
            return;
        }
        // By the clock of now: a loop that was kept from running until now does not lose measuring
        // time.
        let start = on.clock();
        let spec = &self.shared.plan.spec;
        let record = start + spec.ramp_time;
        self.schedule = Schedule { record, end: spec.runtime.map(|runtime| record + runtime) };
        self.pace = Pace::new(spec, start);
        self.stage = JobStage::Running;
        for at in [Some(record), self.schedule.end].into_iter().flatten() {
            on.wake_at(self.id, at);
        }
        self.run_on(on);
    }

    /// Begins to record after the ramp; ends when time or work is over.
    fn run_on(&mut self, on: &Handle) {
        // The turn may have begun before the start.
        let now = if self.recording { on.now() } else { on.clock() };
        if !self.recording && now >= self.schedule.record {
            self.recording = true;
            self.on_loop.begin(on);
            self.recorder.begin(on.clock());
        }
        let over =
            self.schedule.end.is_some_and(|end| now >= end) || self.stopped() || self.has_failed();
        if over {
            self.missed();
            self.withdraw();
        }
        if over || self.is_over_by_count() {
            self.drain(on);
        }
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
            if let Some(ledger) = &mut self.ledger {
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

    /// Brings the end of waiting forward when the user has lost patience.
    fn hurry(&mut self, on: &Handle, give_up: Time) {
        if self.stopped() && give_up > on.now() + STOP_MAX {
            let verify = matches!(self.stage, JobStage::DrainingVerify { .. });
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
        self.recorder = Recorder::new(Rw::Read);
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
