//! The engine for fio, with fio 3.33 in the place that `FIO_DIR` names: its sources, configured, as
//! the engine is compiled with its headers; its program, if it is built there.

use crate::built::{WARNINGS, here, library, scratch, succeeds};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use weft_testing::programs;

/// The programs of these tests.
struct Fio {
    program: PathBuf,
    engine: PathBuf,
    weft: PathBuf,
}

impl Fio {
    /// Compiles the engine, and the program of weft.
    fn new() -> Self {
        let place = std::env::var_os("FIO_DIR")
            .expect("set FIO_DIR to the sources of fio 3.33, in which ./configure was run");
        let place = PathBuf::from(place);
        let library = library().expect("cc and nm");
        let engine = scratch().join("libfio-weft.so");
        let mut cc = programs::command("cc");
        cc.args(["-shared", "-fPIC", "-std=gnu99", "-O2", "-D_GNU_SOURCE"]).args(WARNINGS);
        cc.arg("-isystem").arg(&place).arg("-include").arg(place.join("config-host.h"));
        cc.arg("-I").arg(here().join("include")).arg(here().join("fio/weft-engine.c"));
        cc.arg("-o").arg(&engine).arg("-L").arg(library).arg("-lweft");
        succeeds(cc.arg(format!("-Wl,-rpath,{}", library.display())));
        let built = place.join("fio");
        let program = if built.is_file() { Some(built) } else { programs::find("fio") };
        succeeds(Command::new(env!("CARGO")).args(["build", "--quiet", "--release", "-p", "weft"]));
        Self { program: program.expect("fio"), engine, weft: release().join("weft") }
    }

    /// fio on a URL.
    fn command(&self, url: &str, arguments: &[&str]) -> Command {
        let mut fio = Command::new(&self.program);
        fio.arg(format!("--ioengine=external:{}", self.engine.display()));
        fio.arg(format!("--filename={}", url.replace(':', "\\:"))).arg("--name=job");
        fio.args(["--output-format=json"]).args(arguments);
        // fio keeps the state of verification in its working directory.
        fio.env("WEFT_STATE_DIR", scratch().join("state")).current_dir(scratch());
        fio
    }

    fn run(&self, url: &str, arguments: &[&str]) -> Output {
        self.command(url, arguments).output().unwrap()
    }

    /// A target with a source.
    fn serve(&self, listen: &str, source: &str) -> Target {
        let mut serve = Command::new(&self.weft);
        serve.args(["serve", "--listen", listen, source]).env("WEFT_STATE_DIR", scratch());
        let mut process = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        let listening = |line: String| Some(line.strip_prefix("listening on ")?.trim().to_owned());
        let url = said.lines().map_while(Result::ok).find_map(listening).expect("it listens");
        Target { process, url }
    }
}

/// The directory of programs that are built for release.
fn release() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).unwrap().join("release")
}

/// A target, which ends with this value.
struct Target {
    process: Child,
    url: String,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
#[ignore = "needs FIO_DIR: cargo xtask long fio-engine"]
fn every_kind_of_job_is_right_on_every_kind_of_source() {
    let fio = Fio::new();
    let file = scratch().join("fio.disk");
    std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    let (nvme, iscsi) = ("nvme+tcp://127.0.0.1:0", "iscsi://127.0.0.1:0");
    let nvme = fio.serve(nvme, "ram:64MiB");
    let iscsi = fio.serve(iscsi, "ram:64MiB");
    let nbd = fio.serve("nbd://127.0.0.1:0", "ram:64MiB");
    let file = format!("file:{}", file.display());
    let verified: [&[&str]; 5] = [
        &["--rw=randwrite", "--iodepth=32", "--verify=crc32c"],
        &["--rw=write", "--iodepth=4", "--bsrange=512-256k", "--verify=sha256", "--fsync=16"],
        &["--rw=randrw", "--iodepth=16", "--numjobs=4", "--offset_increment=8m", "--verify=md5"],
        &["--rw=randtrim", "--iodepth=8", "--time_based=0"],
        &["--rw=randwrite", "--iodepth=8", "--sync=dsync", "--iodepth_batch_submit=4"],
    ];
    for url in ["ram:64MiB", &file, &nvme.url, &iscsi.url, &nbd.url] {
        for how in verified {
            let mut fio = fio.command(url, &["--bs=4k", "--size=8m", "--group_reporting"]);
            let output = succeeds(fio.args(how));
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(said.contains("\"error\" : 0"), "{url} {how:?}: {said}");
        }
    }
    let several = format!("{}:ram\\:64MiB", nvme.url.replace(':', "\\:"));
    let mut both = fio.command("ram:1MiB", &["--rw=randrw", "--bs=4k", "--iodepth=16"]);
    both.arg(format!("--filename={several}")).args(["--size=16m", "--nrfiles=2"]);
    succeeds(both.arg("--verify=crc32c"));
    println!(
        "verified on memory, a file, NVMe/TCP, iSCSI and NBD: random and sequential writes, mixtures, flushes, trims, four jobs, two files"
    );
}

#[test]
#[ignore = "needs FIO_DIR: cargo xtask long fio-engine"]
fn mistakes_and_failures_are_told() {
    let fio = Fio::new();
    for (url, arguments, says) in [
        ("nowhere:1", &["--rw=read"][..], "nowhere:1"),
        ("file:/nonexistent/weft", &["--rw=read"], "/nonexistent/weft"),
        ("readonly:ram:1MiB", &["--rw=write"], "is read-only"),
        ("ram:1MiB", &["--rw=read", "--weft_options=colour=red"], "there is no option"),
        ("error:rate=1,kind=media,ram:1MiB", &["--rw=read"], "input or output failed"),
    ] {
        let output = fio.run(url, &[&["--bs=4k", "--size=1m"], arguments].concat());
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && said.contains(says), "{url} {arguments:?}: {said}");
    }
    let mut goes_on = fio.command("error:rate=0.1,seed=7,kind=media,ram:1MiB", &["--rw=randread"]);
    goes_on.args(["--bs=4k", "--size=1m", "--continue_on_error=io", "--iodepth=4"]);
    let said = String::from_utf8(succeeds(&mut goes_on).stdout).unwrap();
    assert!(said.contains("\"total_err\" : "), "{said}");
}

/// Rounds of each comparison.
const ROUNDS: usize = 5;

/// Student's t for 95 % at four degrees of freedom.
const T: f64 = 2.776;

/// The rate of all jobs in JSON of fio or of `weft bench`, operations a second.
fn rate(output: &[u8]) -> f64 {
    let text = String::from_utf8_lossy(output);
    let from = text.find('{').expect("JSON");
    let json: serde_json::Value = serde_json::from_str(&text[from..]).unwrap();
    json["jobs"].as_array().unwrap().iter().map(|job| job["read"]["iops"].as_f64().unwrap()).sum()
}

/// Random reads by fio and by `weft bench`, in turn; the ratio of the rates with its interval.
fn ratio(fio: &Fio, url: &str, (depth, jobs): (&str, &str)) -> (f64, f64) {
    let logs: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut by_fio = fio.command(url, &["--rw=randread", "--bs=4k", "--time_based"]);
            by_fio.args(["--runtime=2", "--size=64m", "--group_reporting", "--gtod_reduce=1"]);
            by_fio.arg(format!("--iodepth={depth}")).arg(format!("--numjobs={jobs}"));
            // As fio's manual advises for rates: not one system call for each operation.
            by_fio.arg(format!("--iodepth_batch_submit={depth}"));
            by_fio.arg(format!("--iodepth_batch_complete_max={depth}"));
            let mut by_weft = Command::new(&fio.weft);
            by_weft.args(["bench", url, "--rw=randread", "--bs=4k", "--runtime=2s"]);
            by_weft.arg(format!("--iodepth={depth}")).arg(format!("--numjobs={jobs}"));
            by_weft.arg("--output-format=json").env("WEFT_STATE_DIR", scratch());
            let (a, b) = (succeeds(&mut by_fio).stdout, succeeds(&mut by_weft).stdout);
            (rate(&a) / rate(&b)).ln()
        })
        .collect();
    let mean = logs.iter().sum::<f64>() / ROUNDS as f64;
    let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
    let half = T * (squares / (ROUNDS - 1) as f64 / ROUNDS as f64).sqrt();
    (mean.exp(), half.exp() - 1.0)
}

#[test]
#[ignore = "needs FIO_DIR: cargo xtask long fio-rate"]
fn the_rate_beside_that_of_weft_bench() {
    let fio = Fio::new();
    println!(
        "4 KiB random reads by fio with the engine, as a ratio to `weft bench`, {ROUNDS} rounds in turn:"
    );
    for source in ["ram:64MiB", "null:64MiB"] {
        let target = fio.serve("nvme+tcp://127.0.0.1:0", source);
        for (of, url) in [("in the process", source), ("over NVMe/TCP", &target.url)] {
            for (depth, jobs) in [("1", "1"), ("32", "1"), ("1", "4"), ("32", "4")] {
                let (ratio, half) = ratio(&fio, url, (depth, jobs));
                println!(
                    "{source} {of}, depth {depth}, {jobs} jobs: {ratio:.2} ± {:.0} %",
                    half * 100.0
                );
            }
        }
    }
}

/// The engine is for one version of fio, which its comment names.
#[test]
fn the_engine_says_whose_licence_binds_it() {
    let text = std::fs::read_to_string(Path::new(here()).join("fio/weft-engine.c")).unwrap();
    assert!(text.contains("GPL-2.0-only") && text.contains("fio 3.33"));
}
