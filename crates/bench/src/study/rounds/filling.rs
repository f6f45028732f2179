//! Filling the devices: blocks that were never written may cost nothing to read.

use super::{FAILURES_MAX, Rounds, Who};
use crate::error::Error;
use crate::results::Workload;
use crate::study::study_spec::Purpose;
use crate::study::study_spec::StudyProgress;
use crate::workload::{Direction, JobSpec, Rw};
use core::time::Duration;
use weft_block::units;

/// Part of the time that filling the devices may take.
const PREPARE: f64 = 0.25;

/// Bytes of the writes that fill a device. The used part of a device is a multiple of this.
pub(super) const UNIT_BYTES: u32 = 1 << 20;

/// Number of them in flight.
const DEPTH: u32 = 8;

impl Rounds<'_> {
    /// Writes all devices from front to back, as far as the time allows; what could not be filled
    /// is not used.
    pub fn prepare(&mut self) -> Result<(), Error> {
        let lanes = self.spec.stage.lanes.len();
        for at in 0..lanes {
            if !self.fills(at) || self.stopped() {
                continue;
            }
            let limit = self.clock.left().mul_f64(PREPARE / lanes as f64);
            let least = self.least();
            let filled = match self.fill(at, self.size, Some(limit)) {
                // A busy machine, or a slow device: the minimum takes as long as it takes.
                Ok(filled) if filled < least => self.fill(at, least, None),
                filled => filled,
            };
            match filled {
                Ok(filled) => self.size = self.size.min(filled),
                Err(error) => self.fail(Who::Lane(at), "cannot be filled", error, FAILURES_MAX),
            }
        }
        let whole = self
            .spec
            .stage
            .lanes
            .iter()
            .map(|lane| lane.device.geometry().bytes())
            .min()
            .unwrap_or(0);
        if self.size < whole - whole % u64::from(UNIT_BYTES) {
            let (used, whole) = (units::format_size(self.size), units::format_size(whole));
            self.notes.push(format!(
                "Only the first {used} of {whole} are used: filling more would have taken too long."
            ));
        }
        self.check_alive()
    }

    /// Returns whether a lane writes its device; otherwise another lane does it, or nobody.
    pub(super) fn fills(&self, at: usize) -> bool {
        !self.is_prepared_by_another(at)
            && self.size > 0
            && self.spec.stage.lanes[at].device.features().write
    }

    /// Returns whether filling another lane fills this one.
    pub(super) fn is_prepared_by_another(&self, at: usize) -> bool {
        let by = self.spec.stage.lanes[at].prepared_by.as_ref();
        by.is_some_and(|by| {
            self.spec.stage.lanes.iter().any(|lane| lane.name == *by && lane.prepared_by.is_none())
        })
    }

    /// Bytes without which a workload has no block for each of its jobs.
    fn least(&self) -> u64 {
        let of = |workload: &Workload| u64::from(workload.jobs) * u64::from(workload.bs_bytes);
        let least = self
            .workloads
            .iter()
            .map(of)
            .max()
            .unwrap_or(0)
            .next_multiple_of(u64::from(UNIT_BYTES));
        least.min(self.size)
    }

    /// Fills the first `size` bytes of a device; returns how many bytes were written within the
    /// limit, from the front.
    pub(super) fn fill(
        &mut self,
        at: usize,
        size: u64,
        limit: Option<Duration>,
    ) -> Result<u64, Error> {
        let lane = &self.spec.stage.lanes[at];
        let bs_bytes = UNIT_BYTES.min(lane.device.geometry().max_transfer_bytes);
        let job = JobSpec {
            rw: Rw::Write,
            bs_bytes,
            iodepth: DEPTH,
            size: Some(size),
            runtime: limit,
            cpus_allowed: lane.initiator_cpus.clone(),
            ..JobSpec::default()
        };
        let (clock, progress, so_far) = (&self.clock, &mut self.progress, &self.so_far);
        let report = lane.run(Purpose::Fill, &job, &self.spec.stop, &mut |_| {
            let (fraction, eta) = (clock.fraction(), clock.left());
            progress(StudyProgress { name: "filling", what: &lane.title, fraction, eta, so_far });
        })?;
        if !report.is_clean() {
            let error = report.jobs[0]
                .errors
                .first()
                .map(|e| format!("{:?} at LBA {}", e.status.kind, e.first_lba));
            let message = format!(
                "{} cannot be written: {}",
                lane.url,
                error.unwrap_or_else(|| "no answer".into())
            );
            return Err(weft_block::Error::new(weft_block::ErrorKind::Io, message).into());
        }
        let bytes = report.total(Direction::Write).bytes;
        Ok(bytes - bytes % u64::from(UNIT_BYTES))
    }
}
