//! An image of Ceph: fio's engine on it, weft on it, and weft's target on it, all on a cluster of
//! this machine.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::{
    contestant::Target,
    point::{CEPH, Point},
    process::{self, Process, cpu_of},
    sample::Sample,
    setting::Setting,
    statistics::Spread,
    table::{Section, Table, micros, rate},
};
use crate::sh::{self, Missing};

/// Size of the image: several objects, and little enough to lie in the memory of the cluster's
/// daemon.
const IMAGE: &str = "64M";

/// How often processor times are read.
const LOOK: Duration = Duration::from_millis(20);

/// What a program does at its end, at most; what it spends then does not count.
const END: Duration = Duration::from_millis(300);

/// A measurement of a contestant: its rate, and the processor time of an operation in fio's or
/// `weft bench`'s process, in that of weft's target, and in the cluster's daemon.
#[derive(Clone, Default)]
struct Run {
    iops: f64,
    client_us: f64,
    target_us: Option<f64>,
    daemon_us: f64,
    /// Cores that all of them were busy on.
    busy: f64,
}

/// The cluster, which ends with this.
struct Cluster {
    _process: Process,
    dir: PathBuf,
    daemon: u32,
}

impl Cluster {
    fn start() -> Result<Self> {
        let build = [
            "build",
            "--release",
            "--quiet",
            "--locked",
            "--package",
            "weft-testing",
            "--example",
            "ceph",
        ];
        sh::run(sh::cargo(build[0]).args(&build[1..]))?;
        let mut command = Command::new(sh::target_dir().join("release/examples/ceph"));
        // A disk would be the slowest of all.
        if fs::metadata("/dev/shm").is_ok_and(|shm| shm.is_dir()) {
            command.env("TMPDIR", "/dev/shm");
        }
        let mut process = Process::start(&mut command)?;
        let dir = PathBuf::from(
            process.line("cluster in ").map_err(|_| Missing("there is no Ceph".into()))?,
        );
        let daemon = fs::read_to_string(dir.join("osd.0.pid"))?
            .trim()
            .parse()
            .context("the daemon's process id")?;
        let conf = fs::read_to_string(dir.join("ceph.conf"))?;
        fs::write(dir.join("uncached.conf"), format!("{conf}\n[client]\nrbd cache = false\n"))?;
        Ok(Self { _process: process, dir, daemon })
    }

    fn conf(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn url(&self) -> String {
        format!("rbd:rbd/race,conf={}", self.conf("ceph.conf"))
    }

    /// An image, all of whose objects are there.
    fn image(&self, setting: &Setting) -> Result<()> {
        let conf = self.conf("ceph.conf");
        process::output(
            Command::new("rbd").args(["-c", &conf, "create", "--size", IMAGE, "rbd/race"]),
        )?;
        let fill =
            ["bench", &self.url(), "--rw=write", "--bs=1m", "--iodepth=4", "--output-format=json"];
        process::output(&mut setting.weft(&fill)).map(drop)
    }
}

/// Which cores the cluster's daemon has, and which all else has.
struct Placement {
    title: &'static str,
    /// Lists of cores for the daemon and for the rest.
    cores: [String; 2],
}

impl Placement {
    fn all(setting: &Setting) -> [Self; 2] {
        let [first, second] =
            [setting.target_cpu, setting.initiator_cpu].map(|cpu| cpu.to_string());
        let both = format!("{first},{second}");
        [
            Self {
                title: "An image of Ceph, whose daemon has a core of its own",
                cores: [first, second],
            },
            Self {
                title: "An image of Ceph, everybody on both cores",
                cores: [both.clone(), both],
            },
        ]
    }

    /// Moves what runs already.
    fn apply(&self, cluster: &Cluster, target: &Target) -> Result<()> {
        for (cores, pid) in self.cores.iter().zip([cluster.daemon, target.process.pid()]) {
            process::output(Command::new("taskset").args([
                "--all-tasks",
                "--cpu-list",
                "--pid",
                cores,
                &pid.to_string(),
            ]))?;
        }
        Ok(())
    }
}

/// Who is measured, in this order.
///
/// fio is first with librbd's cache off, as weft has it: a write that has ended is stored. By
/// default the library ends writes before that.
const NAMES: [&str; 4] =
    ["fio", "fio with librbd's cache", "`weft bench` on the image", "`weft bench` on `weft serve`"];

/// Measures all in turn.
pub fn run(setting: &Setting) -> Result<Section> {
    for program in ["fio", "rbd", "ceph-osd", "taskset"] {
        if !sh::have(program) {
            return Err(Missing(format!("there is no {program}")).into());
        }
    }
    let cluster = Cluster::start()?;
    cluster.image(setting)?;
    let target = Target::with(setting, &cluster.url(), "nvme+tcp://127.0.0.1:0", &[])?;
    let (mut tables, mut data) = (Vec::new(), Vec::new());
    for placement in Placement::all(setting) {
        placement.apply(&cluster, &target)?;
        let all = rounds(setting, |point, who| {
            measure(setting, &cluster, &target, &placement, point, who)
        })?;
        tables.push(table(setting, placement.title, &all));
        data.push(json!({ "cores": placement.cores, "points": in_numbers(&all) }));
    }
    Ok(Section { name: "ceph", tables, data: json!(data) })
}

/// For each point, for each of them, each round.
type Rounds = Vec<Vec<Vec<Run>>>;

fn rounds(setting: &Setting, measure: impl Fn(&Point, usize) -> Result<Run>) -> Result<Rounds> {
    let mut all = vec![vec![Vec::new(); NAMES.len()]; CEPH.len()];
    for round in 0..setting.rounds as usize {
        for (point, runs) in CEPH.iter().zip(&mut all) {
            eprintln!("round {} of {}: {}", round + 1, setting.rounds, point.title);
            for turn in 0..NAMES.len() {
                let at = (turn + round) % NAMES.len();
                runs[at].push(measure(point, at)?);
            }
        }
    }
    Ok(all)
}

fn measure(
    setting: &Setting,
    cluster: &Cluster,
    target: &Target,
    placement: &Placement,
    point: &Point,
    who: usize,
) -> Result<Run> {
    let job = match who {
        0 => fio(setting, point, &cluster.conf("uncached.conf")),
        1 => fio(setting, point, &cluster.conf("ceph.conf")),
        2 => bench(setting, point, &cluster.url()),
        _ => bench(setting, point, &target.url),
    };
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &placement.cores[1]]).arg(job.get_program()).args(job.get_args());
    command.envs(job.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let served = (who == 3).then(|| target.process.pid());
    watched(setting, &mut command, served, cluster.daemon)
        .with_context(|| format!("{}: {}", NAMES[who], point.title))
}

fn bench(setting: &Setting, point: &Point, url: &str) -> Command {
    let mut command = setting.weft(&["bench", url, "--output-format=json"]);
    command.args(point.job(setting));
    command
}

fn fio(setting: &Setting, point: &Point, conf: &str) -> Command {
    let mut command = Command::new("fio");
    command
        .args([
            "--name=race",
            "--ioengine=rbd",
            "--clientname=admin",
            "--pool=rbd",
            "--rbdname=race",
            "--thread",
        ])
        .args([
            format!("--rw={}", point.rw),
            format!("--bs={}", point.bytes),
            format!("--iodepth={}", point.iodepth),
        ])
        .args(["--norandommap", "--time_based", "--output-format=json"])
        .args([
            format!("--runtime={}ms", setting.runtime.as_millis()),
            format!("--ramp_time={}ms", setting.ramp.as_millis()),
        ])
        .env("CEPH_CONF", conf);
    command
}

/// Runs a client to its end and reads the processor times meanwhile.
fn watched(
    setting: &Setting,
    command: &mut Command,
    target: Option<u32>,
    daemon: u32,
) -> Result<Run> {
    let output = tempfile::NamedTempFile::new()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(output.path())?)
        .spawn()
        .context("it does not start")?;
    let pids: Vec<u32> = [child.id(), daemon].into_iter().chain(target).collect();
    let mut looks: Vec<(Instant, Vec<Duration>)> = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // What has ended is looked at in the next turn.
        let times: Result<Vec<Duration>> =
            pids.iter().map(|&pid| Ok(cpu_of(pid)?.iter().sum())).collect();
        looks.extend(times.ok().map(|times| (Instant::now(), times)));
        thread::sleep(LOOK);
    };
    let text = fs::read_to_string(output.path())?;
    ensure!(status.success(), "it ended with {status}: {text}");
    let report: Value =
        serde_json::from_str(text.get(text.find('{').unwrap_or(0)..).unwrap_or_default())?;
    let iops = Sample::of_fio(&report)?.iops;
    let end = looks.last().context("it ended at once")?.0 - END.min(setting.runtime / 4);
    let within = |at: Instant| at <= end && end - at <= setting.runtime.mul_f64(0.8);
    let mut counted = looks.iter().filter(|(at, _)| within(*at));
    let (first, last) =
        (counted.next().context("too short")?, counted.next_back().context("too short")?);
    let cores =
        |at: usize| (last.1[at] - first.1[at]).as_secs_f64() / (last.0 - first.0).as_secs_f64();
    let us = |at: usize| cores(at) / iops * 1e6;
    let busy = (0..pids.len()).map(cores).sum();
    Ok(Run { iops, client_us: us(0), daemon_us: us(1), target_us: target.map(|_| us(2)), busy })
}

fn table(setting: &Setting, title: &str, all: &Rounds) -> Table {
    let text = format!(
        "An image of {IMAGE} on a cluster with one storage daemon in memory, all on this machine. Medians of {} rounds.",
        setting.rounds
    );
    let head = [
        "point",
        "who",
        "operations per second",
        "of fio",
        "CPU of client, target and daemon, µs",
        "cores busy",
    ];
    let mut table = Table::new(title, &text, &head);
    for (point, runs) in CEPH.iter().zip(all) {
        for (name, rounds) in NAMES.iter().zip(runs) {
            table.rows.push(row(point, name, rounds, &runs[0]));
        }
    }
    table
}

fn in_numbers(all: &Rounds) -> Vec<Value> {
    let number = |run: &Run| json!({ "iops": run.iops, "client_us": run.client_us, "target_us": run.target_us, "daemon_us": run.daemon_us, "cores": run.busy });
    let of_point = |(point, runs): (&Point, &Vec<Vec<Run>>)| {
        let all: serde_json::Map<String, Value> = NAMES
            .iter()
            .zip(runs)
            .map(|(name, runs)| (name.to_string(), runs.iter().map(number).collect()))
            .collect();
        json!({ "point": point.name, "rounds": all })
    };
    CEPH.iter().zip(all).map(of_point).collect()
}

fn row(point: &Point, name: &str, rounds: &[Run], fio: &[Run]) -> Vec<String> {
    let median = |of: &dyn Fn(&Run) -> f64| {
        Spread::of(rounds.iter().map(of)).map_or(f64::NAN, |spread| spread.median)
    };
    let share = Spread::of(rounds.iter().zip(fio).map(|(one, fio)| one.iops / fio.iops));
    let target = rounds
        .iter()
        .all(|run| run.target_us.is_some())
        .then(|| median(&|run| run.target_us.unwrap_or(f64::NAN)));
    vec![
        point.title.into(),
        name.into(),
        rate(median(&|run| run.iops)),
        share.map_or_else(|| "–".into(), |s| s.to_string()),
        format!(
            "{}, {}, {}",
            micros(median(&|run| run.client_us)),
            target.map_or_else(|| "–".into(), micros),
            micros(median(&|run| run.daemon_us))
        ),
        format!("{:.2}", median(&|run| run.busy)),
    ]
}
