//! A thousand connections of which ten are busy.

use anyhow::Result;
use serde_json::json;

use super::{
    super::{
        contestant::Target,
        setting::Setting,
        statistics::Spread,
        table::{Section, Table, rate},
    },
    Hosts, iops, reads,
};

/// Connections that are busy, and their depth.
const BUSY: (u32, u32) = (10, 16);

/// Idle hosts, with a connection beside that of the admin queue each.
const IDLE_HOSTS: usize = 495;

/// Compares ten busy connections alone with the same ten among idle ones, in turn.
pub fn run(setting: &Setting) -> Result<Section> {
    let mut target = Target::start(setting, &format!("ram:{}", setting.memory_bytes))?;
    target.fill(setting)?;
    let job = reads(
        setting,
        BUSY.1,
        &[&format!("--numjobs={}", BUSY.0), &format!("--cpus_allowed={}", setting.initiator_cpu)],
    );
    let idle_hosts = if setting.small { 20 } else { IDLE_HOSTS };
    let (mut alone, mut among) = (Vec::new(), Vec::new());
    for _ in 0..setting.rounds {
        alone.push(iops(&target.bench(setting, &job)?.0));
        let hosts = Hosts::connect(setting, &target, idle_hosts, 1, &[])?;
        among.push(iops(&target.bench(setting, &job)?.0));
        drop(hosts);
    }
    let losses: Vec<f64> =
        alone.iter().zip(&among).map(|(alone, among)| (1.0 - among / alone) * 100.0).collect();
    let mut table = Table::new(
        "Idle connections",
        &format!(
            "4 KiB random reads over ten connections of depth 16, alone and while others are connected and quiet, in turn; medians of {} rounds.",
            setting.rounds
        ),
        &["connections", "operations per second"],
    );
    let cell = |values: &[f64]| {
        Spread::of(values.iter().copied()).map_or_else(String::new, |s| rate(s.median))
    };
    table.rows.push(vec![format!("{} busy", BUSY.0), cell(&alone)]);
    table.rows.push(vec![format!("{} busy, {} idle", BUSY.0, 2 * idle_hosts), cell(&among)]);
    let loss = Spread::of(losses.iter().copied()).map_or(0.0, |s| s.median);
    table.notes.push(format!("The idle ones cost the busy ones {loss:.1} % (the aim: under 5 %)."));
    let data = json!({ "alone": alone, "among": among, "loss_percent": losses });
    Ok(Section { name: "connections", tables: vec![table], data })
}
