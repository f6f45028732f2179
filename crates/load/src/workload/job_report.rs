//! The report of a job: its operations, how deep its queue was, what failed and what was verified.

use super::direction::Direction;
use super::steady::SteadyReport;
use super::verify::{BadBlock, FaultKind};
use crate::limits::FINDINGS_MAX;
use crate::stats::{Latencies, Moments};
use core::time::Duration;
use weft_block::{Outcome, Status, StatusKind};

/// A job.
#[derive(Clone, Debug, Default)]
pub struct JobReport {
    /// Its number.
    pub index: u32,
    /// The measured operations, by [`Direction::index`]. For the reads of the verify phase see
    /// `verify`.
    pub directions: [DirectionReport; 3],
    /// Latency of the flushes, from when one began until its completion was seen.
    pub syncs: Latencies,
    /// From the start of the measurement to the last completion.
    pub runtime: Duration,
    /// Distribution of queue depths.
    pub depths: Depths,
    /// Distribution of the number of operations submitted together.
    pub submitted: Batches,
    /// Distribution of the number of operations that completed together.
    pub completed: Batches,
    /// Operations that failed.
    pub errors: Vec<ErrorCount>,
    /// Why the job ended before its time, if it broke one of its own limits.
    pub broken: Option<Broken>,
    /// The depth at which the job ended, if it has a `latency_target`.
    pub depth: Option<u32>,
    /// State of the rates at the end, if they had to settle (`steadystate`).
    pub steady: Option<SteadyReport>,
    /// Operations that were due by `rate_iops` and never started, because the device was too slow.
    pub missed: u64,
    /// Operations that had not completed when the job stopped waiting.
    pub unfinished: u64,
    /// The result of verifying, if requested.
    pub verify: Option<VerifyReport>,
}

/// A limit of a job that it did not keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Broken {
    /// `max_latency`: an operation took this long.
    Latency {
        /// Its direction.
        direction: Direction,
        /// Its latency.
        took: Duration,
    },
    /// `rate_min`, `rate_iops_min`: the rate, in bytes or operations per second.
    Rate {
        /// The direction.
        direction: Direction,
        /// The rate.
        rate: f64,
    },
    /// `latency_target`: not even one operation at a time keeps it.
    Target,
}

/// The operations of one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionReport {
    /// Completed operations.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the start of the measurement to the last completion.
    pub runtime: Duration,
    /// Time from when an operation was due or started until the device accepted it.
    pub submission: Latencies,
    /// Time from when the device accepted it until its completion was seen.
    pub completion: Latencies,
    /// The sum of both.
    pub total: Latencies,
    /// Samples of bandwidth, KiB/s.
    pub bandwidth_kib: Moments,
    /// Samples of operations per second.
    pub iops: Moments,
}

impl DirectionReport {
    /// With room for latencies.
    pub(super) fn recording() -> Self {
        Self {
            submission: Latencies::new(),
            completion: Latencies::new(),
            total: Latencies::new(),
            ..Self::default()
        }
    }

    /// Operations per second; 0 when nothing ran.
    pub fn iops_mean(&self) -> f64 {
        per_second(self.ios, self.runtime)
    }

    /// Bytes per second; 0 when nothing ran.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.runtime)
    }

    /// Adds operations that ran concurrently.
    pub fn merge(&mut self, other: &Self) {
        let runtime = self.runtime.max(other.runtime);
        self.append(other);
        self.runtime = runtime;
    }

    /// Adds operations that ran later.
    pub fn append(&mut self, other: &Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.runtime += other.runtime;
        self.submission.merge(&other.submission);
        self.completion.merge(&other.completion);
        self.total.merge(&other.total);
        self.bandwidth_kib.merge(&other.bandwidth_kib);
        self.iops.merge(&other.iops);
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

/// Number of submissions at each depth of the queue: 1, 2–3, 4–7, 8–15, 16–31, 32–63, and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths(pub [u64; 7]);

impl Depths {
    /// Counts `n` operations that made the queue `depth` deep.
    #[inline]
    pub(super) fn add(&mut self, depth: usize, n: u64) {
        self.0[(depth.max(1).ilog2() as usize).min(6)] += n;
    }
}

/// Number of batches by their size: none, 1–4, 5–8, 9–16, 17–32, 33–64, and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches(pub [u64; 7]);

impl Batches {
    /// Counts a batch of `n`.
    #[inline]
    pub(super) fn add(&mut self, n: usize) {
        let level = if n == 0 {
            0
        } else {
            (n.next_power_of_two().ilog2() as usize).saturating_sub(1).clamp(1, 6)
        };
        self.0[level] += 1;
    }
}

/// Possible execution of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// The device has answered.
    Done,
    /// It did not reach the device.
    NotSent,
    /// Unknown, but it will not be executed any more.
    MayHaveExecuted,
    /// Unknown, and it may still be executed.
    MayStillExecute,
}

impl From<&Outcome> for Execution {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done(_) => Self::Done,
            Outcome::NotSent(_) => Self::NotSent,
            Outcome::MayHaveExecuted { settled: true, .. } => Self::MayHaveExecuted,
            Outcome::MayHaveExecuted { settled: false, .. } => Self::MayStillExecute,
        }
    }
}

/// Operations with the same failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// Their direction; that of writes for flushes.
    pub direction: Direction,
    /// True if they are flushes.
    pub is_sync: bool,
    /// Their possible execution.
    pub known: Execution,
    /// The status of the first one; its kind is that of all.
    pub status: Status,
    /// Address of the first one, in blocks of the device.
    pub first_lba: u64,
    /// Their number.
    pub count: u64,
}

impl ErrorCount {
    /// fio's name of these operations.
    pub fn name(&self) -> &'static str {
        if self.is_sync { "sync" } else { self.direction.name() }
    }
}

/// The result of verifying.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Verified blocks of the device.
    pub blocks: u64,
    /// Bad blocks by kind: wrong, stale, misplaced.
    pub bad: [u64; 3],
    /// The first bad blocks, at most [`FINDINGS_MAX`].
    pub findings: Vec<BadBlock>,
    /// Units that could not be verified, because their last write failed and their content is
    /// unknown.
    pub unknown_units: u64,
    /// The reads of the verify phase; empty if there was none.
    pub phase: DirectionReport,
}

impl VerifyReport {
    /// Bad blocks of one kind.
    pub fn count(&self, kind: FaultKind) -> u64 {
        self.bad[kind as usize]
    }

    /// All bad blocks.
    pub fn bad_blocks(&self) -> u64 {
        self.bad.iter().sum()
    }

    pub(super) fn add(&mut self, finding: BadBlock) {
        self.bad[finding.fault.kind() as usize] += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.bad = core::array::from_fn(|i| self.bad[i] + other.bad[i]);
        let room = FINDINGS_MAX - self.findings.len();
        self.findings.extend(other.findings.iter().take(room));
        self.unknown_units += other.unknown_units;
        self.phase.merge(&other.phase);
    }
}

impl JobReport {
    /// Operations that failed.
    pub fn failed(&self) -> u64 {
        self.errors.iter().map(|e| e.count).sum()
    }

    /// Notes a failed operation, or a flush.
    pub(super) fn fail(
        &mut self,
        direction: Direction,
        is_sync: bool,
        outcome: &Outcome,
        lba: u64,
    ) {
        let (known, status) = (Execution::from(outcome), outcome.status());
        let one = ErrorCount { direction, is_sync, known, status, first_lba: lba, count: 1 };
        self.add_error(&one);
    }

    fn add_error(&mut self, error: &ErrorCount) {
        let key = |e: &ErrorCount| (e.direction, e.is_sync, e.known, e.status.kind);
        match self.errors.iter_mut().find(|e| key(e) == key(error)) {
            Some(sum) => sum.count += error.count,
            None => self.errors.push(*error),
        }
    }

    /// Adds what is counted of another job.
    pub(super) fn add_counts(&mut self, other: &Self) {
        let sum = |one: &[u64; 7], other: &[u64; 7]| core::array::from_fn(|i| one[i] + other[i]);
        self.runtime = self.runtime.max(other.runtime);
        self.depths = Depths(sum(&self.depths.0, &other.depths.0));
        self.submitted = Batches(sum(&self.submitted.0, &other.submitted.0));
        self.completed = Batches(sum(&self.completed.0, &other.completed.0));
        self.missed += other.missed;
        self.unfinished += other.unfinished;
        self.syncs.merge(&other.syncs);
        self.broken = self.broken.or(other.broken);
        self.depth = self.depth.max(other.depth);
        let attained = |it: &Option<SteadyReport>| it.as_ref().is_some_and(|it| it.attained);
        if self.steady.is_none() || !attained(&self.steady) && attained(&other.steady) {
            self.steady.clone_from(&other.steady);
        }
        other.errors.iter().for_each(|error| self.add_error(error));
    }

    /// An error number as fio reports it: 0 when all went well, 5 (`EIO`) or that of the kind of
    /// the first failure, 84 (`EILSEQ`) for bad blocks, 110 (`ETIMEDOUT`) for operations that never
    /// completed. The numbers are Linux's on any system.
    pub fn error_number(&self) -> u32 {
        if let Some(error) = self.errors.first() {
            return errno(error.status.kind);
        }
        match self.broken {
            Some(Broken::Latency { .. } | Broken::Target) => return 110,
            Some(Broken::Rate { .. }) => return 5,
            None => {}
        }
        match &self.verify {
            Some(verify) if verify.bad_blocks() > 0 => 84,
            _ if self.unfinished > 0 => 110,
            _ => 0,
        }
    }
}

/// Linux's error number for a failure of this kind.
pub(super) fn errno(kind: StatusKind) -> u32 {
    match kind {
        StatusKind::NoSpace => 28,
        StatusKind::WriteProtected => 30,
        StatusKind::Unsupported => 95,
        StatusKind::Invalid | StatusKind::OutOfRange => 22,
        StatusKind::Aborted => 125,
        StatusKind::Busy => 16,
        StatusKind::Path => 121,
        StatusKind::Gone => 19,
        StatusKind::ReservationConflict => 52,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::verify::BlockFault;

    #[test]
    fn levels_are_fios() {
        let mut depths = Depths::default();
        [1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 1000].iter().for_each(|&n| depths.add(n, 1));
        assert_eq!(depths.0, [1, 2, 2, 2, 2, 2, 2]);
        let mut batches = Batches::default();
        [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 1000].iter().for_each(|&n| batches.add(n));
        assert_eq!(batches.0, [1, 4, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn failures_are_counted_by_kind_and_certainty() {
        let mut job = JobReport::default();
        let media = Status::with_raw(StatusKind::Media, weft_block::Raw::Nvme(0x281));
        job.fail(Direction::Read, false, &Outcome::Done(media), 5);
        job.fail(Direction::Read, false, &Outcome::Done(media), 9);
        job.fail(Direction::Read, false, &Outcome::settled(media), 7);
        job.fail(Direction::Write, false, &Outcome::Done(Status::new(StatusKind::NoSpace)), 8);
        assert_eq!(
            job.errors.iter().map(|e| (e.count, e.first_lba)).collect::<Vec<_>>(),
            [(2, 5), (1, 7), (1, 8)]
        );
        assert_eq!((job.failed(), job.error_number()), (4, 5));
    }

    #[test]
    fn findings_are_kept_up_to_their_limit_and_counted_beyond() {
        let mut verify = VerifyReport::default();
        (0..100).for_each(|lba| verify.add(BadBlock { lba, fault: BlockFault::Blank }));
        verify.add(BadBlock { lba: 0, fault: BlockFault::Misplaced { lba: 1 } });
        let mut twice = verify.clone();
        twice.merge(&verify);
        assert_eq!((twice.bad, twice.findings.len()), ([200, 0, 2], FINDINGS_MAX));
        let job = JobReport { verify: Some(twice), ..JobReport::default() };
        assert_eq!(job.error_number(), 84);
    }
}
