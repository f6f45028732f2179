//! fio's JSON.

use super::{CLASSES, Shown, direction, ends, latency_classes, percent, shown, text, version};
use serde_json::{Map, Value, json};
use std::time::UNIX_EPOCH;
use weft_bench::stats::Latencies;
use weft_bench::workload::verify::{BadBlock, FaultKind};
use weft_bench::workload::{
    Direction, DirectionReport, ErrorCount, JobReport, Percentiles, RunLoopReport, RunReport,
    VerifyReport,
};
use weft_io::cpu_usage::Usage;

/// The report as fio writes it with `--output-format=json`.
pub fn json(report: &RunReport) -> Value {
    write(report, false)
}

/// The report as fio writes it with `--output-format=json+`: with the bins of the histograms of
/// completion latency, ns and how many operations.
pub fn json_plus(report: &RunReport) -> Value {
    write(report, true)
}

/// Several reports as one run of fio: groups of jobs that ran one after the other.
pub fn json_of_groups(groups: &[Vec<RunReport>], bins: bool) -> Value {
    let all = || {
        groups
            .iter()
            .enumerate()
            .flat_map(|(group, reports)| reports.iter().map(move |report| (group, report)))
    };
    let jobs_of = |(group, report): (usize, &RunReport)| {
        let mut jobs = jobs(report, bins);
        jobs.iter_mut().for_each(|job| job["groupid"] = group.into());
        jobs
    };
    let mut whole_run = all().next().map_or(Value::Null, |(_, first)| write(first, bins));
    whole_run["jobs"] = all().flat_map(jobs_of).collect();
    whole_run["weft"] =
        json!({ "runs": all().map(|(_, report)| whole(report)).collect::<Vec<_>>() });
    whole_run
}

fn jobs(report: &RunReport, bins: bool) -> Vec<Value> {
    shown(report, report.spec.group_reporting.unwrap_or(false))
        .iter()
        .map(|one| job(report, one, bins))
        .collect()
}

fn write(report: &RunReport, bins: bool) -> Value {
    let started = report.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "fio version": version(),
        "timestamp": started.as_secs(),
        "timestamp_ms": started.as_millis() as u64,
        "time": text::date(started.as_secs()),
        "global options": {},
        "jobs": jobs(report, bins),
        "disk_util": [],
        "weft": whole(report),
    })
}

fn job(report: &RunReport, shown: &Shown<'_>, bins: bool) -> Value {
    let Shown { job, usage, time: of_time, .. } = shown;
    let share = |time: core::time::Duration| match of_time.as_secs_f64() {
        0.0 => 0.0,
        seconds => time.as_secs_f64() * 100.0 / seconds,
    };
    let classes = latency_classes(job);
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
    put("jobname", report.spec.name.as_str().into());
    if !report.spec.description.is_empty() {
        put("desc", report.spec.description.as_str().into());
    }
    put("groupid", 0.into());
    put("error", job.error_number().into());
    put("eta", 0.into());
    put("elapsed", ((report.spec.ramp_time + job.runtime).as_secs_f64().ceil() as u64).into());
    put(
        "job options",
        report
            .spec
            .options()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect(),
    );
    let format = Format { percentiles: &report.spec.percentiles, bins };
    for which in Direction::ALL {
        put(which.name(), data_direction(&direction(job, which), &report.total(which), format));
    }
    let syncs = format.completion(&job.syncs);
    put("sync", json!({ "total_ios": job.syncs.count(), "lat_ns": syncs }));
    put("job_runtime", (job.runtime.as_millis() as u64).into());
    put("usr_cpu", share(usage.user).into());
    put("sys_cpu", share(usage.system).into());
    put("ctx", usage.context_switches.into());
    put("majf", usage.major_faults.into());
    put("minf", usage.minor_faults.into());
    put("iodepth_level", levels(["1", "2", "4", "8", "16", "32", ">=64"], &job.depths.0));
    put("iodepth_submit", levels(["0", "4", "8", "16", "32", "64", ">=64"], &job.submitted.0));
    put("iodepth_complete", levels(["0", "4", "8", "16", "32", "64", ">=64"], &job.completed.0));
    let all = classes.iter().sum();
    put("latency_ns", class_names(&classes[..10], all));
    put("latency_us", class_names(&classes[10..20], all));
    put("latency_ms", class_names(&classes[20..], all));
    ends::put_search(&mut out, &report.spec, job);
    if let (Some(wanted), Some(found)) = (&report.spec.steady, &job.steady) {
        out.insert("steadystate".into(), ends::steady(wanted, found));
    }
    out.insert("weft".into(), extras(job, &report.spec.left_out));
    Value::Object(out)
}

fn data_direction(report: &DirectionReport, group: &DirectionReport, format: Format<'_>) -> Value {
    let bytes_per_second = report.bytes_per_second();
    let (bandwidth, iops) = (&report.bandwidth_kib, &report.iops);
    let aggregate = group.bytes_per_second() / 1024.0;
    json!({
        "io_bytes": report.bytes,
        "io_kbytes": report.bytes >> 10,
        "bw_bytes": bytes_per_second as u64,
        "bw": (bytes_per_second / 1024.0) as u64,
        "iops": report.iops_mean(),
        "runtime": report.runtime.as_millis() as u64,
        "total_ios": report.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": format.with(&report.submission, format.percentiles.submission),
        "clat_ns": format.completion(&report.completion),
        "lat_ns": format.with(&report.total, format.percentiles.total),
        "bw_min": bandwidth.min() as u64,
        "bw_max": bandwidth.max() as u64,
        "bw_agg": if aggregate > 0.0 { (bandwidth.mean() * 100.0 / aggregate).min(100.0) } else { 0.0 },
        "bw_mean": bandwidth.mean(),
        "bw_dev": bandwidth.deviation(),
        "bw_samples": bandwidth.count(),
        "iops_min": iops.min() as u64,
        "iops_max": iops.max() as u64,
        "iops_mean": iops.mean(),
        "iops_stddev": iops.deviation(),
        "iops_samples": iops.count(),
    })
}

fn latency(latency: &Latencies) -> Value {
    json!({
        "min": latency.min_ns(),
        "max": latency.max_ns(),
        "mean": latency.mean_ns(),
        "stddev": latency.deviation_ns(),
        "N": latency.count(),
    })
}

/// The form of latencies.
#[derive(Clone, Copy)]
struct Format<'a> {
    percentiles: &'a Percentiles,
    bins: bool,
}

impl Format<'_> {
    /// With percentiles where there are values: fio leaves them out otherwise, and so readers
    /// expect.
    fn with(self, values: &Latencies, percentiles: bool) -> Value {
        let mut out = latency(values);
        if percentiles && values.count() > 0 {
            let list = self.percentiles.list.iter();
            let percentiles =
                list.map(|&p| (format!("{p:.6}"), Value::from(values.percentile_ns(p)))).collect();
            out["percentile"] = Value::Object(percentiles);
        }
        out
    }

    /// Completion latency, with the bins of the histogram where they are wanted.
    fn completion(self, values: &Latencies) -> Value {
        let mut out = self.with(values, self.percentiles.completion);
        if self.bins && values.count() > 0 {
            out["bins"] =
                values.recorded().map(|(ns, count)| (ns.to_string(), Value::from(count))).collect();
        }
        out
    }
}

fn levels(names: [&str; 7], counts: &[u64; 7]) -> Value {
    let all = counts.iter().sum();
    names
        .iter()
        .zip(counts)
        .map(|(name, &count)| ((*name).to_owned(), Value::from(percent(count, all))))
        .collect()
}

/// Shares of the classes that `counts` begins with; milliseconds have two more.
fn class_names(counts: &[u64], all: u64) -> Value {
    let names = CLASSES.iter().map(u64::to_string).chain(["2000".to_owned(), ">=2000".to_owned()]);
    names.zip(counts).map(|(name, &count)| (name, Value::from(percent(count, all)))).collect()
}

/// What fio has no word for, of a job.
fn extras(job: &JobReport, left_out: &[String]) -> Value {
    json!({
        "left_out": left_out,
        "errors": job.errors.iter().map(error).collect::<Vec<_>>(),
        "ended_early": job.broken.as_ref().map(ends::broken),
        "missed_ios": job.missed,
        "unfinished_ios": job.unfinished,
        "verify": job.verify.as_ref().map(verify),
    })
}

fn error(error: &ErrorCount) -> Value {
    json!({
        "direction": error.name(),
        "kind": format!("{:?}", error.status.kind),
        "known": format!("{:?}", error.known),
        "code": error.status.raw.map(|raw| json!({ "protocol": raw.protocol(), "code": raw.code() })),
        "first_lba": error.first_lba,
        "count": error.count,
    })
}

fn verify(verify: &VerifyReport) -> Value {
    json!({
        "blocks": verify.blocks,
        "wrong": verify.count(FaultKind::Wrong),
        "stale": verify.count(FaultKind::Stale),
        "misplaced": verify.count(FaultKind::Misplaced),
        "unknown_units": verify.unknown_units,
        "findings": verify.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn finding(finding: &BadBlock) -> Value {
    json!({ "lba": finding.lba, "kind": finding.fault.kind().name(), "what": finding.to_string() })
}

/// What fio has no word for, of the whole run.
fn whole(report: &RunReport) -> Value {
    let ios = report.ios().max(1) as f64;
    let calls: u64 = report.loops.iter().map(RunLoopReport::system_calls).sum();
    json!({
        "url": report.url,
        "block_bytes": report.geometry.block_bytes,
        "blocks": report.geometry.blocks,
        "stopped": report.stopped,
        "clean": report.is_clean(),
        "system_calls_per_io": calls as f64 / ios,
        "cpu_us_per_io": cpu_per_io(&report.process, ios),
        "watched_cpu_us_per_io": report.watched.as_ref().map(|usage| cpu_per_io(usage, ios)),
        "threads": report.loops.iter().map(thread).collect::<Vec<_>>(),
    })
}

fn cpu_per_io(usage: &Usage, ios: f64) -> Value {
    let us = |time: core::time::Duration| time.as_secs_f64() * 1e6 / ios;
    json!({ "user": us(usage.user), "system": us(usage.system) })
}

fn thread(one: &RunLoopReport) -> Value {
    json!({
        "jobs": one.jobs,
        "cpu": one.cpu,
        "load": one.load(),
        "system_calls": one.system_calls(),
        "empty_polls": one.empty_polls(),
        "counters": one.counters.entries().map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>(),
    })
}
