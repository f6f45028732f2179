//! Counting while a job runs: nothing here allocates after [`Recorder::new`].

use super::direction::{Direction, Rw};
use super::job_report::{Batches, Depths, DirectionReport, JobReport};
use crate::limits::SAMPLE_EVERY;
use crate::stats::Latencies;
use core::time::Duration;
use weft_io::Time;

/// What one job records.
pub(super) struct Recorder {
    /// `None`: no operations of this direction occur.
    directions: [Option<Box<DirectionReport>>; 3],
    /// `None`: no flushes occur.
    syncs: Option<Box<Latencies>>,
    begin: Time,
    /// Last completion of each direction.
    last: [Time; 3],
    depths: Depths,
    batches: [Batches; 2],
    samples: Samples,
}

/// Bandwidth and IOPS over spans of [`SAMPLE_EVERY`].
struct Samples {
    since: Time,
    due: Time,
    /// Operations and bytes of each direction when the span began.
    before: [(u64, u64); 3],
}

impl Recorder {
    /// For a job that does `rw`, and flushes if `syncs` is set.
    pub fn new(rw: Rw, syncs: bool) -> Self {
        Self {
            directions: Direction::ALL
                .map(|d| rw.has(d).then(|| Box::new(DirectionReport::recording()))),
            syncs: syncs.then(|| Box::new(Latencies::new())),
            begin: Time::ZERO,
            last: [Time::ZERO; 3],
            depths: Depths::default(),
            batches: Default::default(),
            samples: Samples { since: Time::ZERO, due: Time::ZERO, before: [(0, 0); 3] },
        }
    }

    /// The measurement begins now.
    pub fn begin(&mut self, now: Time) {
        self.begin = now;
        self.last = [now; 3];
        self.samples = Samples { since: now, due: now + SAMPLE_EVERY, before: [(0, 0); 3] };
    }

    /// `n` operations were taken by the device `ns` after they were due.
    #[inline]
    pub fn submitted(&mut self, direction: Direction, ns: u64, n: u64) {
        if let Some(report) = &mut self.directions[direction.index()] {
            report.submission.record_n(ns, n);
        }
    }

    /// `n` operations were submitted together, which makes `depth` in flight.
    #[inline]
    pub fn batch_submitted(&mut self, n: usize, depth: usize) {
        self.depths.add(depth, n as u64);
        self.batches[0].add(n);
    }

    /// `n` operations completed together.
    #[inline]
    pub fn batch_completed(&mut self, n: usize) {
        self.batches[1].add(n);
    }

    /// An operation was done.
    #[inline]
    pub fn completed(
        &mut self,
        direction: Direction,
        bytes: u64,
        completion: Duration,
        total: Duration,
        now: Time,
    ) {
        self.last[direction.index()] = now;
        if let Some(report) = &mut self.directions[direction.index()] {
            report.ios += 1;
            report.bytes += bytes;
            report.completion.record(completion.as_nanos() as u64);
            report.total.record(total.as_nanos() as u64);
        }
    }

    /// A flush was done.
    #[inline]
    pub fn synced(&mut self, took: Duration) {
        if let Some(syncs) = &mut self.syncs {
            syncs.record(took.as_nanos() as u64);
        }
    }

    /// Takes a sample if one is due.
    #[inline]
    pub fn sample(&mut self, now: Time) {
        if now >= self.samples.due {
            self.take_sample(now);
        }
    }

    #[cold]
    fn take_sample(&mut self, now: Time) {
        let seconds = (now - self.samples.since).as_secs_f64();
        for (report, before) in self.directions.iter_mut().zip(&mut self.samples.before) {
            let Some(report) = report else { continue };
            report.iops.add((report.ios - before.0) as f64 / seconds);
            report.bandwidth_kib.add((report.bytes - before.1) as f64 / 1024.0 / seconds);
            *before = (report.ios, report.bytes);
        }
        self.samples.since = now;
        self.samples.due = now + SAMPLE_EVERY;
    }

    /// Operations and bytes so far, of each direction.
    pub fn counts(&self) -> [(u64, u64); 3] {
        core::array::from_fn(|i| self.directions[i].as_ref().map_or((0, 0), |d| (d.ios, d.bytes)))
    }

    /// Hands over what was recorded.
    pub fn finish(&mut self, report: &mut JobReport) {
        for (at, recorded) in self.directions.iter_mut().enumerate() {
            let Some(mut direction) = recorded.take() else { continue };
            direction.runtime = self.last[at] - self.begin;
            report.directions[at] = *direction;
        }
        if let Some(syncs) = self.syncs.take() {
            report.syncs = *syncs;
        }
        report.runtime = self.last.iter().map(|&last| last - self.begin).max().unwrap_or_default();
        report.depths = self.depths;
        [report.submitted, report.completed] = self.batches;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_samples() {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut recorder = Recorder::new(Rw::RandWrite, true);
        recorder.begin(ms(1000));
        for i in 1..=1500 {
            let now = ms(1000 + i);
            recorder.submitted(Direction::Write, 100, 1);
            recorder.completed(
                Direction::Write,
                4096,
                Duration::from_nanos(900),
                Duration::from_nanos(1000),
                now,
            );
            recorder.sample(now);
        }
        recorder.batch_submitted(4, 32);
        recorder.synced(Duration::from_micros(7));
        let mut report = JobReport::default();
        recorder.finish(&mut report);
        let write = &report.directions[Direction::Write.index()];
        assert_eq!(
            (write.ios, write.bytes, write.runtime),
            (1500, 1500 * 4096, Duration::from_millis(1500))
        );
        assert_eq!((write.iops_mean(), write.iops.count()), (1000.0, 3));
        assert!(
            (write.iops.mean() - 1000.0).abs() < 1e-6
                && (write.bandwidth_kib.mean() - 4000.0).abs() < 1e-6
        );
        assert_eq!(
            (write.completion.count(), write.total.mean_ns(), write.submission.max_ns()),
            (1500, 1000.0, 100)
        );
        assert_eq!((report.depths.0[5], report.submitted.0[1]), (4, 1));
        assert_eq!(report.directions[Direction::Read.index()].ios, 0);
        assert_eq!((report.syncs.count(), report.syncs.mean_ns()), (1, 7000.0));
    }
}
