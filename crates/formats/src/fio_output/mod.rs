//! The report of a run in fio's two formats, so that tools for fio's output can read it.
//!
//! The JSON is that of fio 3's `--output-format=json`: every key that fio writes for a job is
//! there, with the same type and unit. With `json+` the completion latencies also have their
//! `bins`. `group_reporting` makes one job of all.
//!
//! Results that fio does not have (kinds of errors, bad blocks, system calls) are under `"weft"`,
//! in each job and at the top level. The verify phase counts as reads, as in fio.

mod ends;
mod json;
mod normal;
mod text;

pub use json::{json, json_of_groups, json_plus};
pub use normal::normal;

use core::time::Duration;
use std::borrow::Cow;
use weft_bench::workload::{Direction, DirectionReport, JobReport, RunReport};
use weft_io::cpu_usage::Usage;

/// The version of fio whose layout this is, and ours behind it, in the form of fio's own
/// development versions.
fn version() -> String {
    format!("fio-3.33-weft-{}", env!("CARGO_PKG_VERSION"))
}

/// What is shown as a job: one, or the sum of all.
struct Shown<'a> {
    job: Cow<'a, JobReport>,
    /// How many it is.
    jobs: usize,
    usage: Usage,
    /// What that is a part of: the time of its loop, or of all.
    time: Duration,
}

/// What is shown of a report, where all jobs are one or not.
fn shown(report: &RunReport, grouped: bool) -> Vec<Shown<'_>> {
    if grouped {
        let (usage, time) =
            report.loops.iter().fold((Usage::default(), Duration::ZERO), |(usage, time), one| {
                (usage.plus(&one.thread), time + one.time)
            });
        return vec![Shown {
            job: Cow::Owned(report.group()),
            jobs: report.jobs.len(),
            usage,
            time,
        }];
    }
    let one = |job| {
        let &JobReport { index, .. } = job;
        let time = report
            .loops
            .get(index as usize % report.loops.len().max(1))
            .map_or(Duration::ZERO, |l| l.time);
        Shown { job: Cow::Borrowed(job), jobs: 1, usage: report.usage_of(job), time }
    };
    report.jobs.iter().map(one).collect()
}

/// The operations of one direction as fio counts them.
fn direction(job: &JobReport, direction: Direction) -> Cow<'_, DirectionReport> {
    let measured = &job.directions[direction.index()];
    match &job.verify {
        Some(verify) if direction == Direction::Read && verify.phase.ios > 0 => {
            let mut both = measured.clone();
            both.append(&verify.phase);
            Cow::Owned(both)
        }
        _ => Cow::Borrowed(measured),
    }
}

/// Upper ends of fio's latency classes: exclusive, in nanoseconds, microseconds and milliseconds.
const CLASSES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Operations by class of completion latency: ten of nanoseconds, ten of microseconds, ten of
/// milliseconds, below 2 s, and above.
fn latency_classes(job: &JobReport) -> [u64; 32] {
    let mut classes = [0; 32];
    for which in Direction::ALL {
        for (ns, count) in direction(job, which).completion.recorded() {
            classes[latency_class(ns)] += count;
        }
    }
    classes
}

fn latency_class(ns: u64) -> usize {
    let within = |value: u64| CLASSES.iter().position(|&end| value < end);
    match (within(ns), within(ns / 1000), within(ns / 1_000_000)) {
        (Some(class), ..) => class,
        (_, Some(class), _) => 10 + class,
        (.., Some(class)) => 20 + class,
        _ if ns < 2_000_000_000 => 30,
        _ => 31,
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests;
