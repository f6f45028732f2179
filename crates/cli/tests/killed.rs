//! `kill -9` under load: what was acknowledged has left the process, whatever the protocol and the I/O method.
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::{Scratch, Server};
use weft_endpoint::paths::Failover;
use weft_endpoint::{ConnectOptions, Disk, PathOptions};

const WRITERS: u64 = 4;
/// Blocks of a writer, of 512 bytes each.
const BLOCKS: u64 = 16_384;
const WRITE_BLOCKS: u64 = 8;
/// Writes that are acknowledged before the end.
const ENOUGH: u64 = 400;

/// Data of a write that occurs nowhere else.
fn data(writer: u64, nth: u64) -> Vec<u8> {
    let stamp = (writer << 56 | (nth + 1)).to_le_bytes();
    stamp.repeat((WRITE_BLOCKS * 512 / 8) as usize)
}

/// Writes one place after the other until the server is gone; counts what was acknowledged.
fn write_until_gone(disk: &Disk, writer: u64, acknowledged: &AtomicU64) {
    for nth in 0..BLOCKS / WRITE_BLOCKS {
        if disk.write(writer * BLOCKS + nth * WRITE_BLOCKS, &data(writer, nth)).is_err() {
            return;
        }
        acknowledged.store(nth + 1, SeqCst);
    }
}

fn kill_under_load(dir: &Path, listen: &str, disk_io: &str) {
    let source = format!("file:./disk.img,size={}", WRITERS * BLOCKS * 512);
    let server = Server::start(dir, &[&source, "--listen", listen, "--disk-io", disk_io, "--threads", "1"]);
    let options = ConnectOptions {
        quiesce_time: Duration::ZERO,
        keep_alive_ms: 0,
        // What was not acknowledged need not be waited for.
        paths: PathOptions { failover: Failover::Fast, ..PathOptions::once() },
        ..ConnectOptions::default()
    };
    let disk = Disk::open(server.url(), &options).unwrap();
    let acknowledged: [AtomicU64; WRITERS as usize] = Default::default();
    std::thread::scope(|scope| {
        for (writer, count) in (0..).zip(&acknowledged) {
            let disk = &disk;
            scope.spawn(move || write_until_gone(disk, writer, count));
        }
        let until = Instant::now() + Duration::from_secs(60);
        while acknowledged.iter().map(|count| count.load(SeqCst)).sum::<u64>() < ENOUGH && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let killed = Command::new("kill").args(["-9", &server.pid().to_string()]).status().unwrap();
        assert!(killed.success());
    });
    let stored = std::fs::read(dir.join("disk.img")).unwrap();
    let counts = acknowledged.map(AtomicU64::into_inner);
    assert!(counts.iter().sum::<u64>() >= ENOUGH, "{listen}: {counts:?}");
    for (writer, count) in (0..).zip(counts) {
        for nth in 0..count {
            let at = ((writer * BLOCKS + nth * WRITE_BLOCKS) * 512) as usize;
            assert!(
                stored[at..][..(WRITE_BLOCKS * 512) as usize] == data(writer, nth),
                "{listen}: write {nth} of {writer} is lost"
            );
        }
    }
}

#[test]
fn acknowledged_writes_have_left_a_process_that_is_killed() {
    for (n, disk_io) in ["auto", "threads"].into_iter().enumerate() {
        for listen in ["nvme+tcp://127.0.0.1:0", "iscsi://127.0.0.1:0", "nbd://127.0.0.1:0"] {
            let scratch = Scratch::new(&format!("killed-{n}-{}", &listen[..3]));
            kill_under_load(scratch.path(), listen, disk_io);
        }
    }
}
