//! What layers above NVMe/TCP leave of it: a mirror and a stripe of two legs and a gateway beside
//! one leg, what bare TCP leaves of two connections, and large payloads through iSCSI and NBD.

mod bound;

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::super::{
    contestant::{Target, fill},
    process,
    sample::{Cost, Sample},
    setting::Setting,
    statistics::Spread,
    table::{Section, Table, rate},
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

/// All ways at a point, of all rounds.
struct Measured {
    point: String,
    rounds: Vec<Vec<Sample>>,
}

impl Measured {
    /// The ways in turn, each round from another one on.
    fn of(
        setting: &Setting,
        ways: &[Way],
        (title, size): (&str, &str),
        point: (&str, u32),
    ) -> Result<Self> {
        let mut rounds = Vec::new();
        for round in 0..setting.rounds as usize {
            let mut samples: Vec<Option<Sample>> = ways.iter().map(|_| None).collect();
            for turn in 0..ways.len() {
                let at = (turn + round) % ways.len();
                samples[at] = Some(ways[at].measure(setting, size, point)?);
            }
            rounds.push(samples.into_iter().flatten().collect());
        }
        Ok(Self { point: format!("{title} {}, depth {}", point.0, point.1), rounds })
    }

    /// A ratio of two things that were measured in one round.
    fn ratio(&self, of: impl Fn(&[Sample]) -> f64) -> String {
        Spread::of(self.rounds.iter().map(|round| of(round)))
            .map_or_else(|| "–".into(), |s| s.to_string())
    }

    /// The row: the rate of the first way, and what the others reach of it.
    fn row(&self) -> Vec<String> {
        let first = Spread::of(self.rounds.iter().map(|round| round[0].iops));
        let others = 1..self.rounds.first().map_or(1, Vec::len);
        let mut row = vec![self.point.clone(), rate(first.map_or(0.0, |spread| spread.median))];
        row.extend(others.map(|at| self.ratio(|round| round[at].iops / round[0].iops)));
        row
    }
}

/// All points.
fn measure_all(
    setting: &Setting,
    ways: &[Way],
    size: (&str, &str),
    points: &[(&str, u32)],
) -> Result<Vec<Measured>> {
    points.iter().map(|point| Measured::of(setting, ways, size, *point)).collect()
}

fn json(all: &[Measured], ways: &[Way]) -> Value {
    let of_round = |round: &Vec<Sample>| {
        let named = ways.iter().zip(round).map(|(way, sample)| (way.name.into(), sample.json()));
        Value::Object(named.collect())
    };
    let of_point = |one: &Measured| {
        let rounds: Vec<Value> = one.rounds.iter().map(of_round).collect();
        json!({ "point": one.point, "rounds": rounds })
    };
    all.iter().map(of_point).collect()
}

/// Measures all.
pub fn run(setting: &Setting) -> Result<Section> {
    let (layers, of_layers) = layers(setting)?;
    let (bound, of_bound) = bound::run(setting)?;
    let (protocols, of_protocols) = protocols(setting)?;
    let data = json!({ "layers": of_layers, "bound": of_bound, "protocols": of_protocols });
    Ok(Section { name: "layers", tables: vec![layers, bound, protocols], data })
}

/// Serves sources by one loop on the target's core; the URL is that of the first listener.
fn serve(setting: &Setting, sources: &[&str], more: &[&str]) -> Result<Target> {
    let (cpu, [first, others @ ..]) = (setting.target_cpu.to_string(), sources) else {
        bail!("there is nothing to serve");
    };
    let fixed = ["--threads", "1", "--cpus_allowed", &cpu];
    Target::with(setting, first, "nvme+tcp://127.0.0.1:0", &[others, &fixed, more].concat())
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
    let way = |name, url, watched| Way { name, url, options: &[], watched };
    let ways = [
        way("leg", leg.clone(), of_target),
        way("mirror", mirror, of_target),
        way("stripe", stripe, of_target),
        way("gateway", gateway.url.clone(), of_gateway),
    ];
    let all = measure_all(setting, &ways, ("4 KiB", "4k"), &SHORT)?;
    let text = format!(
        "A mirror of two legs, a stripe of two and a gateway in front of one, beside one leg: RAM disks of one target with one loop on one core, and the initiator on the other one; the gateway is on the target's core. Medians of {} rounds, with the least and the greatest. The last column is the processor time of the gateway for an operation, beside that of both ends of the leg.",
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
    Ok((table, json(&all, &ways)))
}

fn protocols(setting: &Setting) -> Result<(Table, Value)> {
    let source = format!("ram:{}", setting.memory_bytes);
    let others = ["--listen", "iscsi://127.0.0.1:0", "--listen", "nbd://127.0.0.1:0"];
    let mut target = serve(setting, &[&source], &others)?;
    target.fill(setting)?;
    let watched = target.process.pid();
    let mut ways = vec![Way { name: "NVMe/TCP", url: target.url.clone(), options: &[], watched }];
    for name in ["iSCSI", "NBD"] {
        ways.push(Way { name, url: target.process.line("listening on ")?, options: &[], watched });
    }
    let nbd = ways[2].url.clone();
    ways.push(Way { name: KEEPS_NOTHING, url: nbd, options: &["--unflushed", "0"], watched });
    let all = measure_all(setting, &ways, ("64 KiB", "64k"), &LARGE)?;
    let text = format!(
        "One RAM disk through the three protocols of one target with one loop. Medians of {} rounds, with the least and the greatest.",
        setting.rounds
    );
    let head = ["point", "NVMe/TCP, operations per second", "iSCSI", "NBD", KEEPS_NOTHING];
    let mut table = Table::new("Large payloads by protocol", &text, &head);
    table.rows.extend(all.iter().map(Measured::row));
    Ok((table, json(&all, &ways)))
}
