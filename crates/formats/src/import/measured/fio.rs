//! fio's JSON.

use super::workload::{MeasuredWorkload, slowest};
use serde_json::Value;
use weft_bench::results::Latency;
use weft_bench::workload::{Direction, Rw};
use weft_block::units::parse_size;

/// The version of fio, and what it measured: a result for each name of jobs, summed over the jobs
/// and the clients that have it.
pub(super) fn read(text: &str) -> Result<(String, Vec<MeasuredWorkload>), String> {
    let report = parse(text)?;
    let tool = report["fio version"].as_str().unwrap_or("fio").to_owned();
    let mut groups: Vec<((&str, u64), Vec<&Value>)> = Vec::new();
    for job in jobs(&report) {
        let key =
            (job["jobname"].as_str().unwrap_or_default(), job["groupid"].as_u64().unwrap_or(0));
        check(key.0, job, &report["global options"])?;
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, jobs)) => jobs.push(job),
            None => groups.push((key, vec![job])),
        }
    }
    let global = &report["global options"];
    let measured =
        groups.iter().map(|((name, _), jobs)| one(name, jobs, global)).collect::<Result<_, _>>()?;
    Ok((tool, measured))
}

/// The name that fio gives to the sum of its clients.
const ALL_CLIENTS: &str = "All clients";

/// The jobs of this machine, or those of each client without their sum. fio 3 ends a group of
/// several names with a job that has neither a name nor operations.
fn jobs(report: &Value) -> impl Iterator<Item = &Value> {
    let of = |list: &str| report[list].as_array().into_iter().flatten();
    let all = of("jobs").chain(of("client_stats").filter(|job| job["jobname"] != ALL_CLIENTS));
    all.filter(|job| !job["jobname"].is_null())
}

/// Refuses a job that failed, and one that lacks what a result needs.
fn check(name: &str, job: &Value, global: &Value) -> Result<(), String> {
    if job["error"].as_i64().is_some_and(|error| error != 0) {
        return Err(format!("job {name} ended with error {}", job["error"]));
    }
    // A job without options of its own has those of all.
    if !job["job options"].is_object() && !global.is_object() {
        return Err(format!(
            "the options of job {name} are not in it, as fio before 2.10 leaves them out"
        ));
    }
    if job["mixed"].is_object() {
        return Err(format!(
            "job {name} has reads and writes in one figure (unified_rw_reporting)"
        ));
    }
    for which in ["read", "write"] {
        let missing = ["iops", "total_ios"].into_iter().find(|key| !job[which][*key].is_number());
        if let Some(key) = missing {
            return Err(format!("job {name} has no {key} of {which}"));
        }
    }
    Ok(())
}

/// The JSON of a text: fio writes warnings before it, on lines of their own, and notes behind it.
pub(super) fn start(text: &str) -> Option<usize> {
    let begins = |line: &str| line.trim_start().starts_with('{');
    let before: usize =
        text.split_inclusive('\n').take_while(|line| !begins(line)).map(str::len).sum();
    text[before..].find('{').map(|at| before + at)
}

/// fio may write notes behind its JSON.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    stream.next().transpose().map(Option::unwrap_or_default).map_err(|e| e.to_string())
}

/// The workload that jobs were given.
struct Workload {
    rw: Rw,
    bs_bytes: u64,
    read_percent: u8,
    in_flight: u64,
    /// Jobs of one name.
    asked: u64,
}

fn workload(name: &str, jobs: &[&Value], global: &Value) -> Result<Workload, String> {
    let option = |names: &[&str]| {
        let places = [&jobs[0]["job options"], global];
        places
            .iter()
            .find_map(|place| names.iter().find_map(|name| place[name].as_str()))
            .map(str::to_owned)
    };
    let wrong = |what: &str, text: &str| format!("job {name}: {what}={text} is not understood");
    let several = ["bsrange", "blocksize_range", "bssplit", "bs_unaligned"];
    if let Some(split) = several.into_iter().find(|split| option(&[split]).is_some()) {
        return Err(format!("job {name} has operations of several sizes ({split})"));
    }
    let rw = option(&["rw", "readwrite"]).unwrap_or_else(|| "read".into());
    let rw: Rw = rw.split(':').next().unwrap_or_default().parse().map_err(|_| wrong("rw", &rw))?;
    let bs = option(&["bs", "blocksize"]).unwrap_or_else(|| "4k".into());
    if rw.has(Direction::Trim) {
        return Err(wrong("rw", &rw.to_string()));
    }
    let bs_bytes = block_bytes(&bs, rw).ok_or_else(|| wrong("bs", &bs))?;
    let number = |names: &[&str]| {
        option(names).map_or(Ok(1), |text| text.parse::<u64>().map_err(|_| wrong(names[0], &text)))
    };
    let (depth, asked) = (number(&["iodepth"])?, number(&["numjobs"])?);
    let is_fio = !jobs[0]["weft"].is_object();
    let engine = option(&["ioengine"]).unwrap_or_else(|| WAITING[0].to_owned());
    let depth = if is_fio && WAITING.contains(&engine.as_str()) { 1 } else { depth };
    let read_percent = match (rw.is_mixed(), rw.has(Direction::Read)) {
        (true, _) => match (option(&["rwmixread"]), option(&["rwmixwrite"])) {
            (Some(reads), _) => percent(&reads).ok_or_else(|| wrong("rwmixread", &reads))?,
            (None, Some(writes)) => {
                100 - percent(&writes).ok_or_else(|| wrong("rwmixwrite", &writes))?
            }
            (None, None) => 50,
        },
        (false, true) => 100,
        (false, false) => 0,
    };
    let in_flight = depth.saturating_mul(together(jobs, asked));
    Ok(Workload { rw, bs_bytes, read_percent, in_flight, asked })
}

/// The run time of a job, milliseconds.
fn runtime(job: &Value) -> f64 {
    let of = |which: &&str| job[*which]["runtime"].as_f64();
    ["read", "write"].iter().filter_map(of).fold(0.0, f64::max)
}

/// Returns whether the figures of a name include further names of its group: the time of all jobs
/// is longer than that of the jobs which the name has.
fn is_of_more(jobs: &[&Value], asked: u64) -> bool {
    jobs.iter().any(|job| {
        let many = (job["job_runtime"].as_f64().unwrap_or(0.0) / runtime(job)).round();
        !job["weft"].is_object() && many.is_finite() && many > asked as f64
    })
}

/// Jobs at a time: those that each client was given, or has reported.
fn together(jobs: &[&Value], asked: u64) -> u64 {
    let mut hosts: Vec<Option<&str>> = jobs.iter().map(|job| job["hostname"].as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let hosts = hosts.len().max(1) as u64;
    hosts.saturating_mul(asked.max(jobs.len() as u64 / hosts))
}

fn percent(text: &str) -> Option<u8> {
    text.parse().ok().filter(|percent| *percent <= 100)
}

/// Engines that wait for each operation, whatever the depth; the first is fio's default but on
/// Windows.
const WAITING: [&str; 7] = ["psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];

/// Bytes of an operation; none where reads and writes have different ones, and both are done.
fn block_bytes(text: &str, rw: Rw) -> Option<u64> {
    let sizes = text.split(',').map(|size| parse_size(size).ok()).collect::<Option<Vec<_>>>()?;
    let read = *sizes.first()?;
    let write = *sizes.get(1).unwrap_or(&read);
    match (rw.has(Direction::Read), rw.has(Direction::Write)) {
        (true, true) => (read == write).then_some(read),
        (true, false) => Some(read),
        (false, _) => Some(write),
    }
}

fn one(name: &str, jobs: &[&Value], global: &Value) -> Result<MeasuredWorkload, String> {
    let Workload { rw, bs_bytes, read_percent, in_flight, asked } = workload(name, jobs, global)?;
    if is_of_more(jobs, asked) {
        return Err(format!("job {name} has the figures of others, too (group_reporting)"));
    }
    let sum = |which: &str, key: &str| {
        jobs.iter().filter_map(|job| job[which][key].as_f64()).sum::<f64>()
    };
    let latencies = |which: &'static str| {
        move |job: &&Value| (job[which]["total_ios"].as_f64().unwrap_or(0.0), latency(&job[which]))
    };
    let (reads, writes): (Vec<_>, Vec<_>) = (
        jobs.iter().map(latencies("read")).collect(),
        jobs.iter().map(latencies("write")).collect(),
    );
    let has =
        |option: &str| [&jobs[0]["job options"], global].iter().any(|of| of[option].is_string());
    let mut remarks = Vec::new();
    if jobs.len() > 1 || rw.is_mixed() {
        remarks.push(
            "Percentiles are those of the slowest of what was added up, as fio tells them apart."
                .to_owned(),
        );
    }
    let left_out = jobs[0]["weft"]["left_out"].as_array().into_iter().flatten();
    let left_out: Vec<&str> = left_out.filter_map(Value::as_str).collect();
    if !left_out.is_empty() {
        remarks.push(format!("Options that were left out: {}.", left_out.join("; ")));
    }
    let limited = ["rate", "rate_iops", "thinktime"].into_iter();
    let limited: Vec<&str> = limited.filter(|name| has(name)).collect();
    if !limited.is_empty() {
        remarks.push(format!("Its rate was limited by {}.", limited.join(", ")));
    }
    let ios = sum("read", "total_ios") + sum("write", "total_ios");
    let share = |key: &str| {
        let of =
            |job: &&Value| Some(job[key].as_f64()? / 100.0 * job["job_runtime"].as_f64()? * 1e6);
        jobs.iter().map(of).sum::<Option<f64>>().map(|ns| ns / ios)
    };
    Ok(MeasuredWorkload {
        name: name.to_owned(),
        is_random: rw.is_random(),
        read_percent,
        bs_bytes,
        in_flight,
        seconds: jobs.iter().map(|job| runtime(job)).fold(0.0, f64::max) / 1e3,
        read_iops: sum("read", "iops"),
        write_iops: sum("write", "iops"),
        bytes_per_second: ["read", "write"].iter().map(|which| bytes(which, jobs)).sum(),
        all: slowest(&[&reads[..], &writes].concat()),
        reads: slowest(&reads),
        writes: slowest(&writes),
        cpu_ns: share("usr_cpu").zip(share("sys_cpu")).filter(|_| ios > 0.0),
        remarks,
    })
}

/// Bytes per second; fio 2 has KiB only.
fn bytes(which: &str, jobs: &[&Value]) -> f64 {
    let of = |job: &&Value| match job[which]["bw_bytes"].as_f64() {
        Some(bytes) => bytes,
        None => job[which]["bw"].as_f64().unwrap_or(0.0) * 1024.0,
    };
    jobs.iter().map(of).sum()
}

/// fio's latency: the mean of submission and completion, the percentiles of completion, or of both
/// where it was told to count these. fio 2 has microseconds.
fn latency(direction: &Value) -> Latency {
    let is_ns = direction["lat_ns"].is_object() || direction["clat_ns"].is_object();
    let (all, completion, unit) =
        if is_ns { ("lat_ns", "clat_ns", 1.0) } else { ("lat", "clat", 1e3) };
    let percentiles = [completion, all].map(|of| &direction[of]["percentile"]);
    let percentiles = percentiles.into_iter().find(|of| of.is_object()).unwrap_or(&Value::Null);
    let ns = |value: &Value| value.as_f64().map(|value| value * unit);
    let at = |key: &str| ns(&percentiles[key]);
    let whole = |key: &str| ns(&direction[all][key]).unwrap_or(0.0);
    Latency {
        mean_ns: whole("mean"),
        p50_ns: at("50.000000").unwrap_or(0.0),
        p90_ns: at("90.000000").unwrap_or(0.0),
        p99_ns: at("99.000000").unwrap_or(0.0),
        p999_ns: at("99.900000"),
        p9999_ns: at("99.990000"),
        max_ns: whole("max"),
    }
}
