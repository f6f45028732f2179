//! Going through the rounds.

use super::clock::Clock;
use super::machine::{self, Ticks};
use super::patterns::rw_of;
use super::sample::{self, Sample, unrest};
use super::{Lane, StudyProgress, StudySpec, counting, notes};
use crate::ceiling::{self, CeilingSpec, Tuning};
use crate::error::Error;
use crate::results::{self, Ceiling, Counts, Results, Row, UNSTABLE, Workload};
use crate::workload::{self, Direction, JobSpec, Rw};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use weft_block::units;

/// Part of the time that filling the devices may take.
const PREPARE: f64 = 0.25;

/// Part of the time that is kept for repetitions.
const RESERVE: f64 = 0.08;

/// Bytes and depth of the writes that fill a device.
const FILL: (u32, u32) = (1 << 20, 8);

/// Measurements of a lane that may fail one after the other before it is given up.
const FAILURES_MAX: u32 = 2;

/// Who is measured: a lane, by its number, or the ceiling.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Lane(usize),
    Ceiling,
}

pub(super) struct Rounds<'a> {
    spec: StudySpec,
    clock: Clock,
    workloads: Vec<Workload>,
    progress: &'a mut dyn FnMut(StudyProgress<'_>),
    /// Bytes of the devices that are used: so much of each was filled.
    size: u64,
    /// Samples by workload, for each lane and then for the ceiling.
    samples: Vec<Vec<Vec<Sample>>>,
    /// Failures of each lane, and of the ceiling, since its last success; `None` once it is given up.
    failures: Vec<Option<u32>>,
    notes: Vec<String>,
    first_error: Option<Error>,
    repeated: Vec<String>,
    /// What was counted, by workload and lane.
    counts: Vec<Vec<Option<Counts>>>,
}

impl<'a> Rounds<'a> {
    pub fn new(
        spec: StudySpec,
        budget: Duration,
        workloads: Vec<Workload>,
        progress: &'a mut dyn FnMut(StudyProgress<'_>),
    ) -> Result<Self, Error> {
        let smallest = spec.lanes.iter().map(|lane| lane.device.geometry().bytes()).min();
        let Some(size) = smallest else { return Err(Error::option("lanes", "there is nothing to measure")) };
        let series = spec.lanes.len() + 1;
        let mut failures = vec![Some(0); series];
        if spec.ceiling.is_none() {
            failures[series - 1] = None;
        }
        Ok(Self {
            clock: Clock::start(spec.budget.unwrap_or(budget)),
            samples: workloads.iter().map(|_| vec![Vec::new(); series]).collect(),
            counts: workloads.iter().map(|_| vec![None; series - 1]).collect(),
            spec,
            workloads,
            progress,
            size: size - size % u64::from(FILL.0),
            failures,
            notes: Vec::new(),
            first_error: None,
            repeated: Vec::new(),
        })
    }

    fn stopped(&self) -> bool {
        self.spec.stop.load(Relaxed)
    }

    fn series(who: Who, lanes: usize) -> usize {
        match who {
            Who::Lane(at) => at,
            Who::Ceiling => lanes,
        }
    }

    /// Those that are still in the race.
    fn alive(&self) -> Vec<Who> {
        let lanes = self.spec.lanes.len();
        let all = (0..lanes).map(Who::Lane).chain([Who::Ceiling]);
        all.filter(|&who| self.failures[Self::series(who, lanes)].is_some()).collect()
    }

    /// Writes all devices from front to back, as far as the time allows; what could not be filled is not used.
    pub fn prepare(&mut self) -> Result<(), Error> {
        let lanes = self.spec.lanes.len();
        for at in 0..lanes {
            if self.size == 0 || !self.spec.lanes[at].device.features().write || self.stopped() {
                continue;
            }
            let limit = self.clock.left().mul_f64(PREPARE / lanes as f64);
            match self.fill(at, limit) {
                Ok(filled) => self.size = self.size.min(filled),
                Err(error) => self.fail(Who::Lane(at), "cannot be filled", error, FAILURES_MAX),
            }
        }
        let whole = self.spec.lanes.iter().map(|lane| lane.device.geometry().bytes()).min().unwrap_or(0);
        if self.size < whole - whole % u64::from(FILL.0) {
            let (used, whole) = (units::format_size(self.size), units::format_size(whole));
            self.notes.push(format!("Only the first {used} of {whole} are used: filling more would have taken too long."));
        }
        self.check_alive()
    }

    /// Fills a device; returns how many bytes were written, from the front.
    fn fill(&mut self, at: usize, limit: Duration) -> Result<u64, Error> {
        let lane = &self.spec.lanes[at];
        let bs_bytes = FILL.0.min(lane.device.geometry().max_transfer_bytes);
        let job = JobSpec {
            rw: Rw::Write,
            bs_bytes,
            iodepth: FILL.1,
            size: Some(self.size),
            runtime: Some(limit),
            cpus_allowed: lane.initiator_cpu.map(|cpu| cpu as usize).into_iter().collect(),
            ..JobSpec::default()
        };
        let (clock, progress) = (&self.clock, &mut self.progress);
        let report = workload::run_until(Arc::clone(&lane.device), &job, &self.spec.stop, &mut |_| {
            progress(StudyProgress { name: "filling", what: &lane.title, fraction: clock.fraction(), eta: clock.left() });
        })?;
        if !report.is_clean() {
            let error = report.jobs[0].errors.first().map(|e| format!("{:?} at LBA {}", e.status.kind, e.first_lba));
            let message = format!("{} cannot be written: {}", lane.url, error.unwrap_or_else(|| "no answer".into()));
            return Err(weft_block::Error::new(weft_block::ErrorKind::Io, message).into());
        }
        let bytes = report.total(Direction::Write).bytes;
        Ok(bytes - bytes % u64::from(FILL.0))
    }

    /// All workloads on all lanes, so many times.
    pub fn measure(&mut self, rounds: u32) -> Result<(), Error> {
        let of_round = self.workloads.len();
        for round in 0..rounds {
            for at in 0..of_round {
                let left = (rounds - round) as usize * of_round - at;
                self.measure_workload(at, round, left, RESERVE)?;
            }
        }
        Ok(())
    }

    /// The workloads whose rounds lie furthest apart once more, until the time is over.
    pub fn repeat(&mut self) -> Result<(), Error> {
        let restless = |samples: &[Vec<Sample>]| samples.iter().map(|s| unrest(s)).fold(0.0, f64::max);
        let mut order: Vec<(usize, f64)> = self.samples.iter().map(|s| restless(s)).enumerate().collect();
        order.retain(|(_, unrest)| *unrest > UNSTABLE);
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (at, _) in order {
            let typical = self.clock.slot(self.workloads.len() * self.alive().len() * 5, 0.0);
            let needed = (typical.warm_up + typical.run) * self.alive().len() as u32;
            if self.stopped() || self.clock.left() < needed * 2 {
                break;
            }
            self.measure_workload(at, u32::MAX, 1, 0.0)?;
            self.repeated.push(self.workloads[at].title.clone());
        }
        Ok(())
    }

    /// One workload on all lanes and on the ceiling; `left` workloads are still to be measured, this one included.
    fn measure_workload(&mut self, at: usize, round: u32, left: usize, reserve: f64) -> Result<(), Error> {
        let mut who = self.alive();
        let first = (round as usize + at) % who.len().max(1);
        who.rotate_left(first);
        let series = who.len();
        for (done, who) in who.into_iter().enumerate() {
            if self.stopped() {
                return Ok(());
            }
            let slot = self.clock.slot(left * series - done, reserve);
            let (begin, ticks) = (Instant::now(), Ticks::now());
            let result = match who {
                Who::Lane(lane) => self.run_lane(lane, at, round, slot),
                Who::Ceiling => self.run_ceiling(at, round, slot),
            };
            self.clock.learn(slot, begin.elapsed());
            let index = Self::series(who, self.spec.lanes.len());
            match result {
                Ok(Some(mut sample)) => {
                    sample.steal = ticks.zip(Ticks::now()).and_then(|(before, after)| after.stolen_since(before));
                    self.failures[index] = Some(0);
                    self.samples[at][index].push(sample);
                }
                Ok(None) => {}
                Err(error) => {
                    let title = self.workloads[at].title.clone();
                    self.fail(who, &format!("failed in {title}"), error, 1);
                }
            }
        }
        self.check_alive()
    }

    fn run_lane(&mut self, lane: usize, at: usize, round: u32, slot: super::clock::Slot) -> Result<Option<Sample>, Error> {
        let (lane, workload) = (&self.spec.lanes[lane], &self.workloads[at]);
        let rw = rw_of(workload);
        if rw.has(Direction::Write) && !lane.device.features().write {
            return Ok(None);
        }
        let job = JobSpec {
            ramp_time: slot.warm_up,
            runtime: Some(slot.run),
            time_based: true,
            randseed: Some(u64::from(round)),
            ..job_of(workload, lane, self.size)
        };
        let (clock, progress) = (&self.clock, &mut self.progress);
        let mut tell = || {
            progress(StudyProgress { name: &workload.title, what: &lane.title, fraction: clock.fraction(), eta: clock.left() });
        };
        tell();
        let device = Arc::clone(&lane.device);
        let report = workload::run_watching(device, &job, lane.target_pid, &self.spec.stop, &mut |_| tell())?;
        let sample = Sample::of_run(round, &report);
        match report.jobs[0].errors.first() {
            Some(error) if sample.is_empty() => {
                let message = format!("{}: {:?} at LBA {}", lane.url, error.status.kind, error.first_lba);
                Err(weft_block::Error::new(weft_block::ErrorKind::Io, message).into())
            }
            _ => Ok((!sample.is_empty() && !report.stopped).then_some(sample)),
        }
    }

    fn run_ceiling(&mut self, at: usize, round: u32, slot: super::clock::Slot) -> Result<Option<Sample>, Error> {
        let (Some(server), workload) = (self.spec.ceiling, &self.workloads[at]) else { return Ok(None) };
        let (fraction, eta) = (self.clock.fraction(), self.clock.left());
        (self.progress)(StudyProgress { name: &workload.title, what: "bare TCP", fraction, eta });
        let spec = CeilingSpec {
            rwmixread: workload.read_percent,
            bytes: workload.bs_bytes,
            random: rw_of(workload).is_random(),
            iodepth: workload.iodepth * workload.jobs,
            in_capsule_bytes: self.spec.in_capsule_bytes,
            ramp_time: slot.warm_up,
            runtime: slot.run,
            cpu: self.spec.ceiling_cpu,
            tuning: Tuning::typical(workload.bs_bytes, workload.read_percent),
            ..CeilingSpec::default()
        };
        let sample = Sample::of_ceiling(round, workload.bs_bytes, &ceiling::run(server, &spec)?);
        Ok((!sample.is_empty()).then_some(sample))
    }

    /// Notes a failure; gives the lane up after too many in a row.
    fn fail(&mut self, who: Who, what: &str, error: Error, weight: u32) {
        let index = Self::series(who, self.spec.lanes.len());
        let name = match who {
            Who::Lane(at) => self.spec.lanes[at].name.clone(),
            Who::Ceiling => "bare TCP".to_owned(),
        };
        let failures = self.failures[index].unwrap_or(0) + weight;
        self.failures[index] = Some(failures).filter(|&n| n < FAILURES_MAX);
        let end = if self.failures[index].is_none() { " It is given up." } else { "" };
        self.notes.push(format!("{name} {what}: {error}.{end}"));
        self.first_error.get_or_insert(error);
    }

    /// Fails when no lane is left and nothing was measured.
    fn check_alive(&mut self) -> Result<(), Error> {
        let lanes = self.spec.lanes.len();
        let measured = self.samples.iter().any(|series| series[..lanes].iter().any(|samples| !samples.is_empty()));
        if measured || self.failures[..lanes].iter().any(Option::is_some) {
            return Ok(());
        }
        Err(self.first_error.take().unwrap_or_else(|| Error::option("lanes", "there is nothing to measure")))
    }

    /// Has every lane do all workloads once more, so many operations each, and counts what they take.
    pub fn count(&mut self) {
        for at in 0..self.workloads.len() {
            for lane in 0..self.spec.lanes.len() {
                if self.stopped() || self.samples[at][lane].is_empty() {
                    continue;
                }
                let (workload, lane_spec) = (&self.workloads[at], &self.spec.lanes[lane]);
                let (fraction, eta) = (self.clock.fraction(), self.clock.left());
                (self.progress)(StudyProgress { name: "counting", what: &lane_spec.title, fraction, eta });
                match counting::run(lane_spec, job_of(workload, lane_spec, self.size), &self.spec.stop) {
                    Ok(counts) => self.counts[at][lane] = counts,
                    Err(error) => self.fail(Who::Lane(lane), "could not be counted", error, 1),
                }
            }
        }
    }

    pub fn lanes(&self) -> Vec<results::Lane> {
        self.spec.lanes.iter().map(Lane::facts).collect()
    }

    pub fn workloads(&self) -> Vec<Workload> {
        self.workloads.clone()
    }

    pub fn rows(&self) -> Vec<Row> {
        let lanes = &self.spec.lanes;
        let base_of = |lane: &Lane| {
            let name = lane.base.as_deref().unwrap_or(results::Lane::LOCAL);
            lanes.iter().position(|other| other.name == name).filter(|at| lanes[*at].name != lane.name)
        };
        // With one processor the ends of bare TCP take turns on it, and so does whatever polls: no measure for anything.
        let has_ceiling = machine::facts().cores > 1;
        let mut rows = Vec::new();
        for (number, (workload, series)) in self.workloads.iter().zip(&self.samples).enumerate() {
            for (at, (lane, samples)) in lanes.iter().zip(series).enumerate().filter(|(_, (_, samples))| !samples.is_empty()) {
                let mut row = sample::row(&lane.name, &workload.name, samples);
                row.counts = self.counts[number][at];
                if !lane.facts().is_local() {
                    row.share_of_local = base_of(lane).and_then(|base| sample::share(samples, &series[base]));
                }
                let ceiling = &series[lanes.len()];
                // What lies far apart itself is no measure for others.
                if !lane.facts().is_local() && has_ceiling && unrest(ceiling) <= UNSTABLE {
                    row.share_of_ceiling = sample::share(samples, ceiling);
                }
                rows.push(row);
            }
        }
        rows
    }

    pub fn ceilings(&self) -> Vec<Ceiling> {
        let last = self.spec.lanes.len();
        let measured = self.workloads.iter().zip(&self.samples).filter(|(_, series)| !series[last].is_empty());
        measured.map(|(workload, series)| sample::ceiling(&workload.name, &series[last])).collect()
    }

    /// What a reader should know.
    pub fn notes(&mut self, results: &Results) -> Vec<String> {
        let mut notes = core::mem::take(&mut self.notes);
        if self.stopped() {
            notes.push("The study was ended early: there are fewer rounds, or none, of what would have come later.".into());
        }
        for lane in &self.spec.lanes {
            if !lane.device.features().write {
                notes.push(format!("{} cannot be written: only the reading patterns were measured.", lane.name));
            }
        }
        notes.extend(notes::cores(results));
        notes.extend(notes::unstable(results));
        notes.extend(notes::conditions(results));
        notes.extend(notes::limited(results));
        if !self.repeated.is_empty() {
            let many = self.repeated.len();
            let list = self.repeated.join(", ");
            notes.push(format!(
                "{} measured once more than the others, as the rounds differed by more than {:.0} %: {list}.",
                if many == 1 { "One workload was".to_owned() } else { format!("{many} workloads were") },
                UNSTABLE * 100.0
            ));
        }
        notes
    }
}

/// What all runs of a workload on a lane have in common.
fn job_of(workload: &Workload, lane: &Lane, size: u64) -> JobSpec {
    JobSpec {
        name: workload.name.clone(),
        rw: rw_of(workload),
        bs_bytes: workload.bs_bytes,
        iodepth: workload.iodepth,
        numjobs: workload.jobs,
        rwmixread: workload.read_percent,
        size: Some(size),
        cpus_allowed: lane.initiator_cpu.map(|cpu| cpu as usize).into_iter().collect(),
        ..JobSpec::default()
    }
}
