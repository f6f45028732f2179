//! Going through the rounds.

mod agreement;
mod blocks;
mod filling;
mod outcome;
mod relating;
mod running;
mod saturating;
mod steady;

use self::running::Load;
use super::clock::{StudyClock, TimeSlot};
use super::sample::{Sample, latency};
use super::study_spec::{LaneSet, StudyProgress, StudySpec};
use super::ticks::Ticks;
use super::{machine, sample};
use crate::error::Error;
use crate::relation::turns;
use crate::results::{Curve, Latency, MeasuredCounts, Preconditioned, Row, Workload};
use crate::suite::LaneOrder;
use crate::workload::{Direction, RunReport};
use crate::{results, stats};
use core::time::Duration;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use weft_io::cpu_usage;
use weft_load::cycles;

/// Lengths of further attempts at a measurement in which nothing completed.
const LONGER: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];

/// Measurements of a lane that may fail one after the other before it is given up.
pub(super) const FAILURES_MAX: u32 = 2;

/// The measured side: a lane, by its number, or the ceiling.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Lane(usize),
    Ceiling,
}

pub(super) struct Rounds<'a> {
    pub(super) spec: StudySpec<'a>,
    clock: StudyClock,
    workloads: Vec<Workload>,
    progress: &'a mut dyn FnMut(StudyProgress<'_>),
    /// Bytes of the devices that are used, which is what was filled of each.
    size: u64,
    /// Records of all slices, by workload and lane.
    tails: Vec<Vec<Tails>>,
    /// Samples by workload, for each lane and then for the ceiling.
    samples: Vec<Vec<Vec<Sample>>>,
    /// Failures of each lane, and of the ceiling, since its last success; `None` once it is given
    /// up.
    failures: Vec<Option<u32>>,
    notes: Vec<String>,
    first_error: Option<Error>,
    /// Rounds of all blocks so far.
    rounds: u32,
    /// The block that is measured.
    block: u32,
    /// The headline so far.
    so_far: String,
    pub(super) processor_use: ProcessorUse,
    /// IOPS and latency over the depth.
    pub(super) curves: Vec<Curve>,
    /// Preconditioning of real devices to their steady state.
    pub(super) preconditioned: Vec<Preconditioned>,
    /// Lowest and highest frequency that was seen.
    pub(super) mhz: Option<(f64, f64)>,
    /// Operations per second of the workloads in the open loop, once they are known.
    rates: Vec<Option<u32>>,
    /// Counts, by workload and lane.
    counts: Vec<Vec<Option<MeasuredCounts>>>,
}

impl<'a> Rounds<'a> {
    pub fn new(
        spec: StudySpec<'a>,
        progress: &'a mut dyn FnMut(StudyProgress<'_>),
    ) -> Result<Self, Error> {
        let workloads = spec.suite.workloads.clone();
        let smallest = spec.stage.lanes.iter().map(|lane| lane.device.geometry().bytes()).min();
        let Some(size) = smallest else {
            return Err(Error::option("lanes", "there is nothing to measure"));
        };
        let series = spec.stage.lanes.len() + 1;
        let mut failures = vec![Some(0); series];
        // With one processor the ends of bare TCP, which poll, would take turns on it, and measure
        // nothing of use.
        if spec.stage.ceiling.is_none() || machine::facts().cores < 2 {
            failures[series - 1] = None;
        }
        Ok(Self {
            clock: StudyClock::start(spec.budget()),
            processor_use: ProcessorUse::start(&spec.stage),
            samples: workloads.iter().map(|_| vec![Vec::new(); series]).collect(),
            tails: vec![vec![Tails::new(); series - 1]; workloads.len()],
            rates: vec![None; workloads.len()],
            counts: workloads.iter().map(|_| vec![None; series - 1]).collect(),
            spec,
            workloads,
            progress,
            size: size - size % u64::from(filling::UNIT_BYTES),
            failures,
            notes: Vec::new(),
            first_error: None,
            rounds: 0,
            block: 0,
            so_far: String::new(),
            curves: Vec::new(),
            preconditioned: Vec::new(),
            mhz: None,
        })
    }

    pub(super) fn stopped(&self) -> bool {
        self.spec.stop.load(Relaxed)
    }

    pub(super) fn series(who: Who, lanes: usize) -> usize {
        match who {
            Who::Lane(at) => at,
            Who::Ceiling => lanes,
        }
    }

    /// Those that are still in the race.
    pub(super) fn alive(&self) -> Vec<Who> {
        let lanes = self.spec.stage.lanes.len();
        let all = (0..lanes).map(Who::Lane).chain([Who::Ceiling]);
        all.filter(|&who| self.failures[Self::series(who, lanes)].is_some()).collect()
    }

    /// Measures for longer where no operation completed in any round, or none in the same round as
    /// one of the lane that it is a share of: on a very slow device or a very busy machine.
    pub fn complete(&mut self) -> Result<(), Error> {
        for (attempt, length) in (0..).zip(LONGER) {
            for at in 0..self.workloads.len() {
                self.measure_workload(
                    at,
                    self.rounds + attempt,
                    self.missing(at),
                    TimeSlot::measuring(length),
                )?;
            }
        }
        Ok(())
    }

    /// Sides that a workload lacks: see [`Rounds::complete`].
    fn missing(&self, workload: usize) -> Vec<Who> {
        let (series, lanes, alive) =
            (&self.samples[workload], self.spec.stage.lanes.len(), self.alive());
        let base = |who: &Who| {
            if let Who::Lane(at) = who {
                self.base_of(*at).filter(|_| self.is_remote(who))
            } else {
                None
            }
        };
        let can = |who: &Who| match *who {
            Who::Lane(lane) => {
                self.cannot(lane, workload, Load::of(&self.workloads[workload])).is_none()
            }
            Who::Ceiling => true,
        };
        let lacks = |who: &Who| {
            let samples = &series[Self::series(*who, lanes)];
            samples.is_empty()
                || base(who).is_some_and(|base| sample::share(samples, &series[base]).is_none())
        };
        let lacking: Vec<Who> = alive.iter().copied().filter(lacks).filter(can).collect();
        let wanted =
            |who: &Who| lacking.iter().any(|of| of == who || base(of).map(Who::Lane) == Some(*who));
        alive.into_iter().filter(wanted).collect()
    }

    pub(super) fn is_remote(&self, who: &Who) -> bool {
        matches!(who, Who::Lane(at) if !self.spec.stage.lanes[*at].facts().is_local())
    }

    /// The lane that another is a share of.
    pub(super) fn base_of(&self, lane: usize) -> Option<usize> {
        let lanes = &self.spec.stage.lanes;
        let name = lanes[lane].base.as_deref().unwrap_or(results::Lane::LOCAL);
        lanes
            .iter()
            .position(|other| other.name == name)
            .filter(|at| lanes[*at].name != lanes[lane].name)
    }

    /// Puts the lanes of a round into their order, so that a slow second of the machine does not
    /// always hit the same.
    fn order(&self, at: usize, round: u32, who: &mut [Who]) {
        match self.spec.suite.order {
            LaneOrder::InTurn => {
                let first = (round as usize + at) % who.len().max(1);
                who.rotate_left(first);
            }
            LaneOrder::Random => {
                let turns =
                    turns(who.len(), self.spec.seed.wrapping_add(at as u64), self.block, round);
                let sorted = who.to_vec();
                who.iter_mut().zip(turns).for_each(|(place, turn)| *place = sorted[turn]);
            }
        }
    }

    fn note_frequency(&mut self) {
        if let Some((low, high)) = machine::mhz() {
            let (least, most) = self.mhz.unwrap_or((low, high));
            self.mhz = Some((least.min(low), most.max(high)));
        }
    }

    /// One workload on some lanes and maybe the ceiling, in turns.
    pub(super) fn measure_workload(
        &mut self,
        at: usize,
        round: u32,
        mut who: Vec<Who>,
        slot: TimeSlot,
    ) -> Result<(), Error> {
        if self.workloads[at].open.is_some() {
            // It has no rate of its own to compare with.
            who.retain(|who| *who != Who::Ceiling);
        }
        self.order(at, round, &mut who);
        for who in who {
            if self.stopped() {
                return Ok(());
            }
            let clock = cycles::per_ns();
            let (begin, ticks) = (Instant::now(), Ticks::now());
            self.note_frequency();
            let result = match who {
                Who::Lane(lane) => self.run_lane(lane, at, round, slot),
                Who::Ceiling => self.run_ceiling(at, round, slot),
            };
            self.clock.learn(slot, begin.elapsed());
            let index = Self::series(who, self.spec.stage.lanes.len());
            match result {
                Ok(Some(mut sample)) => {
                    // The processors of other machines are not these.
                    let here = !matches!(who, Who::Lane(lane) if self.spec.stage.lanes[lane].is_elsewhere());
                    let ticks = ticks.zip(Ticks::now()).filter(|_| here);
                    sample.steal = ticks.and_then(|(before, after)| after.stolen_since(before));
                    sample.processors = ticks.map(|(before, after)| after.since(before));
                    sample.clock = here.then(|| f64::midpoint(clock, cycles::per_ns()));
                    sample.block = self.block;
                    sample.at_s = (begin - self.clock.started()).as_secs_f64();
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

    /// Notes a failure; gives the lane up after too many in a row.
    pub(super) fn fail(&mut self, who: Who, what: &str, error: Error, weight: u32) {
        let index = Self::series(who, self.spec.stage.lanes.len());
        let name = match who {
            Who::Lane(at) => self.spec.stage.lanes[at].name.clone(),
            Who::Ceiling => "bare TCP".to_owned(),
        };
        let failures = self.failures[index].unwrap_or(0) + weight;
        self.failures[index] = Some(failures).filter(|&n| n < FAILURES_MAX);
        let end = if self.failures[index].is_none() { " It is given up." } else { "" };
        self.notes.push(format!("{name} {what}: {error}.{end}"));
        self.first_error.get_or_insert(error);
    }

    /// Fails when no lane is left and nothing was measured.
    pub(super) fn check_alive(&mut self) -> Result<(), Error> {
        let lanes = self.spec.stage.lanes.len();
        let measured = self
            .samples
            .iter()
            .any(|series| series[..lanes].iter().any(|samples| !samples.is_empty()));
        if measured || self.failures[..lanes].iter().any(Option::is_some) {
            return Ok(());
        }
        Err(self
            .first_error
            .take()
            .unwrap_or_else(|| Error::option("lanes", "there is nothing to measure")))
    }
}

// The open loop: operations are due at a fixed rate, the same for all lanes, however fast they
// answer.
//
// The rate is a part of what the slowest lane does in the closed loop, in the rounds before the
// first with this rate; then it stays.

impl Rounds<'_> {
    /// The load of a workload; none while it is not known what the lanes can do.
    fn load_of(&mut self, at: usize) -> Option<Load> {
        let load = Load::of(&self.workloads[at]);
        let Some(open) = &self.workloads[at].open else { return Some(load) };
        if self.rates[at].is_none() {
            let of = self.workloads.iter().position(|other| other.name == open.of)?;
            let measured = self.samples[of][..self.spec.stage.lanes.len()]
                .iter()
                .filter(|samples| !samples.is_empty());
            let slowest = measured.map(|samples| sample::iops(samples)).reduce(f64::min)?;
            self.rates[at] = Some(((slowest * f64::from(open.percent) / 100.0) as u32).max(1));
        }
        Some(Load { rate: self.rates[at], ..load })
    }
}

// Percentiles of rare operations, from all slices of a row together: one slice has too few of
// them.

/// Records of all slices of a row, reads and writes.
#[derive(Clone)]
struct Tails([stats::Latencies; 2]);

impl Tails {
    pub fn new() -> Self {
        Self([stats::Latencies::unused(), stats::Latencies::unused()])
    }

    pub fn add(&mut self, report: &RunReport) {
        for (all, direction) in self.0.iter_mut().zip([Direction::Read, Direction::Write]) {
            all.merge(&report.total(direction).total);
        }
    }

    /// Takes what only many operations tell from here.
    pub fn put(&self, row: &mut Row) {
        let [reads, writes] = &self.0;
        let mut all = reads.clone();
        all.merge(writes);
        for (to, from) in
            [(&mut row.latency, &all), (&mut row.reads, reads), (&mut row.writes, writes)]
        {
            if from.count() > 0 {
                let Latency { p999_ns, p9999_ns, max_ns, .. } = latency(from);
                *to = Latency { p999_ns, p9999_ns, max_ns, ..*to };
            }
        }
    }
}

// Use of the processors during a study, and the share of the study's own processes.

pub(super) struct ProcessorUse {
    begin: Instant,
    ticks: Option<Ticks>,
    /// Other processes of the study, and the time each had used when the study met it.
    others: Vec<(u32, Duration)>,
    /// Time that those of earlier blocks have used.
    ended: Duration,
    /// Time that this process had used.
    own: Duration,
}

impl ProcessorUse {
    pub fn start(stage: &LaneSet) -> Self {
        let own = cpu_usage::process().total();
        Self {
            begin: Instant::now(),
            ticks: Ticks::now(),
            others: processes(stage),
            ended: Duration::ZERO,
            own,
        }
    }

    /// The processes are about to end.
    pub fn leave(&mut self) {
        self.ended += self.used_by_others();
        self.others.clear();
    }

    /// These are the ones of the next block.
    pub fn enter(&mut self, stage: &LaneSet) {
        self.others = processes(stage);
    }

    fn used_by_others(&self) -> Duration {
        let used = |(pid, before): &(u32, Duration)| {
            Some(cpu_usage::of_process(*pid).ok()?.total().saturating_sub(*before))
        };
        self.others.iter().filter_map(used).sum()
    }

    /// Since the start.
    pub fn conditions(&self) -> results::Conditions {
        let used = self.ended
            + self.used_by_others()
            + cpu_usage::process().total().saturating_sub(self.own);
        let ticks = self.ticks.zip(Ticks::now());
        results::Conditions {
            steal: ticks.and_then(|(before, after)| after.stolen_since(before)),
            others: ticks
                .and_then(|(before, after)| after.others_since(before, used, self.begin.elapsed())),
            ..results::Conditions::default()
        }
    }
}

fn processes(stage: &LaneSet) -> Vec<(u32, Duration)> {
    let mut pids: Vec<u32> = stage
        .lanes
        .iter()
        .flat_map(|lane| lane.target_pids.iter().copied())
        .chain(stage.ceiling.as_ref().and_then(|server| server.pid))
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|pid| *pid != std::process::id());
    let used = |pid| cpu_usage::of_process(pid).map(|usage| usage.total()).unwrap_or_default();
    pids.into_iter().map(|pid| (pid, used(pid))).collect()
}
