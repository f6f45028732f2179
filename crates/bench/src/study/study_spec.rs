//! Lanes of a study, and generators of their load: this process, another program, or other
//! machines.

use crate::error::Error;
use crate::results;
use crate::suite::{Suite, SuiteMode};
use crate::workload::{self, JobSpec, Progress, RunReport};
use core::any::Any;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_block::{BlockDevice, BlockQueue, ErrorKind, Features, Geometry};
use weft_io::counters::Snapshot;
use weft_io::{DriverId, Handle};

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

impl StudyLane {
    pub(super) fn facts(&self) -> results::Lane {
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

/// Purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Load: all generators of the lane put it on.
    Load,
    /// Writing a device from front to back: each device once, however many machines reach it. The
    /// report is that of the device of which the least was written.
    Fill,
}

/// A load generator in place of this process: other machines, or another program of this one.
pub trait Generator {
    /// Runs `spec` on all of them at the same time. The report has a job and a loop for each that
    /// did it; [`workload::JobReport::index`] is its number in [`Generator::names`]. One that is
    /// lost during the run is missing.
    ///
    /// # Errors
    /// None of them did it: that of the first.
    fn run(
        &self,
        purpose: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunReport, Error>;

    /// The machines, also those that are lost; none if it is a program of this one.
    fn names(&self) -> Vec<String>;

    /// Returns whether it is a program of this machine. It only puts load on: this process fills
    /// the device.
    fn is_here(&self) -> bool {
        false
    }

    /// The shortest time that it can measure; a shorter slice becomes as long.
    fn shortest(&self) -> Duration {
        Duration::ZERO
    }

    /// Why it cannot run `spec`, as a whole sentence; the row stays empty then.
    fn cannot(&self, _: &JobSpec) -> Option<String> {
        None
    }

    /// Its name, for people.
    fn title(&self) -> &str;

    /// [`StudyLane::name`] of the lane on which this process puts load on the same device.
    fn twin(&self) -> Option<&str> {
        None
    }

    /// The command that measures the same, if it is not `weft bench`.
    fn command(&self, _: &JobSpec) -> Option<String> {
        None
    }
}

impl StudyLane {
    /// Returns whether other machines put the load on.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.generator.as_ref().is_some_and(|generator| !generator.is_here())
    }

    /// Wakes the target until the value is dropped.
    pub(super) fn awake(&self) -> Option<Awake> {
        self.peer.process.clone().map(Awake::new)
    }

    /// Runs a workload on this lane.
    pub(super) fn run(
        &self,
        purpose: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunReport, Error> {
        let _awake = self.awake();
        match &self.generator {
            Some(generator) if purpose == Purpose::Load || self.is_elsewhere() => {
                generator.run(purpose, spec, stop, progress)
            }
            _ => workload::run_watching(
                Arc::clone(&self.device),
                spec,
                &self.target_pids,
                stop,
                progress,
            ),
        }
    }
}

/// A target of another project that may work. It rests when this is dropped.
pub(super) struct Awake(Rc<dyn ForeignTarget>);

impl Awake {
    fn new(target: Rc<dyn ForeignTarget>) -> Self {
        target.wake();
        Self(target)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.rest();
    }
}

/// A device that this process does not reach, as only the machines that put the load on do, or as
/// it was closed with its block. What it is is known.
pub struct KnownDevice {
    /// Its URL, without secrets.
    pub url: String,
    /// Its size and limits.
    pub geometry: Geometry,
    /// Its features.
    pub features: Features,
}

impl KnownDevice {
    /// Takes URL, geometry and features of a device.
    pub(super) fn of(device: &dyn BlockDevice) -> Self {
        Self {
            url: device.url().to_owned(),
            geometry: device.geometry(),
            features: device.features(),
        }
    }
}

impl BlockDevice for KnownDevice {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        Ok(weft_block::SizeAnswer::Fixed)
    }

    fn features(&self) -> Features {
        self.features
    }

    fn open_queue(
        &self,
        _: &Handle,
        _: DriverId,
    ) -> Result<Box<dyn BlockQueue>, weft_block::Error> {
        Err(weft_block::Error::new(
            ErrorKind::Unsupported,
            format!("the study does not reach {} from here", self.url),
        ))
    }
}
