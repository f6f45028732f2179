//! Workloads that were written for other tools: what runs, and what is said about the rest.

use crate::support::{Ran, Scratch, run, weft};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use weft_testing::programs;

/// Two jobs at the same time, then a third.
const JOBS: &str = "\
[global]
ioengine=psync
size=1m
offset=1m

[readers]
filename=disk.img
rw=randread
numjobs=2

; a comment
[writer]
filename=disk.img
rw=write
bs=16k
iodepth=1

[last]
stonewall
filename=disk.img
rw=read
bs=64k
number_ios=5
";

fn scratch(name: &str) -> Scratch {
    let dir = Scratch::new(name);
    std::fs::write(dir.path().join("disk.img"), vec![7; 4 << 20]).unwrap();
    dir
}

fn bench(dir: &Scratch, args: &[&str]) -> (Ran, Value) {
    let ran = run(weft(dir.path(), &[&["bench", "--output-format=json"], args].concat()));
    let report = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
    (ran, report)
}

/// A line per job: its name, its group, and what it moved.
fn jobs(report: &Value) -> String {
    let mut lines = String::new();
    for job in report["jobs"].as_array().unwrap() {
        let count = |which: &str, key: &str| job[which][key].as_u64().unwrap();
        let [read, write] =
            ["read", "write"].map(|which| (count(which, "io_bytes"), count(which, "total_ios")));
        writeln!(lines, "{} {} {read:?} {write:?}", job["jobname"], job["groupid"]).unwrap();
    }
    lines
}

/// fio 3's report of the same file.
fn fio(dir: &Path) -> Value {
    let output = programs::command("fio")
        .args(["--output-format=json", "jobs.fio"])
        .current_dir(dir)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let json = text.find('{').map_or("", |at| &text[at..]);
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_job_file_does_what_it_does_with_fio() {
    let dir = scratch("imported-fio");
    std::fs::write(dir.path().join("jobs.fio"), JOBS).unwrap();
    let (ran, ours) = bench(&dir, &["--fio", "jobs.fio"]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let expected = "\"readers\" 0 (1048576, 256) (0, 0)\n\"readers\" 0 (1048576, 256) (0, 0)\n\
        \"writer\" 0 (0, 0) (1048576, 64)\n\"last\" 1 (327680, 5) (0, 0)\n";
    assert_eq!(jobs(&ours), expected);
    if programs::have(&["fio"]) {
        assert_eq!(jobs(&fio(dir.path())), expected);
    }
}

#[test]
fn lines_of_diskspd_and_files_of_vdbench_run_on_any_device() {
    let dir = scratch("imported-others");
    let line = "diskspd.exe -b8K -r -w100 -t2 -o4 -d1 -W0 -Z1M -L C:\\none.dat";
    let (ran, report) = bench(&dir, &["ram:1MiB", "--diskspd", line]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.err.contains("left out: -Z1M (every write"), "{ran:?}");
    let all: Vec<&Value> =
        report["jobs"].as_array().unwrap().iter().map(|job| &job["job options"]).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(
        (all[0]["bs"].as_str(), all[0]["rw"].as_str(), all[0]["iodepth"].as_str()),
        (Some("8192"), Some("randwrite"), Some("4"))
    );
    let parameters = "sd=sd1,lun=./disk.img,threads=2\nwd=w,sd=sd*,xfersize=4k,rdpct=100\n\
        rd=r,wd=w,iorate=max,elapsed=1,forxfersize=(4k,64k)\n";
    std::fs::write(dir.path().join("parm"), parameters).unwrap();
    let (ran, report) = bench(&dir, &["--vdbench", "parm"]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let all: Vec<_> = report["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (&job["groupid"], &job["job options"]["bs"]))
        .collect();
    assert_eq!(
        format!("{all:?}"),
        "[(Number(0), String(\"4096\")), (Number(1), String(\"65536\"))]"
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    let dir = scratch("imported-mistakes");
    let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    put("rw.fio", "[a]\nfilename=disk.img\nrw=banana\n");
    put("line.fio", "[a]\nnothing at all\n");
    put("parm", "sd=s,lun=./disk.img\nwd=w,sd=t\nrd=r\n");
    for (args, text) in [
        (["--fio", "none.fio"], "none.fio: cannot be read"),
        (["--fio", "rw.fio"], "job a: invalid value 'banana'"),
        (["--fio", "line.fio"], "line.fio:2:"),
        (["--diskspd", "-b4K -r"], "names no file or device"),
        (["--diskspd", "-q x"], "no such option"),
        (["--vdbench", "parm"], "parm:2: there is no sd=t"),
    ] {
        let (ran, _) = bench(&dir, &args);
        assert!(ran.code() == Some(2) && ran.err.contains(text), "{args:?}: {ran:?}");
    }
}
