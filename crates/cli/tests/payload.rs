//! The data on a disk after `weft bench` or a study has written to it; with options, the same data
//! as after fio.

use crate::support::{Scratch, run, weft};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use weft_testing::programs;

const DISK_BYTES: usize = 4 << 20;

/// A disk of zeroes.
fn disk(dir: &Path) -> PathBuf {
    let path = dir.join("disk.img");
    std::fs::write(&path, vec![0; DISK_BYTES]).unwrap();
    path
}

/// The blocks of 4 KiB that are not zeroes, and how many of them differ.
pub fn blocks(disk: &Path) -> (usize, usize) {
    let bytes = std::fs::read(disk).unwrap();
    let written: Vec<&[u8]> =
        bytes.chunks(4096).filter(|block| block.iter().any(|&byte| byte != 0)).collect();
    (written.len(), written.iter().collect::<HashSet<_>>().len())
}

fn bench(dir: &Path, args: &[&str]) {
    let all = [&["bench", "--name=x", "--filename=disk.img"], args].concat();
    let ran = run(weft(dir, &all));
    assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
    assert!(!ran.err.contains("left out"), "{args:?}: {ran:?}");
}

#[test]
fn no_block_of_a_disk_is_like_another_after_a_bench() {
    let dir = Scratch::new("payload-bench");
    for (line, least) in [
        ("--rw=write", 1024),
        ("--rw=randwrite --iodepth=8", 1024),
        ("--rw=write --bs=64k --iodepth=4 --refill_buffers", 1024),
        ("--rw=write --bs=1m --numjobs=4 --size=1m --offset_increment=1m", 1024),
        ("--rw=randrw --iodepth=8", 300),
        ("--rw=randrw --bs=64k", 128),
        ("--rw=randwrite --bssplit=4k/50:64k/50", 300),
        ("--rw=write --verify=crc32c", 1024),
    ] {
        let path = disk(dir.path());
        bench(dir.path(), &line.split(' ').collect::<Vec<_>>());
        let (written, differ) = blocks(&path);
        assert!(written >= least && differ == written, "{line}: {differ} of {written} differ");
    }
}

#[test]
fn options_of_job_files_say_what_is_written() {
    let dir = Scratch::new("payload-file");
    let jobs = "[global]\nfilename=disk.img\nrw=write\nbs=64k\n[half]\nsize=2m\nzero_buffers\n\
        [rest]\nstonewall\noffset=2m\nsize=2m\nbuffer_pattern=0xdeadbeef\"ab\"-12\n";
    std::fs::write(dir.path().join("jobs.fio"), jobs).unwrap();
    let path = dir.path().join("disk.img");
    std::fs::write(&path, vec![9; DISK_BYTES]).unwrap();
    let ran = run(weft(dir.path(), &["bench", "--fio", "jobs.fio"]));
    assert!(ran.code() == Some(0) && !ran.err.contains("left out"), "{ran:?}");
    let bytes = std::fs::read(&path).unwrap();
    let pattern = [0xde, 0xad, 0xbe, 0xef, b'a', b'b', 0xf4, 0xff, 0xff, 0xff];
    assert!(bytes[..2 << 20].iter().all(|&byte| byte == 0));
    for block in bytes[2 << 20..].chunks(64 << 10) {
        assert!(block.iter().zip(pattern.iter().cycle()).all(|(byte, pattern)| byte == pattern));
    }
    for (option, problem) in [
        ("--buffer_pattern=abc", "is not a pattern"),
        ("--buffer_compress_percentage=101", "101"),
        ("--zero_buffers=2", "use 0 or 1"),
        (
            "--dedupe_percentage=90 --dedupe_mode=working_set --dedupe_working_set_percentage=20",
            "lower",
        ),
        ("--ceiling --zero_buffers", "--zero_buffers means nothing"),
    ] {
        let mut args = vec!["bench", "--rw=write"];
        args.extend(option.split(' '));
        args.extend((!option.contains("ceiling")).then_some("ram:1MiB"));
        let ran = run(weft(dir.path(), &args));
        assert!(ran.code() == Some(2) && ran.err.contains(problem), "{option}: {ran:?}");
    }
}

/// fio and weft write to disks of the same kind. `cargo xtask setup` installs fio.
#[cfg(target_os = "linux")]
#[test]
fn options_mean_what_they_mean_to_fio() {
    if !programs::have(&["fio"]) {
        return;
    }
    let dir = Scratch::new("payload-fio");
    for (line, is_known) in [
        ("--zero_buffers", true),
        ("--zero_buffers=0 --refill_buffers=1", false),
        ("--zero_buffers --scramble_buffers=1", false),
        ("--buffer_pattern=0xdeadbeef\"ab\"-12", true),
        ("--buffer_pattern=7 --bs=64k", true),
        ("--scramble_buffers=0", false),
        ("--scramble_buffers=1", false),
        ("--scramble_buffers=1 --refill_buffers", false),
        ("--buffer_compress_percentage=40", false),
        ("--buffer_compress_percentage=100", true),
        ("--buffer_compress_percentage=30 --buffer_compress_chunk=0 --bs=64k", false),
        ("--buffer_compress_percentage=70 --buffer_compress_chunk=2k --buffer_pattern=0xab", false),
        ("--buffer_compress_percentage=50 --refill_buffers=0", false),
        ("--dedupe_percentage=60", false),
        ("--dedupe_percentage=60 --buffer_compress_percentage=50", false),
        (
            "--dedupe_percentage=80 --dedupe_mode=working_set --dedupe_working_set_percentage=2",
            false,
        ),
    ] {
        let args: Vec<&str> =
            ["--rw=write", "--size=4m"].into_iter().chain(line.split(' ')).collect();
        let path = disk(dir.path());
        let mut fio = programs::command("fio");
        fio.args(["--name=x", "--filename=disk.img"]).args(&args).current_dir(dir.path());
        let ran = fio.output().unwrap();
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        let theirs = std::fs::read(&path).unwrap();
        disk(dir.path());
        bench(dir.path(), &args);
        let ours = std::fs::read(&path).unwrap();
        assert!(!is_known || ours == theirs, "{line}");
        alike(&ours, &theirs, line);
    }
}

/// Whether two disks hold the same but for what is random: about as many blocks differ, and about
/// as many bytes of all blocks are the same.
#[cfg(target_os = "linux")]
fn alike(ours: &[u8], theirs: &[u8], line: &str) {
    for len in [512, 4096] {
        let distinct = |bytes: &[u8]| bytes.chunks(len).collect::<HashSet<_>>().len();
        let (all, ours, theirs) = (DISK_BYTES / len, distinct(ours), distinct(theirs));
        assert!(
            ours.abs_diff(theirs) * 10 <= all && (ours == all) == (theirs == all),
            "{line}: of {all} blocks of {len} bytes {ours} differ, fio's {theirs}"
        );
    }
    let fixed = |bytes: &[u8]| {
        let same =
            |at: usize| bytes.chunks(512).take(1000).filter(|it| it[at] == bytes[at]).count();
        (0..512).filter(|&at| same(at) > 900).count()
    };
    let (ours, theirs) = (fixed(ours), fixed(theirs));
    assert!(ours.abs_diff(theirs) < 26, "{line}: {ours} bytes are fixed, fio's {theirs}");
}

/// One that fills the disk and writes to it in two ways.
const SUITE: &str = r#"
name = "writes"
title = "Writes"
source = "ram:4MiB"
fill = true
draw = []
lanes = [{ name = "local", through = "local" }]
workloads = [{ block = "4k", rw = "randrw", read = 30, depth = 8 }, { block = "64k", rw = "write", depth = 2 }]
[quick]
budget = "2s"
rounds = 2
[usual]
budget = "2s"
rounds = 2
[full]
budget = "2s"
rounds = 2
"#;

#[test]
fn no_block_of_a_disk_is_like_another_after_a_study() {
    let dir = Scratch::new("payload-study");
    let path = disk(dir.path());
    std::fs::write(dir.path().join("writes.toml"), SUITE).unwrap();
    let lane = format!("disk=file:{}", path.display());
    let args = ["study", "--quick", "--suite", "./writes.toml", "--lanes", "local,disk", "--lane"];
    let ran = run(weft(dir.path(), &[&args[..], &[lane.as_str()]].concat()));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let (written, differ) = blocks(&path);
    assert!(written > 64 && differ == written, "{differ} of {written} differ: {ran:?}");
}
