//! Cost of TLS: weft and a bare stream, in plain text, with TLS in user space, and with the records
//! in the kernel where it takes them.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::json;

use super::{
    super::{
        contestant::{Ceiling, Target},
        point::{POINTS, Point},
        process,
        sample::Sample,
        setting::Setting,
        statistics::Spread,
        table::{Section, Table, micros, rate},
    },
    Hosts,
};

/// The points.
const NAMES: [&str; 4] = ["4k-randread-1", "4k-randread-32", "64k-randread-32", "64k-randwrite-32"];

/// weft and the bare stream with the same options.
struct Pair {
    name: &'static str,
    options: Vec<String>,
    target: Target,
    ceiling: Ceiling,
}

impl Pair {
    fn start(setting: &Setting, name: &'static str, options: &[&str]) -> Result<Self> {
        let cpu = setting.target_cpu.to_string();
        let fixed = ["--threads", "1", "--cpus_allowed", &cpu];
        let source = format!("ram:{}", setting.memory_bytes);
        let target = Target::with(
            setting,
            &source,
            "nvme+tcp://127.0.0.1:0",
            &[&fixed[..], options].concat(),
        )?;
        let ceiling = Ceiling::with(setting, options)?;
        let options = options.iter().map(ToString::to_string).collect();
        let mut pair = Self { name, options, target, ceiling };
        let fill = ["--rw=write", "--bs=1m", "--iodepth=8"].map(str::to_owned);
        pair.target.bench(setting, &[&fill[..], &pair.options].concat())?;
        Ok(pair)
    }

    /// The bare stream, then weft.
    fn measure(&mut self, setting: &Setting, point: &Point) -> Result<[Sample; 2]> {
        let job = [point.job(setting), self.options.clone()].concat();
        Ok([self.ceiling.best(setting, point)?, self.target.sample(setting, &job)?])
    }
}

/// Measures all in turn.
pub fn run(setting: &Setting) -> Result<Section> {
    let mut keys = tempfile::NamedTempFile::new().context("a file for a key")?;
    keys.write_all(process::output(&mut setting.weft(&["gen-tls-key"]))?.as_bytes())?;
    let path = keys.path().to_str().context("the name of a temporary file")?;
    let tls = ["--tls", "--tls-key-file", path];
    let mut pairs = vec![
        Pair::start(setting, "plain", &[])?,
        Pair::start(setting, "TLS in user space", &[&tls[..], &["--no-kernel-tls"]].concat())?,
    ];
    if has_kernel_tls() {
        pairs.push(Pair::start(setting, "TLS in the kernel", &tls)?);
    }
    let points: Vec<Point> =
        POINTS.into_iter().filter(|point| NAMES.contains(&point.name)).collect();
    let mut samples = vec![vec![Vec::new(); pairs.len()]; points.len()];
    for round in 0..setting.rounds as usize {
        for (point, all) in points.iter().zip(&mut samples) {
            for turn in 0..pairs.len() {
                let at = (turn + round) % pairs.len();
                all[at].push(pairs[at].measure(setting, point)?);
            }
        }
    }
    let names: Vec<&str> = pairs.iter().map(|pair| pair.name).collect();
    let mut data = Vec::new();
    let mut costs = costs(setting);
    for (point, all) in points.iter().zip(&samples) {
        for (name, rounds) in names.iter().zip(all) {
            costs.rows.push(row(point, name, rounds, &all[0]));
            let rounds: Vec<_> = rounds
                .iter()
                .map(|[bare, weft]| json!({ "bare": bare.json(), "weft": weft.json() }))
                .collect();
            data.push(json!({ "point": point.name, "what": name, "rounds": rounds }));
        }
    }
    let (memory, kib) = memory(setting, &pairs)?;
    Ok(Section {
        name: "tls",
        tables: vec![costs, memory],
        data: json!({ "points": data, "kib_per_idle_connection": kib }),
    })
}

/// Returns whether the kernel offers TLS.
fn has_kernel_tls() -> bool {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
    known.split_whitespace().any(|name| name == "tls")
}

fn costs(setting: &Setting) -> Table {
    let text = format!(
        "weft, and a bare stream with the same options, which moves the same bytes without NVMe. One connection, one core for each end. Medians of {} rounds. \
         Calls are productive system calls of an end for an operation.",
        setting.rounds
    );
    let head = [
        "what",
        "operations per second",
        "of its bare stream",
        "of plain weft",
        "CPU of host and target, µs",
        "calls of host and target",
    ];
    Table::new("What TLS costs", &text, &[&["point"], &head[..]].concat())
}

fn row(point: &Point, name: &str, rounds: &[[Sample; 2]], plain: &[[Sample; 2]]) -> Vec<String> {
    let weft = |of: &dyn Fn(&Sample) -> f64| {
        Spread::of(rounds.iter().map(|[_, weft]| of(weft))).map_or(f64::NAN, |spread| spread.median)
    };
    let share = |values: Vec<f64>| Spread::of(values).map_or_else(|| "–".into(), |s| s.to_string());
    let of_bare = rounds.iter().map(|[bare, weft]| weft.iops / bare.iops).collect();
    let of_plain =
        rounds.iter().zip(plain).map(|([_, weft], [_, plain])| weft.iops / plain.iops).collect();
    let cpu = |end: &dyn Fn(&Sample) -> f64| micros(weft(end));
    let (host, target) = (
        |s: &Sample| s.initiator.map_or(f64::NAN, |c| c.cpu_us()),
        |s: &Sample| s.target.map_or(f64::NAN, |c| c.cpu_us()),
    );
    let calls =
        |s: Option<super::super::sample::Cost>| s.and_then(|cost| cost.calls).unwrap_or(f64::NAN);
    vec![
        point.title.into(),
        name.into(),
        rate(weft(&|s| s.iops)),
        share(of_bare),
        share(of_plain),
        format!("{}, {}", cpu(&host), cpu(&target)),
        format!("{:.3}, {:.3}", weft(&|s| calls(s.initiator)), weft(&|s| calls(s.target))),
    ]
}

/// Hosts whose connections are counted, each with one I/O queue beside that of its admin queue.
const HOSTS: usize = 50;

/// What an idle connection takes of the target's memory.
fn memory(setting: &Setting, pairs: &[Pair]) -> Result<(Table, serde_json::Value)> {
    let mut table = Table::new(
        "Memory of an idle connection",
        &format!(
            "Growth of the target's resident memory with {HOSTS} hosts of one I/O queue each, divided by their connections, the admin queues' included."
        ),
        &["what", "KiB per connection"],
    );
    let mut data = serde_json::Map::new();
    for pair in pairs {
        let cpu = setting.target_cpu.to_string();
        let options: Vec<&str> = pair.options.iter().map(String::as_str).collect();
        let all = [&["--threads", "1", "--cpus_allowed", &cpu][..], &options].concat();
        let target = Target::with(setting, "null:1GiB", "nvme+tcp://127.0.0.1:0", &all)?;
        let first = Hosts::connect(setting, &target, 1, 1, &options)?;
        let before = target.process.memory("VmRSS")?;
        let _hosts = Hosts::connect(setting, &target, HOSTS, 1, &options)?;
        let each = target.process.memory("VmRSS")?.saturating_sub(before) as f64
            / 1024.0
            / (2 * HOSTS) as f64;
        drop(first);
        table.rows.push(vec![pair.name.into(), format!("{each:.0}")]);
        data.insert(pair.name.into(), json!(each));
    }
    Ok((table, data.into()))
}
