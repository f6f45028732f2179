//! Memory of a target: for each idle connection, and with all connections at full depth.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    super::{
        contestant::Target,
        process,
        setting::Setting,
        table::{Section, Table},
    },
    Hosts,
};

/// Idle hosts, each with as many connections beside that of the admin queue.
const IDLE: (usize, usize) = (125, 7);

/// Processes with as many connections each, all of depth 128: 1,000 in all.
const FULL: (usize, u32) = (8, 125);

/// Bytes of a RAM disk: its memory is not what is measured.
const DISK_BYTES: u64 = 16 << 20;

/// Payload memory of the target's loop where only a few connections are made, bytes: less than they
/// ask for.
const POOL_BYTES: u64 = 16 << 20;

/// What the program itself may grow by under load, bytes.
const SLACK_BYTES: u64 = 4 << 20;

/// Result; sizes in bytes.
pub struct Memory {
    /// For each idle connection.
    pub idle_each: u64,
    /// Idle connections.
    pub idle_connections: u64,
    /// The target's peak with all connections at depth 128.
    pub peak: u64,
    /// Its limit.
    pub allowed: u64,
    /// Connections at depth 128.
    pub connections: u64,
}

/// Measures both.
pub fn measure(setting: &Setting) -> Result<Memory> {
    let limits: Value = serde_json::from_str(&process::output(&mut setting.weft(&[
        "limits",
        "--output-format",
        "json",
    ]))?)?;
    let pool =
        if setting.small { POOL_BYTES } else { limit(&limits, "weft_io", "POOL_BYTES_DEFAULT")? };
    // What a connection sends ahead while it waits for memory apart: these hosts send no data that
    // they were not asked for.
    let each = ["CONNECTION_BYTES", "GATHER_BYTES", "GUARANTEED_BYTES"]
        .map(|name| limit(&limits, "weft_endpoint", name));
    let connection = each.into_iter().sum::<Result<u64>>()?;
    let (idle_each, idle_connections) = idle(setting)?;
    let (before, peak, connections) = full(setting, pool)?;
    let allowed = before + pool + connections * connection + SLACK_BYTES;
    Ok(Memory { idle_each, idle_connections, peak, allowed, connections })
}

/// Makes the table of both.
pub fn run(setting: &Setting) -> Result<Section> {
    let Memory { idle_each, idle_connections, peak, allowed, connections } = measure(setting)?;
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let mut table = Table::new(
        "Memory of the target",
        "Resident memory of a target with one loop over a RAM disk of 16 MiB; no huge pages are reserved.",
        &["what", "found", "at most"],
    );
    let each = format!("for each of {idle_connections} idle connections");
    table.rows.push(vec![each, format!("{:.1} KiB", idle_each as f64 / 1024.0), "32 KiB".into()]);
    let what = format!("{connections} connections at depth 128, 4 KiB reads, 16 KiB writes");
    table.rows.push(vec![what, mib(peak), mib(allowed)]);
    table.notes.push(
        "The second bound is what the target had before, the pool of payload memory, for each connection its tables, a gather list and what it may take beyond the pool (`weft limits`), and 4 MiB."
            .into(),
    );
    let data = json!({ "idle_bytes_each": idle_each, "peak_bytes": peak, "allowed_bytes": allowed, "connections": connections });
    Ok(Section { name: "memory", tables: vec![table], data })
}

fn limit(limits: &Value, of: &str, name: &str) -> Result<u64> {
    let all = limits[of].as_array().with_context(|| format!("weft limits has no {of}"))?;
    let value = all
        .iter()
        .find(|limit| limit["name"] == name)
        .and_then(|limit| limit["value"].as_str()?.parse().ok());
    value.with_context(|| format!("weft limits has no {name}"))
}

/// What each idle connection adds; and how many there were.
fn idle(setting: &Setting) -> Result<(u64, u64)> {
    let target = Target::start(setting, &format!("ram:{DISK_BYTES}"))?;
    target.fill(setting)?;
    let (count, queues) = if setting.small { (10, 7) } else { IDLE };
    let _warm = Hosts::connect(setting, &target, 2, queues, &["--queue-size", "128"])?;
    let before = target.process.memory("VmRSS")?;
    let hosts = Hosts::connect(setting, &target, count, queues, &["--queue-size", "128"])?;
    let connections = (count * (queues + 1)) as u64;
    let after = target.process.memory("VmRSS")?;
    drop(hosts);
    Ok((after.saturating_sub(before) / connections, connections))
}

/// The target's memory before, the peak with all connections busy at depth 128; and how many there
/// were.
fn full(setting: &Setting, pool: u64) -> Result<(u64, u64, u64)> {
    let (cpu, pool) = (setting.target_cpu.to_string(), pool.to_string());
    let options = ["--threads", "1", "--cpus_allowed", &cpu, "--pool", &pool];
    let target =
        Target::with(setting, &format!("ram:{DISK_BYTES}"), "nvme+tcp://127.0.0.1:0", &options)?;
    target.fill(setting)?;
    let before = target.process.memory("VmRSS")?;
    let (processes, jobs) = if setting.small { (2, 16) } else { FULL };
    let runtime = format!("--runtime={}", (setting.runtime.as_secs_f64() * 3.0).max(0.5));
    let more =
        [format!("--numjobs={jobs}"), runtime, format!("--cpus_allowed={}", setting.initiator_cpu)];
    for what in [["--rw=randread", "--bs=4k"], ["--rw=randwrite", "--bs=16k"]] {
        let start = |_| {
            let mut command = setting.weft(&[
                "bench",
                &target.url,
                "--iodepth=128",
                "--queue-size=129",
                "--norandommap",
            ]);
            command.args(what).args(&more).stdin(Stdio::null()).stdout(Stdio::null()).spawn()
        };
        let running = (0..processes).map(start).collect::<Result<Vec<_>, _>>()?;
        for mut bench in running {
            ensure!(bench.wait()?.success(), "weft bench {} failed", what.join(" "));
        }
    }
    Ok((before, target.process.memory("VmHWM")?, (processes * (jobs as usize + 1)) as u64))
}
