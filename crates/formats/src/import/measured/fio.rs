//! fio's JSON.

use super::workload::{Measured, slowest};
use serde_json::Value;
use weft_bench::results::Latency;
use weft_bench::workload::{Direction, Rw};
use weft_block::units::parse_size;

/// The version of fio, and what it measured: a result for each name of jobs, summed over the jobs
/// that have it.
pub(super) fn read(text: &str) -> Result<(String, Vec<Measured>), String> {
    let report = parse(text)?;
    let tool = report["fio version"].as_str().unwrap_or("fio").to_owned();
    let mut groups: Vec<((&str, u64), Vec<&Value>)> = Vec::new();
    for job in report["jobs"].as_array().into_iter().flatten() {
        let key =
            (job["jobname"].as_str().unwrap_or_default(), job["groupid"].as_u64().unwrap_or(0));
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

/// fio may write notes behind its JSON.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    stream.next().transpose().map(Option::unwrap_or_default).map_err(|e| e.to_string())
}

/// What jobs were asked to do.
struct Workload {
    rw: Rw,
    bs_bytes: u64,
    read_percent: u8,
    in_flight: u64,
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
    let rw = option(&["rw", "readwrite"]).unwrap_or_else(|| "read".into());
    let rw: Rw = rw.split(':').next().unwrap_or_default().parse().map_err(|_| wrong("rw", &rw))?;
    let bs = option(&["bs", "blocksize"]).unwrap_or_else(|| "4k".into());
    let bs_bytes =
        parse_size(bs.split(',').next().unwrap_or_default()).map_err(|_| wrong("bs", &bs))?;
    let number = |names: &[&str]| {
        option(names).map_or(Ok(1), |text| text.parse::<u64>().map_err(|_| wrong(names[0], &text)))
    };
    let (depth, asked) = (number(&["iodepth"])?, number(&["numjobs"])?);
    let read_percent = match (rw.is_mixed(), rw.has(Direction::Read)) {
        (true, _) => match (option(&["rwmixread"]), option(&["rwmixwrite"])) {
            (Some(reads), _) => reads.parse().map_err(|_| wrong("rwmixread", &reads))?,
            (None, Some(writes)) => {
                100 - writes
                    .parse::<u8>()
                    .ok()
                    .filter(|it| *it <= 100)
                    .ok_or_else(|| wrong("rwmixwrite", &writes))?
            }
            (None, None) => 50,
        },
        (false, true) => 100,
        (false, false) => 0,
    };
    Ok(Workload { rw, bs_bytes, read_percent, in_flight: depth * asked.max(jobs.len() as u64) })
}

fn one(name: &str, jobs: &[&Value], global: &Value) -> Result<Measured, String> {
    let Workload { rw, bs_bytes, read_percent, in_flight } = workload(name, jobs, global)?;
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
    let ios = sum("read", "total_ios") + sum("write", "total_ios");
    let share = |key: &str| {
        let of =
            |job: &&Value| Some(job[key].as_f64()? / 100.0 * job["job_runtime"].as_f64()? * 1e6);
        jobs.iter().map(of).sum::<Option<f64>>().map(|ns| ns / ios)
    };
    let runtime = |job: &&Value| {
        ["read", "write"]
            .iter()
            .filter_map(|which| job[which]["runtime"].as_f64())
            .fold(0.0, f64::max)
    };
    Ok(Measured {
        name: name.to_owned(),
        is_random: rw.is_random(),
        read_percent,
        bs_bytes,
        in_flight,
        seconds: jobs.iter().map(runtime).fold(0.0, f64::max) / 1e3,
        read_iops: sum("read", "iops"),
        write_iops: sum("write", "iops"),
        bytes_per_second: sum("read", "bw_bytes") + sum("write", "bw_bytes"),
        all: slowest(&[&reads[..], &writes].concat()),
        reads: slowest(&reads),
        writes: slowest(&writes),
        cpu_ns: share("usr_cpu").zip(share("sys_cpu")).filter(|_| ios > 0.0),
        remarks,
    })
}

/// fio's latency: the mean of submission and completion, the percentiles of completion.
fn latency(direction: &Value) -> Latency {
    let percentiles = &direction["clat_ns"]["percentile"];
    let at = |key: &str| percentiles[key].as_f64();
    Latency {
        mean_ns: direction["lat_ns"]["mean"].as_f64().unwrap_or(0.0),
        p50_ns: at("50.000000").unwrap_or(0.0),
        p90_ns: at("90.000000").unwrap_or(0.0),
        p99_ns: at("99.000000").unwrap_or(0.0),
        p999_ns: at("99.900000"),
        p9999_ns: at("99.990000"),
        max_ns: direction["lat_ns"]["max"].as_f64().unwrap_or(0.0),
    }
}
