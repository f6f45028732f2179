//! Going through the rounds.

use super::clock::{Clock, Slot};
use super::machine;
use super::sample::{self, Sample, more_rounds};
use super::ticks::Ticks;
use super::{StudyProgress, StudySpec};
use crate::error::Error;
use crate::relation::shuffle;
use crate::results::{self, Counts, Curve, Preconditioned, Workload};
use crate::suite::Order;
use core::time::Duration;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Part of the time that is kept for more rounds of what is not steady.
const RESERVE: f64 = 0.35;

/// Fewest rounds, however little time there is: what one round could not measure, as the machine was busy, the other may.
const ROUNDS_MIN: u32 = 2;

/// What a measurement gets that saw nothing in time.
const LONGER: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];

/// Measurements of a lane that may fail one after the other before it is given up.
pub(super) const FAILURES_MAX: u32 = 2;

/// The number of the rounds that do not count.
const WARM_UP_ROUND: u32 = u32::MAX;

/// Who is measured: a lane, by its number, or the ceiling.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
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
    pub(super) spec: StudySpec,
    pub(super) clock: Clock,
    pub(super) workloads: Vec<Workload>,
    pub(super) progress: &'a mut dyn FnMut(StudyProgress<'_>),
    /// Bytes of the devices that are used: so much of each was filled.
    pub(super) size: u64,
    /// Samples by workload, for each lane and then for the ceiling.
    pub(super) samples: Vec<Vec<Vec<Sample>>>,
    /// Failures of each lane, and of the ceiling, since its last success; `None` once it is given up.
    pub(super) failures: Vec<Option<u32>>,
    pub(super) notes: Vec<String>,
    first_error: Option<Error>,
    /// Rounds that all rows had.
    pub(super) rounds: u32,
    /// Titles of workloads that had more.
    pub(super) repeated: Vec<String>,
    /// Length of each measurement, if the suite gives one.
    slot: Option<Slot>,
    /// IOPS and latency over the depth.
    pub(super) curves: Vec<Curve>,
    /// How real devices were brought to their steady state.
    pub(super) preconditioned: Vec<Preconditioned>,
    /// Lowest and highest frequency that was seen.
    pub(super) mhz: Option<(f64, f64)>,
    /// Operations per second of the workloads in the open loop, once they are known.
    pub(super) rates: Vec<Option<u32>>,
    /// What was counted, by workload and lane.
    pub(super) counts: Vec<Vec<Option<Counts>>>,
}

impl<'a> Rounds<'a> {
    pub fn new(
        spec: StudySpec,
        budget: Duration,
        slot: Option<Slot>,
        progress: &'a mut dyn FnMut(StudyProgress<'_>),
    ) -> Result<Self, Error> {
        let workloads = spec.suite.workloads.clone();
        let smallest = spec.lanes.iter().map(|lane| lane.device.geometry().bytes()).min();
        let Some(size) = smallest else { return Err(Error::option("lanes", "there is nothing to measure")) };
        let series = spec.lanes.len() + 1;
        let mut failures = vec![Some(0); series];
        // With one processor the ends of bare TCP, which poll, would take turns on it: no measure for anything.
        if spec.ceiling.is_none() || machine::facts().cores < 2 {
            failures[series - 1] = None;
        }
        Ok(Self {
            clock: Clock::start(budget),
            samples: workloads.iter().map(|_| vec![Vec::new(); series]).collect(),
            rates: vec![None; workloads.len()],
            counts: workloads.iter().map(|_| vec![None; series - 1]).collect(),
            spec,
            workloads,
            progress,
            size: size - size % u64::from(super::filling::UNIT_BYTES),
            failures,
            notes: Vec::new(),
            first_error: None,
            rounds: 0,
            repeated: Vec::new(),
            slot,
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
        let lanes = self.spec.lanes.len();
        let all = (0..lanes).map(Who::Lane).chain([Who::Ceiling]);
        all.filter(|&who| self.failures[Self::series(who, lanes)].is_some()).collect()
    }

    /// All workloads on all lanes, so many times, or as often as there is time for, of which the part `kept` is left for what follows.
    pub fn measure(&mut self, most: u32, kept: f64) -> Result<(), Error> {
        let of_round = self.workloads.len();
        let points = of_round * self.alive().len().max(1);
        let warm_up: u32 = self.workloads.iter().map(|workload| workload.warm_up_rounds).max().unwrap_or(0);
        let all = (most + warm_up) as usize;
        let reserve = if self.clock.fitting(RESERVE + kept) / points < all { kept } else { RESERVE + kept };
        self.warm_up(warm_up, most + warm_up, reserve)?;
        let rounds = ((self.clock.fitting(reserve) / points).min(most as usize) as u32).max(ROUNDS_MIN);
        for round in 0..rounds {
            for at in 0..of_round {
                let left = (rounds - round) as usize * of_round - at;
                let length = self.slot.map_or(Length::Part { left, reserve }, Length::Of);
                self.measure_workload(at, round, self.alive(), length)?;
            }
        }
        self.rounds = rounds;
        Ok(())
    }

    /// Rounds that do not count, of the workloads that ask for them: after other writes a device may answer in another way for a while.
    fn warm_up(&mut self, rounds: u32, of: u32, reserve: f64) -> Result<(), Error> {
        for round in 0..rounds {
            let wanting: Vec<usize> = (0..self.workloads.len()).filter(|at| self.workloads[*at].warm_up_rounds > round).collect();
            for at in wanting {
                let left = (of - round) as usize * self.workloads.len() - at;
                let length = self.slot.map_or(Length::Part { left, reserve }, Length::Of);
                let lanes = self.alive().into_iter().filter(|who| matches!(who, Who::Lane(_))).collect();
                self.measure_workload(at, WARM_UP_ROUND, lanes, length)?;
                self.samples[at].iter_mut().for_each(Vec::clear);
            }
        }
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

    pub(super) fn is_remote(&self, who: &Who) -> bool {
        matches!(who, Who::Lane(at) if !self.spec.lanes[*at].facts().is_local())
    }

    /// The lane that another is a share of.
    pub(super) fn base_of(&self, lane: usize) -> Option<usize> {
        let lanes = &self.spec.lanes;
        let name = lanes[lane].base.as_deref().unwrap_or(results::Lane::LOCAL);
        lanes.iter().position(|other| other.name == name).filter(|at| lanes[*at].name != lanes[lane].name)
    }

    /// Puts the lanes of a round into their order, so that a slow minute of the machine does not always hit the same.
    fn order(&self, at: usize, round: u32, who: &mut [Who]) {
        match self.spec.suite.order {
            Order::InTurn => {
                let first = (round as usize + at) % who.len().max(1);
                who.rotate_left(first);
            }
            Order::Random => shuffle(who, self.spec.seed, (u64::from(round) << 32) | at as u64),
        }
    }

    fn note_frequency(&mut self) {
        if let Some((low, high)) = machine::mhz() {
            let (least, most) = self.mhz.unwrap_or((low, high));
            self.mhz = Some((least.min(low), most.max(high)));
        }
    }

    /// One workload on some lanes and maybe the ceiling, in turns.
    fn measure_workload(&mut self, at: usize, round: u32, mut who: Vec<Who>, length: Length) -> Result<(), Error> {
        if self.workloads[at].open.is_some() {
            // It has no rate of its own to compare with.
            who.retain(|who| *who != Who::Ceiling);
        }
        self.order(at, round, &mut who);
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
            self.note_frequency();
            let result = match who {
                Who::Lane(lane) => self.run_lane(lane, at, round, slot),
                Who::Ceiling => self.run_ceiling(at, round, slot),
            };
            self.clock.learn(slot, begin.elapsed());
            let index = Self::series(who, self.spec.lanes.len());
            match result {
                Ok(Some(mut sample)) => {
                    // The processors of other machines are not these.
                    let here = !matches!(who, Who::Lane(lane) if self.spec.lanes[lane].is_elsewhere());
                    let ticks = ticks.zip(Ticks::now()).filter(|_| here);
                    sample.steal = ticks.and_then(|(before, after)| after.stolen_since(before));
                    sample.processors = ticks.map(|(before, after)| after.since(before));
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
    pub(super) fn check_alive(&mut self) -> Result<(), Error> {
        let lanes = self.spec.lanes.len();
        let measured = self.samples.iter().any(|series| series[..lanes].iter().any(|samples| !samples.is_empty()));
        if measured || self.failures[..lanes].iter().any(Option::is_some) {
            return Ok(());
        }
        Err(self.first_error.take().unwrap_or_else(|| Error::option("lanes", "there is nothing to measure")))
    }
}
