//! Lanes of a study that fio puts the load on.
#![cfg(target_os = "linux")]

use crate::support::{Ran, Scratch, Server, run, weft};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use weft_testing::programs;

/// One workload; the time is that of six slices of each lane.
const SUITE: &str = r#"
name = "both"
title = "fio and weft bench on one device"
source = "ram:16MiB"
fill = true
draw = []
lanes = [{ name = "local", through = "local" }]
workloads = [{ block = "4k", rw = "randrw", read = 70, depth = 4 }]
[quick]
budget = "20s"
rounds = 6
[usual]
budget = "20s"
rounds = 6
[full]
budget = "20s"
rounds = 6
"#;

fn has_fio(engine: &str) -> bool {
    if !programs::have(&["fio"]) {
        return false;
    }
    let known = programs::command("fio").arg("--enghelp").output().unwrap();
    let has = String::from_utf8_lossy(&known.stdout).lines().any(|line| line.trim() == engine);
    if !has {
        weft_testing::skip(format!("fio's engine {engine} is missing"));
    }
    has
}

fn study(dir: &Path, lanes: &[&str], path: Option<&Path>) -> Ran {
    std::fs::write(dir.join("both.toml"), SUITE).unwrap();
    let mut command =
        weft(dir, &["study", "--quick", "--suite", "./both.toml", "--lanes", "local"]);
    for lane in lanes {
        let name = lane.split('=').next().unwrap();
        command.args(["--lanes", name, "--lane", lane]);
    }
    if let Some(path) = path {
        command.env("PATH", path).args(["--time-budget", "2s"]);
    }
    run(command)
}

fn results(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("results.json")).unwrap()).unwrap()
}

fn of<'a>(data: &'a Value, list: &str, lane: &str) -> Vec<&'a Value> {
    data[list].as_array().unwrap().iter().filter(|one| one["lane"] == lane).collect()
}

/// Two lanes on one device: the study has rows and relations of both, and says whether they agree.
fn both(dir: &Path, device: &str, engine: &str) {
    let ran = study(dir, &[&format!("theirs=fio:{device}"), &format!("ours={device}")], None);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let data = results(dir);
    let rows = of(&data, "rows", "theirs");
    let [row] = rows[..] else { panic!("{data}") };
    assert!(row["read_iops"].as_f64() > row["write_iops"].as_f64() && row["failed"] == 0, "{row}");
    assert!(
        row["write_iops"].as_f64() > Some(0.0) && row["latency"]["p50_ns"].as_f64() > Some(0.0),
        "{row}"
    );
    assert!(
        row["initiator"]["system_ns"].as_f64() > Some(0.0),
        "fio's processor time counts: {row}"
    );
    assert!(row["seconds"].as_f64() >= Some(0.9), "a slice takes a second at least: {row}");
    let command = row["command"].as_str().unwrap();
    assert!(
        command.starts_with("fio ")
            && command.contains(&format!("--ioengine={engine}"))
            && command.contains("--refill_buffers=1"),
        "{command}"
    );
    let relations = of(&data, "relations", "theirs");
    assert!(
        relations.iter().any(|it| it["to"] == "ours" && it["quantity"] == "rate"),
        "{relations:?}"
    );
    let note = data["notes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .find(|note| note.contains("one device"));
    let note = note.unwrap_or_else(|| panic!("{}", data["notes"]));
    assert!(
        note.starts_with(
            "The lanes theirs and ours are one device, measured by fio and by weft bench."
        ),
        "{note}"
    );
    assert!(
        ["agree, level", "fio does", "cannot be told apart"]
            .iter()
            .any(|words| note.contains(words)),
        "{note}"
    );
    eprintln!("{note}");
}

#[test]
fn fio_and_weft_bench_measure_one_nbd_device_in_turn() {
    let dir = Scratch::new("study-fio-nbd");
    if has_fio("nbd") {
        let server = Server::start(dir.path(), &["ram:16MiB", "--listen", "nbd://127.0.0.1:0"]);
        both(dir.path(), server.url(), "nbd");
    }
}

#[test]
fn fio_and_weft_bench_measure_one_file_in_turn() {
    let dir = Scratch::new("study-fio-file");
    if has_fio("io_uring") {
        let file = dir.path().join("disk.img");
        std::fs::write(&file, vec![0; 16 << 20]).unwrap();
        both(dir.path(), &file.display().to_string(), "io_uring");
    }
}

/// Its library is compiled with fio's sources, so it is named by whoever runs this.
#[test]
#[ignore = "needs WEFT_FIO_ENGINE: cargo xtask long fio-lane"]
fn fio_with_wefts_engine_measures_any_source() {
    assert!(std::env::var_os("WEFT_FIO_ENGINE").is_some(), "WEFT_FIO_ENGINE is not set");
    let dir = Scratch::new("study-fio-engine");
    let args = ["ram:16MiB", "--listen", "nvme+tcp://127.0.0.1:0"];
    let server = Server::start(dir.path(), &args);
    both(dir.path(), server.url(), "external:");
}

/// A program in fio's place.
fn fake(dir: &Path, text: &str) {
    let path = dir.join("fio");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_fio_cannot_do_is_told_in_one_sentence() {
    let dir = Scratch::new("study-fio-refused");
    let (file, bin) = (dir.path().join("disk.img"), dir.path().join("bin"));
    std::fs::write(&file, vec![0; 16 << 20]).unwrap();
    std::fs::create_dir(&bin).unwrap();
    let lane = format!("theirs=fio:{}", file.display());
    let message = |lane: &str| study(dir.path(), &[lane], Some(&bin)).message().to_owned();
    assert!(message("theirs=fio:nvme+tcp://h/n").contains("fio has no engine for nvme+tcp://h/n"));
    let named = |library: &str| {
        let mut command = weft(dir.path(), &["study", "--lane", "a=fio:nvme+tcp://h/n"]);
        command.args(["--lanes", "a"]).env("WEFT_FIO_ENGINE", library);
        run(command).message().to_owned()
    };
    for library in ["libfio-weft.so", "/no/such/libfio-weft.so"] {
        assert!(named(library).contains("give the absolute path of libfio-weft.so"), "{library}");
    }
    assert!(message(&lane).contains("fio is not installed: install it"));
    fake(&bin, "echo nbd");
    assert!(
        message(&lane).contains("fio lacks the engine io_uring or libaio"),
        "{}",
        message(&lane)
    );
    fake(
        &bin,
        "if [ $1 = --enghelp ]; then echo libaio; else echo a note >&2; echo 'fio: no such luck' >&2; exit 1; fi",
    );
    let ran = study(dir.path(), &[&lane], Some(&bin));
    let (said, notes) = (
        format!("fio on {} failed: fio: no such luck", file.display()),
        results(dir.path())["notes"].clone(),
    );
    assert!(ran.code() == Some(0) && notes.to_string().contains(&said), "{notes}");
}

/// fio writes as weft does: what holds data is not overwritten by either.
#[test]
fn data_is_not_overwritten_by_fio() {
    let dir = Scratch::new("study-fio-data");
    let (file, bin) = (dir.path().join("disk.img"), dir.path().join("bin"));
    let mut disk = vec![0; 16 << 20];
    disk[..4].copy_from_slice(b"XFSB");
    std::fs::write(&file, &disk).unwrap();
    std::fs::create_dir(&bin).unwrap();
    fake(&bin, "if [ $1 = --enghelp ]; then echo libaio; fi");
    let ran = study(dir.path(), &[&format!("theirs=fio:{}", file.display())], Some(&bin));
    assert!(ran.message().contains("holds an XFS file system; give --destroy-data"), "{ran:?}");
    assert_eq!(std::fs::read(&file).unwrap(), disk);
}
