//! What layers above NVMe/TCP leave of it: a mirror and a stripe of two legs and a gateway beside
//! one leg, and large payloads through iSCSI and NBD.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::super::{
    contestant::Target,
    process::{self, Process},
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

/// What is measured: its name, where it is, and the process whose processor time is counted.
struct Way {
    name: &'static str,
    url: String,
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
            .map_or_else(|| "–".into(), |s| format!("{:.2} ({:.2}–{:.2})", s.median, s.min, s.max))
    }

    /// The row: the rate of the first way, and what the others reach of it.
    fn row(&self) -> Vec<String> {
        let first = Spread::of(self.rounds.iter().map(|round| round[0].iops));
        let others = 1..self.rounds.first().map_or(1, Vec::len);
        let mut row = vec![self.point.clone(), rate(first.map_or(0.0, |spread| spread.median))];
        row.extend(others.map(|at| self.ratio(|round| round[at].iops / round[0].iops)));
        row
    }

    fn json(&self, ways: &[Way]) -> Value {
        let of_round = |round: &Vec<Sample>| {
            let named =
                ways.iter().zip(round).map(|(way, sample)| (way.name.into(), sample.json()));
            Value::Object(named.collect())
        };
        json!({ "point": self.point, "rounds": self.rounds.iter().map(of_round).collect::<Vec<_>>() })
    }
}

/// Measures both.
pub fn run(setting: &Setting) -> Result<Section> {
    let (layers, of_layers) = layers(setting)?;
    let (protocols, of_protocols) = protocols(setting)?;
    let data = json!({ "layers": of_layers, "protocols": of_protocols });
    Ok(Section { name: "layers", tables: vec![layers, protocols], data })
}

/// Starts `weft serve` on the target's core.
fn serve(setting: &Setting, more: &[&str]) -> Result<Process> {
    let cpu = setting.target_cpu.to_string();
    let mut command = setting.weft(&["serve", "--until-eof", "--threads", "1"]);
    Process::start(command.args(["--cpus_allowed", &cpu]).args(more))
}

/// Writes all of it once.
fn fill(setting: &Setting, url: &str) -> Result<()> {
    let job = ["--rw=write", "--bs=1m", "--iodepth=8", "--output-format=json"];
    process::output(setting.weft(&["bench", url]).args(job)).map(drop)
}

fn layers(setting: &Setting) -> Result<(Table, Value)> {
    let source = format!("ram:{}", DISK_BYTES.min(setting.memory_bytes));
    let mut target =
        serve(setting, &[&source, &source, &source, "--listen", "nvme+tcp://127.0.0.1:0"])?;
    let url = target.line("listening on ")?;
    let [one, other, leg] = [1, 2, 3].map(|nsid| format!("{url}/{nsid}"));
    for url in [&one, &other, &leg] {
        fill(setting, url)?;
    }
    // In memory: what a disk takes to keep it is not measured.
    let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
    let directory = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in);
    let directory = directory.context("a directory for a mirror's state")?;
    let state = directory.path().join("mirror.state");
    let state = state.to_str().context("the name of a temporary directory")?;
    let create = ["mirror", "create", "--state", state, "--assume-clean", &one, &other];
    process::output(&mut setting.weft(&create))?;
    let cpu = setting.target_cpu.to_string();
    let gateway = Target::with(
        setting,
        &leg,
        "nvme+tcp://127.0.0.1:0",
        &["--threads", "1", "--cpus_allowed", &cpu, "--nqn", "nqn.2026-01.example.weft:gateway"],
    )?;
    let pid = target.pid();
    let ways = [
        Way { name: "leg", url: leg.clone(), watched: pid },
        Way { name: "mirror", url: format!("mirror:state={state},{one},{other}"), watched: pid },
        Way { name: "gateway", url: gateway.url.clone(), watched: gateway.process.pid() },
    ];
    let all: Vec<Measured> = SHORT
        .into_iter()
        .map(|point| Measured::of(setting, &ways, ("4 KiB", "4k"), point))
        .collect::<Result<_>>()?;
    // A stripe is where the mirror was: its legs have no label that it would refuse.
    let stripes = stripes(setting, &target, &leg)?;
    let table = table_of_layers(setting, &all, &stripes);
    let data: Vec<Value> = all.iter().map(|one| one.json(&ways)).collect();
    let of_stripes: Vec<Value> = stripes
        .iter()
        .map(|one| json!(one.rounds.iter().map(|r| [r[0].iops, r[1].iops]).collect::<Vec<_>>()))
        .collect();
    Ok((table, json!({ "points": data, "leg and stripe": of_stripes })))
}

/// The rows: the leg's rate, what the layers reach of it, and the gateway's processor time beside
/// that of the leg's ends.
fn table_of_layers(setting: &Setting, all: &[Measured], stripes: &[Measured]) -> Table {
    let text = format!(
        "A mirror of two legs, a stripe of two and a gateway in front of one, beside one leg: RAM disks of one target with one loop on one core, and the initiator on the other one; the gateway is on the target's core. Medians of {} rounds, with the least and the greatest. The last column is the processor time of the gateway for an operation, beside that of both ends of the leg.",
        setting.rounds
    );
    let head =
        ["point", "leg, operations per second", "mirror", "gateway", "gateway's CPU", "stripe"];
    let mut table = Table::new("Layers above NVMe/TCP", &text, &head);
    let us = |cost: Option<Cost>| cost.map_or(f64::NAN, |cost| cost.cpu_us());
    for (measured, stripe) in all.iter().zip(stripes) {
        let mut row = measured.row();
        row.push(
            measured.ratio(|round| {
                us(round[2].target) / (us(round[0].initiator) + us(round[0].target))
            }),
        );
        row.push(stripe.ratio(|round| round[1].iops / round[0].iops));
        table.rows.push(row);
    }
    table
}

/// A stripe over two more disks beside the leg.
fn stripes(setting: &Setting, target: &Process, leg: &str) -> Result<Vec<Measured>> {
    let source = format!("ram:{}", DISK_BYTES.min(setting.memory_bytes));
    let listen = ["--listen", "nvme+tcp://127.0.0.1:0"];
    let nqn = ["--nqn", "nqn.2026-01.example.weft:striped"];
    let mut striped = serve(setting, &[&[&*source, &*source], &listen[..], &nqn].concat())?;
    let url = striped.line("listening on ")?;
    let [one, other] = [1, 2].map(|nsid| format!("{url}/{nsid}"));
    fill(setting, &one)?;
    fill(setting, &other)?;
    let ways = [
        Way { name: "leg", url: leg.to_owned(), watched: target.pid() },
        Way { name: "stripe", url: format!("stripe:64KiB,{one},{other}"), watched: striped.pid() },
    ];
    SHORT.into_iter().map(|point| Measured::of(setting, &ways, ("4 KiB", "4k"), point)).collect()
}

fn protocols(setting: &Setting) -> Result<(Table, Value)> {
    let source = format!("ram:{}", setting.memory_bytes);
    let mut more = vec![source.as_str()];
    for listen in ["nvme+tcp://127.0.0.1:0", "iscsi://127.0.0.1:0", "nbd://127.0.0.1:0"] {
        more.extend(["--listen", listen]);
    }
    let mut target = serve(setting, &more)?;
    let mut way = |name| {
        let url = target.line("listening on ")?;
        Ok::<_, anyhow::Error>(Way { name, url, watched: target.pid() })
    };
    let ways = [way("NVMe/TCP")?, way("iSCSI")?, way("NBD")?];
    fill(setting, &ways[0].url)?;
    let all: Vec<Measured> = LARGE
        .into_iter()
        .map(|point| Measured::of(setting, &ways, ("64 KiB", "64k"), point))
        .collect::<Result<_>>()?;
    let text = format!(
        "One RAM disk through the three protocols of one target with one loop. Medians of {} rounds, with the least and the greatest.",
        setting.rounds
    );
    let head = ["point", "NVMe/TCP, operations per second", "iSCSI", "NBD"];
    let mut table = Table::new("Large payloads by protocol", &text, &head);
    table.rows.extend(all.iter().map(Measured::row));
    Ok((table, all.iter().map(|one| one.json(&ways)).collect()))
}
