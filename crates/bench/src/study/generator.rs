//! Who puts the load of a lane on its device: this process, or other machines.

use super::Lane;
use crate::error::Error;
use crate::workload::{self, JobSpec, Progress, Report};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_block::{BlockDevice, BlockQueue, ErrorKind, Features, Geometry};
use weft_io::{DriverId, Handle};

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Load: all machines of the lane put it on.
    Load,
    /// Writing a device from front to back: each device once, however many machines reach it. The report is that of the device of which the least
    /// was written.
    Fill,
}

/// Other machines that put the load on.
pub trait Generator {
    /// Runs `spec` on all of them at the same time. The report has a job and a loop for each that did it; [`workload::JobReport::index`] is its number in
    /// [`Generator::names`]. One that is lost meanwhile is missing.
    ///
    /// # Errors
    /// None of them did it: that of the first.
    fn run(
        &self,
        purpose: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report, Error>;

    /// The machines, also those that are lost.
    fn names(&self) -> Vec<String>;
}

impl Lane {
    /// Runs a workload on this lane.
    pub(super) fn run(
        &self,
        purpose: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report, Error> {
        match &self.generator {
            Some(generator) => generator.run(purpose, spec, stop, progress),
            None => workload::run_watching(Arc::clone(&self.device), spec, &self.target_pids, stop, progress),
        }
    }
}

/// A device that only other machines reach: size and limits, as they tell them.
pub struct Elsewhere {
    /// Its URL, without secrets.
    pub url: String,
    /// Its size and limits.
    pub geometry: Geometry,
    /// Whether they write to it.
    pub write: bool,
}

impl BlockDevice for Elsewhere {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn features(&self) -> Features {
        Features { write: self.write, ..Features::default() }
    }

    fn open_queue(&self, _: &Handle, _: DriverId) -> Result<Box<dyn BlockQueue>, weft_block::Error> {
        let text = format!("{} is a device of the study's agents: this machine does not reach it", self.url);
        Err(weft_block::Error::new(ErrorKind::Unsupported, text))
    }
}
