//! `weft connect --as fuse` and `--as loop`, with the kernel's own drivers.
#![cfg(target_os = "linux")]

mod loops;
mod rig;
mod ring;

use crate::support::{Server, weft};
use rig::{Daemon, dir, number, open, pattern, program, read};
use rustix::fs::{FallocateFlags, fallocate};
use serde_json::Value;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Stdio;
use weft_testing::programs;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:fuse";

/// The reason to skip a test that needs FUSE.
pub const NO_FUSE: &str = "this system has no /dev/fuse: `modprobe fuse` loads its driver; \
                           a container needs --device /dev/fuse";

const ENOTCONN: i32 = 107;
const ECONNABORTED: i32 = 103;
const EROFS: i32 = 30;
const ENOSPC: i32 = 28;
const EINVAL: i32 = 22;
const EPERM: i32 = 1;

#[test]
fn a_file_is_read_and_written_at_any_place() {
    let Some(dir) = dir("fuse-bytes") else { return };
    let target = Server::start(dir.path(), &["ram:16MiB,block=4096", "--nqn", NQN]);
    let file = dir.connect(target.url(), "disk");
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.len(), metadata.permissions().mode()), (16 << 20, 0o100_600));
    // Whole blocks, parts of them, more than a request, and up to the end.
    let places =
        [(0, 4096), (4096, 512), (10_000, 5000), (1 << 20, 3 << 20), ((16 << 20) - 100, 100)];
    for (offset, len) in places {
        file.write_all_at(&pattern(offset, len), offset).unwrap();
    }
    file.sync_all().unwrap();
    for (offset, len) in places {
        assert_eq!(read(&file, offset, len), pattern(offset, len), "{offset} {len}");
        assert_eq!(read(&file, offset + 1, len - 2), pattern(offset + 1, len - 2));
    }
    assert_eq!(read(&file, 4608, 3), [0; 3], "what is beside it stays");
    // Across the end, what is before it; behind it nothing.
    let end = 16 << 20;
    assert_eq!(file.write_at(&[1; 8192], end - 4096).unwrap(), 4096);
    assert_eq!(number(file.write_at(&[1], end)), ENOSPC);
    assert_eq!(
        (file.read_at(&mut [0; 8], end).unwrap(), file.read_at(&mut [0; 8192], end - 512).unwrap()),
        (0, 512)
    );

    // Another host reads what was written.
    let url = format!("{}/1", target.url());
    let copy = dir.path().join("copy.img");
    dir.done(&["copy", &url, copy.to_str().unwrap()]);
    assert_eq!(read(&File::open(copy).unwrap(), 10_000, 5000), pattern(10_000, 5000));
    drop(file);
    dir.done(&["disconnect", "disk"]);
    assert!(dir.path().join("disk").read_dir().unwrap().next().is_none(), "nothing is left");
    assert_eq!(dir.listed("disk"), Value::Null);
}

#[test]
fn a_script_waits_for_its_target_and_gets_the_path_of_the_file_alone() {
    let Some(dir) = dir("fuse-wait") else { return };
    let address = format!("127.0.0.1:{}", weft_testing::port::free(Ipv4Addr::LOCALHOST));
    let (url, place) = (format!("nvme+tcp://{address}/{NQN}"), dir.path().join("place"));
    std::fs::create_dir(&place).unwrap();
    let to = place.to_str().unwrap();
    let connect = ["connect", &url, "--as", "fuse", "--name", "disk", "--directory", to];
    let late = [&connect[..], &["--wait=600s", "--print-device"]].concat();
    let mut connecting = weft(dir.path(), &late);
    let connecting = connecting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let target = ["ram:16MiB", "--nqn", NQN, "--listen", &address];
    let _target = Server::start(dir.path(), &target);
    let ran = connecting.wait_with_output().unwrap();
    let printed = String::from_utf8(ran.stdout.clone()).unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(printed, format!("{to}/disk\n"));
    assert_eq!(std::fs::metadata(printed.trim_end()).unwrap().len(), 16 << 20);
    dir.done(&["disconnect", "disk"]);
    let nowhere = ["connect", "nvme+tcp://127.0.0.1:1/nqn.2026-01.example:x", "--as", "fuse"];
    let refused = dir.refused(7, &[&nowhere[..], &["--wait=1ms", "--name", "other"]].concat());
    assert!(refused.contains("127.0.0.1:1"), "{refused}");
}

#[test]
fn ranges_are_zeroed_and_nothing_else_can_be_changed() {
    let Some(dir) = dir("fuse-names") else { return };
    let file = dir.connect("ram:16MiB,block=4096", "disk");
    let place = dir.path().join("disk");
    file.write_all_at(&pattern(0, 1 << 20), 0).unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 4096, 8192).unwrap();
    fallocate(&file, FallocateFlags::ZERO_RANGE, 65_536, 4096).unwrap();
    for (offset, len) in [(4096, 8192), (65_536, 4096)] {
        assert_eq!(read(&file, offset, len), vec![0; len]);
    }
    assert_eq!(read(&file, 12_288, 4096), pattern(12_288, 4096));
    // To the end and beyond it; less than blocks, which programs then write.
    fallocate(&file, hole, 8 << 20, 16 << 20).unwrap();
    assert!(fallocate(&file, hole, 100, 200).is_err());
    assert!(fallocate(&file, FallocateFlags::empty(), 0, 32 << 20).is_err());

    // A disk keeps its size, and is not made empty by who opens it.
    file.set_len(16 << 20).unwrap();
    assert_eq!(number(file.set_len(1 << 20)), EINVAL);
    drop(File::create(place.join("disk")).unwrap());
    assert_eq!(place.join("disk").metadata().unwrap().len(), 16 << 20);
    assert_eq!(read(&file, 12_288, 4096), pattern(12_288, 4096));
    let names: Vec<_> = place.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["disk"]);
    assert_eq!(number(File::create(place.join("other"))), EPERM);
    assert_eq!(number(std::fs::remove_file(place.join("disk"))), EPERM);
    assert!(File::open(place.join("other")).is_err());
    let space = rustix::fs::statvfs(&place).unwrap();
    assert_eq!(space.f_blocks * space.f_frsize, 16 << 20);
}

/// Each writer has bytes of its own in blocks that all of them write to.
#[test]
fn parts_of_a_block_are_written_by_several_at_a_time() {
    let Some(dir) = dir("fuse-parts") else { return };
    let file = dir.connect("delay:read=1ms,write=1ms,ram:1MiB,block=4096", "disk");
    let writers = 8;
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let file = &file;
            scope.spawn(move || {
                for round in 1..=20u8 {
                    // Of some blocks one writer writes all.
                    let (offset, len) = match (writer, round % 4) {
                        (0, 0) => (4096, 4096),
                        _ => (writer * 512, 512),
                    };
                    file.write_all_at(&vec![round; len], offset).unwrap();
                }
            });
        }
    });
    for writer in 0..writers {
        let last = if writer == 0 { 19 } else { 20 };
        assert_eq!(read(&file, writer * 512, 512), [last; 512], "{writer}");
    }
    assert_eq!(read(&file, 4096, 4096), vec![20; 4096]);
}

#[test]
fn a_read_only_source_is_a_read_only_file() {
    let Some(dir) = dir("fuse-read-only") else { return };
    dir.make("disk");
    dir.done(&[
        "connect",
        "readonly:ram:1MiB",
        "--as",
        "fuse",
        "--name",
        "disk",
        "--directory",
        "disk",
    ]);
    let path = dir.device("disk");
    assert_eq!(number(File::options().write(true).open(&path)), EROFS);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o400);
    assert_eq!(read(&File::open(path).unwrap(), 0, 4096), [0; 4096]);
}

#[test]
fn programs_use_the_file() {
    let Some(dir) = dir("fuse-programs") else { return };
    if !programs::have(&["mkfs.ext4", "e2fsck", "debugfs"]) {
        return;
    }
    drop(dir.connect("ram:32MiB,block=4096", "disk"));
    let (disk, text) = (dir.path().join("disk/disk"), dir.path().join("text"));
    let disk = disk.to_str().unwrap();
    // Many asynchronous requests at a time.
    let bench = ["--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=8m"];
    let source = format!("file:{disk}");
    dir.done(&[&["bench", &source][..], &bench, &["--verify=crc32c"]].concat());
    program(&["mkfs.ext4", "-q", "-b", "1024", disk]);
    std::fs::write(&text, pattern(0, 100_000)).unwrap();
    let write = format!("write {} text", text.display());
    program(&["debugfs", "-w", "-R", &write, disk]);
    program(&["e2fsck", "-f", "-n", disk]);
    let dump = dir.path().join("dump");
    program(&["debugfs", "-R", &format!("dump text {}", dump.display()), disk]);
    assert_eq!(std::fs::read(dump).unwrap(), pattern(0, 100_000));
    if programs::have(&["qemu-img"]) {
        let info = program(&["qemu-img", "info", "-f", "raw", "--output=json", disk]);
        let info: Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["virtual-size"], 32 << 20);
        let image = dir.path().join("image.qcow2");
        let image = image.to_str().unwrap();
        program(&["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, image]);
        program(&["dd", "if=/dev/zero", &format!("of={disk}"), "bs=1M", "count=32", "status=none"]);
        program(&[
            "qemu-img", "convert", "-n", "-t", "none", "-T", "none", "-O", "raw", image, disk,
        ]);
        program(&["qemu-img", "compare", "-f", "qcow2", "-F", "raw", image, disk]);
        program(&["e2fsck", "-f", "-n", disk]);
    }
    if programs::have(&["fuse2fs", "fusermount3"]) {
        let inside = dir.make("inside");
        program(&["fuse2fs", disk, inside.to_str().unwrap()]);
        let same = std::fs::read(inside.join("text")).unwrap() == pattern(0, 100_000);
        program(&["umount", inside.to_str().unwrap()]);
        assert!(same);
    }
}

#[test]
fn a_file_that_is_open_is_not_disconnected() {
    let Some(dir) = dir("fuse-open") else { return };
    let file = dir.connect("ram:1MiB", "disk");
    let said = dir.refused(5, &["disconnect", "disk"]);
    assert!(said.contains("disk/disk is in use"), "{said}");
    file.write_all_at(&[7; 4096], 0).unwrap();
    let mounted = dir.refused(
        5,
        &["connect", "ram:1MiB", "--as", "fuse", "--name", "other", "--directory", "disk"],
    );
    assert!(mounted.contains("not empty"), "{mounted}");
    dir.done(&["disconnect", "disk", "--force"]);
    assert_eq!(number(file.read_at(&mut [0; 512], 0)), ENOTCONN);
    assert_eq!(dir.listed("disk"), Value::Null);
    // Its directory can be used again.
    dir.done(&["connect", "ram:1MiB", "--as", "fuse", "--name", "again", "--directory", "disk"]);
    open(&dir.device("again")).write_all_at(&[7; 4096], 0).unwrap();
}

#[test]
fn a_killed_process_leaves_errors_until_the_next_one() {
    let Some(dir) = dir("fuse-killed") else { return };
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let connect = ["connect", target.url(), "--as", "fuse", "--name", "disk"];
    dir.done(&connect);
    let path = dir.device("disk");
    let file = open(&path);
    file.write_all_at(&pattern(0, 4096), 0).unwrap();
    dir.kill("disk");
    // A ring may end a moment after its process.
    let first = number(file.read_at(&mut [0; 512], 0));
    assert!([ENOTCONN, ECONNABORTED].contains(&first), "{first}");
    until("the kernel has noticed", || number(file.read_at(&mut [0; 512], 0)) == ENOTCONN);
    assert_eq!(number(std::fs::metadata(&path)), ENOTCONN);
    let listed = dir.weft(&["list"]);
    assert!(listed.err.contains("answers with errors"), "{listed:?}");

    // The next one makes it again; what was open stays broken.
    dir.done(&connect);
    assert_eq!(read(&open(&path), 0, 4096), pattern(0, 4096));
    assert_eq!(number(file.read_at(&mut [0; 512], 0)), ENOTCONN);

    // What a killed one has left can also be ended.
    dir.kill("disk");
    dir.done(&["disconnect", "disk"]);
    assert!(!path.parent().unwrap().exists(), "its directory has gone");
    assert!(dir.weft(&["list"]).said().is_empty());
}

#[test]
fn a_daemon_restores_the_file() {
    let Some(dir) = dir("fuse-daemon") else { return };
    let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let daemon = Daemon::start(&dir);
    let place = dir.make("mnt");
    let connect = [
        "connect",
        target.url(),
        "--as",
        "fuse",
        "--name",
        "disk",
        "--directory",
        "mnt",
        "--persist",
    ];
    dir.done(&connect);
    let path = place.join("disk");
    open(&path).write_all_at(&pattern(0, 4096), 0).unwrap();
    let is_there = || {
        let file = File::open(&path);
        file.is_ok_and(|file| {
            let mut bytes = vec![0; 4096];
            file.read_exact_at(&mut bytes, 0).is_ok() && bytes == pattern(0, 4096)
        })
    };
    dir.kill("disk");
    until("the daemon has made it again", is_there);
    // All are killed, as by the end of the machine.
    until("the daemon knows", || dir.listed("disk")["Pid"].is_number());
    drop(daemon);
    dir.kill("disk");
    let _daemon = Daemon::start(&dir);
    until("the next daemon has made it again", is_there);
    until("the daemon holds it", || {
        let json = dir.json();
        json["Connections"][0]["State"] == "connected"
    });
    dir.done(&["disconnect", path.to_str().unwrap(), "--forget"]);
    assert!(place.read_dir().unwrap().next().is_none());
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let Some(dir) = dir("fuse-options") else { return };
    for (args, word) in [
        (&["--as", "fuse", "--serve-only"][..], "leave out --serve-only"),
        (&["--as", "loop", "--serve-only"], "use --as fuse"),
        (&["--as", "nbd", "--serve-only", "--directory", "x"], "--directory"),
        (&["--as", "fuse", "--directory", "missing"], "cannot use the directory"),
    ] {
        let ran = dir.weft(&[&["connect", "ram:1MiB"], args].concat());
        assert_ne!(ran.code(), Some(0), "{args:?}");
        assert!(ran.message().contains(word), "{args:?}: {ran:?}");
    }
    let print = ["connect", "ram:1MiB", "--as", "loop", "--name", "disk", "--print"];
    let said = dir.done(&print);
    let file = dir.path().join("run/disk.fuse/disk").display().to_string();
    assert!(said.contains("weft connect ram:1MiB --as fuse --name disk\n"), "{said}");
    assert!(said.contains(&format!("losetup --find --show --direct-io=on {file}")), "{said}");
    assert!(said.contains("# to detach: losetup -d /dev/loopN\n"), "{said}");
    // Without drivers and programs of the system it is the last choice.
    let auto = dir.done(&["connect", "ram:1MiB", "--as", "auto", "--name", "disk", "--print"]);
    assert!(auto.contains("--as "), "{auto}");
}
