//! Options of fio that decide where, how much and whether a job writes, or what is measured: they are
//! honoured, or nothing is written.

use crate::support::{Ran, Scratch, run, weft};
use serde_json::Value;
use std::path::Path;
#[cfg(target_os = "linux")]
use weft_testing::programs;

/// Bytes of the blocks that are looked at.
const BLOCK: usize = 4096;

fn bench(dir: &Path, args: &[&str]) -> (Ran, Value) {
    let ran = run(weft(dir, &[&["bench", "--output-format=json"], args].concat()));
    let report = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
    (ran, report)
}

/// Runs a job on a file of 16 MiB, and returns the blocks that it changed.
fn changed(dir: &Path, lines: &str) -> (Ran, Value, Vec<usize>) {
    let disk = dir.join("disk.img");
    std::fs::write(&disk, vec![7; 16 << 20]).unwrap();
    let text = format!("[job]\nfilename=disk.img\nbs=4k\n{}\n", lines.replace(' ', "\n"));
    std::fs::write(dir.join("job.fio"), text).unwrap();
    let (ran, report) = bench(dir, &["--fio", "job.fio"]);
    let now = std::fs::read(&disk).unwrap();
    assert_eq!(now.len(), 16 << 20, "{lines}");
    let blocks = now.chunks(BLOCK).enumerate();
    let changed = blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 7));
    (ran, report, changed.map(|(at, _)| at).collect())
}

/// fio 3.33 changes as many blocks, within the same bounds.
#[test]
fn a_job_writes_what_its_file_permits() {
    let dir = Scratch::new("fio-limits");
    for (lines, count, first, last) in [
        ("fileoffset=8m rw=write size=8m", 2048, 2048, 4095),
        ("offset=50% rw=write", 2048, 2048, 4095),
        ("create_only=1 rw=write size=16m", 0, 0, 0),
        ("ioengine=null rw=write size=16m", 0, 0, 0),
        ("io_size=1m rw=write size=16m", 256, 0, 255),
        ("filesize=1m rw=write", 256, 0, 255),
        ("zonemode=strided rw=write size=16m io_size=1m zonesize=64k zonerange=128k", 256, 0, 511),
        ("rw=write:4k size=1m", 128, 0, 255),
        ("bsrange=8k-64k rw=randwrite size=1m", 256, 0, 255),
    ] {
        let (ran, _, blocks) = changed(dir.path(), lines);
        assert_eq!(ran.code(), Some(0), "{lines}: {ran:?}");
        let is_within = blocks.iter().all(|block| (first..=last).contains(block));
        assert!(is_within && blocks.len() <= count, "{lines}: {blocks:?}");
        // Random addresses may be the same twice.
        assert!(blocks.len() == count || lines.contains("rand"), "{lines}: {}", blocks.len());
    }
    let zoned = "random_distribution=zoned:100/10:0/90 rw=randwrite size=16m number_ios=256";
    let (ran, report, blocks) = changed(dir.path(), zoned);
    assert!(ran.code() == Some(0) && blocks.iter().all(|block| *block < 410), "{blocks:?}");
    assert_eq!(report["jobs"][0]["write"]["total_ios"], 256);
}

#[test]
fn what_is_only_verified_is_not_written() {
    let dir = Scratch::new("fio-verify-only");
    let (ran, _, blocks) = changed(dir.path(), "verify_only=1 rw=randwrite size=16m verify=crc32c");
    // The file has other data.
    assert_eq!((ran.code(), blocks.len()), (Some(12), 0), "{ran:?}");
    let line = ["--filename=./other.img", "--rw=randwrite", "--size=1m", "--verify=crc32c"];
    assert_eq!(bench(dir.path(), &line).0.code(), Some(0));
    let before = std::fs::read(dir.path().join("other.img")).unwrap();
    let (ran, _) = bench(dir.path(), &[&line[..], &["--verify_only"]].concat());
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(before == std::fs::read(dir.path().join("other.img")).unwrap());
}

#[test]
fn what_cannot_be_honoured_is_refused_before_the_first_write() {
    let dir = Scratch::new("fio-refused");
    for (lines, text) in [
        ("rw=write verify_onli=1", "verify_onli=1: fio 3.33 has no option of this name"),
        ("rw=randtrim bannana=1", "bannana=1: fio 3.33 has no option"),
        ("rw=write trim_percentage=50", "trim_percentage=50 is not supported"),
        ("rw=write ioengine=splice-and-dice", "ioengine=splice-and-dice is not supported"),
        ("rw=write verify_only=1", "verify_only"),
        ("rw=randwrite size=1m bs=1000", "bs: 1000 is not a multiple of the device's block size"),
        ("rw=write:2k size=1m bs=1000", "bs: 1000 is not a multiple of the device's block size"),
    ] {
        let (ran, _, blocks) = changed(dir.path(), lines);
        assert_eq!((ran.code(), blocks.len()), (Some(2), 0), "{lines}: {ran:?}");
        assert!(ran.err.contains(text), "{lines}: {ran:?}");
    }
    // The report of a job that only reads names what was left out.
    let (ran, report, _) = changed(dir.path(), "rw=read size=1m bannana=1 gtod_reduce=1");
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let left_out = report["jobs"][0]["weft"]["left_out"].to_string();
    assert!(left_out.contains("bannana=1") && left_out.contains("gtod_reduce=1"), "{report}");
    let (ran, _) = bench(dir.path(), &["ram:1MiB", "--rw=write", "--trim_percentage=50"]);
    assert!(ran.code() == Some(2) && ran.err.contains("trim_percentage=50 is not supp"), "{ran:?}");
}

/// The line of etcd's documentation, with a smaller file.
#[test]
fn the_disk_test_of_etcd_measures_flushes() {
    let dir = Scratch::new("fio-etcd");
    let line = "--rw=write --ioengine=sync --fdatasync=1 --directory=. --size=200k --bs=2300 \
        --name=mytest";
    let args: Vec<&str> = line.split_whitespace().collect();
    let (ran, report) = bench(dir.path(), &args);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let job = &report["jobs"][0];
    assert_eq!((&job["write"]["total_ios"], &job["sync"]["total_ios"]), (&89.into(), &89.into()));
    assert_eq!(job["write"]["io_bytes"], 89 * 2300);
    // An operation covers whole blocks of the file.
    assert!(job["weft"]["left_out"].to_string().contains("bs=2300 ("), "{job}");
    assert!(ran.err.contains("left out: bs=2300 ("), "{ran:?}");
    let percentiles = job["sync"]["lat_ns"]["percentile"].as_object().unwrap();
    assert!(percentiles["99.000000"].as_u64().unwrap() > 0, "{percentiles:?}");
    let bytes = std::fs::metadata(dir.path().join("mytest.0.0")).unwrap().len();
    assert_eq!(bytes, 200 << 10);
    // As text, too.
    let ran = run(weft(dir.path(), &[&["bench"], &args[..]].concat()));
    assert!(ran.out.contains("sync percentiles (") && ran.out.contains("99.00th=["), "{ran:?}");
}

/// Writes and flushes that reach an NBD server that logs them, in their order.
#[cfg(target_os = "linux")]
fn logged(dir: &Path, of_fio: bool, options: &[&str]) -> Vec<String> {
    let log = dir.join("n.log");
    let _ = std::fs::remove_file(&log);
    let logfile = format!("logfile={}", log.display());
    let args = ["-f", "-U", "{}", "--filter=log", "memory", "4M", &logfile];
    let server = crate::nbd::Foreign::start(dir, "nbdkit", &args);
    let url = server.url("nbd", "");
    if of_fio {
        let uri = format!("--uri={url}");
        let mut command = programs::command("fio");
        command.args(["--name=x", "--ioengine=nbd", "--output=fio.txt", &*uri]).args(options);
        assert!(command.current_dir(dir).status().unwrap().success(), "{options:?}");
    } else {
        let (ran, _) = bench(dir, &[&["--name=x", &*url], options].concat());
        assert_eq!(ran.code(), Some(0), "{options:?}: {ran:?}");
    }
    drop(server);
    let text = std::fs::read_to_string(&log).unwrap();
    let word = |line: &str, name: &str| {
        line.split_whitespace().find(|word| word.starts_with(name)).unwrap_or_default().to_owned()
    };
    let one = |line: &str| match line {
        _ if line.contains(" Flush id=") => Some("flush".to_owned()),
        _ if line.contains(" Write id=") => {
            Some(format!("write {} {}", word(line, "offset="), word(line, "count=")))
        }
        _ => None,
    };
    text.lines().filter_map(one).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn flushes_and_writes_are_those_of_fio_one_for_one() {
    if !programs::have(&["nbdkit", "fio"]) {
        return;
    }
    let dir = Scratch::new("fio-nbd");
    for line in [
        "--rw=write --size=1m --bs=4k --fsync=1",
        "--rw=write --size=1m --bs=4k --fsync=3",
        "--rw=write --size=1m --bs=16k --fsync=2 --io_size=100k",
        "--rw=write:8k --size=1m --bs=4k --fsync=2",
        "--rw=write --size=64k --bs=4k --fsync=1 --loops=2",
    ] {
        let options: Vec<&str> = line.split(' ').collect();
        let (theirs, ours) =
            (logged(dir.path(), true, &options), logged(dir.path(), false, &options));
        assert!(theirs.iter().any(|op| op == "flush"), "{line}: {theirs:?}");
        assert_eq!(ours, theirs, "{line}");
    }
    // In a random order there are as many of each.
    let options = ["--rw=randwrite", "--size=1m", "--bs=4k", "--fsync=4"];
    let counts = [true, false].map(|of_fio| {
        let all = logged(dir.path(), of_fio, &options);
        let flushes = all.iter().filter(|op| *op == "flush").count();
        (all.len() - flushes, flushes)
    });
    assert_eq!(counts[0], counts[1]);
}

#[test]
fn other_jobs_end_with_the_first_if_asked() {
    let dir = Scratch::new("fio-exitall");
    let text = "[global]\nexitall\nrw=read\nsize=1m\n\n[short]\nnumber_ios=1\n\n\
        [long]\ntime_based\nruntime=600\nrate_iops=10\n";
    std::fs::write(dir.path().join("job.fio"), text).unwrap();
    let (ran, report) = bench(dir.path(), &["ram:1MiB", "--fio", "job.fio"]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let runtime = report["jobs"][1]["job_runtime"].as_u64().unwrap();
    assert!(runtime < 300_000, "{report}");
}
