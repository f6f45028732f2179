//! Two loops on two cores against one on one.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    super::{
        contestant::Target,
        gates::futexes,
        process,
        setting::Setting,
        statistics::Spread,
        table::{Section, Table, rate},
    },
    iops, reads,
};

/// Measures the RAM disk alone, the whole path, and the futex calls.
pub fn run(setting: &Setting) -> Result<Section> {
    let both = format!("{},{}", setting.target_cpu, setting.initiator_cpu);
    let one = setting.target_cpu.to_string();
    let mut table = Table::new(
        "Two loops",
        &format!(
            "4 KiB random reads at depth 32 for each loop, one connection for each loop. With two cores in all, source and target share the \
             cores: one loop of each on one core, then two loops of each on two. Medians of {} rounds.",
            setting.rounds
        ),
        &["what", "one core", "two cores", "ratio"],
    );
    let (mut disk, mut path) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..setting.rounds {
        for (at, (loops, cpus)) in [("1", &one), ("2", &both)].into_iter().enumerate() {
            disk[at].push(local(setting, loops, cpus)?);
            path[at].push(fabric(setting, loops, cpus)?);
        }
    }
    for (what, rounds) in [("RAM disk, no network", &disk), ("over NVMe/TCP", &path)] {
        let median = |at: usize| Spread::of(rounds[at].iter().copied()).map_or(0.0, |s| s.median);
        table.rows.push(vec![
            what.into(),
            rate(median(0)),
            rate(median(1)),
            format!("{:.2}", median(1) / median(0)),
        ]);
    }
    let data = json!({ "disk": disk, "path": path });
    match futexes(setting, 2) {
        Ok(found) => table.notes.push(format!(
            "Futex calls with two loops at each end, in {} operations: {} of the initiator (starting and ending included), {} of the target.",
            found.ios, found.initiator, found.target
        )),
        Err(error) => table.notes.push(format!("Futex calls were not counted: {error:#}.")),
    }
    Ok(Section { name: "scaling", tables: vec![table], data })
}

fn job(setting: &Setting, loops: &str, cpus: &str) -> Vec<String> {
    reads(
        setting,
        32,
        &[
            &format!("--numjobs={loops}"),
            &format!("--threads={loops}"),
            &format!("--cpus_allowed={cpus}"),
        ],
    )
}

fn local(setting: &Setting, loops: &str, cpus: &str) -> Result<f64> {
    let source = format!("ram:{}", setting.memory_bytes);
    let mut command = setting.weft(&["bench", &source, "--output-format=json"]);
    let report: Value =
        serde_json::from_str(&process::output(command.args(job(setting, loops, cpus)))?)?;
    Ok(iops(&report))
}

fn fabric(setting: &Setting, loops: &str, cpus: &str) -> Result<f64> {
    let source = format!("ram:{}", setting.memory_bytes);
    let mut target = Target::with(
        setting,
        &source,
        "nvme+tcp://127.0.0.1:0",
        &["--threads", loops, "--cpus_allowed", cpus],
    )?;
    target.fill(setting)?;
    Ok(iops(&target.bench(setting, &job(setting, loops, cpus))?.0))
}
