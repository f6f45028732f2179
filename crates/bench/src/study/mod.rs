//! The study: the workloads of a suite on its lanes, beside the bare TCP ceiling.
//!
//! Devices are filled first: blocks that were never written may cost nothing to read; real ones are written until they are steady. Then the rounds begin. A round visits every
//! workload, and for each one all lanes and the ceiling right after one another, in a random order, so that a slow minute of the
//! machine hits all of them alike. Each measurement begins with a warm-up. The time is a budget:
//! what is left of it is divided by what is left to do. Then lanes are driven deeper until they no longer grow. At the end the rows that are not steady get more rounds: as many as their first
//! rounds ask for, decided once, so that none is measured until it looks good. A suite that counts then has each lane do a fixed number of
//! operations, of which everything is counted.

mod agreeing;
mod clock;
mod counting;
mod filling;
mod generator;
mod machine;
mod machines;
mod notes;
mod open_loop;
mod outcome;
mod relating;
mod remarks;
mod rounds;
mod running;
mod sample;
mod saturating;
mod steady;
pub(crate) mod ticks;

pub use generator::{Elsewhere, Generator, Purpose};

use crate::error::Error;
use crate::results::{self, Results, SCHEMA};
use crate::suite::{Mode, Suite, Times};
use clock::Slot;
use core::time::Duration;
use rounds::Rounds;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use ticks::Ticks;
use weft_block::BlockDevice;
use weft_io::counters::Snapshot;
use weft_io::cpu_usage;

/// Asks a target what its loops have counted so far; none when it does not answer.
pub type ReadCounters = Box<dyn Fn() -> Option<Snapshot>>;

/// A way to a device.
pub struct Lane {
    /// Short name; [`results::Lane::LOCAL`] for the one that others are a share of where they name none.
    pub name: String,
    /// For people: `NVMe/TCP over loopback`.
    pub title: String,
    /// What was opened, without secrets.
    pub url: String,
    /// The device. **All of it is written to**, if it can be.
    pub device: Arc<dyn BlockDevice>,
    /// Processes of the target, on this machine.
    pub target_pids: Vec<u32>,
    /// Asks the target what its loops have counted so far.
    pub target_counters: Option<ReadCounters>,
    /// Cores to run the load generator on, a loop each; empty: one loop, on any.
    pub initiator_cpus: Vec<usize>,
    /// Cores that the target runs on; only reported.
    pub target_cpus: Vec<usize>,
    /// [`Lane::name`] of the lane to the same device without a network.
    pub base: Option<String>,
    /// Whether the device is a disk, a file or another machine's, rather than memory or a model.
    pub real: bool,
    /// Who puts the load on, if that is not this process.
    pub generator: Option<Rc<dyn Generator>>,
    /// [`Lane::name`] of a lane to the same devices: as that one is filled and brought to its steady state, this one is not.
    pub prepared_by: Option<String>,
}

/// A study.
pub struct StudySpec {
    /// What to run on the lanes.
    pub suite: Suite,
    /// How long and how often.
    pub mode: Mode,
    /// How long it may take in all; by default as the suite has it.
    pub budget: Option<Duration>,
    /// What the order of the lanes comes from.
    pub seed: u64,
    /// The command line, without secrets; only reported.
    pub command: Vec<String>,
    /// What to measure, at least one.
    pub lanes: Vec<Lane>,
    /// Lanes of the suite that are not measured; only reported.
    pub skipped: Vec<results::Skipped>,
    /// A server of the ceiling, whose region is as large as the device.
    pub ceiling: Option<SocketAddr>,
    /// Process of that server.
    pub ceiling_pid: Option<u32>,
    /// Core to run the ceiling's client on.
    pub ceiling_cpu: Option<usize>,
    /// Writes up to this size go with their command over the fabric, and so in the ceiling; NVMe calls it the in-capsule data size.
    pub in_capsule_bytes: u32,
    /// Ends the study early, with what was measured until then.
    pub stop: Arc<AtomicBool>,
}

/// How far a study is.
#[derive(Clone, Copy, Debug)]
pub struct StudyProgress<'a> {
    /// The workload that is being measured, for people.
    pub name: &'a str,
    /// The lane, for people.
    pub what: &'a str,
    /// How much is done, 0 to 1.
    pub fraction: f64,
    /// Time until the end.
    pub eta: Duration,
}

/// Runs a study. `progress` hears of each measurement before it begins, and some times a second while one goes on.
///
/// # Errors
/// When nothing could be measured at all: the error of the first lane that failed. A lane that fails later is told in
/// [`Results::notes`].
pub fn run(spec: StudySpec, progress: &mut dyn FnMut(StudyProgress<'_>)) -> Result<Results, Error> {
    let (started, load_before, meanwhile) = (SystemTime::now(), machine::load(), Meanwhile::start(&spec));
    let times = *spec.suite.times(spec.mode);
    let (budget, slot) = divide(&spec, &times);
    let (suite, facts) = (spec.suite.clone(), Facts::of(&spec));
    let mut rounds = Rounds::new(spec, budget, slot, progress)?;
    if suite.fill {
        rounds.prepare()?;
        rounds.precondition()?;
    }
    let kept = suite.saturation.as_ref().map_or(0.0, |saturation| saturation.time_percent / 100.0);
    rounds.measure(times.rounds, kept)?;
    rounds.complete()?;
    rounds.saturate()?;
    rounds.repeat()?;
    if suite.count {
        rounds.count();
    }
    let mut results = Results {
        schema: SCHEMA,
        weft: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("WEFT_COMMIT").map(str::to_owned),
        command: facts.command,
        started_s: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        took_s: 0.0,
        quick: facts.quick,
        suite: suite.name,
        title: suite.title,
        draw: suite.draw,
        reference: suite.reference,
        seed: facts.seed,
        machine: machine_facts(),
        conditions: results::Conditions { load_before, load_after: machine::load(), mhz: rounds.mhz, ..meanwhile.end() },
        lanes: rounds.lanes(),
        skipped: facts.skipped,
        workloads: rounds.workloads(),
        rows: rounds.rows(),
        ceiling: rounds.ceilings(),
        relations: rounds.relations(),
        curves: core::mem::take(&mut rounds.curves),
        preconditioned: core::mem::take(&mut rounds.preconditioned),
        published: suite.published,
        agents: Vec::new(),
        notes: Vec::new(),
    };
    results.notes = rounds.notes(&results);
    remarks::add(&mut results);
    results.took_s = started.elapsed().unwrap_or_default().as_secs_f64();
    Ok(results)
}

/// What this machine is.
pub fn machine_facts() -> results::Machine {
    machine::facts()
}

/// What of a study is only reported.
struct Facts {
    quick: bool,
    seed: u64,
    command: Vec<String>,
    skipped: Vec<results::Skipped>,
}

impl Facts {
    fn of(spec: &StudySpec) -> Self {
        let (command, skipped) = (spec.command.clone(), spec.skipped.clone());
        Self { quick: spec.mode == Mode::Quick, seed: spec.seed, command, skipped }
    }
}

/// Room for filling, connections and rows that are not steady, where a suite says how long each row takes.
const ROOM: f64 = 1.5;

/// The time of a study, and that of each measurement if the suite gives it and the user does not.
fn divide(spec: &StudySpec, times: &Times) -> (Duration, Option<Slot>) {
    if let Some(budget) = spec.budget.or(times.budget) {
        return (budget, None);
    }
    let run = times.each.unwrap_or_default() / times.rounds.max(1);
    let slot = Slot { warm_up: times.warm_up.unwrap_or(run / 3), run };
    let warm_up: u32 = spec.suite.workloads.iter().map(|workload| workload.warm_up_rounds).sum();
    let rows = (spec.lanes.len() + 1) * (spec.suite.workloads.len() * times.rounds as usize + warm_up as usize);
    ((slot.warm_up + slot.run).mul_f64(rows as f64 * ROOM), Some(slot))
}

/// What the processors did during a study.
struct Meanwhile {
    begin: Instant,
    ticks: Option<Ticks>,
    /// Processes of the study beside this one.
    pids: Vec<u32>,
    used: Duration,
}

impl Meanwhile {
    fn start(spec: &StudySpec) -> Self {
        let mut pids: Vec<u32> =
            spec.lanes.iter().flat_map(|lane| lane.target_pids.iter().copied()).chain(spec.ceiling_pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids.retain(|pid| *pid != std::process::id());
        Self { begin: Instant::now(), ticks: Ticks::now(), used: Self::used(&pids), pids }
    }

    /// Processor time of the study's processes so far.
    fn used(pids: &[u32]) -> Duration {
        let children = pids.iter().filter_map(|pid| cpu_usage::of_process(*pid).ok());
        children.map(|usage| usage.total()).sum::<Duration>() + cpu_usage::process().total()
    }

    fn end(self) -> results::Conditions {
        let used = Self::used(&self.pids).saturating_sub(self.used);
        let ticks = self.ticks.zip(Ticks::now());
        results::Conditions {
            steal: ticks.and_then(|(before, after)| after.stolen_since(before)),
            others: ticks.and_then(|(before, after)| after.others_since(before, used, self.begin.elapsed())),
            ..results::Conditions::default()
        }
    }
}

impl Lane {
    fn facts(&self) -> results::Lane {
        results::Lane {
            name: self.name.clone(),
            title: self.title.clone(),
            url: self.url.clone(),
            initiator_cpus: self.initiator_cpus.clone(),
            target_cpus: self.target_cpus.clone(),
            base: self.base.clone(),
            real: self.real,
            agents: self.generator.as_ref().map(|generator| generator.names()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
