//! Disks of this machine: loop devices, where this user may make some.
#![cfg(target_os = "linux")]

use crate::scratch::Scratch;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weft_block::testing::{Rig, TestOp, TestPlan, conformance};
use weft_block::{Device, DeviceChange, ErrorKind, OpKind, OpenOptions, Refusal, open};
use weft_io::disk::DiskMode;
use weft_testing::{programs, skip};

/// A loop device over a file.
struct Loop {
    path: String,
    file: Scratch,
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = programs::command(program)
        .args(arguments)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output
        .status
        .success()
        .then_some(text)
        .ok_or_else(|| format!("{program}: {}", String::from_utf8_lossy(&output.stderr)))
}

impl Loop {
    fn new(options: &[&str]) -> Option<Self> {
        let file = Scratch::new();
        std::fs::File::create(&file.0).unwrap().set_len(16 << 20).unwrap();
        let made =
            run("losetup", &[&["--find", "--show"], options, &[file.0.to_str().unwrap()]].concat());
        match made {
            Ok(path) => Some(Self { path, file }),
            Err(why) => {
                skip(format!("this user cannot make a loop device: {why}"));
                None
            }
        }
    }

    fn open(&self) -> Device {
        open(&self.path, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Bytes that the file takes up.
    fn used(&self) -> u64 {
        std::fs::metadata(&self.file.0).unwrap().blocks() * 512
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["--detach", &self.path]);
    }
}

fn refused(url: &str) -> Refusal {
    let error = open(url, &OpenOptions::default()).err().unwrap_or_else(|| panic!("{url} opened"));
    error.refusal().cloned().unwrap_or_else(|| panic!("the system refused it: {error}"))
}

#[test]
fn a_disk_keeps_the_contract() {
    for options in [&[][..], &["--sector-size", "4096"]] {
        let Some(disk) = Loop::new(options) else { return };
        for (disk_mode, loops) in [(DiskMode::Auto, 1), (DiskMode::Threads, 2)] {
            conformance(
                &disk.open(),
                TestPlan { loops, disk: disk_mode, rounds: 20, ..TestPlan::default() },
            );
        }
        let cached =
            open(&format!("file:{},direct=off", disk.path), &OpenOptions::default()).unwrap();
        conformance(&cached, TestPlan { rounds: 20, ..TestPlan::default() });
        drop(cached);
        conformance(
            &open(&format!("readonly:{}", disk.path), &OpenOptions::default()).unwrap(),
            TestPlan::default(),
        );
    }
}

#[test]
fn blocks_are_those_of_the_disk() {
    let Some(disk) = Loop::new(&["--sector-size", "4096"]) else { return };
    let device = disk.open();
    assert_eq!((device.geometry().block_bytes, device.geometry().blocks), (4096, 4096));
    drop(device);
    assert_eq!(
        refused(&format!("{},block=512", disk.path)),
        Refusal::ShortBlocks { disk_bytes: 4096 }
    );
    let Some(disk) = Loop::new(&[]) else { return };
    assert_eq!(disk.open().geometry().block_bytes, 512);
    let longer = open(&format!("{},block=4096", disk.path), &OpenOptions::default()).unwrap();
    assert_eq!(longer.geometry().blocks, 4096);
}

#[test]
fn discards_reach_the_disk() {
    let Some(disk) = Loop::new(&[]) else { return };
    let device = disk.open();
    assert!(device.features().discard, "a loop device over a sparse file frees its space");
    let rig = Rig::new(&device, TestPlan::default());
    for n in 0..16 {
        rig.write(0, n * 2048, &[7; 1 << 20]);
    }
    rig.one(0, TestOp { kind: OpKind::Flush, lba: 0, blocks: 0, data: vec![], cuts: vec![] });
    let before = disk.used();
    rig.one(
        0,
        TestOp { kind: OpKind::Discard, lba: 2048, blocks: 8 * 2048, data: vec![], cuts: vec![] },
    );
    assert!(disk.used() + (7 << 20) < before, "{before} bytes before, {} now", disk.used());
    assert_eq!(rig.read(0, 0, 2048), [7; 1 << 20]);
    rig.end();
}

#[test]
fn another_size_is_noticed() {
    let Some(disk) = Loop::new(&[]) else { return };
    let device = disk.open();
    let rig = Rig::new(&device, TestPlan::default());
    std::fs::OpenOptions::new().write(true).open(&disk.file.0).unwrap().set_len(32 << 20).unwrap();
    run("losetup", &["--set-capacity", &disk.path]).unwrap();
    assert_eq!(rig.change(0), DeviceChange::Resized { blocks: 65_536 });
    assert_eq!(device.geometry().blocks, 65_536);
    rig.write(0, 65_535, &[9; 512]);
    rig.end();
}

#[test]
fn a_disk_in_use_is_refused_with_what_uses_it() {
    let Some(disk) = Loop::new(&["--partscan"]) else { return };
    let at = std::env::temp_dir().join(format!("weft-mounted-{}", std::process::id()));
    let mount = |device: &str| -> Result<(), String> {
        run("mkfs.ext4", &["-q", "-F", device])?;
        std::fs::create_dir_all(&at).map_err(|e| e.to_string())?;
        run("mount", &[device, at.to_str().unwrap()]).map(drop)
    };
    if let Err(why) = mount(&disk.path) {
        let _ = std::fs::remove_dir(&at);
        return skip(format!("this user cannot mount a file system: {why}"));
    }
    let busy = refused(&disk.path);
    assert_eq!(busy, Refusal::Busy { by: format!("it is mounted at {}", at.display()) });
    assert_eq!(busy.kind(), ErrorKind::InUse);
    assert!(
        !open(&format!("readonly:{}", disk.path), &OpenOptions::default())
            .unwrap()
            .features()
            .write
    );
    run("umount", &[at.to_str().unwrap()]).unwrap();
    let served = disk.open();
    assert!(
        run("mount", &[&disk.path, at.to_str().unwrap()]).is_err(),
        "what weft writes to cannot be mounted"
    );
    drop(served);
    run("mkswap", &[&disk.path]).and_then(|_| run("swapon", &[&disk.path])).map_or_else(
        |why| skip(format!("this user cannot add swap space: {why}")),
        |_| {
            assert_eq!(refused(&disk.path), Refusal::Busy { by: "it is swap space".into() });
            run("swapoff", &[&disk.path]).unwrap();
        },
    );
    std::fs::remove_dir(&at).unwrap();
}

#[test]
fn a_disk_that_the_system_does_not_write_to_is_read_only() {
    let Some(disk) = Loop::new(&["--read-only"]) else { return };
    let error = open(&disk.path, &OpenOptions::default()).err().expect("it is read-only");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("readonly:"), "{error}");
    assert!(
        Path::new(&disk.path).exists()
            && open(&format!("readonly:{}", disk.path), &OpenOptions::default()).is_ok()
    );
}
