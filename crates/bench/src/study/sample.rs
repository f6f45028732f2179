//! One measurement, and how the rounds of a point become a row.

use crate::ceiling::CeilingReport;
use crate::limits::P999_IOS_MIN;
use crate::results::{self, Ceiling, CpuPerIo, Latency, Row};
use crate::stats::{self, confidence, median};
use crate::workload::{Direction, LoopReport, Report};
use weft_io::cpu_usage::Usage;

/// A generator that finds something to do in so many of its turns hardly ever waits for the device: a turn in which there is
/// nothing to do takes a tenth of the time of one in which there is, so this is nearly all of its time. Its processor time says
/// nothing, as it polls while it waits.
const BUSY_TURNS: f64 = 0.75;

/// What one measurement found.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Which round it was: shares are taken within a round.
    pub round: u32,
    ios: u64,
    iops: f64,
    /// Reads and writes.
    by_direction: [f64; 2],
    /// Their mean latency, ns.
    mean_ns: [f64; 2],
    /// How long it measured.
    seconds: f64,
    /// What the host took meanwhile.
    pub steal: Option<f64>,
    bytes_per_second: f64,
    latency: Latency,
    initiator: Usage,
    target: Option<Usage>,
    system_calls: u64,
    /// Part of the generator's turns in which it found something to do.
    busy_turns: f64,
    failed: u64,
}

impl Sample {
    /// From a run of the workload engine.
    pub fn of_run(round: u32, report: &Report) -> Self {
        let all = report.all();
        let counters = report.counters();
        Self {
            round,
            ios: all.ios,
            iops: all.iops_mean(),
            by_direction: [Direction::Read, Direction::Write].map(|direction| report.total(direction).iops_mean()),
            mean_ns: [Direction::Read, Direction::Write].map(|direction| report.total(direction).total.mean_ns()),
            seconds: all.runtime.as_secs_f64(),
            steal: None,
            bytes_per_second: all.bytes_per_second(),
            latency: latency(&all.total),
            initiator: report.process,
            target: report.watched,
            system_calls: report.loops.iter().map(LoopReport::system_calls).sum(),
            busy_turns: counters.turns_busy as f64 / counters.turns.max(1) as f64,
            failed: report.failed(),
        }
    }

    /// From a run of the ceiling.
    pub fn of_ceiling(round: u32, bytes: u32, report: &CeilingReport) -> Self {
        Self {
            round,
            ios: report.ios.iter().sum(),
            iops: report.iops(),
            by_direction: [0.0; 2],
            mean_ns: [0.0; 2],
            seconds: report.runtime.as_secs_f64(),
            steal: None,
            bytes_per_second: report.iops() * f64::from(bytes),
            latency: latency(&report.latency),
            initiator: report.thread,
            target: None,
            system_calls: report.system_calls,
            busy_turns: 0.0,
            failed: 0,
        }
    }

    /// Whether anything was measured.
    pub fn is_empty(&self) -> bool {
        self.ios == 0
    }
}

fn latency(all: &stats::Latency) -> Latency {
    Latency {
        mean_ns: all.mean_ns(),
        p50_ns: all.percentile_ns(50.0) as f64,
        p99_ns: all.percentile_ns(99.0) as f64,
        p999_ns: (all.count() >= P999_IOS_MIN).then(|| all.percentile_ns(99.9) as f64),
    }
}

fn median_of(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    median(&mut samples.iter().map(of).collect::<Vec<_>>())
}

fn latency_of(samples: &[Sample]) -> Latency {
    Latency {
        mean_ns: median_of(samples, |s| s.latency.mean_ns),
        p50_ns: median_of(samples, |s| s.latency.p50_ns),
        p99_ns: median_of(samples, |s| s.latency.p99_ns),
        p999_ns: samples.iter().map(|s| s.latency.p999_ns).collect::<Option<Vec<_>>>().map(|mut all| median(&mut all)),
    }
}

fn spread_of(samples: &[Sample]) -> (f64, f64) {
    samples.iter().fold((f64::MAX, 0.0), |(low, high), s| (low.min(s.iops), high.max(s.iops)))
}

/// How far the rounds lie apart.
pub fn unrest(samples: &[Sample]) -> f64 {
    results::unrest(spread_of(samples), median_of(samples, |s| s.iops))
}

fn confidence_of(samples: &[Sample]) -> Option<(f64, f64)> {
    confidence(&samples.iter().map(|s| s.iops).collect::<Vec<_>>())
}

/// `samples` as a share of `of`: the median over the rounds of the share within each. What slows the whole machine down for a
/// while, slows both in the same round.
pub fn share(samples: &[Sample], of: &[Sample]) -> Option<f64> {
    let pair = |s: &Sample| of.iter().find(|o| o.round == s.round && o.iops > 0.0).map(|o| s.iops / o.iops);
    let mut shares: Vec<f64> = samples.iter().filter_map(pair).collect();
    (!shares.is_empty()).then(|| median(&mut shares))
}

/// Processor time over all rounds, per operation: what is short of the system's resolution in one round adds up.
fn cpu_per_io(samples: &[Sample], of: impl Fn(&Sample) -> Option<Usage>) -> Option<CpuPerIo> {
    let mut total = Usage::default();
    for sample in samples {
        total = total.plus(&of(sample)?);
    }
    let ios = samples.iter().map(|s| s.ios).sum::<u64>().max(1) as f64;
    Some(CpuPerIo { user_ns: total.user.as_nanos() as f64 / ios, system_ns: total.system.as_nanos() as f64 / ios })
}

/// A row from the samples of a point, at least one.
pub fn row(lane: &str, workload: &str, samples: &[Sample]) -> Row {
    let ios = samples.iter().map(|s| s.ios).sum::<u64>().max(1) as f64;
    Row {
        lane: lane.to_owned(),
        workload: workload.to_owned(),
        iops: median_of(samples, |s| s.iops),
        read_iops: median_of(samples, |s| s.by_direction[0]),
        write_iops: median_of(samples, |s| s.by_direction[1]),
        bytes_per_second: median_of(samples, |s| s.bytes_per_second),
        latency: latency_of(samples),
        read_mean_ns: median_of(samples, |s| s.mean_ns[0]),
        write_mean_ns: median_of(samples, |s| s.mean_ns[1]),
        initiator: cpu_per_io(samples, |s| Some(s.initiator)).unwrap_or_default(),
        target: cpu_per_io(samples, |s| s.target),
        share_of_local: None,
        share_of_ceiling: None,
        spread: spread_of(samples),
        rounds: samples.len() as u32,
        seconds: median_of(samples, |s| s.seconds),
        confidence: confidence_of(samples),
        steal: samples.iter().filter_map(|s| s.steal).reduce(f64::max),
        system_calls_per_io: samples.iter().map(|s| s.system_calls).sum::<u64>() as f64 / ios,
        generator_limited: median_of(samples, |s| s.busy_turns) >= BUSY_TURNS,
        failed: samples.iter().map(|s| s.failed).sum(),
        counts: None,
    }
}

/// The ceiling of a workload from its samples, at least one.
pub fn ceiling(workload: &str, samples: &[Sample]) -> Ceiling {
    Ceiling {
        workload: workload.to_owned(),
        iops: median_of(samples, |s| s.iops),
        bytes_per_second: median_of(samples, |s| s.bytes_per_second),
        latency: latency_of(samples),
        spread: spread_of(samples),
        rounds: samples.len() as u32,
        confidence: confidence_of(samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn sample(round: u32, iops: f64) -> Sample {
        let usage = Usage { user: Duration::from_micros(iops as u64), ..Usage::default() };
        Sample {
            round,
            ios: iops as u64,
            iops,
            by_direction: [iops * 0.7, iops * 0.3],
            mean_ns: [2e9 / iops, 1e9 / iops],
            seconds: 0.5,
            steal: Some(iops / 1e6),
            bytes_per_second: iops * 4096.0,
            latency: Latency { mean_ns: 1e9 / iops, ..Latency::default() },
            initiator: usage,
            target: Some(usage),
            system_calls: iops as u64 / 10,
            busy_turns: 0.95,
            failed: 0,
        }
    }

    #[test]
    fn a_row_is_the_median_of_its_rounds() {
        let samples = [sample(0, 1000.0), sample(1, 400.0), sample(2, 1200.0)];
        let row = row("l", "w", &samples);
        assert_eq!((row.iops, row.spread, row.rounds), (1000.0, (400.0, 1200.0), 3));
        assert_eq!((row.read_iops, row.write_iops), (700.0, 300.0));
        assert_eq!((row.read_mean_ns, row.write_mean_ns, row.seconds, row.steal), (2e6, 1e6, 0.5, Some(0.0012)));
        assert!(row.is_unstable() && row.confidence.is_some_and(|(low, high)| low < 866.0 && high > 867.0));
        assert_eq!(row.latency.p999_ns, None);
        assert_eq!((row.latency.mean_ns, row.system_calls_per_io, row.generator_limited), (1e6, 0.1, true));
        assert!((row.initiator.user_ns - 1000.0).abs() < 1e-9 && row.target.is_some());
        assert_eq!(unrest(&samples), 0.8);
        assert_eq!(ceiling("w", &samples).iops, 1000.0);
    }

    #[test]
    fn shares_are_taken_within_a_round() {
        // The machine slowed down in round 1, and the lane was not measured in round 2.
        let local = [sample(0, 1000.0), sample(1, 500.0), sample(2, 800.0), sample(3, 1000.0)];
        let remote = [sample(0, 500.0), sample(1, 250.0), sample(3, 600.0)];
        assert_eq!(share(&remote, &local), Some(0.5));
        assert_eq!(share(&remote, &[]), None);
        let unknown = Sample { target: None, ..sample(4, 1.0) };
        assert_eq!(row("l", "w", &[sample(0, 1.0), unknown]).target, None);
    }
}
