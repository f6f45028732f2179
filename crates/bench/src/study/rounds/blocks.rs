//! The blocks of a study, and how many there are.
//!
//! A block has targets, devices and connections of its own: what stays the same for their life
//! (where their memory lies, which port they have) differs between blocks, and so is in the
//! interval. It visits the lanes twice, the second time in the opposite order, in slices that are
//! short compared with the phases of a machine. Slices and their warm-up are as short as agrees
//! with longer ones (docs/study/method.md).

use super::{FAILURES_MAX, Rounds, Who};
use crate::error::Error;
use crate::relation::{BLOCKS_FIRST, adds, blocks_for, does};
use crate::report::units::Unit;
use crate::results::{self, Quantity, Relation, Workload};
use crate::study::clock::TimeSlot;
use crate::study::notes;
use crate::study::study_spec::KnownDevice;
use crate::study::study_spec::LaneSet;
use crate::study::study_spec::StudyLane;
use crate::study::study_spec::StudyProgress;
use crate::study::study_spec::StudySpec;
use crate::suite::{SuiteMode, Times};
use core::time::Duration;
use std::sync::Arc;

/// Rounds of a block.
const ROUNDS: u32 = 2;

/// Warm-up of a lane before a slice counts: waiting learns for some 30 ms how long it lasts, and
/// connections that were idle open their windows again.
const WARM_UP: Duration = Duration::from_millis(30);

/// Bounds of a slice.
const SLICE_MIN: Duration = Duration::from_millis(30);
/// See [`SLICE_MIN`].
const SLICE_MAX: Duration = Duration::from_millis(120);

/// Number of blocks, of slices that are not the shortest, that fit into the time of a study.
const BLOCKS: u32 = 12;

/// Minimum number of blocks, however little time there is: one alone does not show the differences
/// between blocks.
const BLOCKS_MIN: u32 = 2;

/// Time for a device that was let go to disconnect before another project's target ends: otherwise
/// the log says that the device was lost.
const DISCONNECT: Duration = Duration::from_millis(20);

/// The number of the rounds that do not count.
const WARM_UP_ROUND: u32 = u32::MAX;

/// See [`StudySpec::within`]. Lanes of the same kind differ by a few per cent for as long as their
/// processes live, so a ratio is asked for more.
const WITHIN: f64 = 0.04;
/// See [`WITHIN`].
const WITHIN_RATIO: f64 = 0.02;

/// Room for filling and connections, where a suite says how long each row takes.
const ROOM: f64 = 1.5;

/// Two lanes that need more than the first blocks, and the number of blocks in all.
struct Wanted {
    lanes: [Who; 2],
    blocks: u32,
}

impl Times {
    /// The length of a slice, if the suite gives it.
    fn slot(&self) -> Option<TimeSlot> {
        let run = self.each? / self.rounds.unwrap_or(ROUNDS).max(1);
        Some(TimeSlot { warm_up: self.warm_up.unwrap_or(run / 3), run })
    }

    /// Most blocks.
    fn blocks(&self) -> u32 {
        self.rounds.map_or(u32::MAX, |rounds| rounds.div_ceil(ROUNDS).max(1))
    }
}

impl StudySpec<'_> {
    /// The time of all.
    pub fn budget(&self) -> Duration {
        let times = self.suite.times(self.mode);
        if let Some(budget) = self.budget.or(times.budget) {
            return budget;
        }
        let warm_up: u32 =
            self.suite.workloads.iter().map(|workload| workload.warm_up_rounds).sum();
        let slices = (self.stage.lanes.len() as u32 + 1)
            * (self.suite.workloads.len() as u32 * ROUNDS + warm_up);
        let slot = times.slot().unwrap_or(TimeSlot { warm_up: WARM_UP, run: SLICE_MAX });
        (slot.warm_up + slot.run).mul_f64(f64::from(slices.saturating_mul(times.blocks())) * ROOM)
    }

    /// The likely bounds of its time: that of the first blocks, and all the time there is.
    pub fn expected(&self) -> (Duration, Duration) {
        let all = self.budget();
        match self.fixed() {
            Some(_) => (all, all),
            None => (all.mul_f64(f64::from(BLOCKS_FIRST) / f64::from(BLOCKS)), all),
        }
    }

    /// The slice, if its length and number are given.
    pub(super) fn fixed(&self) -> Option<TimeSlot> {
        self.suite.times(self.mode).slot().filter(|_| self.budget.is_none())
    }

    /// Half of the width that the intervals of the headline are to have: of a difference as a part
    /// of the difference, of a ratio as a part of the whole.
    pub fn within(&self) -> f64 {
        let usual = if self.suite.reference.is_some() { WITHIN_RATIO } else { WITHIN };
        if self.mode == SuiteMode::Full { usual / 5.0 } else { usual }
    }
}

impl Rounds<'_> {
    /// Block after block, until the intervals of the headline are narrow enough or the time is
    /// over, of which the part `kept` is left for what follows. The first blocks measure
    /// everything; the others what the headline takes.
    pub fn measure(&mut self, times: &Times, kept: f64) -> Result<(), Error> {
        let (until, fixed) = (self.clock.budget().mul_f64(1.0 - kept), self.spec.fixed());
        let slot = fixed.unwrap_or_else(|| self.slice(until));
        let mut wanted: Option<Vec<Wanted>> = None;
        loop {
            let begin = self.clock.elapsed();
            if self.block > 0 && !self.next_block(wanted.as_deref())? {
                return Ok(());
            }
            self.measure_block(slot, wanted.as_deref())?;
            let (done, took) = (self.block + 1, self.clock.elapsed() - begin);
            let headline = self.headline();
            self.so_far = headline.first().map(|relation| self.said(relation)).unwrap_or_default();
            if done == BLOCKS_FIRST && fixed.is_none() {
                wanted = Some(self.wanted(&headline));
            }
            let left = wanted.as_ref().map(|all| {
                all.iter().map(|one| one.blocks).max().unwrap_or(0).saturating_sub(done)
            });
            if let Some(left) = left {
                let end = self.clock.elapsed().saturating_add(took.saturating_mul(left)).min(until);
                self.clock.expect(end + self.clock.budget().mul_f64(kept));
            }
            let is_over =
                fixed.is_none() && done >= BLOCKS_MIN && self.clock.elapsed() + took > until;
            if self.stopped() || done >= times.blocks() || left == Some(0) || is_over {
                return Ok(());
            }
            self.block += 1;
        }
    }

    /// Relations that need more blocks than the first ones.
    fn wanted(&self, headline: &[Relation]) -> Vec<Wanted> {
        let lanes = &self.spec.stage.lanes;
        let of = |relation: &Relation| {
            let lane = |name: &str| lanes.iter().position(|lane| lane.name == name).map(Who::Lane);
            Some(Wanted {
                lanes: [lane(&relation.lane)?, lane(relation.to.as_deref()?)?],
                blocks: blocks_for(&relation.estimate, self.spec.within()),
            })
        };
        headline.iter().filter_map(of).filter(|one| one.blocks > BLOCKS_FIRST).collect()
    }

    /// The length of each slice, so that [`BLOCKS`] fit.
    fn slice(&self, until: Duration) -> TimeSlot {
        let warm_up: u32 = self.workloads.iter().map(|workload| workload.warm_up_rounds).sum();
        let slices = (self.workloads.len() as u32 * ROUNDS + warm_up) * self.alive().len() as u32;
        let block = until.saturating_sub(self.clock.elapsed()) / BLOCKS;
        // Setting up the lanes and filling them is what was done until now.
        let run = block.saturating_sub(self.clock.elapsed()) / slices.max(1);
        TimeSlot {
            warm_up: WARM_UP,
            run: run.saturating_sub(WARM_UP + self.clock.overhead()).clamp(SLICE_MIN, SLICE_MAX),
        }
    }

    fn measure_block(&mut self, slot: TimeSlot, wanted: Option<&[Wanted]>) -> Result<(), Error> {
        self.warm_up(slot, wanted)?;
        for _ in 0..ROUNDS {
            for at in 0..self.workloads.len() {
                let who = self.who(wanted);
                self.measure_workload(at, self.rounds, who, slot)?;
            }
            self.rounds += 1;
        }
        Ok(())
    }

    /// Lanes and the ceiling, as far as this block measures them, with all workloads: what a lane
    /// did just before changes what it does, so a later block goes through the same ones.
    fn who(&self, wanted: Option<&[Wanted]>) -> Vec<Who> {
        let mut who = self.alive();
        if let Some(wanted) = wanted {
            who.retain(|who| {
                wanted.iter().any(|one| one.blocks > self.block && one.lanes.contains(who))
            });
        }
        who
    }

    /// Rounds that do not count, of the workloads that ask for them: after other writes a device
    /// may answer in another way for a while.
    fn warm_up(&mut self, slot: TimeSlot, wanted: Option<&[Wanted]>) -> Result<(), Error> {
        for round in
            0..self.workloads.iter().map(|workload| workload.warm_up_rounds).max().unwrap_or(0)
        {
            let wanting: Vec<usize> = (0..self.workloads.len())
                .filter(|at| self.workloads[*at].warm_up_rounds > round)
                .collect();
            for at in wanting {
                let lanes = self
                    .who(wanted)
                    .into_iter()
                    .filter(|who| matches!(who, Who::Lane(_)))
                    .collect();
                self.measure_workload(at, WARM_UP_ROUND, lanes, slot)?;
                self.samples[at]
                    .iter_mut()
                    .for_each(|samples| samples.retain(|sample| sample.round != WARM_UP_ROUND));
            }
        }
        Ok(())
    }

    /// Ends the block and sets up the next one; false if that cannot be done. Then what was
    /// measured stays.
    fn next_block(&mut self, wanted: Option<&[Wanted]>) -> Result<bool, Error> {
        let Some(set_up) = &mut self.spec.set_up else { return Ok(true) };
        let (fraction, eta) = (self.clock.fraction(), self.clock.left());
        (self.progress)(StudyProgress {
            name: "setting up",
            what: "the next block",
            fraction,
            eta,
            so_far: &self.so_far,
        });
        self.processor_use.leave();
        self.spec.stage.close();
        match set_up().and_then(|stage| self.take_lanes(stage)) {
            Ok(()) => {
                self.processor_use.enter(&self.spec.stage);
                self.fill_again(wanted)?;
                Ok(true)
            }
            Err(error) => {
                let done = notes::counted(self.block);
                self.notes.push(format!(
                    "The study ended after {done}, as the lanes could not be set up again: {error}."
                ));
                self.block -= 1;
                self.failures.fill(None);
                Ok(false)
            }
        }
    }

    /// Replaces the lanes of the last block, in their order. A lane that is missing is given up,
    /// and one that was missing in the first block stays so.
    fn take_lanes(&mut self, mut stage: LaneSet) -> Result<(), Error> {
        let mut missing = Vec::new();
        for (at, lane) in self.spec.stage.lanes.iter_mut().enumerate() {
            let why = stage.missing.iter().find(|one| one.lane == lane.name);
            match (stage.lanes.iter().position(|new| new.name == lane.name), why) {
                (Some(new), _) => *lane = stage.lanes.swap_remove(new),
                (None, Some(one)) => missing.push((at, one.why.clone())),
                (None, None) => {
                    return Err(Error::option("lanes", "not all of them could be set up again"));
                }
            }
        }
        self.spec.stage.ceiling = stage.ceiling;
        missing.retain(|(at, _)| self.failures[*at].is_some());
        for (at, why) in missing {
            let error = weft_block::Error::new(weft_block::ErrorKind::Io, why);
            self.fail(Who::Lane(at), "could not be set up again", error.into(), FAILURES_MAX);
        }
        Ok(())
    }

    /// Fills the new devices as the first ones were. What is real has kept its data.
    fn fill_again(&mut self, wanted: Option<&[Wanted]>) -> Result<(), Error> {
        if !self.spec.suite.fill {
            return Ok(());
        }
        for at in 0..self.spec.stage.lanes.len() {
            let is_new = !self.spec.stage.lanes[at].real && self.failures[at].is_some();
            let is_used = self.who(wanted).contains(&Who::Lane(at));
            if !is_new || !is_used || !self.fills(at) || self.stopped() {
                continue;
            }
            if let Err(error) = self.fill(at, self.size, None) {
                self.fail(Who::Lane(at), "cannot be filled", error, FAILURES_MAX);
            }
        }
        self.check_alive()
    }

    /// The relations that lead the report and decide the number of blocks: what the network adds to
    /// the quoted read and to the processor time of the quoted pattern, and each lane compared with
    /// the reference.
    fn headline(&self) -> Vec<Relation> {
        let latency = Workload::quoted(self.workloads.iter().filter(|workload| workload.latency));
        let pattern = Workload::quoted(
            self.workloads.iter().filter(|workload| !workload.latency && workload.open.is_none()),
        );
        let is = |relation: &Relation, of: Option<&Workload>| {
            of.is_some_and(|workload| workload.name == relation.workload)
        };
        let mut relations = self.relations();
        let known = relations.iter().any(|relation| relation.quantity == Quantity::Cycles);
        let cpu = if known { Quantity::Cycles } else { Quantity::Cpu };
        let is_peer = |name: &str| {
            self.spec.stage.lanes.iter().any(|lane| lane.name == name && lane.peer.rival.is_some())
        };
        relations.retain(|relation| {
            if is_peer(&relation.lane) {
                return false;
            }
            let to_reference = relation.to.is_some() && relation.to == self.spec.suite.reference;
            match relation.quantity {
                Quantity::Rate => to_reference,
                Quantity::Latency => {
                    relation.to.is_some() && !to_reference && is(relation, latency)
                }
                quantity => {
                    quantity == cpu
                        && relation.to.is_some()
                        && !to_reference
                        && is(relation, pattern)
                }
            }
        });
        relations.sort_by_key(|relation| {
            (relation.quantity == cpu, relation.to.as_deref() == Some(results::Lane::FLASH))
        });
        relations
    }

    fn said(&self, relation: &Relation) -> String {
        let title = |name: &str| {
            let lane = self.spec.stage.lanes.iter().find(|lane| lane.name == name);
            lane.map_or(name.to_owned(), |lane| lane.title.clone())
        };
        let workload = self.workloads.iter().find(|workload| workload.name == relation.workload);
        let (lane, what) = (title(&relation.lane), workload.map_or("", |workload| &workload.title));
        match relation.quantity {
            Quantity::Rate => {
                let other = relation.to.as_deref().map_or("bare TCP".to_owned(), title);
                does(&lane, &other, &relation.estimate, self.clock.elapsed())
            }
            Quantity::Latency => format!("{lane} {}", adds(what, &relation.estimate)),
            Quantity::Cpu | Quantity::InitiatorCpu | Quantity::TargetCpu => {
                format!("{lane} {}", adds(&format!("the CPU time of {what}"), &relation.estimate))
            }
            Quantity::Cycles => format!(
                "{lane} adds {} to {what}",
                Unit::Cycles.between(relation.estimate.interval())
            ),
        }
    }
}

impl LaneSet {
    /// Closes all devices, then ends the processes behind them. Several lanes may have one device.
    pub(in crate::study) fn close(&mut self) {
        let awake: Vec<_> = self.lanes.iter().filter_map(StudyLane::awake).collect();
        for lane in &mut self.lanes {
            lane.device = Arc::new(KnownDevice::of(&*lane.device));
            lane.generator = None;
            lane.home_counters = None;
        }
        if !awake.is_empty() {
            std::thread::sleep(DISCONNECT);
        }
        for lane in &mut self.lanes {
            lane.target_counters = None;
            lane.peer.process = None;
            lane.target_pids.clear();
        }
        self.ceiling = None;
    }
}
