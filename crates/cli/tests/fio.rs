//! A line that was written for fio means the same here: both are run, on the same file, and what
//! they report is compared.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, run, weft};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use weft_testing::programs::{self, have};
use weft_testing::wait::until;

fn fio(dir: &Path, args: &[&str]) -> Value {
    let mut command = programs::command("fio");
    command
        .args(["--name=x", "--filename=disk.img", "--output-format=json+"])
        .args(args)
        .current_dir(dir);
    report(&command.output().unwrap().stdout, args)
}

/// Notes for people may stand before the JSON.
fn report(output: &[u8], args: &[&str]) -> Value {
    let text = String::from_utf8_lossy(output);
    let json = text.find('{').map_or("", |at| &text[at..]);
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
}

fn bench(dir: &Path, args: &[&str]) -> Value {
    let ran = run(weft(
        dir,
        &[&["bench", "--name=x", "--filename=disk.img", "--output-format=json+"], args].concat(),
    ));
    assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
    report(ran.out.as_bytes(), args)
}

fn scratch(name: &str) -> Scratch {
    let dir = Scratch::new(name);
    std::fs::write(dir.path().join("disk.img"), vec![7; 16 << 20]).unwrap();
    dir
}

fn moved(report: &Value, which: &str) -> (u64, u64) {
    let sum = |key: &str| {
        report["jobs"].as_array().unwrap().iter().map(|job| job[which][key].as_u64().unwrap()).sum()
    };
    (sum("io_bytes"), sum("total_ios"))
}

/// What does not depend on chance or speed is equal.
#[test]
fn as_many_bytes_and_operations() {
    if !have(&["fio"]) {
        return;
    }
    let dir = scratch("fio-same");
    for line in [
        "--rw=read --size=10%",
        "--rw=read --size=33% --bs=16k",
        "--rw=write --size=16m --bs=4m --iodepth=2",
        "--rw=randread --size=10% --offset=4m",
        "--rw=write --size=95% --offset=4m --bs=64k",
        "--rw=randwrite --size=1m --ioengine=psync --direct=0 --invalidate=1 --thread",
        "--rw=randread --size=1m --numjobs=3 --group_reporting",
        "--rw=read --size=1m --numjobs=2 --group_reporting=1 --randrepeat=0 --norandommap=1",
        "--rw=write --bs=4k,16k --size=2m",
        "--rw=randread --blocksize=8k --number_ios=50 --size=2m",
        "--rw=read --size=256k --rate=1m",
        "--rw=randread --size=64k --runtime=1m --bs=512",
        "--rw=write --size=1m --fsync=3",
        "--rw=write --size=1m --bs=2k --fdatasync=1 --ioengine=sync --iodepth=8",
        "--rw=write --size=1m --end_fsync=1",
        "--rw=write --size=1m --io_size=300k",
        "--rw=read --size=1m --io_size=3m",
        "--rw=read --size=1m --loops=3",
        "--rw=randread --size=1m --loops=2 --number_ios=10",
        "--rw=write --filesize=1m",
        "--rw=read --filesize=1m --size=256k",
        "--rw=read:8k --size=1m",
        "--rw=read --offset=50%",
        "--rw=read --size=1m --numjobs=2 --offset_increment=25%",
        "--rw=randread --size=1m --random_distribution=zipf:1.2",
        "--rw=randwrite --size=1m --random_distribution=zoned:60/10:40/90",
        "--rw=write --size=1m --zonemode=strided --zonesize=64k --zonerange=128k --io_size=1m",
        "--rw=read --size=64k --thinktime=100 --thinktime_blocks=4",
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let theirs = fio(dir.path(), &args);
        let ours = bench(dir.path(), &args);
        assert_eq!(
            ours["jobs"].as_array().unwrap().len(),
            theirs["jobs"].as_array().unwrap().len(),
            "{line}"
        );
        for which in ["read", "write"] {
            assert_eq!(moved(&ours, which), moved(&theirs, which), "{line}: {which}");
        }
        // fio 3.33 counts those of fdatasync among the latencies only.
        let flushes = |report: &Value| report["jobs"][0]["sync"]["lat_ns"]["N"].as_u64();
        assert_eq!(flushes(&ours), flushes(&theirs), "{line}");
    }
}

/// Where both draw, they draw from the same: the parts agree to within what chance allows. (Without
/// `norandommap` fio cuts operations short that would overlap another.)
#[test]
fn mixes_and_splits_are_alike() {
    if !have(&["fio"]) {
        return;
    }
    let dir = scratch("fio-alike");
    for line in [
        "--rw=randrw --size=16m --rwmixwrite=20",
        "--rw=randrw --size=16m --rwmixread=30 --rwmixwrite=20",
        "--rw=randrw --size=16m --rwmixwrite=20 --rwmixread=30",
        "--rw=randread --size=16m --norandommap --bssplit=4k/50:8k/30:16k/20",
        "--rw=randread --size=16m --norandommap --bssplit=4k/10:16k",
        "--rw=randrw --size=16m --norandommap --bssplit=4k:8k,16k/100",
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let theirs = fio(dir.path(), &args);
        let ours = bench(dir.path(), &args);
        for which in ["read", "write"] {
            let ((our_bytes, our_ios), (their_bytes, their_ios)) =
                (moved(&ours, which), moved(&theirs, which));
            for (what, ours, theirs) in
                [("bytes", our_bytes, their_bytes), ("operations", our_ios, their_ios)]
            {
                assert!(
                    ours.abs_diff(theirs) * 10 <= theirs,
                    "{line}: {which} {what}: {ours}, fio {theirs}"
                );
            }
        }
    }
}

/// Every key that fio writes is there, bins included, and of the same type.
#[test]
fn the_json_has_fios_keys() {
    if !have(&["fio"]) {
        return;
    }
    let dir = scratch("fio-keys");
    for line in ["--rw=randrw --size=1m", "--rw=randrw --size=1m --numjobs=2 --group_reporting"] {
        let args: Vec<&str> = line.split(' ').collect();
        let theirs = fio(dir.path(), &args);
        covers(&bench(dir.path(), &args), &theirs, "");
    }
}

fn covers(ours: &Value, theirs: &Value, path: &str) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            // fio 3.39 also writes `job_start` of each job; weft's keys are those of 3.33.
            let fixed = theirs
                .iter()
                .filter(|_| !["/job options", "/bins"].iter().any(|end| path.ends_with(end)))
                .filter(|(key, _)| !(path == "/jobs[]" && *key == "job_start"));
            assert!(!(ours.is_empty() && path.ends_with("/bins")), "{path}");
            for (key, value) in fixed {
                covers(
                    ours.get(key).unwrap_or_else(|| panic!("{path}/{key} is missing")),
                    value,
                    &format!("{path}/{key}"),
                );
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.iter()
                .zip(theirs)
                .for_each(|(ours, theirs)| covers(ours, theirs, &format!("{path}[]")));
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            assert_eq!(ours.is_f64(), theirs.is_f64(), "{path}")
        }
        (Value::String(_), Value::String(_)) => {}
        _ => panic!("{path}: {ours} for {theirs}"),
    }
}

#[test]
fn what_means_nothing_is_said_once() {
    let dir = scratch("fio-taken");
    let line = ["bench", "ram:1MiB", "--rw=read", "--direct=0", "--invalidate=1", "--eta=never"];
    let ran = run(weft(dir.path(), &[&line[..], &["--output-format=json"]].concat()));
    assert_eq!((ran.code(), ran.err.matches("left out:").count()), (Some(0), 1), "{ran:?}");
    let job = &report(ran.out.as_bytes(), &line)["jobs"][0];
    for word in ["direct=0 (", "invalidate=1 (", "eta=never ("] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
        assert!(job["weft"]["left_out"].to_string().contains(word), "{word}: {job}");
    }
    let line = ["--filename=./disk.img", "--rw=read", "--direct=1", "--invalidate=0"];
    let quiet = run(weft(dir.path(), &[&["bench", "--ioengine=libaio"], &line[..]].concat()));
    assert_eq!((quiet.code(), quiet.err.contains("left out")), (Some(0), false), "{quiet:?}");
}

#[test]
fn a_filename_is_not_split_and_a_file_is_made() {
    let dir = scratch("fio-filename");
    let ran = run(weft(
        dir.path(),
        &["bench", "--filename=delay:read=1us,ram:1MiB", "--rw=read", "--output-format=json"],
    ));
    assert_eq!(report(ran.out.as_bytes(), &[])["weft"]["url"], "delay:read=1us,ram:1MiB");
    let ran =
        run(weft(dir.path(), &["bench", "--filename=xy:b.img", "--size=1m", "--rw=randwrite"]));
    assert_eq!(ran.code(), Some(2), "{ran:?}");
    let ran =
        run(weft(dir.path(), &["bench", "--filename=./xy:b.img", "--size=1m", "--rw=randwrite"]));
    assert_eq!(
        (ran.code(), std::fs::metadata(dir.path().join("xy:b.img")).unwrap().len()),
        (Some(0), 1 << 20),
        "{ran:?}"
    );
}

/// Ctrl-C: what was measured until then, the word, and a status that says so.
#[test]
fn ctrl_c_ends_with_what_there_is() {
    let dir = scratch("fio-ctrl-c");
    let args = ["bench", "ram:1MiB", "--rw=randread", "--runtime=600", "--output=out.txt"];
    let child =
        weft(dir.path(), &args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let catches = || {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & 2 != 0)
    };
    until("it listens to Ctrl-C", catches);
    weft_testing::process::signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    let (err, out) = (
        String::from_utf8_lossy(&output.stderr),
        std::fs::read_to_string(dir.path().join("out.txt")).unwrap(),
    );
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(
        err.contains("interrupted")
            && out.contains("interrupted: these are the results of the time until then"),
        "{err}{out}"
    );
}
