//! Cost when little or nothing happens, and cost of sleeping when something does.

use std::{thread, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;

use super::{
    super::{
        contestant::{Ceiling, Target},
        point::POINTS,
        process::Process,
        sample::Sample,
        setting::Setting,
        statistics::Spread,
        table::{Section, Table, micros, rate},
    },
    Hosts, reads, row,
};

/// Hosts that are connected.
const HOSTS: usize = 100;

/// How long idle processes are watched.
const WATCH: Duration = Duration::from_secs(20);

/// Measures all four.
pub fn run(setting: &Setting) -> Result<Section> {
    let (asleep, asleep_data) = asleep(setting)?;
    let (proportion, proportion_data) = proportion(setting)?;
    let (waiting, waiting_data) = waiting(setting)?;
    let data =
        json!({ "asleep": asleep_data, "proportion": proportion_data, "waiting": waiting_data });
    Ok(Section { name: "idle", tables: vec![asleep, proportion, waiting], data })
}

/// Processor time of two idle processes.
fn asleep(setting: &Setting) -> Result<(Table, serde_json::Value)> {
    let watch = if setting.small { Duration::from_millis(500) } else { WATCH };
    let target = Target::start(setting, "ram:16MiB")?;
    let cpu = setting.initiator_cpu.to_string();
    let options = ["--threads", "1", "--cpus_allowed", &cpu];
    let initiator = Target::with(setting, &target.url, "nvme+tcp://127.0.0.1:0", &options)?;
    let hosts = Hosts::connect(setting, &target, if setting.small { 10 } else { HOSTS }, 1, &[])?;
    // What connecting costs is over by then.
    thread::sleep(watch / 10);
    let used = |of: &Process| -> Result<Duration> { of.cpu().map(|[user, system]| user + system) };
    let before = [used(&target.process)?, used(&initiator.process)?];
    thread::sleep(watch);
    let spent = [used(&target.process)? - before[0], used(&initiator.process)? - before[1]];
    drop(hosts);
    let percent = spent.map(|time| time.as_secs_f64() / watch.as_secs_f64() * 100.0);
    let mut table = Table::new(
        "Asleep when idle",
        &format!(
            "Processor time over {} s; the system's clock ticks every 10 ms.",
            watch.as_secs_f64()
        ),
        &["what", "of a core", "aim"],
    );
    for (what, percent) in
        ["a target with 100 connected hosts", "an initiator with an idle disk"].iter().zip(percent)
    {
        table.rows.push(vec![(*what).into(), format!("{percent:.2} %"), "under 0.5 %".into()]);
    }
    Ok((table, json!({ "target_percent": percent[0], "initiator_percent": percent[1] })))
}

/// Processor time of both ends at 1,000 operations per second and at full rate.
fn proportion(setting: &Setting) -> Result<(Table, serde_json::Value)> {
    let mut target = Target::start(setting, &format!("ram:{}", setting.memory_bytes))?;
    target.fill(setting)?;
    let cpu = format!("--cpus_allowed={}", setting.initiator_cpu);
    let longer = Setting { runtime: setting.runtime * 3, ..setting.clone() };
    let loads: [(&str, u32, &[&str]); 3] = [
        ("1,000 per second", 1, &["--rate_iops=1000", &cpu]),
        ("as many as depth 1 allows", 1, &[&cpu]),
        ("as many as depth 32 allows", 32, &[&cpu]),
    ];
    let columns = [
        "4 KiB random reads",
        "operations per second",
        "initiator, of a core",
        "target, of a core",
        "initiator µs each",
        "target µs each",
    ];
    let mut table = Table::new("Processor time in proportion", "", &columns);
    let mut data = Vec::new();
    for (name, depth, more) in loads {
        let sample: Sample = target.sample(&longer, &reads(&longer, depth, more))?;
        let [initiator, target] =
            [sample.initiator, sample.target].map(|cost| cost.map_or(0.0, |cost| cost.cpu_us()));
        let percent = |us: f64| format!("{:.1} %", us * sample.iops / 1e4);
        table.rows.push(vec![
            name.into(),
            rate(sample.iops),
            percent(initiator),
            percent(target),
            micros(initiator),
            micros(target),
        ]);
        data.push(json!({ "load": name, "sample": sample.json() }));
    }
    let mut ceiling = Ceiling::start(setting)?;
    let sample = ceiling.paced(&longer, &POINTS[0], 1000)?;
    let [initiator, target] =
        [sample.initiator, sample.target].map(|cost| cost.map_or(0.0, |cost| cost.cpu_us()));
    let percent = |us: f64| format!("{:.1} %", us * sample.iops / 1e4);
    table.rows.push(vec![
        "1,000 per second, the bare ceiling asleep in `recv`".into(),
        rate(sample.iops),
        percent(initiator),
        percent(target),
        micros(initiator),
        micros(target),
    ]);
    data.push(json!({ "load": "ceiling at 1,000 per second", "sample": sample.json() }));
    table.notes.push("At 1,000 per second each operation is a sleep and a wake-up at both ends, whose cost is in it.".into());
    Ok((table, data.into()))
}

/// Depth-1 latency of both ends waiting adaptively, and of both always polling.
fn waiting(setting: &Setting) -> Result<(Table, serde_json::Value)> {
    let source = format!("ram:{}", setting.memory_bytes);
    let cpu = setting.target_cpu.to_string();
    let options = ["--threads", "1", "--cpus_allowed", &cpu];
    let job = |more: &[&str]| {
        let cpu = format!("--cpus_allowed={}", setting.initiator_cpu);
        reads(setting, 1, &[&[cpu.as_str()], more].concat())
    };
    let mut adaptive = Vec::new();
    let mut polling = Vec::new();
    for _ in 0..setting.rounds {
        // A target that polls takes its core from the other, so there is one at a time.
        let mut target = Target::with(setting, &source, "nvme+tcp://127.0.0.1:0", &options)?;
        target.fill(setting)?;
        adaptive.push(target.sample(setting, &job(&[]))?);
        drop(target);
        let mut target = Target::with(
            setting,
            &source,
            "nvme+tcp://127.0.0.1:0",
            &[&options[..], &["--poll"]].concat(),
        )?;
        target.fill(setting)?;
        polling.push(target.sample(setting, &job(&["--poll"]))?);
    }
    let mut table = Table::new(
        "Adaptive waiting",
        &format!(
            "4 KiB random reads at depth 1: microseconds, medians of {} rounds.",
            setting.rounds
        ),
        &["waiting", "p50", "p99", "operations per second"],
    );
    for (name, samples) in [("adaptive", &adaptive), ("--poll at both ends", &polling)] {
        table.rows.push(row(name, samples));
    }
    let ratios =
        adaptive.iter().zip(&polling).map(|(adaptive, polling)| polling.iops / adaptive.iops);
    let loss = (Spread::of(ratios).context("no rounds")?.median - 1.0) * 100.0;
    table.notes.push(format!(
        "Adaptive waiting makes an operation {loss:.1} % longer (the aim: less than 10 %)."
    ));
    let list = |samples: &[Sample]| samples.iter().map(Sample::json).collect::<Vec<_>>();
    Ok((
        table,
        json!({ "adaptive": list(&adaptive), "polling": list(&polling), "loss_percent": loss }),
    ))
}
