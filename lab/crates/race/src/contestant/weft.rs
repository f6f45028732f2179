//! weft's target with weft's initiator, over NVMe/TCP.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    super::{
        point::Point,
        process::{self, Process},
        sample::{Cost, Sample},
        setting::Setting,
    },
    contender::Contestant,
};

/// A running `weft serve`.
pub struct Target {
    /// The process.
    pub process: Process,
    /// Its source.
    pub url: String,
}

impl Target {
    /// Serves `source` by one loop on the target's core.
    pub fn start(setting: &Setting, source: &str) -> Result<Self> {
        let cpu = setting.target_cpu.to_string();
        Self::with(
            setting,
            source,
            "nvme+tcp://127.0.0.1:0",
            &["--threads", "1", "--cpus_allowed", &cpu],
        )
    }

    /// Serves `source` at the URL `listen`, with more options.
    pub fn with(setting: &Setting, source: &str, listen: &str, options: &[&str]) -> Result<Self> {
        let mut command = setting.weft(&["serve", source, "--until-eof", "--listen", listen]);
        let mut process = Process::start(command.args(options))?;
        let url = process
            .line("listening on ")
            .with_context(|| format!("weft serve {source} --listen {listen}"))?;
        Ok(Self { process, url })
    }

    /// Writes all of it once: pages of a RAM disk that were never written are all the same one.
    pub fn fill(&self, setting: &Setting) -> Result<()> {
        fill(setting, &self.url)
    }

    /// Runs a job of `weft bench` on it; the report, and what the target's counters grew by.
    pub fn bench(&mut self, setting: &Setting, job: &[String]) -> Result<(Value, Value)> {
        let before = self.process.counters()?;
        let mut command = setting.weft(&["bench", &self.url, "--output-format=json"]);
        command.args(["--watch-pid", &self.process.pid().to_string()]).args(job);
        let report = serde_json::from_str(&process::output(&mut command)?)
            .context("weft bench printed no JSON")?;
        let after = self.process.counters()?;
        let grown = |(name, value): (&String, &Value)| {
            let grown =
                value.as_u64().unwrap_or(0).saturating_sub(before[name].as_u64().unwrap_or(0));
            (name.clone(), Value::from(grown))
        };
        Ok((
            report,
            after
                .as_object()
                .context("no counters")?
                .iter()
                .map(grown)
                .collect::<serde_json::Map<_, _>>()
                .into(),
        ))
    }

    /// As [`Target::bench`], summed up.
    pub fn sample(&mut self, setting: &Setting, job: &[String]) -> Result<Sample> {
        let (report, counters) = self.bench(setting, job)?;
        let mut sample = Sample::of_fio(&report)?;
        let whole = &report["weft"];
        let ios = ios(&report);
        let threads = whole["threads"].as_array().context("no threads")?;
        let mine =
            |name: &str| threads.iter().map(|thread| count(&thread["counters"], name)).sum::<f64>();
        let initiator = Cost::from_cpu(&whole["cpu_us_per_io"]).context("no processor time")?;
        let copied = Some(mine("copied_bytes") / ios);
        sample.initiator =
            Some(Cost { calls: whole["system_calls_per_io"].as_f64(), copied, ..initiator });
        // The target's counters run from connecting to disconnecting. As each operation moves the
        // same bytes on both sides, these tell how many there were in all.
        let bytes_per_io = (mine("recv_bytes") + mine("send_bytes")) / ios;
        let target_ios =
            (count(&counters, "recv_bytes") + count(&counters, "send_bytes")) / bytes_per_io;
        let calls: f64 = ["recv_calls", "send_calls", "send_blocked", "sleeps", "disk_enters"]
            .iter()
            .map(|name| count(&counters, name))
            .sum();
        let cost = Cost::from_cpu(&whole["watched_cpu_us_per_io"])
            .context("no processor time of the target")?;
        let copied = Some(count(&counters, "copied_bytes") / target_ios);
        sample.target = Some(Cost { calls: Some(calls / target_ios), copied, ..cost });
        Ok(sample)
    }
}

/// Writes all of a device once.
pub fn fill(setting: &Setting, url: &str) -> Result<()> {
    let job = ["--rw=write", "--bs=1m", "--iodepth=8", "--output-format=json"];
    process::output(setting.weft(&["bench", url]).args(job)).map(drop)
}

/// A counter.
pub fn count(counters: &Value, name: &str) -> f64 {
    counters[name].as_f64().unwrap_or(0.0)
}

/// Operations of a report.
fn ios(report: &Value) -> f64 {
    let jobs = report["jobs"].as_array().into_iter().flatten();
    let of = |job: &Value| {
        ["read", "write"]
            .iter()
            .filter_map(|direction| job[direction]["total_ios"].as_f64())
            .sum::<f64>()
    };
    jobs.map(of).sum::<f64>().max(1.0)
}

/// weft over a source.
pub struct Weft {
    name: String,
    target: Target,
}

impl Weft {
    /// A target over `source` (`ram` or `null`), filled.
    pub fn start(setting: &Setting, source: &str) -> Result<Self> {
        let target = Target::start(setting, &format!("{source}:{}", setting.memory_bytes))?;
        target.fill(setting)?;
        Ok(Self { name: format!("weft-{source}"), target })
    }
}

impl Contestant for Weft {
    fn name(&self) -> &str {
        &self.name
    }

    fn measure(&mut self, setting: &Setting, point: &Point) -> Result<Option<Sample>> {
        let mut job = point.job(setting);
        if point.digests {
            job.extend(["--hdr-digest".into(), "--data-digest".into()]);
        }
        self.target.sample(setting, &job).map(Some)
    }
}
