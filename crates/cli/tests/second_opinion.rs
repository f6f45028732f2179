//! fio as a second opinion: both measure the same export, whose device takes a known time for each
//! operation, and must find the same rate and latency.
#![cfg(target_os = "linux")]

mod support;

use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Scratch, Server, run, weft};
use weft_testing::programs;

/// How long both measure a workload, in turn, until they agree. What else the machine does makes
/// either find less than there is, so the best of each counts: one undisturbed second is enough,
/// and a busy machine has it later.
const PATIENCE: Duration = Duration::from_secs(600);

/// How far the best that each has found may be apart, as a part of fio's.
const APART: f64 = 0.15;

/// What is found of a workload: rates, of which the best is the highest, and times, of which it is
/// the shortest.
type Figures = Vec<(String, f64)>;

/// What a workload is measured by: rate, mean latency and its median of each direction that it has.
fn figures(report: &[u8]) -> Figures {
    let text = String::from_utf8_lossy(report);
    let json: Value =
        serde_json::from_str(&text[text.find('{').unwrap_or(0)..]).expect("a report in JSON");
    let job = &json["jobs"][0];
    let of = |which: &str| {
        let side = &job[which];
        let number = |value: &Value| value.as_f64().expect("a number");
        (number(&side["total_ios"]) > 0.0).then(|| {
            let (lat, middle) = (
                number(&side["lat_ns"]["mean"]),
                number(&side["clat_ns"]["percentile"]["50.000000"]),
            );
            [("iops", number(&side["iops"])), ("mean", lat), ("p50", middle)]
                .map(|(name, value)| (format!("{which} {name}"), value))
        })
    };
    ["read", "write"].into_iter().filter_map(of).flatten().collect()
}

/// The best of each figure.
fn best(rounds: &[Figures]) -> Figures {
    let of = |(at, (name, _)): (usize, &(String, f64))| {
        let all = rounds.iter().map(|round| round[at].1);
        let best = if name.ends_with("iops") {
            all.fold(0.0, f64::max)
        } else {
            all.fold(f64::MAX, f64::min)
        };
        (name.clone(), best)
    };
    rounds[0].iter().enumerate().map(of).collect()
}

/// The first figure in which two opinions differ.
fn difference(theirs: &Figures, ours: &Figures) -> Option<String> {
    assert_eq!(theirs.len(), ours.len(), "{theirs:?} {ours:?}");
    let pairs = theirs.iter().zip(ours);
    let mut apart = pairs.filter(|((_, theirs), (_, ours))| (ours / theirs - 1.0).abs() > APART);
    apart.next().map(|((name, theirs), (_, ours))| format!("{name}: {ours}, fio {theirs}"))
}

/// Measures by both in turn until they agree. Prints how many rounds that took.
fn agree(dir: &Path, url: &str, workload: &[&str]) {
    let timed = ["--time_based", "--runtime=1", "--bs=4k", "--output-format=json"];
    let mut rounds: [Vec<Figures>; 2] = Default::default();
    let end = Instant::now() + PATIENCE;
    for round in 1.. {
        let mut command = programs::command("fio");
        command
            .args(["--name=x", "--ioengine=nbd", "--size=16m", "--norandommap"])
            .arg(format!("--uri={url}"));
        let theirs = command.args(timed).args(workload).current_dir(dir).output().unwrap();
        assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
        rounds[0].push(figures(&theirs.stdout));
        let ours = run(weft(dir, &[&["bench", url], &timed[..], workload].concat()));
        assert_eq!(ours.code(), Some(0), "{ours:?}");
        rounds[1].push(figures(ours.out.as_bytes()));
        let Some(what) = difference(&best(&rounds[0]), &best(&rounds[1])) else {
            return println!("{workload:?}: they agree in round {round}");
        };
        assert!(Instant::now() < end, "{workload:?}: {what}; all rounds: {rounds:?}");
    }
}

#[test]
fn a_device_with_service_times_is_as_fast_for_both() {
    if !programs::have(&["fio"]) {
        return;
    }
    let dir = Scratch::new("opinion-delay");
    let server = Server::start(
        dir.path(),
        &["delay:read=10ms,write=20ms,depth=8,ram:16MiB", "--listen", "nbd://127.0.0.1:0"],
    );
    // One after the other, as many as the device serves at once, and more than that: those wait.
    for depth in ["--iodepth=1", "--iodepth=8", "--iodepth=24"] {
        agree(dir.path(), server.url(), &["--rw=randread", depth]);
    }
    agree(dir.path(), server.url(), &["--rw=randwrite", "--iodepth=4"]);
}

#[test]
fn a_limited_device_is_as_fast_for_both() {
    if !programs::have(&["fio"]) {
        return;
    }
    let dir = Scratch::new("opinion-limit");
    let server = Server::start(
        dir.path(),
        &["limit:iops=400,burst=10ms,ram:16MiB", "--listen", "nbd://127.0.0.1:0"],
    );
    agree(dir.path(), server.url(), &["--rw=randread", "--iodepth=16"]);
}

/// A result of weft and one of fio are of one format, and so are compared.
#[test]
fn two_runs_are_compared() {
    if !programs::have(&["fio"]) {
        return;
    }
    let dir = Scratch::new("opinion-compared");
    std::fs::write(dir.path().join("data"), vec![7; 1 << 20]).unwrap();
    let job = ["--name=job", "--rw=randread", "--bs=4k", "--iodepth=1", "--number_ios=64"];
    let output = ["--output-format=json", "--output=fio.json"];
    let mut fio = programs::command("fio");
    fio.current_dir(dir.path()).args(["--ioengine=psync", "--filename=data"]);
    assert!(fio.args(job).args(output).status().unwrap().success());
    let bench = run(weft(
        dir.path(),
        &[&["bench", "file:./data", "--output-format=json"], &job[..]].concat(),
    ));
    assert_eq!(bench.code(), Some(0), "{bench:?}");
    std::fs::write(dir.path().join("weft.json"), bench.out).unwrap();
    let compared = run(weft(dir.path(), &["study", "compare", "fio.json", "weft.json"]));
    assert_eq!(compared.code(), Some(0), "{compared:?}");
    for part in ["job: 4KiB random, 100 % reads, 1 in flight", "Median latency of job"] {
        assert!(compared.out.contains(part), "{compared:?}");
    }
    std::fs::write(dir.path().join("cut.json"), "{ \"fio version\": \"fio-3.33\", \"jobs\": []}")
        .unwrap();
    let refused = run(weft(dir.path(), &["study", "compare", "fio.json", "cut.json"]));
    assert!(refused.code() == Some(2) && refused.err.contains("no result in it"), "{refused:?}");
}
