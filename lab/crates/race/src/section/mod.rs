//! Parts of the race in addition to its points: each measures one thing and makes one table.

pub mod connections;
pub mod file;
pub mod hostile;
pub mod idle;
pub mod layers;
pub mod memory;
pub mod tls;

use anyhow::Result;
use serde_json::Value;

use super::{
    contestant::Target,
    process::Process,
    sample::Sample,
    setting::Setting,
    statistics::Spread,
    table::{micros, rate},
};

/// Idle hosts on a target: processes that hold associations and ask nothing.
struct Hosts(Vec<Process>);

/// Associations of one process.
const OF_A_PROCESS: usize = 125;

impl Hosts {
    /// Connects `count` hosts, each with `queues` connections beside that of its admin queue.
    fn connect(
        setting: &Setting,
        target: &Target,
        count: usize,
        queues: usize,
        more: &[&str],
    ) -> Result<Self> {
        let mut hosts = Self(Vec::new());
        let mut left = count;
        while left > 0 {
            let some = left.min(OF_A_PROCESS);
            let (some_text, queues) = (some.to_string(), queues.to_string());
            let mut command = setting.weft(&[
                "hosts",
                &target.url,
                "--count",
                &some_text,
                "--nr-io-queues",
                &queues,
            ]);
            let mut process = Process::start(command.args(more))?;
            process.line("holding ")?;
            hosts.0.push(process);
            left -= some;
        }
        Ok(hosts)
    }
}

/// Options of a random read of 4 KiB.
fn reads(setting: &Setting, iodepth: u32, more: &[&str]) -> Vec<String> {
    let runtime = format!("--runtime={}", setting.runtime.as_secs_f64());
    let ramp = format!("--ramp_time={}", setting.ramp.as_secs_f64());
    let depth = format!("--iodepth={iodepth}");
    let all = ["--rw=randread", "--bs=4k", "--norandommap", &runtime, &ramp, &depth];
    all.iter().chain(more).map(ToString::to_string).collect()
}

/// Operations per second of a report's reads.
fn iops(report: &Value) -> f64 {
    report["jobs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|job| job["read"]["iops"].as_f64())
        .sum()
}

/// A row of medians: the 50th and 99th percentile of the latency, and the rate.
fn row(name: &str, samples: &[Sample]) -> Vec<String> {
    let median =
        |of: &dyn Fn(&Sample) -> f64| Spread::of(samples.iter().map(of)).map_or(0.0, |s| s.median);
    let latency = |at: usize| micros(median(&|s| s.latency_us.map_or(0.0, |all| all[at])));
    vec![name.into(), latency(0), latency(1), rate(median(&|s| s.iops))]
}
