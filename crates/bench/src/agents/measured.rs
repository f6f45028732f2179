//! Result of a run of an agent, with its histograms.

use crate::results::Processors;
use crate::stats::Latencies;
use crate::study::ticks::Ticks;
use crate::workload::{self, Direction, DirectionReport, JobReport, RunLoopReport, RunReport};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use weft_block::{Status, StatusKind};
use weft_io::counters::Snapshot;
use weft_io::cpu_usage::Usage;
use weft_load::limits::{LATENCY_NS_MAX, LATENCY_NS_MIN};

/// Most buckets of a histogram that are taken from a peer: more than one of ours ever has.
const BUCKETS_MAX: usize = 16 << 10;

/// Longest time that is taken from a peer: longer than any run.
const TIME_MAX: Duration = Duration::from_secs(1 << 32);

/// Result of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct MeasuredRun {
    /// When its jobs started, on the agent's clock; none if they did not.
    pub started_ns: Option<i64>,
    /// Reads and writes.
    pub directions: [MeasuredDirection; 2],
    /// Operations that failed or never completed.
    pub failed: u64,
    /// The first of them, in words.
    pub failure: Option<String>,
    /// Processor time of the agent's process while measuring, ns: in user space, and in the kernel.
    pub cpu_ns: [u64; 2],
    /// Context switches of it.
    pub context_switches: u64,
    /// Use of all processors that it may use, from the start of its jobs to their end; none where
    /// the system does not count that.
    #[serde(default)]
    pub processors: Option<Processors>,
    /// Time for which its loops measured.
    pub loops: Duration,
    /// Their counters, by the names of [`COUNTED`].
    pub counters: [u64; COUNTED],
    /// It was ended early.
    pub stopped: bool,
}

/// Number of counters that are reported.
pub const COUNTED: usize = 10;

/// The operations of one direction.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct MeasuredDirection {
    /// Completed operations.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the start of the measurement to the last completion.
    pub runtime: Duration,
    /// Latencies in ns, and how many operations had them.
    pub latencies: Vec<(u64, u64)>,
}

/// The counters that a study reads, in their order on the wire.
fn counted(counters: &mut Snapshot) -> [&mut u64; COUNTED] {
    let c = counters;
    [
        &mut c.turns,
        &mut c.turns_busy,
        &mut c.recv_calls,
        &mut c.recv_bytes,
        &mut c.send_calls,
        &mut c.send_blocked,
        &mut c.send_bytes,
        &mut c.sleeps,
        &mut c.disk_enters,
        &mut c.copied_bytes,
    ]
}

impl MeasuredDirection {
    fn of(report: &DirectionReport) -> Self {
        let latencies = report.total.recorded().collect();
        Self { ios: report.ios, bytes: report.bytes, runtime: report.runtime, latencies }
    }

    fn report(&self) -> DirectionReport {
        let mut total =
            if self.latencies.is_empty() { Latencies::unused() } else { Latencies::new() };
        // Of a peer: what no histogram of ours has is not taken, and no sum overflows.
        let mut left = u64::from(u32::MAX) << 16;
        for &(ns, count) in self.latencies.iter().take(BUCKETS_MAX) {
            let count = count.min(left);
            left -= count;
            total.record_n(ns.clamp(LATENCY_NS_MIN, LATENCY_NS_MAX), count);
        }
        let ios = self.ios.min(u64::from(u32::MAX) << 16);
        DirectionReport {
            ios,
            bytes: self.bytes.min(1 << 56),
            runtime: self.runtime.min(TIME_MAX),
            total,
            ..DirectionReport::default()
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl MeasuredRun {
    /// From a report; `started_ns` is when its jobs started.
    pub fn of(report: &RunReport, started_ns: Option<i64>) -> Self {
        let mut counters = report.counters();
        let failure = report.jobs.iter().find_map(|job| job.errors.first());
        Self {
            started_ns,
            directions: [Direction::Read, Direction::Write]
                .map(|direction| MeasuredDirection::of(&report.total(direction))),
            failed: report.failed(),
            failure: failure
                .map(|error| format!("{:?} at LBA {}", error.status.kind, error.first_lba)),
            cpu_ns: [nanos(report.process.user), nanos(report.process.system)],
            context_switches: report.process.context_switches,
            processors: None,
            loops: report.loops.iter().map(|one| one.time).max().unwrap_or_default(),
            counters: counted(&mut counters).map(|value| *value),
            stopped: report.stopped,
        }
    }

    /// As a job of a report, whose index is the number of the agent.
    pub(super) fn job(&self, index: u32) -> JobReport {
        let [reads, writes] = &self.directions;
        let directions = [reads.report(), writes.report(), DirectionReport::default()];
        let runtime =
            directions.iter().map(|direction| direction.runtime).max().unwrap_or_default();
        let error = |count| crate::workload::ErrorCount {
            direction: Direction::Read,
            is_sync: false,
            known: crate::workload::Execution::Done,
            status: Status::new(StatusKind::Internal),
            first_lba: 0,
            count,
        };
        let errors =
            (self.failed > 0).then(|| error(self.failed.min(1 << 56))).into_iter().collect();
        JobReport { index, directions, runtime, errors, ..JobReport::default() }
    }

    /// The agent's process as a loop of a report.
    pub(super) fn process(&self) -> RunLoopReport {
        let mut counters = Snapshot::default();
        // The sums of several machines stay within bounds, whatever one of them says.
        counted(&mut counters)
            .into_iter()
            .zip(self.counters)
            .for_each(|(to, value)| *to = value.min(1 << 56));
        let [user, system] = self.cpu_ns.map(|ns| Duration::from_nanos(ns.min(1 << 56)));
        let context_switches = self.context_switches.min(1 << 56);
        let thread = Usage { user, system, context_switches, ..Usage::default() };
        let machine = self.processors.map(bounded);
        RunLoopReport {
            cpu: None,
            jobs: 1,
            time: self.loops.min(TIME_MAX),
            thread,
            counters,
            machine,
        }
    }
}

/// Parts of a time, whatever a peer says.
fn bounded(of: Processors) -> workload::ProcessorTimes {
    let part = |value: f64| value.clamp(0.0, 1.0);
    let Processors { user, system, interrupts, soft_interrupts, steal } = of;
    workload::ProcessorTimes {
        user: part(user),
        system: part(system),
        interrupts: part(interrupts),
        soft_interrupts: part(soft_interrupts),
        steal: part(steal),
    }
}

/// Watches the processors of this machine.
#[derive(Clone, Copy, Debug)]
pub struct ProcessorWatch(Option<Ticks>);

impl ProcessorWatch {
    /// From now on.
    pub fn start() -> Self {
        Self(Ticks::now())
    }

    /// Returns the use of the processors until now.
    pub fn end(self) -> Option<Processors> {
        Ticks::now()?.since(self.0?).parts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::message::{self, AgentMessage};

    #[test]
    fn whatever_a_peer_says_it_found_is_taken_without_overflow() {
        let part = MeasuredDirection {
            ios: u64::MAX,
            bytes: u64::MAX,
            runtime: Duration::MAX,
            latencies: vec![(0, u64::MAX), (u64::MAX, u64::MAX), (5, 1)],
        };
        let measured = MeasuredRun {
            directions: [part.clone(), part],
            failed: u64::MAX,
            cpu_ns: [u64::MAX; 2],
            context_switches: u64::MAX,
            counters: [u64::MAX; COUNTED],
            processors: Some(Processors { user: -1.0, system: f64::MAX, ..Processors::default() }),
            ..MeasuredRun::default()
        };
        let job = measured.job(0);
        let mut sum = job.directions[0].clone();
        sum.merge(&job.directions[1]);
        assert!(sum.total.count() > 0 && sum.iops_mean() >= 0.0 && job.failed() > 0);
        let process = measured.process();
        assert_eq!(process.machine.map(|machine| (machine.user, machine.system)), Some((0.0, 1.0)));
        let _ = (process.counters.plus(&process.counters), process.thread.plus(&process.thread));
    }

    /// A histogram with a value in each of its buckets is the longest that there is.
    #[test]
    fn the_longest_answer_fits_into_a_message() {
        let mut total = Latencies::new();
        let mut ns = 1u64;
        while ns < LATENCY_NS_MAX {
            total.record_n(ns, 1_000_000_007);
            ns += (ns / 200).max(1);
        }
        let part = MeasuredDirection::of(&DirectionReport {
            ios: u64::MAX,
            total,
            ..DirectionReport::default()
        });
        assert!(part.latencies.len() < BUCKETS_MAX);
        let measured = MeasuredRun { directions: [part.clone(), part], ..MeasuredRun::default() };
        let answer = AgentMessage::Ended { measured: Box::new(measured) };
        let bytes = message::encode(&answer).unwrap();
        let (back, _) =
            message::decode::<AgentMessage>(&bytes, crate::limits::AGENT_MESSAGE_BYTES_MAX)
                .unwrap()
                .unwrap();
        assert_eq!(back, answer);
    }
}
