//! Early ends of a job: at a limit that it did not keep, with the depth that it looked for, or when
//! its rates had settled.

use super::text::{binary, decimal, short};
use core::fmt::{self, Write};
use serde_json::{Map, Value, json};
use weft_bench::JobSpec;
use weft_bench::workload::{Broken, JobReport, SteadyReport, SteadyState};

/// fio's keys for `latency_target`.
pub(super) fn put_search(out: &mut Map<String, Value>, spec: &JobSpec, job: &JobReport) {
    let target = spec.latency_target.as_ref();
    let most = target.map_or(0, |target| target.most.as_nanos() as u64);
    let window = target.map_or(0, |target| target.window.as_micros() as u64);
    let percent = target.map_or(100.0, |target| target.percent);
    for (key, value) in [
        ("latency_depth", Value::from(job.depth.unwrap_or(spec.iodepth))),
        ("latency_target", most.into()),
        ("latency_percentile", percent.into()),
        ("latency_window", window.into()),
    ] {
        out.insert(key.to_owned(), value);
    }
}

/// The same as a line.
pub(super) fn search_line(out: &mut String, spec: &JobSpec, job: &JobReport) -> fmt::Result {
    let target = spec.latency_target.as_ref();
    writeln!(
        out,
        "     latency   : target={}, window={}, percentile={:.2}%, depth={}",
        target.map_or(0, |target| target.most.as_nanos()),
        target.map_or(0, |target| target.window.as_micros()),
        target.map_or(100.0, |target| target.percent),
        job.depth.unwrap_or(spec.iodepth)
    )
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// fio's object for `steadystate`. The key of the other measure, which is not judged, is 0.
pub(super) fn steady(wanted: &SteadyState, found: &SteadyReport) -> Value {
    let criterion = &wanted.criterion;
    let unit = if criterion.percent { "%" } else { "" };
    let whole = |values: &[f64]| values.iter().map(|value| *value as u64).collect::<Vec<_>>();
    json!({
        "ss": criterion.to_string(),
        "duration": wanted.window.as_secs(),
        "attained": u8::from(found.attained),
        "criterion": format!("{:.6}{unit}", found.value),
        "max_deviation": if criterion.slope { 0.0 } else { found.value },
        "slope": if criterion.slope { found.value } else { 0.0 },
        "data": {
            "bw_mean": mean(&found.bytes) as u64,
            "iops_mean": mean(&found.iops) as u64,
            "iops": whole(&found.iops),
            "bw": whole(&found.bytes),
        },
    })
}

/// The same as a line.
pub(super) fn steady_line(
    out: &mut String,
    wanted: &SteadyState,
    found: &SteadyReport,
) -> fmt::Result {
    let (criterion, bytes) = (&wanted.criterion, mean(&found.bytes));
    writeln!(
        out,
        "  steadystate  : attained={}, bw={}/s ({}/s), iops={}, {} {}={:.3}{}",
        if found.attained { "yes" } else { "no" },
        binary(bytes),
        decimal(bytes),
        short(mean(&found.iops), 4),
        if criterion.bytes { "bw" } else { "iops" },
        if criterion.slope { "slope" } else { "mean dev" },
        found.value,
        if criterion.percent { "%" } else { "" }
    )
}

/// The limit that ended a job: its option, the direction, and the value that broke it, in
/// nanoseconds or per second.
pub(super) fn broken(broken: &Broken) -> Value {
    match broken {
        Broken::Latency { direction, took } => json!({
            "option": "max_latency",
            "direction": direction.name(),
            "value": took.as_nanos() as u64,
        }),
        Broken::Rate { direction, rate } => {
            json!({ "option": "rate_min", "direction": direction.name(), "value": rate })
        }
        Broken::Target => json!({ "option": "latency_target" }),
    }
}

/// The same as a line.
pub(super) fn broken_line(out: &mut String, broken: Broken) -> fmt::Result {
    match broken {
        Broken::Latency { direction, took } => writeln!(
            out,
            "     ended     : a {} took {} usec, longer than max_latency",
            direction.name(),
            took.as_micros()
        ),
        Broken::Rate { direction, rate } => writeln!(
            out,
            "     ended     : {} reached {rate:.0} per second, below the least rate",
            direction.name()
        ),
        Broken::Target => {
            writeln!(out, "     ended     : not even one operation at a time keeps latency_target")
        }
    }
}
