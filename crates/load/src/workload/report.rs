//! The report of a run.

use super::direction::Direction;
use super::job_report::{DirectionReport, JobReport, VerifyReport};
use super::job_spec::JobSpec;
use crate::stats::Moments;
use core::time::Duration;
use std::time::SystemTime;
use weft_block::Geometry;
use weft_io::counters::Snapshot;
use weft_io::cpu_usage::Usage;

/// A run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The device, without secrets.
    pub url: String,
    /// Its size and limits.
    pub geometry: Geometry,
    /// The workload.
    pub spec: JobSpec,
    /// Start time of the run.
    pub started: SystemTime,
    /// The jobs, in order.
    pub jobs: Vec<JobReport>,
    /// The loops on which they ran, in order.
    pub loops: Vec<RunLoopReport>,
    /// CPU time of the whole process while measuring.
    pub process: Usage,
    /// CPU time of the other process during the measurement, if one was given.
    pub watched: Option<Usage>,
    /// True if the user ended it early.
    pub stopped: bool,
}

/// Parts of the time of a machine's processors, 0 to 1; the rest they were idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorTimes {
    /// In programs.
    pub user: f64,
    /// In the kernel, without interrupts.
    pub system: f64,
    /// In interrupts.
    pub interrupts: f64,
    /// In soft interrupts.
    pub soft_interrupts: f64,
    /// Taken by the host (steal).
    pub steal: f64,
}

/// A loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunLoopReport {
    /// The core that it was pinned to.
    pub cpu: Option<usize>,
    /// Its jobs.
    pub jobs: u32,
    /// Duration of the measurement.
    pub time: Duration,
    /// CPU usage of its thread in that time.
    pub thread: Usage,
    /// Its counters in that time.
    pub counters: Snapshot,
    /// Work of all processors of its machine, if it is that of an agent which reports it.
    pub machine: Option<ProcessorTimes>,
}

/// System calls of a loop that did something, as [`RunLoopReport::system_calls`] has it.
pub fn system_calls(c: &Snapshot) -> u64 {
    c.recv_calls + c.send_calls + c.send_blocked + c.sleeps + c.disk_enters
}

impl RunLoopReport {
    /// System calls that did something: moved bytes, submitted to a disk, slept. Empty polls and
    /// receives, which a loop that is waiting for work makes by the million, are apart.
    pub fn system_calls(&self) -> u64 {
        system_calls(&self.counters)
    }

    /// Polls and receives that found nothing.
    pub fn empty_polls(&self) -> u64 {
        self.counters.recv_empty + self.counters.polls
    }

    /// Returns the load of its thread: 1 is a full core.
    pub fn load(&self) -> f64 {
        if self.time.is_zero() {
            0.0
        } else {
            self.thread.total().as_secs_f64() / self.time.as_secs_f64()
        }
    }
}

impl RunReport {
    /// All jobs of one direction together.
    pub fn total(&self, direction: Direction) -> DirectionReport {
        let mut total = DirectionReport::default();
        self.jobs.iter().for_each(|job| total.merge(&job.directions[direction.index()]));
        total
    }

    /// All jobs and directions together.
    pub fn all(&self) -> DirectionReport {
        let mut all = DirectionReport::default();
        Direction::ALL.iter().for_each(|&direction| all.merge(&self.total(direction)));
        all
    }

    /// All jobs as one, as fio's `group_reporting` has it.
    pub fn group(&self) -> JobReport {
        let mut group = JobReport { verify: self.verify(), ..JobReport::default() };
        group.directions = Direction::ALL.map(|direction| {
            let mut total = self.total(direction);
            (total.bandwidth_kib, total.iops) = (Moments::default(), Moments::default());
            for job in &self.jobs {
                total.bandwidth_kib.add_beside(&job.directions[direction.index()].bandwidth_kib);
                total.iops.add_beside(&job.directions[direction.index()].iops);
            }
            total
        });
        for job in &self.jobs {
            group.add_counts(job);
        }
        group
    }

    /// Operations that were done.
    pub fn ios(&self) -> u64 {
        self.jobs.iter().flat_map(|job| &job.directions).map(|d| d.ios).sum()
    }

    /// Operations that failed or never completed.
    pub fn failed(&self) -> u64 {
        self.jobs.iter().map(|job| job.failed() + job.unfinished).sum()
    }

    /// Returns the result of the verification in all jobs, if there was one.
    pub fn verify(&self) -> Option<VerifyReport> {
        self.jobs.iter().filter_map(|job| job.verify.as_ref()).fold(
            None,
            |all: Option<VerifyReport>, job| {
                let mut all = all.unwrap_or_default();
                all.merge(job);
                Some(all)
            },
        )
    }

    /// Returns whether every operation was done and every checked block was good.
    pub fn is_clean(&self) -> bool {
        self.jobs.iter().all(|job| job.error_number() == 0)
    }

    /// Returns the counters of all loops.
    pub fn counters(&self) -> Snapshot {
        self.loops.iter().fold(Snapshot::default(), |sum, l| sum.plus(&l.counters))
    }

    /// The part of `job`, by operations, in what its loop's thread used.
    pub fn usage_of(&self, job: &JobReport) -> Usage {
        let loops = self.loops.len().max(1);
        let Some(its_loop) = self.loops.get(job.index as usize % loops) else {
            return Usage::default();
        };
        let ios = |job: &JobReport| job.directions.iter().map(|d| d.ios).sum::<u64>();
        let all: u64 =
            self.jobs.iter().skip(job.index as usize % loops).step_by(loops).map(ios).sum();
        let part = if all == 0 {
            1.0 / f64::from(its_loop.jobs.max(1))
        } else {
            ios(job) as f64 / all as f64
        };
        let count = |n: u64| (n as f64 * part).round() as u64;
        Usage {
            user: its_loop.thread.user.mul_f64(part),
            system: its_loop.thread.system.mul_f64(part),
            context_switches: count(its_loop.thread.context_switches),
            major_faults: count(its_loop.thread.major_faults),
            minor_faults: count(its_loop.thread.minor_faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_divided_by_operations() {
        let job = |index, ios| {
            let mut job = JobReport { index, ..JobReport::default() };
            job.directions[0].ios = ios;
            job
        };
        let thread = Usage { user: Duration::from_secs(4), ..Usage::default() };
        let report = RunReport {
            url: String::new(),
            geometry: Geometry {
                block_bytes: 512,
                blocks: 1,
                padding_bytes: 0,
                optimal_blocks: 1,
                max_transfer_bytes: 512,
                atomic: weft_block::Atomicity::ONE_BLOCK,
            },
            spec: JobSpec::default(),
            started: SystemTime::UNIX_EPOCH,
            jobs: vec![job(0, 3), job(1, 100), job(2, 1)],
            loops: vec![
                RunLoopReport { jobs: 2, thread, ..RunLoopReport::default() },
                RunLoopReport { jobs: 1, ..RunLoopReport::default() },
            ],
            process: Usage::default(),
            watched: None,
            stopped: false,
        };
        assert_eq!(report.usage_of(&report.jobs[0]).user, Duration::from_secs(3));
        assert_eq!(report.usage_of(&report.jobs[2]).user, Duration::from_secs(1));
        assert_eq!(report.usage_of(&report.jobs[1]).user, Duration::ZERO);
    }
}
