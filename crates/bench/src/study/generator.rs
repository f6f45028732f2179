//! Generators of the load of a lane: this process, another program, or other machines.

use super::{ForeignTarget, StudyLane};
use crate::error::Error;
use crate::workload::{self, JobSpec, Progress, RunReport};
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_block::{BlockDevice, BlockQueue, ErrorKind, Features, Geometry};
use weft_io::{DriverId, Handle};

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
