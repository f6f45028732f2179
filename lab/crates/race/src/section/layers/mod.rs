//! Cost of layers above NVMe/TCP: a mirror and a stripe of two legs and a gateway, relative to one
//! leg; bare TCP over two connections; large payloads through iSCSI and NBD; and mirrors at the
//! sizes of real disks.

mod bound;
mod load;
mod measured;
mod mirrors;
mod ranges;
mod serve;

use std::path::Path;

use anyhow::{Context, Result};
use measured::Measured;
use serde_json::{Value, json};
use serve::serve;

use super::super::{
    contestant::fill,
    process,
    sample::{Cost, Sample},
    setting::Setting,
    table::{Section, Table},
};

/// Points of the layers: what is done at 4 KiB, and the depths.
const SHORT: [(&str, u32); 4] =
    [("randread", 1), ("randread", 32), ("randwrite", 1), ("randwrite", 32)];

/// Points of the protocols: what is done at 64 KiB, and the depths.
const LARGE: [(&str, u32); 6] = [
    ("randread", 1),
    ("randread", 8),
    ("randread", 32),
    ("randwrite", 1),
    ("randwrite", 8),
    ("randwrite", 32),
];

/// Seconds before a measurement of writes: a mirror keeps each region that is written to for the
/// first time, and that is not what is measured.
const RAMP_OF_WRITES_S: f64 = 2.0;

/// Bytes of the disks of layers: few enough for all regions to be written to within that time.
const DISK_BYTES: u64 = 64 << 20;

/// NBD does not tell whether a server has a cache, so a host keeps what no flush covers.
const KEEPS_NOTHING: &str = "NBD, --unflushed 0";

/// What is measured: its name, where it is, and the process whose processor time is counted.
struct Way {
    name: &'static str,
    url: String,
    /// More options of `weft bench`.
    options: &'static [&'static str],
    watched: u32,
}

impl Way {
    fn new(name: &'static str, url: String, watched: u32) -> Self {
        Self { name, url, options: &[], watched }
    }

    fn measure(&self, setting: &Setting, size: &str, (rw, depth): (&str, u32)) -> Result<Sample> {
        let is_long = rw == "randwrite" && !setting.small;
        let ramp = if is_long { RAMP_OF_WRITES_S } else { setting.ramp.as_secs_f64() };
        let mut command = setting.weft(&["bench", &self.url, "--output-format=json"]);
        command.args(["--watch-pid", &self.watched.to_string()]).args([
            format!("--cpus_allowed={}", setting.initiator_cpu),
            format!("--rw={rw}"),
            format!("--bs={size}"),
            format!("--iodepth={depth}"),
            format!("--runtime={}", setting.runtime.as_secs_f64()),
            format!("--ramp_time={ramp}"),
            "--norandommap".to_owned(),
        ]);
        command.args(self.options);
        let report: Value = serde_json::from_str(&process::output(&mut command)?)
            .with_context(|| format!("weft bench {} printed no JSON", self.name))?;
        let mut sample = Sample::of_fio(&report)?;
        sample.initiator = Cost::from_cpu(&report["weft"]["cpu_us_per_io"]);
        sample.target = Cost::from_cpu(&report["weft"]["watched_cpu_us_per_io"]);
        Ok(sample)
    }
}

/// All points.
fn measure_all(
    setting: &Setting,
    ways: &[Way],
    (title, size): (&str, &str),
    points: &[(&str, u32)],
) -> Result<Vec<Measured>> {
    let of_point = |point: &(&str, u32)| {
        let name = format!("{title} {}, depth {}", point.0, point.1);
        Measured::of(setting, name, ways.len(), |at| ways[at].measure(setting, size, *point))
    };
    points.iter().map(of_point).collect()
}

fn names(ways: &[Way]) -> Vec<&'static str> {
    ways.iter().map(|way| way.name).collect()
}

/// Measures all.
pub fn run(setting: &Setting) -> Result<Section> {
    let (layers, of_layers) = layers(setting)?;
    let (bound, of_bound) = bound::run(setting)?;
    let (protocols, of_protocols) = protocols(setting)?;
    let (mirrors, of_mirrors) = mirrors::run(setting)?;
    let data = json!({ "layers": of_layers, "bound": of_bound, "protocols": of_protocols, "mirrors": of_mirrors });
    let tables = [vec![layers, bound, protocols], mirrors].concat();
    Ok(Section { name: "layers", tables, data })
}

fn layers(setting: &Setting) -> Result<(Table, Value)> {
    let source = format!("ram:{}", DISK_BYTES.min(setting.memory_bytes));
    let target = serve(setting, &[&*source; 5], &[])?;
    let disks = [1, 2, 3, 4, 5].map(|nsid| format!("{}/{nsid}", target.url));
    for disk in &disks {
        fill(setting, disk)?;
    }
    let [leg, mirrored, also_mirrored, striped, also_striped] = &disks;
    // In memory: what a disk takes to keep it is not measured.
    let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
    let directory = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in);
    let directory = directory.context("a directory for a mirror's state")?;
    let state = directory.path().join("mirror.state");
    let state = state.to_str().context("the name of a temporary directory")?;
    let create = ["mirror", "create", "--state", state, "--assume-clean", mirrored, also_mirrored];
    process::output(&mut setting.weft(&create))?;
    let gateway = serve(setting, &[leg], &["--nqn", "nqn.2026-01.example.weft:gateway"])?;
    let [of_target, of_gateway] = [&target, &gateway].map(|one| one.process.pid());
    let mirror = format!("mirror:state={state},{mirrored},{also_mirrored}");
    let stripe = format!("stripe:64KiB,{striped},{also_striped}");
    let ways = [
        Way::new("leg", leg.clone(), of_target),
        Way::new("mirror", mirror, of_target),
        Way::new("stripe", stripe, of_target),
        Way::new("gateway", gateway.url.clone(), of_gateway),
    ];
    let all = measure_all(setting, &ways, ("4 KiB", "4k"), &SHORT)?;
    let text = format!(
        "A mirror of two legs, a stripe of two and a gateway in front of one, compared with one leg: RAM disks of one target with one loop on one core, and the initiator on the other one; the gateway is on the target's core. Medians of {} rounds, with the least and the greatest. The last column is the processor time of the gateway for an operation, as a ratio to that of both ends of the leg.",
        setting.rounds
    );
    let head =
        ["point", "leg, operations per second", "mirror", "stripe", "gateway", "gateway's CPU"];
    let mut table = Table::new("Layers above NVMe/TCP", &text, &head);
    let us = |cost: Option<Cost>| cost.map_or(f64::NAN, |cost| cost.cpu_us());
    for measured in &all {
        let mut row = measured.row();
        row.push(measured.ratio(|round| match round {
            [leg, .., gateway] => us(gateway.target) / (us(leg.initiator) + us(leg.target)),
            _ => f64::NAN,
        }));
        table.rows.push(row);
    }
    Ok((table, measured::json(&all, &names(&ways))))
}

fn protocols(setting: &Setting) -> Result<(Table, Value)> {
    let source = format!("ram:{}", setting.memory_bytes);
    let others = ["--listen", "iscsi://127.0.0.1:0", "--listen", "nbd://127.0.0.1:0"];
    let mut target = serve(setting, &[&source], &others)?;
    target.fill(setting)?;
    let watched = target.process.pid();
    let mut ways = vec![Way::new("NVMe/TCP", target.url.clone(), watched)];
    for name in ["iSCSI", "NBD"] {
        ways.push(Way::new(name, target.process.line("listening on ")?, watched));
    }
    let nbd = ways[2].url.clone();
    let options = &["--unflushed", "0"];
    ways.push(Way { options, ..Way::new(KEEPS_NOTHING, nbd, watched) });
    let all = measure_all(setting, &ways, ("64 KiB", "64k"), &LARGE)?;
    let text = format!(
        "One RAM disk through the three protocols of one target with one loop. Medians of {} rounds, with the least and the greatest.",
        setting.rounds
    );
    let head = ["point", "NVMe/TCP, operations per second", "iSCSI", "NBD", KEEPS_NOTHING];
    let mut table = Table::new("Large payloads by protocol", &text, &head);
    table.rows.extend(all.iter().map(Measured::row));
    Ok((table, measured::json(&all, &names(&ways))))
}
