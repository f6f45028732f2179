//! A host that reads 4 KiB at depth 1, with and without another one that writes 1 MiB at depth 128,
//! on a target with one core: what the neighbour does to the reader's latency.

use crate::support::{Scratch, Server, weft};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weft_testing::programs;

const LISTEN: [&str; 3] = ["nvme+tcp://127.0.0.1:0", "iscsi://127.0.0.1:0", "nbd://127.0.0.1:0"];

/// The cores of target and hosts: two, if there are so many.
fn cores() -> (String, String) {
    let allowed = weft_io::cpu::allowed();
    let last = allowed.last().copied().unwrap_or(0);
    (allowed.first().copied().unwrap_or(0).to_string(), last.to_string())
}

/// Real-time priorities, if this process may use them: other programs of the machine then wait. The
/// reader goes before its neighbour where both share a core, as if it had its own; hosts usually
/// do.
#[derive(Clone, Copy, Debug)]
struct Priorities {
    others: Option<&'static str>,
    reader: Option<&'static str>,
}

impl Priorities {
    const NONE: Self = Self { others: None, reader: None };

    fn allowed() -> Self {
        let tried = Command::new("chrt").args(["--rr", "2", "true"]).stderr(Stdio::null()).status();
        if tried.is_ok_and(|status| status.success()) {
            Self { others: Some("1"), reader: Some("2") }
        } else {
            Self::NONE
        }
    }
}

/// The same command on one core.
fn pinned(core: &str, priority: Option<&str>, command: &Command) -> Command {
    let mut pinned = programs::command("taskset");
    pinned.args(["--cpu-list", core]);
    if let Some(priority) = priority {
        pinned.args(["chrt", "--rr", priority]);
    }
    pinned.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    if let Some(dir) = command.get_current_dir() {
        pinned.current_dir(dir);
    }
    for (key, value) in command.get_envs() {
        pinned.env(key, value.unwrap_or_default());
    }
    pinned
}

/// A bench that runs.
fn bench(dir: &Path, core: &str, priority: Option<&str>, url: &str, args: &[&str]) -> Child {
    let mut command =
        weft(dir, &["bench", url, "--output-format=json", "--threads=1", "--time_based"]);
    command.args(args);
    pinned(core, priority, &command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The report of its first job.
fn report(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["jobs"][0].clone()
}

/// Where the neighbour writes.
#[derive(Clone, Copy, Debug)]
enum Neighbour {
    Nowhere,
    /// To another target on the same core: what the system itself does to the reader.
    AtAnotherTarget,
    AtTheSameTarget,
}

const NEIGHBOURS: [(Neighbour, &str); 3] = [
    (Neighbour::Nowhere, "alone"),
    (Neighbour::AtAnotherTarget, "the neighbour at another target on the same core"),
    (Neighbour::AtTheSameTarget, "the neighbour at the same target"),
];

/// What a measurement showed.
#[derive(Clone, Copy, Debug)]
struct Figures {
    reads: f64,
    p50_us: f64,
    p99_us: f64,
    /// Of the neighbour.
    written_mib: f64,
}

impl Figures {
    fn of(reader: &Value, writer: Option<&Value>) -> Self {
        let percentile =
            |which: &str| reader["read"]["clat_ns"]["percentile"][which].as_f64().unwrap() / 1e3;
        Self {
            reads: reader["read"]["iops"].as_f64().unwrap(),
            p50_us: percentile("50.000000"),
            p99_us: percentile("99.000000"),
            written_mib: writer
                .map_or(0.0, |job| job["write"]["bw_bytes"].as_f64().unwrap() / f64::from(1 << 20)),
        }
    }
}

/// Two targets on one core, and the hosts on another.
struct Stage {
    dir: Scratch,
    targets: [Server; 2],
    hosts: String,
    priorities: Priorities,
}

impl Stage {
    fn new(listen: &str, priorities: Priorities) -> Self {
        let dir = Scratch::new(&format!("fairness-{}", &listen[..3]));
        let (core, hosts) = cores();
        let mut command = weft(dir.path(), &["serve"]);
        command.args(["ram:256MiB", "--listen", listen, "--threads", "1"]);
        let targets = [(); 2].map(|()| Server::spawn(pinned(&core, priorities.others, &command)));
        Self { dir, targets, hosts, priorities }
    }

    /// Measures the reader at the first target. The neighbour is there before it, and stays longer.
    fn measure(&self, neighbour: Neighbour, seconds: u32) -> Figures {
        let writer = match neighbour {
            Neighbour::Nowhere => None,
            Neighbour::AtAnotherTarget => Some(self.targets[1].url()),
            Neighbour::AtTheSameTarget => Some(self.targets[0].url()),
        };
        let longer = format!("--runtime={}", seconds + 2);
        let write = ["--rw=write", "--bs=1M", "--iodepth=128", "--size=128M", &longer];
        let writer = writer
            .map(|url| bench(self.dir.path(), &self.hosts, self.priorities.others, url, &write));
        let runtime = format!("--runtime={seconds}");
        // Not what is being written: a read of that waits for the write.
        let read = [
            "--rw=randread",
            "--bs=4k",
            "--iodepth=1",
            "--offset=128M",
            "--size=128M",
            "--ramp_time=1",
            &runtime,
        ];
        let reader = report(bench(
            self.dir.path(),
            &self.hosts,
            self.priorities.reader,
            self.targets[0].url(),
            &read,
        ));
        Figures::of(&reader, writer.map(report).as_ref())
    }
}

fn median(rounds: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(listen: &str, rounds: usize, seconds: u32, priorities: Priorities) {
    let stage = Stage::new(listen, priorities);
    let mut found = [const { Vec::new() }; NEIGHBOURS.len()];
    for _ in 0..rounds {
        for (figures, (neighbour, _)) in found.iter_mut().zip(NEIGHBOURS) {
            figures.push(stage.measure(neighbour, seconds));
        }
    }
    for (figures, (_, what)) in found.iter().zip(NEIGHBOURS) {
        let of = |each: fn(&Figures) -> f64| median(figures, each);
        let (p50, p99) = (of(|figures| figures.p50_us), of(|figures| figures.p99_us));
        let (reads, written) = (of(|figures| figures.reads), of(|figures| figures.written_mib));
        let protocol = listen.split(':').next().unwrap_or(listen);
        println!(
            "{protocol}, {what}: {reads:.0} reads/s, p50 {p50:.0} µs, p99 {p99:.0} µs; written {written:.0} MiB/s"
        );
        assert!(figures.iter().all(|figures| figures.reads > 0.0), "{listen}: {what}: {figures:?}");
    }
}

/// Without `taskset` there is nothing to measure.
fn is_possible() -> bool {
    programs::have(&["taskset"])
}

#[test]
fn a_reader_goes_on_beside_a_writer_of_large_blocks() {
    if is_possible() {
        compare(LISTEN[0], 1, 1, Priorities::NONE);
    }
}

#[test]
#[ignore = "long: cargo xtask long fairness"]
fn the_latency_of_a_reader_beside_a_writer_of_large_blocks() {
    if is_possible() {
        println!();
        println!(
            "a reader of 4 KiB at depth 1, a neighbour that writes 1 MiB at depth 128; both on one core, the targets on another"
        );
        let priorities = Priorities::allowed();
        let how = if priorities.others.is_some() { "with" } else { "without" };
        println!("medians of 5 rounds of 3 s, in turn; {how} real-time priorities");
        LISTEN.iter().for_each(|listen| compare(listen, 5, 3, priorities));
    }
}
