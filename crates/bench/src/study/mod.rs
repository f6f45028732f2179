//! The study: the workloads of a suite on its lanes, next to the bare TCP ceiling.
//!
//! A study is made of blocks, each with targets, devices and connections of its own. Devices are
//! filled first: blocks that were never written may cost nothing to read; real ones are written
//! until they are steady. A round visits every workload, and for each one all lanes and the ceiling
//! right after one another, in a random order, and the next round in the opposite one, so that a
//! slow second of the machine hits all of them alike. Each measurement is short and begins with a
//! warm-up. The number of blocks is decided once, after the first of them, by the width that the
//! intervals of the headline have then. Then lanes are driven deeper until they no longer grow. A
//! suite that counts then runs a fixed number of operations on each lane, of which everything is
//! counted.

mod agreement;
mod blocks;
mod clock;
mod counting;
mod filling;
mod generator;
mod machine;
mod machines;
mod notes;
mod open_loop;
mod outcome;
mod processor_use;
mod relating;
mod remarks;
mod rounds;
mod running;
mod sample;
mod saturating;
mod steady;
mod tails;
pub(crate) mod ticks;

pub use generator::{Generator, KnownDevice, Purpose};

use crate::error::Error;
use crate::results::{self, Results, SCHEMA};
use crate::suite::{Suite, SuiteMode};
use core::any::Any;
use core::time::Duration;
use rounds::Rounds;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};
use weft_block::BlockDevice;
use weft_io::counters::Snapshot;

/// Asks a target what its loops have counted so far; none when it does not answer.
pub type ReadCounters = Box<dyn Fn() -> Option<Snapshot>>;

/// A way to a device.
pub struct StudyLane {
    /// Short name; [`results::Lane::LOCAL`] for the one that others are a share of where they name
    /// none.
    pub name: String,
    /// For people: `NVMe/TCP over loopback`.
    pub title: String,
    /// The URL that was opened, without secrets.
    pub url: String,
    /// The device. **All of it is written to**, if it can be.
    pub device: Arc<dyn BlockDevice>,
    /// Processes of the target, on this machine.
    pub target_pids: Vec<u32>,
    /// Asks the target what its loops have counted so far.
    pub target_counters: Option<ReadCounters>,
    /// Counters of this process so far on the loop that the device has in addition to those of the
    /// jobs, if it has one: the connections of a mirror are there.
    pub home_counters: Option<ReadCounters>,
    /// Cores to run the load generator on, a loop each; empty: one loop, on any.
    pub initiator_cpus: Vec<usize>,
    /// Cores that the target runs on; only reported.
    pub target_cpus: Vec<usize>,
    /// [`StudyLane::name`] of the lane to the same device without a network.
    pub base: Option<String>,
    /// The device is a disk, a file or another machine's, rather than memory or a model.
    pub real: bool,
    /// The load generator, if that is not this process.
    pub generator: Option<Rc<dyn Generator>>,
    /// [`StudyLane::name`] of a lane to the same devices: as that one is filled and brought to its
    /// steady state, this one is not.
    pub prepared_by: Option<String>,
    /// Target of another project, if the lane has one or is compared with one.
    pub peer: LanePeer,
}

/// Properties of a lane in a comparison of targets.
#[derive(Default)]
pub struct LanePeer {
    /// [`StudyLane::name`] of the lane to weft's target that this one is compared with.
    pub rival: Option<String>,
    /// Commands and configuration of the target, in order; only reported.
    pub setup: Vec<String>,
    /// The target.
    pub process: Option<Rc<dyn ForeignTarget>>,
    /// It uses its cores even while it is idle.
    pub polls: bool,
    /// Its place among targets and initiators, if those are compared.
    pub cell: Option<results::Cell>,
}

/// A target of another project while it runs. It ends when it is dropped.
pub trait ForeignTarget {
    /// Lets it work. Called before its lane is measured, filled or closed.
    fn wake(&self);

    /// Stops it until [`ForeignTarget::wake`], if it uses its cores even while it is idle.
    fn rest(&self);
}

/// The lanes of a block, and its ceiling.
pub struct LaneSet {
    /// Lanes to measure, at least one.
    pub lanes: Vec<StudyLane>,
    /// A server of the ceiling, whose region is as large as the device.
    pub ceiling: Option<CeilingServer>,
    /// Lanes that could not be set up, each with the reason. In a later block these lanes are given
    /// up and the others go on.
    pub missing: Vec<results::Skipped>,
}

/// A server of the ceiling.
pub struct CeilingServer {
    /// The address at which it listens.
    pub address: SocketAddr,
    /// Its process, if that is not this one.
    pub pid: Option<u32>,
    /// Ends the server when dropped.
    pub process: Box<dyn Any>,
}

/// Ends the processes of the last block and sets up the same lanes again. Lanes that cannot be set
/// up are in [`LaneSet::missing`].
pub type SetUp<'a> = Box<dyn FnMut() -> Result<LaneSet, Error> + 'a>;

/// A study.
pub struct StudySpec<'a> {
    /// Workloads to run on the lanes.
    pub suite: Suite,
    /// Length and number of the measurements.
    pub mode: SuiteMode,
    /// Limit of its time in all; by default as the suite has it.
    pub budget: Option<Duration>,
    /// Seed for the order of the lanes.
    pub seed: u64,
    /// Commit of the program that it runs in, if that is known; only reported.
    pub commit: Option<String>,
    /// The command line, without secrets; only reported.
    pub command: Vec<String>,
    /// Lanes of the first block.
    pub stage: LaneSet,
    /// Sets the lanes up again for each further block; none: they stay, and what is the same for
    /// their life is in no interval.
    pub set_up: Option<SetUp<'a>>,
    /// Lanes of the suite that are not measured; only reported.
    pub skipped: Vec<results::Skipped>,
    /// Core to run the ceiling's client on.
    pub ceiling_cpu: Option<usize>,
    /// Writes up to this size go with their command over the fabric, and so in the ceiling; NVMe
    /// calls it the in-capsule data size.
    pub in_capsule_bytes: u32,
    /// Ends the study early, with what was measured until then.
    pub stop: Arc<AtomicBool>,
}

/// Progress of a study.
#[derive(Clone, Copy, Debug)]
pub struct StudyProgress<'a> {
    /// The workload that is being measured, for people.
    pub name: &'a str,
    /// The lane, for people.
    pub what: &'a str,
    /// The part that is done, 0 to 1.
    pub fraction: f64,
    /// Time until the end.
    pub eta: Duration,
    /// The headline so far; empty before there is one.
    pub so_far: &'a str,
}

/// Runs a study. `progress` hears of each measurement before it begins, and some times a second
/// while one goes on.
///
/// # Errors
/// When nothing could be measured at all: the error of the first lane that failed. A lane that
/// fails later is reported in [`Results::notes`].
pub fn run(
    spec: StudySpec<'_>,
    progress: &mut dyn FnMut(StudyProgress<'_>),
) -> Result<Results, Error> {
    let (started, load_before) = (SystemTime::now(), machine::load());
    let times = *spec.suite.times(spec.mode);
    let (suite, facts) = (spec.suite.clone(), Facts::of(&spec));
    let mut rounds = Rounds::new(spec, progress)?;
    if suite.fill {
        rounds.prepare()?;
        rounds.precondition()?;
    }
    let kept = suite.saturation.as_ref().map_or(0.0, |saturation| saturation.time_percent / 100.0);
    rounds.measure(&times, kept)?;
    rounds.complete()?;
    rounds.saturate()?;
    if suite.count {
        rounds.count();
    }
    let mut results = Results {
        schema: SCHEMA,
        weft: env!("CARGO_PKG_VERSION").to_owned(),
        commit: facts.commit,
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
        conditions: results::Conditions {
            load_before,
            load_after: machine::load(),
            mhz: rounds.mhz,
            ..rounds.processor_use.conditions()
        },
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
    rounds.spec.stage.close();
    results.took_s = started.elapsed().unwrap_or_default().as_secs_f64();
    Ok(results)
}

/// Facts about this machine.
pub fn machine_facts() -> results::Machine {
    machine::facts()
}

/// Facts of a study that are only reported.
struct Facts {
    quick: bool,
    seed: u64,
    commit: Option<String>,
    command: Vec<String>,
    skipped: Vec<results::Skipped>,
}

impl Facts {
    fn of(spec: &StudySpec) -> Self {
        let (command, skipped) = (spec.command.clone(), spec.skipped.clone());
        let (quick, commit) = (spec.mode == SuiteMode::Quick, spec.commit.clone());
        Self { quick, seed: spec.seed, commit, command, skipped }
    }
}

impl StudyLane {
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
            rival: self.peer.rival.clone(),
            setup: self.peer.setup.clone(),
            cell: self.peer.cell.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
