//! The bare TCP ceiling of the machine.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    super::{
        point::{CALIBRATION, Point},
        process::{self, Process},
        sample::{Sample, until_done},
        setting::Setting,
    },
    contender::Contestant,
};

/// How long a calibration measures, as a part of a measurement.
const CALIBRATION_PART: f64 = 0.15;

/// The ceiling's server, and its client now and then.
pub struct Ceiling {
    server: Process,
    address: String,
    /// Options of both ends, for TLS.
    options: Vec<String>,
}

impl Ceiling {
    /// Starts the server.
    pub fn start(setting: &Setting) -> Result<Self> {
        Self::with(setting, &[])
    }

    /// Starts the server, with options for TLS that its clients have, too.
    pub fn with(setting: &Setting, options: &[&str]) -> Result<Self> {
        let (memory, cpu) = (setting.memory_bytes.to_string(), setting.target_cpu.to_string());
        let mut server = Process::start(
            setting.weft(&["ceiling", "--memory", &memory, "--cpu", &cpu]).args(options),
        )?;
        let address = server.line("listening on ").context("the ceiling's server")?;
        Ok(Self { server, address, options: options.iter().map(ToString::to_string).collect() })
    }

    /// Operations per second at depth 32: what tells fast from slow phases of the machine.
    pub fn calibrate(&mut self, setting: &Setting) -> Result<f64> {
        let runtime = setting.runtime.mul_f64(CALIBRATION_PART);
        let short = Setting { runtime, ramp: runtime / 4, ..setting.clone() };
        Ok(self.as_weft(&short, &CALIBRATION)?.iops)
    }

    /// Measures with the tuning that does best.
    pub fn best(&mut self, setting: &Setting, point: &Point) -> Result<Sample> {
        self.run(setting, point, &[])
    }

    /// Measures with the tuning that weft itself uses.
    pub fn as_weft(&mut self, setting: &Setting, point: &Point) -> Result<Sample> {
        self.run(setting, point, &["--ceiling-tuning", "512KiB+copy"])
    }

    /// Measures at a fixed number of operations per second, with both ends asleep until something
    /// arrives.
    pub fn paced(&mut self, setting: &Setting, point: &Point, rate_iops: u32) -> Result<Sample> {
        let rate = format!("--rate_iops={rate_iops}");
        self.run(setting, point, &["--ceiling-tuning", "default+copy+block", &rate])
    }

    fn run(&mut self, setting: &Setting, point: &Point, more: &[&str]) -> Result<Sample> {
        until_done(setting, |setting| {
            let mut command = setting.weft(&[
                "bench",
                "--ceiling",
                "--output-format=json",
                "--ceiling-server",
                &self.address,
            ]);
            command
                .args(["--watch-pid", &self.server.pid().to_string()])
                .args(point.job(setting))
                .args(&self.options)
                .args(more);
            let report: Value = serde_json::from_str(&process::output(&mut command)?)?;
            Sample::of_ceiling(&report)
        })
    }
}

impl Contestant for Ceiling {
    fn name(&self) -> &str {
        "ceiling"
    }

    fn measure(&mut self, setting: &Setting, point: &Point) -> Result<Option<Sample>> {
        self.best(setting, point).map(Some)
    }
}

impl Point {
    /// The options of `weft bench` for this point.
    pub fn job(&self, setting: &Setting) -> Vec<String> {
        let mut job = vec![
            format!("--rw={}", self.rw),
            format!("--rwmixread={}", self.rwmixread),
            format!("--bs={}", self.bytes),
            format!("--iodepth={}", self.iodepth),
            format!("--numjobs={}", self.connections),
            format!("--runtime={}", setting.runtime.as_secs_f64()),
            format!("--ramp_time={}", setting.ramp.as_secs_f64()),
            format!("--cpus_allowed={}", setting.initiator_cpu),
        ];
        if self.random() {
            job.push("--norandommap".into());
        }
        job
    }
}
