//! The study: thirteen patterns and a latency table, on the local device and over one or several protocols, beside the bare TCP
//! ceiling; or the *null suite*, one workload of many jobs on a device that does nothing.
//!
//! Devices are filled first: blocks that were never written may cost nothing to read. Then the rounds begin. A round visits every
//! workload, and for each one all lanes and the ceiling right after one another, in an order that changes from round to round, so
//! that a slow minute of the machine hits all of them alike. Each measurement begins with a warm-up. The time is a budget:
//! what is left of it is divided by what is left to do. At the end the rows that are not steady get more rounds: as many as their first
//! rounds ask for, decided once, so that none is measured until it looks good. The null suite then has each lane do a fixed number of
//! operations, of which everything is counted.

mod clock;
mod counting;
mod machine;
mod notes;
mod null;
mod patterns;
mod rounds;
mod sample;

pub use patterns::workloads;

use crate::error::Error;
use crate::results::{self, Results, SCHEMA, Suite};
use crate::stats::INTERVAL_VALUES_MIN;
use core::time::Duration;
use rounds::Rounds;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weft_block::BlockDevice;
use weft_io::counters::Snapshot;
use weft_io::cpu_usage;

/// Time of a study and of a quick one, when none is given.
const BUDGETS: [Duration; 2] = [Duration::from_secs(180), Duration::from_secs(30)];

/// As [`BUDGETS`], of the null suite.
const NULL_BUDGETS: [Duration; 2] = [Duration::from_secs(45), Duration::from_secs(8)];

/// Rounds of a study and of a quick one, where the time allows them: of nine the interval of the median leaves the lowest and the highest
/// out, so that one disturbance is none; six are the fewest that have one.
const ROUNDS: [u32; 2] = [9, INTERVAL_VALUES_MIN as u32];

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
    /// Process of the target, on this machine.
    pub target_pid: Option<u32>,
    /// Asks the target what its loops have counted so far.
    pub target_counters: Option<ReadCounters>,
    /// Core to run the load generator on.
    pub initiator_cpu: Option<u32>,
    /// Core that the target runs on; only reported.
    pub target_cpu: Option<u32>,
    /// [`Lane::name`] of the lane to the same device without a network.
    pub base: Option<String>,
}

/// A study.
pub struct StudySpec {
    /// What to run on the lanes. The null suite writes to devices without filling them first.
    pub suite: Suite,
    /// Shorter and with fewer rounds.
    pub quick: bool,
    /// How long it may take in all; by default 180 s, or 30 s when quick, and 45 s or 8 s of the null suite.
    pub budget: Option<Duration>,
    /// What to measure, at least one.
    pub lanes: Vec<Lane>,
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
    let which = usize::from(spec.quick);
    let (budget, workloads) = match spec.suite {
        Suite::Patterns => (BUDGETS[which], workloads()),
        Suite::Null => (NULL_BUDGETS[which], vec![null::workload()]),
    };
    measure(spec, budget, ROUNDS[which], workloads, progress)
}

fn measure(
    spec: StudySpec,
    budget: Duration,
    count: u32,
    workloads: Vec<results::Workload>,
    progress: &mut dyn FnMut(StudyProgress<'_>),
) -> Result<Results, Error> {
    let started = SystemTime::now();
    let (quick, suite, load_before) = (spec.quick, spec.suite, machine::load());
    let meanwhile = Meanwhile::start(&spec);
    let mut rounds = Rounds::new(spec, budget, workloads, progress)?;
    if suite == Suite::Patterns {
        rounds.prepare()?;
    }
    rounds.measure(count)?;
    rounds.complete()?;
    rounds.repeat()?;
    if suite == Suite::Null {
        rounds.count();
    }
    let mut results = Results {
        schema: SCHEMA,
        weft: env!("CARGO_PKG_VERSION").to_owned(),
        started_s: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        took_s: 0.0,
        quick,
        suite,
        machine: machine::facts(),
        conditions: results::Conditions { load_before, load_after: machine::load(), ..meanwhile.end() },
        lanes: rounds.lanes(),
        workloads: rounds.workloads(),
        rows: rounds.rows(),
        ceiling: rounds.ceilings(),
        published: if suite == Suite::Null { null::published().into() } else { Vec::new() },
        notes: Vec::new(),
    };
    results.notes = rounds.notes(&results);
    results.took_s = started.elapsed().unwrap_or_default().as_secs_f64();
    Ok(results)
}

/// What the processors did during a study.
struct Meanwhile {
    begin: Instant,
    ticks: Option<machine::Ticks>,
    /// Processes of the study beside this one.
    pids: Vec<u32>,
    used: Duration,
}

impl Meanwhile {
    fn start(spec: &StudySpec) -> Self {
        let mut pids: Vec<u32> = spec.lanes.iter().filter_map(|lane| lane.target_pid).chain(spec.ceiling_pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids.retain(|pid| *pid != std::process::id());
        Self { begin: Instant::now(), ticks: machine::Ticks::now(), used: Self::used(&pids), pids }
    }

    /// Processor time of the study's processes so far.
    fn used(pids: &[u32]) -> Duration {
        let children = pids.iter().filter_map(|pid| cpu_usage::of_process(*pid).ok());
        children.map(|usage| usage.total()).sum::<Duration>() + cpu_usage::process().total()
    }

    fn end(self) -> results::Conditions {
        let used = Self::used(&self.pids).saturating_sub(self.used);
        let ticks = self.ticks.zip(machine::Ticks::now());
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
            initiator_cpu: self.initiator_cpu,
            target_cpu: self.target_cpu,
            base: self.base.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
