//! fio's text output.

use super::ends::{broken_line, search_line, steady_line};
use super::text::{binary, date, decimal, short, time_unit};
use super::{CLASSES, Shown, direction, latency_classes, percent, shown, version};
use core::fmt::{self, Write};
use std::time::{Duration, UNIX_EPOCH};
use weft_bench::limits::GROUPED_ABOVE;
use weft_bench::stats::{Latencies, Moments};
use weft_bench::workload::{
    Direction, DirectionReport, ErrorCount, Execution, JobReport, Percentiles, RunLoopReport,
    RunReport, VerifyReport,
};

/// The report as fio writes it with `--output-format=normal`, and what fio has no word for in lines
/// of the same form.
pub fn normal(report: &RunReport) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &RunReport) -> fmt::Result {
    let spec = &report.spec;
    let name = &spec.name;
    let [read, write, trim] = Direction::ALL.map(|which| {
        let (low, high) = spec.bs_range(which);
        format!("{low}B-{high}B")
    });
    write!(out, "{name}: (g=0): rw={}, bs=(R) {read}, (W) {write}, (T) {trim}, ", spec.rw)?;
    writeln!(out, "ioengine=weft, iodepth={}", spec.iodepth)?;
    if spec.numjobs > 1 {
        writeln!(out, "...")?;
    }
    writeln!(out, "{}", version())?;
    let threads = report.loops.len();
    writeln!(
        out,
        "{} on {}: {}",
        count(report.jobs.len(), "job"),
        count(threads, "thread"),
        report.url
    )?;
    if report.stopped {
        writeln!(out, "interrupted: these are the results of the time until then")?;
    }
    let grouped = spec.group_reporting.unwrap_or(spec.numjobs > GROUPED_ABOVE);
    for one in shown(report, grouped) {
        writeln!(out)?;
        job(out, report, &one)?;
    }
    group(out, report)?;
    whole(out, report)
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn job(out: &mut String, report: &RunReport, shown: &Shown<'_>) -> fmt::Result {
    let Shown { job, jobs, usage, time } = shown;
    let ended = report.started.duration_since(UNIX_EPOCH).unwrap_or_default()
        + report.spec.ramp_time
        + job.runtime;
    let (name, error) = (&report.spec.name, job.error_number());
    writeln!(
        out,
        "{name}: (groupid=0, jobs={jobs}): err={error:2}: job={}: {} UTC",
        job.index,
        date(ended.as_secs())
    )?;
    if !report.spec.description.is_empty() {
        writeln!(out, "  Description  : [{}]", report.spec.description)?;
    }
    for which in Direction::ALL {
        let measured = direction(job, which);
        if measured.ios > 0 {
            let group = report.total(which).bytes_per_second();
            data_direction(out, which, &measured, group, &report.spec.percentiles)?;
        }
    }
    syncs(out, job, &report.spec.percentiles)?;
    classes(out, &latency_classes(job))?;
    let share = |used: Duration| used.as_secs_f64() * 100.0 / time.as_secs_f64().max(1e-9);
    let (usr, sys) = (share(usage.user), share(usage.system));
    write!(out, "  cpu          : usr={usr:.2}%, sys={sys:.2}%, ctx={}, ", usage.context_switches)?;
    writeln!(out, "majf={}, minf={}", usage.major_faults, usage.minor_faults)?;
    levels(out, "  IO depths    :", ["1", "2", "4", "8", "16", "32", ">=64"], &job.depths.0)?;
    levels(out, "     submit    :", ["0", "4", "8", "16", "32", "64", ">=64"], &job.submitted.0)?;
    levels(out, "     complete  :", ["0", "4", "8", "16", "32", "64", ">=64"], &job.completed.0)?;
    let [reads, writes, trims] = Direction::ALL.map(|which| direction(job, which).ios);
    writeln!(
        out,
        "     issued rwts: total={reads},{writes},{trims},{} short=0,0,0,0 dropped=0,0,0,0",
        job.syncs.count()
    )?;
    search_line(out, &report.spec, job)?;
    job.errors.iter().try_for_each(|e| error_line(out, e))?;
    job.broken.map_or(Ok(()), |broken| broken_line(out, broken))?;
    let left_out = &report.spec.left_out;
    left_out.iter().try_for_each(|text| writeln!(out, "     left out  : {text}"))?;
    if let (Some(wanted), Some(found)) = (&report.spec.steady, &job.steady) {
        steady_line(out, wanted, found)?;
    }
    undone(out, job)?;
    job.verify.as_ref().map_or(Ok(()), |verify| verify_lines(out, verify))
}

/// Operations that never began, or never completed.
fn undone(out: &mut String, job: &JobReport) -> fmt::Result {
    if job.missed > 0 {
        writeln!(
            out,
            "     missed    : {} operations were due but never started: the device is slower than rate_iops",
            job.missed
        )?;
    }
    if job.unfinished > 0 {
        writeln!(
            out,
            "     unfinished: {} operations had not completed when the job ended",
            job.unfinished
        )?;
    }
    Ok(())
}

fn data_direction(
    out: &mut String,
    which: Direction,
    report: &DirectionReport,
    group: f64,
    shown: &Percentiles,
) -> fmt::Result {
    let rate = report.bytes_per_second();
    let (iops, ms) = (short(report.iops_mean(), 4), report.runtime.as_millis());
    write!(out, "{:>6}: IOPS={iops}, BW={}/s ({}/s)", which.name(), binary(rate), decimal(rate))?;
    writeln!(out, "({}/{ms}msec)", binary(report.bytes as f64))?;
    moments_of_latency(out, "slat", &report.submission)?;
    moments_of_latency(out, "clat", &report.completion)?;
    moments_of_latency(out, " lat", &report.total)?;
    if shown.completion {
        percentiles(out, "clat", &report.completion, &shown.list)?;
    }
    if shown.submission {
        percentiles(out, "slat", &report.submission, &shown.list)?;
    }
    samples(out, "bw (  KiB/s)", &report.bandwidth_kib, Some(group / 1024.0))?;
    samples(out, "iops        ", &report.iops, None)
}

fn moments_of_latency(out: &mut String, name: &str, latency: &Latencies) -> fmt::Result {
    if latency.count() == 0 {
        return Ok(());
    }
    let (unit, ns) = time_unit(latency.min_ns(), latency.max_ns());
    let per = ns as f64;
    let value = |v: u64| short(v as f64 / per, 6);
    let (min, max) = (value(latency.min_ns()), value(latency.max_ns()));
    let (mean, deviation) = (latency.mean_ns() / per, latency.deviation_ns() / per);
    writeln!(
        out,
        "    {name} ({unit}): min={min}, max={max}, avg={mean:5.2}, stdev={deviation:5.2}"
    )
}

/// The flushes, in fio's words.
fn syncs(out: &mut String, job: &JobReport, shown: &Percentiles) -> fmt::Result {
    if job.syncs.count() == 0 {
        return Ok(());
    }
    writeln!(out, "  fsync/fdatasync/sync_file_range:")?;
    moments_of_latency(out, "sync", &job.syncs)?;
    percentiles(out, "sync", &job.syncs, &shown.list)
}

fn percentiles(out: &mut String, name: &str, latency: &Latencies, list: &[f64]) -> fmt::Result {
    let values: Vec<u64> = list.iter().map(|&p| latency.percentile_ns(p)).collect();
    let (Some(&first), Some(&last)) = (values.first(), values.last()) else { return Ok(()) };
    if latency.count() == 0 {
        return Ok(());
    }
    let (unit, ns) = time_unit(first, last);
    let width = (last / ns).to_string().len().max(5);
    let per_line = if width > 5 { 3 } else { 4 };
    writeln!(out, "    {name} percentiles ({unit}):")?;
    let end = values.len() - 1;
    for (at, (percent, value)) in list.iter().zip(values).enumerate() {
        let before = if at % per_line == 0 { "     | " } else { " " };
        let after = if at == end {
            "\n"
        } else if at % per_line == per_line - 1 {
            ",\n"
        } else {
            ","
        };
        write!(out, "{before}{percent:5.2}th=[{:width$}]{after}", value / ns)?;
    }
    Ok(())
}

fn samples(out: &mut String, name: &str, values: &Moments, group: Option<f64>) -> fmt::Result {
    if values.count() == 0 {
        return Ok(());
    }
    write!(out, "   {name}: min={:.0}, max={:.0}, ", values.min(), values.max())?;
    if let Some(group) = group {
        write!(out, "per={:.2}%, ", (values.mean() * 100.0 / group.max(1e-9)).min(100.0))?;
    }
    writeln!(
        out,
        "avg={:.2}, stdev={:.2}, samples={}",
        values.mean(),
        values.deviation(),
        values.count()
    )
}

fn classes(out: &mut String, classes: &[u64; 32]) -> fmt::Result {
    let all = classes.iter().sum();
    for (unit, counts) in
        [("nsec", &classes[..10]), ("usec", &classes[10..20]), ("msec", &classes[20..])]
    {
        let names =
            CLASSES.iter().map(u64::to_string).chain(["2000".to_owned(), ">=2000".to_owned()]);
        let shown: Vec<String> = names
            .zip(counts)
            .filter(|(_, count)| **count > 0)
            .map(|(name, &count)| format!("{name}={:.2}%", percent(count, all).max(0.01)))
            .collect();
        for line in shown.chunks(6) {
            writeln!(out, "  lat ({unit})   : {}", line.join(", "))?;
        }
    }
    Ok(())
}

fn levels(out: &mut String, title: &str, names: [&str; 7], counts: &[u64; 7]) -> fmt::Result {
    let all = counts.iter().sum();
    let shares = names.iter().zip(counts).map(|(name, &count)| match percent(count, all) {
        share if share > 0.0 && share < 0.1 => format!("{name}=0.1%"),
        share => format!("{name}={share:.1}%"),
    });
    writeln!(out, "{title} {}", shares.collect::<Vec<_>>().join(", "))
}

fn error_line(out: &mut String, error: &ErrorCount) -> fmt::Result {
    let known = match error.known {
        Execution::Done => "reported by the device",
        Execution::NotSent => "they were never sent",
        Execution::MayHaveExecuted => "they may have been executed",
        Execution::MayStillExecute => "they may have been executed, or may still be",
    };
    let code = error.status.raw.map(|raw| format!(" ({raw})")).unwrap_or_default();
    let (name, kind) = (error.name(), error.status.kind);
    writeln!(
        out,
        "     errors    : {} {name} {kind:?}{code}, the first at LBA {}; {known}",
        error.count, error.first_lba
    )
}

fn verify_lines(out: &mut String, verify: &VerifyReport) -> fmt::Result {
    let [wrong, stale, misplaced] = verify.bad;
    write!(
        out,
        "  verify       : blocks={}, wrong={wrong}, stale={stale}, misplaced={misplaced}",
        verify.blocks
    )?;
    if verify.unknown_units > 0 {
        write!(out, ", unknown={} (their last write failed)", verify.unknown_units)?;
    }
    writeln!(out)?;
    verify.findings.iter().try_for_each(|finding| writeln!(out, "     | {finding}"))?;
    match verify.bad_blocks() - verify.findings.len() as u64 {
        0 => Ok(()),
        more => writeln!(out, "     | and {more} more"),
    }
}

/// The lines that add up the jobs.
fn group(out: &mut String, report: &RunReport) -> fmt::Result {
    writeln!(out, "\nRun status group 0 (all jobs):")?;
    for which in Direction::ALL {
        let jobs: Vec<_> =
            report.jobs.iter().map(|job| direction(job, which)).filter(|d| d.ios > 0).collect();
        let mut total = DirectionReport::default();
        jobs.iter().for_each(|job| total.merge(job));
        if total.ios == 0 {
            continue;
        }
        let range = |values: &mut dyn Iterator<Item = f64>, show: fn(f64) -> String| {
            let (low, high) =
                values.fold((f64::MAX, 0f64), |(low, high), v| (low.min(v), high.max(v)));
            format!("{}/s-{}/s", show(low), show(high))
        };
        let rates = || jobs.iter().map(|job| job.bytes_per_second());
        let (binary_range, decimal_range) =
            (range(&mut rates(), binary), range(&mut rates(), decimal));
        let times = jobs.iter().map(|job| job.runtime.as_millis());
        let (shortest, longest) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
        let (rate, bytes) = (total.bytes_per_second(), total.bytes as f64);
        write!(
            out,
            "{:>7}: bw={}/s ({}/s), ",
            which.name().to_uppercase(),
            binary(rate),
            decimal(rate)
        )?;
        write!(
            out,
            "{binary_range} ({decimal_range}), io={} ({}), ",
            binary(bytes),
            decimal(bytes)
        )?;
        writeln!(out, "run={shortest}-{longest}msec")?;
    }
    Ok(())
}

/// What noise cannot touch, and what an operation cost.
fn whole(out: &mut String, report: &RunReport) -> fmt::Result {
    let ios = report.ios();
    if ios == 0 {
        return Ok(());
    }
    let per_io = |n: u64| n as f64 / ios as f64;
    let us = |time: Duration| time.as_secs_f64() * 1e6 / ios as f64;
    let calls: u64 = report.loops.iter().map(RunLoopReport::system_calls).sum();
    let counters = report.counters();
    writeln!(out, "\nCost of an operation:")?;
    writeln!(
        out,
        "    cpu: {:.2} usec (user {:.2}, system {:.2})",
        us(report.process.total()),
        us(report.process.user),
        us(report.process.system)
    )?;
    writeln!(
        out,
        "  calls: {:.3} system calls, without empty polls; {:.0} bytes copied",
        per_io(calls),
        per_io(counters.copied_bytes)
    )?;
    let loads: Vec<String> =
        report.loops.iter().map(|l| format!("{:.0}%", l.load() * 100.0)).collect();
    writeln!(out, "threads: busy {}", loads.join(", "))
}
