//! One measurement: a workload on a lane, or on bare TCP.

use super::{Rounds, Who};
use crate::ceiling::{self, CeilingSpec, CeilingTuning};
use crate::error::Error;
use crate::results::Workload;
use crate::study::clock::TimeSlot;
use crate::study::counting;
use crate::study::sample::{OfMachine, Sample};
use crate::study::study_spec::Purpose;
use crate::study::study_spec::StudyLane;
use crate::study::study_spec::StudyProgress;
use crate::workload::{Direction, JobSpec, Phase, RunReport, Rw};
use core::time::Duration;

/// Before an operation is due, its job stops sleeping: otherwise the latency would be that of the
/// scheduler, not of the lane.
const SPIN: Duration = Duration::from_micros(200);

/// The operations of a workload, as the engine calls them.
pub(super) fn rw_of(workload: &Workload) -> Rw {
    workload.rw.parse().unwrap_or(Rw::RandRead)
}

/// Jobs, depth and rate of a workload, where they are not its own.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub jobs: u32,
    pub iodepth: u32,
    /// Operations per second that all jobs together begin, in the open loop.
    pub rate: Option<u32>,
}

impl Load {
    pub fn of(workload: &Workload) -> Self {
        Self { jobs: workload.jobs, iodepth: workload.iodepth, rate: None }
    }
}

/// A run, and its IOPS over time.
pub(super) struct Ran {
    pub report: RunReport,
    series: Vec<(f64, f64)>,
}

impl Rounds<'_> {
    pub(super) fn run_lane(
        &mut self,
        lane: usize,
        at: usize,
        round: u32,
        slot: TimeSlot,
    ) -> Result<Option<Sample>, Error> {
        let Some(load) = self.load_of(at) else { return Ok(None) };
        let Some(Ran { report, series }) = self.report_of(lane, at, load, round, slot)? else {
            return Ok(None);
        };
        self.tails[at][lane].add(&report);
        let lane = &self.spec.stage.lanes[lane];
        let mut sample = Sample::of_run(round, &report);
        sample.series = series;
        if lane.is_elsewhere() {
            sample.machines = OfMachine::all(&report);
        }
        match report.jobs.iter().find_map(|job| job.errors.first()) {
            Some(error) if sample.is_empty() => {
                let message =
                    format!("{}: {:?} at LBA {}", lane.url, error.status.kind, error.first_lba);
                Err(weft_block::Error::new(weft_block::ErrorKind::Io, message).into())
            }
            _ => Ok((!sample.is_empty() && !report.stopped).then_some(sample)),
        }
    }

    /// Runs a workload with such a load; none if the device cannot be written and should be.
    pub(super) fn report_of(
        &mut self,
        lane: usize,
        at: usize,
        load: Load,
        round: u32,
        slot: TimeSlot,
    ) -> Result<Option<Ran>, Error> {
        let slot = self.slice_of(lane, slot);
        if let Some(why) = self.cannot(lane, at, load) {
            let note = format!("{}: {why}", self.spec.stage.lanes[lane].name);
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
            return Ok(None);
        }
        let (lane, workload) = (&self.spec.stage.lanes[lane], &self.workloads[at]);
        if rw_of(workload).has(Direction::Write) && !lane.device.features().write {
            return Ok(None);
        }
        let job = JobSpec {
            ramp_time: slot.warm_up,
            runtime: Some(slot.run),
            time_based: true,
            randseed: Some(self.spec.seed.wrapping_add(u64::from(round))),
            ..job_of(workload, lane, load, self.size)
        };
        let (clock, progress, so_far) = (&self.clock, &mut self.progress, &self.so_far);
        let mut tell = || {
            let (fraction, eta) = (clock.fraction(), clock.left());
            progress(StudyProgress {
                name: &workload.title,
                what: &lane.title,
                fraction,
                eta,
                so_far,
            });
        };
        tell();
        let mut series = Vec::new();
        let report = lane.run(Purpose::Load, &job, &self.spec.stop, &mut |now| {
            if now.phase == Phase::Running && now.elapsed > job.ramp_time {
                series.push((clock.elapsed().as_secs_f64(), now.iops.iter().sum()));
            }
            tell();
        })?;
        Ok(Some(Ran { report, series }))
    }

    /// Why the generator of a lane cannot run a workload.
    pub(super) fn cannot(&self, lane: usize, at: usize, load: Load) -> Option<String> {
        let (lane, workload) = (&self.spec.stage.lanes[lane], &self.workloads[at]);
        let generator = lane.generator.as_ref()?;
        generator.cannot(&job_of(workload, lane, load, self.size))
    }

    pub(super) fn run_ceiling(
        &mut self,
        at: usize,
        round: u32,
        slot: TimeSlot,
    ) -> Result<Option<Sample>, Error> {
        let (Some(server), workload) = (&self.spec.stage.ceiling, &self.workloads[at]) else {
            return Ok(None);
        };
        let (fraction, eta) = (self.clock.fraction(), self.clock.left());
        (self.progress)(StudyProgress {
            name: &workload.title,
            what: "bare TCP",
            fraction,
            eta,
            so_far: &self.so_far,
        });
        let spec = CeilingSpec {
            rwmixread: workload.read_percent,
            bytes: workload.bs_bytes,
            random: rw_of(workload).is_random(),
            iodepth: workload.iodepth * workload.jobs,
            in_capsule_bytes: self.spec.in_capsule_bytes,
            ramp_time: slot.warm_up,
            runtime: slot.run,
            cpu: self.spec.ceiling_cpu,
            tuning: CeilingTuning::typical(workload.bs_bytes, workload.read_percent),
            ..CeilingSpec::default()
        };
        let sample =
            Sample::of_ceiling(round, workload.bs_bytes, &ceiling::run(server.address, &spec)?);
        Ok((!sample.is_empty()).then_some(sample))
    }

    /// Runs all workloads once more on every lane, a fixed number of operations each, and counts
    /// their cost.
    pub(in crate::study) fn count(&mut self) {
        for at in 0..self.workloads.len() {
            for lane in 0..self.spec.stage.lanes.len() {
                if self.stopped() || self.samples[at][lane].is_empty() {
                    continue;
                }
                let lane_spec = &self.spec.stage.lanes[lane];
                let (fraction, eta) = (self.clock.fraction(), self.clock.left());
                (self.progress)(StudyProgress {
                    name: "counting",
                    what: &lane_spec.title,
                    fraction,
                    eta,
                    so_far: &self.so_far,
                });
                let Some(load) = self.load_of(at) else { continue };
                let (workload, lane_spec) = (&self.workloads[at], &self.spec.stage.lanes[lane]);
                let job = job_of(workload, lane_spec, load, self.size);
                match counting::run(lane_spec, job, &self.spec.stop) {
                    Ok(counts) => self.counts[at][lane] = counts,
                    Err(error) => self.fail(Who::Lane(lane), "could not be counted", error, 1),
                }
            }
        }
    }
}

/// The common parts of all runs of a workload on a lane.
pub(super) fn job_of(workload: &Workload, lane: &StudyLane, load: Load, size: u64) -> JobSpec {
    // A region for each job, if each has one of its own; they shrink until all fit.
    let own = workload.job_bytes.map(|bytes| {
        let room = size / u64::from(load.jobs.max(1));
        let unit = u64::from(workload.bs_bytes.max(1));
        (bytes.min(room) / unit * unit).max(unit)
    });
    JobSpec {
        name: workload.name.clone(),
        rw: rw_of(workload),
        bs_bytes: workload.bs_bytes,
        iodepth: load.iodepth,
        numjobs: load.jobs,
        threads: load.jobs.min(lane.initiator_cpus.len() as u32).max(1),
        rwmixread: workload.read_percent,
        rate: load.rate.map_or([None; 3], |rate| bytes_per_job(workload, rate)),
        rate_spin: load.rate.map_or(Duration::ZERO, |_| SPIN),
        size: Some(own.unwrap_or(size)),
        offset_increment: own.unwrap_or(0),
        cpus_allowed: lane.initiator_cpus.clone(),
        ..JobSpec::default()
    }
}

/// The command that measures the same on the same device.
pub(super) fn command_of(
    workload: &Workload,
    lane: &StudyLane,
    load: Load,
    size: u64,
    slot: TimeSlot,
) -> String {
    let job = JobSpec {
        ramp_time: slot.warm_up,
        runtime: Some(slot.run),
        time_based: true,
        ..job_of(workload, lane, load, size)
    };
    if let Some(command) = lane.generator.as_ref().and_then(|generator| generator.command(&job)) {
        return command;
    }
    let options = job.options().into_iter().filter(|(name, _)| *name != "name");
    let options: String = options.map(|(name, value)| format!(" --{name}={value}")).collect();
    format!("weft bench {}{options}", lane.url)
}

/// The bytes per second that each job begins when all jobs together begin `rate` operations per
/// second, by [`Direction::index`].
fn bytes_per_job(workload: &Workload, rate: u32) -> [Option<u64>; 3] {
    let of = |direction: Direction| {
        let percent = match direction {
            Direction::Read => workload.read_percent,
            _ => 100 - workload.read_percent,
        };
        let bytes = u64::from(rate) * u64::from(workload.bs_bytes) * u64::from(percent)
            / 100
            / u64::from(workload.jobs.max(1));
        rw_of(workload).has(direction).then_some(bytes.max(1))
    };
    [of(Direction::Read), of(Direction::Write), None]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    #[test]
    fn a_rate_is_divided_by_jobs_and_directions() {
        let mut workload = Suite::named("patterns").unwrap().workloads[0].clone();
        (workload.rw, workload.bs_bytes, workload.read_percent, workload.jobs) =
            ("randrw".into(), 4096, 75, 2);
        assert_eq!(
            bytes_per_job(&workload, 1000),
            [Some(500 * 4096 * 75 / 100), Some(500 * 4096 / 4), None]
        );
        (workload.rw, workload.read_percent) = ("randread".into(), 100);
        assert_eq!(bytes_per_job(&workload, 1000), [Some(500 * 4096), None, None]);
    }
}
