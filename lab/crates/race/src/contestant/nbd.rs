//! NBD: nbdkit's memory plugin, and weft's export of a RAM disk, both driven by fio.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use serde_json::Value;
use xtask::sh;

use super::{
    super::{
        point::Point,
        process::{self, Process},
        sample::{Cost, Sample},
        setting::Setting,
    },
    contender::Contestant,
    weft::Target,
};

/// A target with fio.
struct Nbd {
    name: &'static str,
    url: String,
    target: Process,
}

/// nbdkit.
pub fn foreign(setting: &Setting) -> Result<Box<dyn Contestant>> {
    ensure!(sh::have("nbdkit"), "there is no nbdkit");
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let size = format!("size={}", setting.memory_bytes);
    let (cpu, port_text) = (setting.target_cpu, port.to_string());
    let args = [
        "--foreground",
        "--ipaddr=127.0.0.1",
        "--port",
        &port_text,
        "--exit-with-parent",
        "memory",
        &size,
    ];
    let target = Process::start(&mut Setting::pinned(cpu, "nbdkit", &args))?;
    start("nbdkit", setting, format!("nbd://127.0.0.1:{port}"), target)
}

/// weft's own export.
pub fn ours(setting: &Setting) -> Result<Box<dyn Contestant>> {
    let cpu = setting.target_cpu.to_string();
    let source = format!("ram:{}", setting.memory_bytes);
    let Target { process, url } = Target::with(
        setting,
        &source,
        "nbd://127.0.0.1:0",
        &["--threads", "1", "--cpus_allowed", &cpu, "--name", "race"],
    )?;
    start("weft-nbd", setting, url, process)
}

fn start(
    name: &'static str,
    setting: &Setting,
    url: String,
    target: Process,
) -> Result<Box<dyn Contestant>> {
    let engines = if sh::have("fio") {
        process::output(std::process::Command::new("fio").arg("--enghelp"))?
    } else {
        String::new()
    };
    ensure!(engines.lines().any(|line| line.trim() == "nbd"), "there is no fio with an nbd engine");
    let nbd = Nbd { name, url, target };
    let bytes = setting.memory_bytes.to_string();
    let fill = ["--rw=write", "--bs=1m", "--iodepth=8", "--size", &bytes];
    // A server may need a moment until it listens.
    let mut outcome = nbd.fio(setting, &fill);
    for _ in 0..50 {
        if outcome.is_ok() {
            break;
        }
        std::thread::sleep(core::time::Duration::from_millis(40));
        outcome = nbd.fio(setting, &fill);
    }
    outcome?;
    Ok(Box::new(nbd))
}

impl Nbd {
    fn fio(&self, setting: &Setting, job: &[&str]) -> Result<Value> {
        let uri = format!("--uri={}", self.url);
        let mut args = vec![
            "--name=race",
            "--ioengine=nbd",
            &uri,
            "--output-format=json",
            "--group_reporting",
        ];
        args.extend(job);
        let text = process::output(&mut Setting::pinned(setting.initiator_cpu, "fio", &args))?;
        Ok(serde_json::from_str(text.get(text.find('{').unwrap_or(0)..).unwrap_or(""))?)
    }
}

impl Contestant for Nbd {
    fn name(&self) -> &str {
        self.name
    }

    fn measure(&mut self, setting: &Setting, point: &Point) -> Result<Option<Sample>> {
        if point.digests {
            return Ok(None);
        }
        // fio's threads are one for each job; it keeps times of at least a second.
        let job = [
            format!("--rw={}", point.rw),
            format!("--rwmixread={}", point.rwmixread),
            format!("--bs={}", point.bytes),
            format!("--iodepth={}", point.iodepth),
            format!("--numjobs={}", point.connections),
            format!("--size={}", setting.memory_bytes),
            format!("--runtime={}ms", setting.runtime.as_millis()),
            format!("--ramp_time={}ms", setting.ramp.as_millis()),
            "--time_based".into(),
            "--norandommap".into(),
            "--thread".into(),
        ];
        let before = self.target.cpu()?;
        let report = self.fio(setting, &job.iter().map(String::as_str).collect::<Vec<_>>())?;
        let after = self.target.cpu()?;
        let mut sample = Sample::of_fio(&report)?;
        // From connecting to disconnecting, so a little more than the measurement.
        let whole = (setting.runtime + setting.ramp).as_secs_f64();
        let us = |at: usize| (after[at] - before[at]).as_secs_f64() * 1e6 / (sample.iops * whole);
        sample.target = Some(Cost { user_us: us(0), system_us: us(1), ..Cost::default() });
        Ok(Some(sample))
    }
}
