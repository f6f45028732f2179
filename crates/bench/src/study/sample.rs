//! One measurement, and how the rounds of a point become a row.

use super::clock::TimeSlot;
use super::ticks::Ticks;
use crate::ceiling::CeilingReport;
use crate::limits::{P999_IOS_MIN, P9999_IOS_MIN, SERIES_POINTS_MAX};
use crate::results::{Ceiling, CpuPerIo, Latency, Processors, Quantity, Row};
use crate::stats::{self, median, median_interval};
use crate::workload::{Direction, DirectionReport, RunLoopReport, RunReport};
use core::time::Duration;
use weft_io::cpu_usage::Usage;

/// Part of its turns from which on a generator that finds work hardly ever waits for the device: a
/// turn without work takes a tenth of the time of one with work, so this is nearly all of its
/// time.
pub const BUSY_TURNS: f64 = 0.75;

/// Part of its time that such a generator uses the processor at least, also where it shares that.
const BUSY_TIME: f64 = 0.5;

/// Returns the busy part of a generator: of its turns, those in which it found something to do. Its
/// processor time shows nothing, as it polls while it waits. A generator that sleeps while it waits
/// has few turns without work; then it is the processor time as a part of the whole time.
pub fn busy(report: &RunReport) -> f64 {
    let counters = report.counters();
    let turns = counters.turns_busy as f64 / counters.turns.max(1) as f64;
    let time: f64 = report.loops.iter().map(|one| one.time.as_secs_f64()).sum();
    let used: f64 = report.loops.iter().map(|one| one.thread.total().as_secs_f64()).sum();
    if time > 0.0 && used < BUSY_TIME * time { turns.min(used / time) } else { turns }
}

/// Results of one of several machines.
#[derive(Clone, Copy, Debug)]
pub struct OfMachine {
    pub(super) number: u32,
    pub(super) ios: u64,
    pub(super) iops: f64,
    pub(super) latency: Latency,
    pub(super) usage: Usage,
    /// Use of all its processors.
    pub(super) processors: Option<Processors>,
}

impl OfMachine {
    /// All machines of a run.
    pub fn all(report: &RunReport) -> Vec<Self> {
        let each = report.jobs.iter().zip(&report.loops);
        each.map(|(job, process)| Self::new(job.index, &job.directions, process)).collect()
    }

    fn new(number: u32, directions: &[DirectionReport; 3], process: &RunLoopReport) -> Self {
        let mut all = DirectionReport::default();
        directions.iter().for_each(|direction| all.merge(direction));
        Self {
            number,
            ios: all.ios,
            iops: all.iops_mean(),
            latency: latency(&all.total),
            usage: process.thread,
            processors: process.machine.map(Processors::from),
        }
    }
}

/// Results of one measurement.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The number of its round: shares are taken within a round.
    pub round: u32,
    /// The block of that round.
    pub block: u32,
    ios: u64,
    iops: f64,
    /// Reads and writes.
    by_direction: [f64; 2],
    /// Their latency.
    latency_of: [Latency; 2],
    /// Its length without the warm-up.
    pub seconds: f64,
    /// The length of its warm-up.
    warm_up: Duration,
    /// When it began, after the start of the study.
    pub at_s: f64,
    /// IOPS over time, after the start of the study.
    pub series: Vec<(f64, f64)>,
    /// Cycles of the processor's clock in a nanosecond, before and after it; none where another
    /// machine put the load on.
    pub clock: Option<f64>,
    /// The part that the host took in the meantime.
    pub steal: Option<f64>,
    /// Use of the processors from before it began until after it ended.
    pub processors: Option<Ticks>,
    bytes_per_second: f64,
    latency: Latency,
    initiator: Usage,
    target: Option<Usage>,
    system_calls: u64,
    /// See [`busy`].
    pub busy: f64,
    failed: u64,
    /// Results of the machines that put the load on, if that was not this one.
    pub machines: Vec<OfMachine>,
}

impl Sample {
    /// From a run of the workload engine.
    pub fn of_run(round: u32, report: &RunReport) -> Self {
        let all = report.all();
        Self {
            round,
            block: 0,
            ios: all.ios,
            iops: all.iops_mean(),
            by_direction: [Direction::Read, Direction::Write]
                .map(|direction| report.total(direction).iops_mean()),
            latency_of: [Direction::Read, Direction::Write]
                .map(|direction| latency(&report.total(direction).total)),
            seconds: all.runtime.as_secs_f64(),
            warm_up: report.spec.ramp_time,
            at_s: 0.0,
            series: Vec::new(),
            clock: None,
            steal: None,
            processors: None,
            bytes_per_second: all.bytes_per_second(),
            latency: latency(&all.total),
            initiator: report.process,
            target: report.watched,
            system_calls: report.loops.iter().map(RunLoopReport::system_calls).sum(),
            busy: busy(report),
            failed: report.failed(),
            machines: Vec::new(),
        }
    }

    /// From a run of the ceiling.
    pub fn of_ceiling(round: u32, bytes: u32, report: &CeilingReport) -> Self {
        Self {
            round,
            block: 0,
            ios: report.ios.iter().sum(),
            iops: report.iops(),
            by_direction: [0.0; 2],
            latency_of: [Latency::default(); 2],
            seconds: report.runtime.as_secs_f64(),
            warm_up: Duration::ZERO,
            at_s: 0.0,
            series: Vec::new(),
            clock: None,
            steal: None,
            processors: None,
            bytes_per_second: report.iops() * f64::from(bytes),
            latency: latency(&report.latency),
            initiator: report.thread,
            target: None,
            system_calls: report.system_calls,
            busy: 0.0,
            failed: 0,
            machines: Vec::new(),
        }
    }

    /// The value to compare with other lanes; NaN where it is not known.
    pub fn value(&self, quantity: Quantity) -> f64 {
        match quantity {
            Quantity::Rate => self.iops,
            // A generator that reports no latencies has none.
            Quantity::Latency if self.latency.p50_ns <= 0.0 => f64::NAN,
            Quantity::Latency => self.latency.p50_ns,
            Quantity::Cpu => self.per_io(self.initiator.plus(&self.target.unwrap_or_default())),
            Quantity::Cycles => self.value(Quantity::Cpu) * self.clock.unwrap_or(f64::NAN),
            Quantity::InitiatorCpu => self.per_io(self.initiator),
            Quantity::TargetCpu => self.target.map_or(f64::NAN, |used| self.per_io(used)),
        }
    }

    fn per_io(&self, used: Usage) -> f64 {
        used.total().as_nanos() as f64 / self.ios as f64
    }

    /// Processor time of the target, if it is known.
    pub fn target(&self) -> Option<Usage> {
        self.target
    }

    /// Returns whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.ios == 0
    }
}

/// A percentile is reported only if enough operations lie above it.
pub fn latency(all: &stats::Latencies) -> Latency {
    Latency {
        mean_ns: all.mean_ns(),
        p50_ns: all.percentile_ns(50.0) as f64,
        p90_ns: all.percentile_ns(90.0) as f64,
        p99_ns: all.percentile_ns(99.0) as f64,
        p999_ns: (all.count() >= P999_IOS_MIN).then(|| all.percentile_ns(99.9) as f64),
        p9999_ns: (all.count() >= P9999_IOS_MIN).then(|| all.percentile_ns(99.99) as f64),
        max_ns: all.max_ns() as f64,
    }
}

fn median_of(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    median(&mut samples.iter().map(of).collect::<Vec<_>>())
}

/// Medians of the rounds, and the longest of all.
fn latency_of(samples: &[Sample], of: fn(&Sample) -> &Latency) -> Latency {
    let rare = |percentile: fn(&Latency) -> Option<f64>| {
        let all = samples.iter().map(|s| percentile(of(s))).collect::<Option<Vec<_>>>();
        all.map(|mut all| median(&mut all))
    };
    Latency {
        mean_ns: median_of(samples, |s| of(s).mean_ns),
        p50_ns: median_of(samples, |s| of(s).p50_ns),
        p90_ns: median_of(samples, |s| of(s).p90_ns),
        p99_ns: median_of(samples, |s| of(s).p99_ns),
        p999_ns: rare(|latency| latency.p999_ns),
        p9999_ns: rare(|latency| latency.p9999_ns),
        max_ns: samples.iter().map(|s| of(s).max_ns).fold(0.0, f64::max),
    }
}

/// The length of the measurements of a row, by their median.
pub fn slot_of(samples: &[Sample]) -> TimeSlot {
    let seconds = median_of(samples, |s| s.seconds);
    let warm_up = samples.first().map_or(Duration::ZERO, |s| s.warm_up);
    TimeSlot { warm_up, run: Duration::try_from_secs_f64(seconds).unwrap_or_default() }
}

/// Use of the processors in all rounds together.
fn processors_of(samples: &[Sample]) -> Option<Processors> {
    let all = samples.iter().filter_map(|s| s.processors).reduce(Ticks::plus);
    all.and_then(Ticks::parts)
}

/// The series of all rounds; neighbours are averaged until a round has at most
/// [`SERIES_POINTS_MAX`].
fn series_of(samples: &[Sample]) -> Vec<(f64, f64)> {
    let thin = |series: &Vec<(f64, f64)>| {
        let together = series.len().div_ceil(SERIES_POINTS_MAX).max(1);
        let mean = |part: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
            part.iter().map(of).sum::<f64>() / part.len() as f64
        };
        series
            .chunks(together)
            .map(|part| (mean(part, |p| p.0), mean(part, |p| p.1)))
            .collect::<Vec<_>>()
    };
    samples.iter().flat_map(|s| thin(&s.series)).collect()
}

fn spread_of(samples: &[Sample]) -> (f64, f64) {
    samples.iter().fold((f64::MAX, 0.0), |(low, high), s| (low.min(s.iops), high.max(s.iops)))
}

/// The median of the rates.
pub fn iops(samples: &[Sample]) -> f64 {
    median_of(samples, |s| s.iops)
}

fn iops_of(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|s| s.iops).collect()
}

/// The samples of two lanes that were taken in the same round, right after one another.
pub fn beside<'a>(
    samples: &'a [Sample],
    of: &'a [Sample],
) -> impl Iterator<Item = (&'a Sample, &'a Sample)> {
    samples.iter().filter_map(|s| of.iter().find(|o| o.round == s.round).map(|o| (s, o)))
}

/// `samples` as a share of `of`: the median over the rounds of the share within each. What slows
/// the whole machine down for a while, slows both in the same round.
pub fn share(samples: &[Sample], of: &[Sample]) -> Option<f64> {
    let mut shares: Vec<f64> =
        beside(samples, of).filter(|(_, o)| o.iops > 0.0).map(|(s, o)| s.iops / o.iops).collect();
    (!shares.is_empty()).then(|| median(&mut shares))
}

/// Processor time over all rounds, per operation: what is short of the system's resolution in one
/// round adds up.
fn cpu_per_io(samples: &[Sample], of: impl Fn(&Sample) -> Option<Usage>) -> Option<CpuPerIo> {
    let mut total = Usage::default();
    for sample in samples {
        total = total.plus(&of(sample)?);
    }
    let ios = samples.iter().map(|s| s.ios).sum::<u64>().max(1) as f64;
    Some(CpuPerIo {
        user_ns: total.user.as_nanos() as f64 / ios,
        system_ns: total.system.as_nanos() as f64 / ios,
    })
}

/// A row from the samples of a point, at least one.
pub fn row(lane: &str, workload: &str, samples: &[Sample]) -> Row {
    let ios = samples.iter().map(|s| s.ios).sum::<u64>().max(1) as f64;
    Row {
        lane: lane.to_owned(),
        workload: workload.to_owned(),
        iops: iops(samples),
        offered_iops: None,
        read_iops: median_of(samples, |s| s.by_direction[0]),
        write_iops: median_of(samples, |s| s.by_direction[1]),
        bytes_per_second: median_of(samples, |s| s.bytes_per_second),
        latency: latency_of(samples, |s| &s.latency),
        reads: latency_of(samples, |s| &s.latency_of[0]),
        writes: latency_of(samples, |s| &s.latency_of[1]),
        initiator: cpu_per_io(samples, |s| Some(s.initiator)).unwrap_or_default(),
        target: cpu_per_io(samples, |s| s.target),
        share_of_local: None,
        share_of_ceiling: None,
        spread: spread_of(samples),
        rounds: samples.len() as u32,
        seconds: median_of(samples, |s| s.seconds),
        interval: median_interval(&iops_of(samples)),
        iops_of_rounds: iops_of(samples),
        at_s: samples.iter().map(|s| s.at_s).collect(),
        series: series_of(samples),
        processors: processors_of(samples),
        context_switches_per_io: samples.iter().map(|s| s.initiator.context_switches).sum::<u64>()
            as f64
            / ios,
        steal: samples.iter().filter_map(|s| s.steal).reduce(f64::max),
        system_calls_per_io: samples.iter().map(|s| s.system_calls).sum::<u64>() as f64 / ios,
        p50_interval: median_interval(
            &samples.iter().map(|s| s.latency.p50_ns).collect::<Vec<_>>(),
        ),
        cpu_interval: median_interval(
            &samples.iter().map(|s| s.value(Quantity::Cpu)).collect::<Vec<_>>(),
        ),
        p99_interval: median_interval(
            &samples.iter().map(|s| s.latency.p99_ns).collect::<Vec<_>>(),
        ),
        generator_limited: median_of(samples, |s| s.busy) >= BUSY_TURNS,
        failed: samples.iter().map(|s| s.failed).sum(),
        counts: None,
        command: String::new(),
        remarks: Vec::new(),
        machines: Vec::new(),
        left_out: 0,
        missing: 0,
    }
}

/// The ceiling of a workload from its samples, at least one.
pub fn ceiling(workload: &str, samples: &[Sample]) -> Ceiling {
    Ceiling {
        workload: workload.to_owned(),
        iops: iops(samples),
        bytes_per_second: median_of(samples, |s| s.bytes_per_second),
        latency: latency_of(samples, |s| &s.latency),
        spread: spread_of(samples),
        rounds: samples.len() as u32,
        interval: median_interval(&iops_of(samples)),
        iops_of_rounds: iops_of(samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(round: u32, iops: f64) -> Sample {
        let usage = Usage { user: Duration::from_micros(iops as u64), ..Usage::default() };
        Sample {
            clock: None,
            round,
            block: 0,
            ios: iops as u64,
            iops,
            by_direction: [iops * 0.7, iops * 0.3],
            latency_of: [2e9, 1e9].map(|ns| Latency {
                mean_ns: ns / iops,
                max_ns: ns,
                ..Latency::default()
            }),
            seconds: 0.5,
            warm_up: Duration::from_millis(100),
            at_s: f64::from(round),
            series: (0..100).map(|at| (f64::from(at), iops)).collect(),
            processors: None,
            steal: Some(iops / 1e6),
            bytes_per_second: iops * 4096.0,
            latency: Latency { mean_ns: 1e9 / iops, ..Latency::default() },
            initiator: usage,
            target: Some(usage),
            system_calls: iops as u64 / 10,
            busy: 0.95,
            failed: 0,
            machines: Vec::new(),
        }
    }

    #[test]
    fn a_row_is_the_median_of_its_rounds() {
        let samples = [sample(0, 1000.0), sample(1, 400.0), sample(2, 1200.0)];
        let row = row("l", "w", &samples);
        assert_eq!((row.iops, row.spread, row.rounds), (1000.0, (400.0, 1200.0), 3));
        assert_eq!((row.read_iops, row.write_iops), (700.0, 300.0));
        assert_eq!(
            (row.reads.mean_ns, row.writes.mean_ns, row.seconds, row.steal),
            (2e6, 1e6, 0.5, Some(0.0012))
        );
        assert_eq!((row.reads.max_ns, row.at_s.len(), row.processors), (2e9, 3, None));
        assert_eq!(
            (row.series.len(), row.series[0]),
            (75, (1.5, 1000.0)),
            "four together, 25 a round"
        );
        assert_eq!(slot_of(&samples).run, Duration::from_millis(500));
        assert!(
            row.is_unstable() && row.interval.is_none(),
            "three rounds say nothing of where the median is"
        );
        assert_eq!(row.iops_of_rounds, [1000.0, 400.0, 1200.0]);
        assert_eq!(row.latency.p999_ns, None);
        assert_eq!(
            (row.latency.mean_ns, row.system_calls_per_io, row.generator_limited),
            (1e6, 0.1, true)
        );
        assert!((row.initiator.user_ns - 1000.0).abs() < 1e-9 && row.target.is_some());
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
