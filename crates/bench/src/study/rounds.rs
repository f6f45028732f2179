//! Going through the rounds.

use super::clock::{Clock, Slot};
use super::machine::{self, Ticks};
use super::patterns::rw_of;
use super::sample::{self, Sample, more_rounds};
use super::{Lane, StudyProgress, StudySpec, counting, notes};
use crate::ceiling::{self, CeilingSpec, Tuning};
use crate::error::Error;
use crate::results::{self, Ceiling, Counts, Results, Row, Workload};
use crate::workload::{self, Direction, JobSpec, Rw};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use weft_block::units;

/// Part of the time that filling the devices may take.
const PREPARE: f64 = 0.25;

/// Part of the time that is kept for more rounds of what is not steady.
const RESERVE: f64 = 0.35;

/// Fewest rounds, however little time there is: what one round could not measure, as the machine was busy, the other may.
const ROUNDS_MIN: u32 = 2;

/// What a measurement gets that saw nothing in time.
const LONGER: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];

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

/// How long a measurement may take.
#[derive(Clone, Copy)]
enum Length {
    /// Its part of what is left, of which `reserve` is kept, where this workload and so many others are still to be measured.
    Part { left: usize, reserve: f64 },
    /// As long as this.
    Of(Slot),
}

/// More rounds of a workload.
struct More {
    workload: usize,
    who: Vec<Who>,
    rounds: u32,
}

impl More {
    fn measurements(&self) -> usize {
        self.who.len().saturating_mul(self.rounds as usize)
    }
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
    /// Rounds that all rows had.
    rounds: u32,
    /// Titles of workloads that had more.
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
        // With one processor the ends of bare TCP, which poll, would take turns on it: no measure for anything.
        if spec.ceiling.is_none() || machine::facts().cores < 2 {
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
            rounds: 0,
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

    /// All workloads on all lanes, so many times, or as often as there is time for.
    pub fn measure(&mut self, most: u32) -> Result<(), Error> {
        let of_round = self.workloads.len();
        let points = of_round * self.alive().len().max(1);
        let fitting = |reserve| (self.clock.fitting(reserve) / points).min(most as usize) as u32;
        let reserve = if fitting(RESERVE) < most { 0.0 } else { RESERVE };
        let rounds = fitting(reserve).max(ROUNDS_MIN);
        for round in 0..rounds {
            for at in 0..of_round {
                let left = (rounds - round) as usize * of_round - at;
                self.measure_workload(at, round, self.alive(), Length::Part { left, reserve })?;
            }
        }
        self.rounds = rounds;
        Ok(())
    }

    /// Longer measurements of what no round has seen an operation end of, or none together with what it is a share of: the device is so slow,
    /// or the machine so busy.
    pub fn complete(&mut self) -> Result<(), Error> {
        for (attempt, length) in (0..).zip(LONGER) {
            for at in 0..self.workloads.len() {
                self.measure_workload(at, self.rounds + attempt, self.missing(at), Length::Of(Slot::measuring(length)))?;
            }
        }
        Ok(())
    }

    /// What a workload lacks: see [`Rounds::complete`].
    fn missing(&self, workload: usize) -> Vec<Who> {
        let (series, lanes, alive) = (&self.samples[workload], self.spec.lanes.len(), self.alive());
        let base = |who: &Who| if let Who::Lane(at) = who { self.base_of(*at).filter(|_| self.is_remote(who)) } else { None };
        let lacks = |who: &Who| {
            let samples = &series[Self::series(*who, lanes)];
            samples.is_empty() || base(who).is_some_and(|base| sample::share(samples, &series[base]).is_none())
        };
        let lacking: Vec<Who> = alive.iter().copied().filter(lacks).collect();
        let wanted = |who: &Who| lacking.iter().any(|of| of == who || base(of).map(Who::Lane) == Some(*who));
        alive.into_iter().filter(wanted).collect()
    }

    /// More rounds of what is not steady, as many as it is likely to take, the nearest to its end first. How many there are to be is
    /// decided once, before the first of them.
    pub fn repeat(&mut self) -> Result<(), Error> {
        let measured = self.samples.iter().flatten().flatten();
        let seconds = measured.clone().map(|sample| sample.seconds).sum::<f64>() / measured.count().max(1) as f64;
        let slot = Slot::measuring(Duration::from_secs_f64(seconds));
        let plan = self.plan_more(self.clock.fitting_of(slot));
        self.repeated = plan.iter().map(|more| self.workloads[more.workload].title.clone()).collect();
        // Shares are taken within a round, so no two have the same number.
        let first = self.rounds + LONGER.len() as u32;
        for pass in 0..plan.iter().map(|more| more.rounds).max().unwrap_or(0) {
            for more in plan.iter().filter(|more| more.rounds > pass) {
                if self.stopped() || self.clock.fitting_of(slot) < more.who.len() {
                    return Ok(());
                }
                self.measure_workload(more.workload, first + pass, more.who.clone(), Length::Of(slot))?;
            }
        }
        Ok(())
    }

    /// What is to be measured again within so many measurements.
    fn plan_more(&self, mut measurements: usize) -> Vec<More> {
        let mut plan: Vec<More> = (0..self.workloads.len()).map(|workload| self.more_of(workload)).collect();
        plan.sort_by_key(More::measurements);
        for more in &mut plan {
            let fitting = (measurements / more.who.len().max(1)).try_into().unwrap_or(u32::MAX);
            more.rounds = more.rounds.min(fitting);
            measurements -= more.measurements();
        }
        plan.retain(|more| more.rounds > 0);
        plan
    }

    /// The lanes of a workload that are not steady, those that they are a share of, and how many rounds they want.
    fn more_of(&self, workload: usize) -> More {
        let lanes = self.spec.lanes.len();
        let samples = |who: Who| &self.samples[workload][Self::series(who, lanes)];
        let measured: Vec<Who> = self.alive().into_iter().filter(|who| !samples(*who).is_empty()).collect();
        let unsteady = |who: &Who| more_rounds(samples(*who)) > 0;
        let rounds = measured.iter().map(|who| more_rounds(samples(*who))).max().unwrap_or(0);
        let is_base = |who: &Who| {
            let shares = |of: &Who| match *of {
                Who::Lane(at) => *who == Who::Ceiling || self.base_of(at).map(Who::Lane) == Some(*who),
                Who::Ceiling => false,
            };
            measured.iter().any(|of| unsteady(of) && self.is_remote(of) && shares(of))
        };
        More { workload, who: measured.iter().copied().filter(|who| unsteady(who) || is_base(who)).collect(), rounds }
    }

    fn is_remote(&self, who: &Who) -> bool {
        matches!(who, Who::Lane(at) if !self.spec.lanes[*at].facts().is_local())
    }

    /// The lane that another is a share of.
    fn base_of(&self, lane: usize) -> Option<usize> {
        let lanes = &self.spec.lanes;
        let name = lanes[lane].base.as_deref().unwrap_or(results::Lane::LOCAL);
        lanes.iter().position(|other| other.name == name).filter(|at| lanes[*at].name != lanes[lane].name)
    }

    /// One workload on some lanes and maybe the ceiling, in turns.
    fn measure_workload(&mut self, at: usize, round: u32, mut who: Vec<Who>, length: Length) -> Result<(), Error> {
        let first = (round as usize + at) % who.len().max(1);
        who.rotate_left(first);
        let series = who.len();
        for (done, who) in who.into_iter().enumerate() {
            if self.stopped() {
                return Ok(());
            }
            let slot = match length {
                Length::Part { left, reserve } => self.clock.slot(left * series - done, reserve),
                Length::Of(slot) => slot,
            };
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

    fn run_lane(&mut self, lane: usize, at: usize, round: u32, slot: Slot) -> Result<Option<Sample>, Error> {
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

    fn run_ceiling(&mut self, at: usize, round: u32, slot: Slot) -> Result<Option<Sample>, Error> {
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
        let mut rows = Vec::new();
        for (number, (workload, series)) in self.workloads.iter().zip(&self.samples).enumerate() {
            for (at, (lane, samples)) in lanes.iter().zip(series).enumerate().filter(|(_, (_, samples))| !samples.is_empty()) {
                let mut row = sample::row(&lane.name, &workload.name, samples);
                row.counts = self.counts[number][at];
                if !lane.facts().is_local() {
                    row.share_of_local = self.base_of(at).and_then(|base| sample::share(samples, &series[base]));
                }
                let ceiling = &series[lanes.len()];
                // What lies far apart itself is no measure for others.
                if !lane.facts().is_local() && !ceiling.is_empty() && more_rounds(ceiling) == 0 {
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
        notes.extend(notes::rounds(self.rounds, &self.repeated));
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
