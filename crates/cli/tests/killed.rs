//! `kill -9` under load: what was acknowledged has left the process, whatever the protocol and the
//! I/O method. And of a target behind two gateways: neither overwrites what the other has flushed.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, Server};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use weft_endpoint::paths::Failover;
use weft_endpoint::{ConnectOptions, Disk, PathOptions};
use weft_testing::wait::PATIENCE;

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
    let server =
        Server::start(dir, &[&source, "--listen", listen, "--disk-io", disk_io, "--threads", "1"]);
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
        let until = Instant::now() + PATIENCE;
        while acknowledged.iter().map(|count| count.load(SeqCst)).sum::<u64>() < ENOUGH
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        weft_testing::process::signal(server.pid(), "KILL");
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

/// A block that has this value everywhere.
fn block(value: u8) -> Vec<u8> {
    vec![value; 512]
}

/// The value that a block has everywhere.
fn read(disk: &Disk, lba: u64) -> u8 {
    let mut data = block(0);
    disk.read(lba, &mut data).unwrap();
    assert_eq!(data, block(data[0]));
    data[0]
}

/// Writes by one gateway and by another, the target of both is killed and started, and both go on.
/// Gateways that cannot know whether something was lost look for what they have written.
fn restart_behind_two_gateways(dir: &Path, listen: &str, looks: bool) {
    let target = |listen: &str| {
        Server::start(
            dir,
            &["file:./disk.img,size=1MiB,direct=off", "--listen", listen, "--threads", "1"],
        )
    };
    let first = target(listen);
    let url = first.url().to_owned();
    let gateway = || {
        let how = ["--listen", "nbd://127.0.0.1:0", "--threads", "1", "--reconnect-delay", "1"];
        Server::start(dir, &[&[url.as_str()][..], &how].concat())
    };
    let gateways = [gateway(), gateway()];
    let [a, b] = gateways
        .each_ref()
        .map(|gateway| Disk::open(gateway.url(), &ConnectOptions::default()).unwrap());
    for lba in [5, 6] {
        a.write(lba, &block(1)).unwrap();
    }
    b.write(5, &block(2)).unwrap();
    b.flush().unwrap();

    weft_testing::process::signal(first.pid(), "KILL");
    drop(first);
    let place = url.split("://").nth(1).unwrap().split('/').next().unwrap();
    let _second = target(&format!("{}{place}", &listen[..listen.find("127").unwrap()]));

    for disk in [&a, &b] {
        assert_eq!(
            (read(disk, 5), read(disk, 6)),
            (2, 1),
            "{listen}: the other gateway has flushed block 5"
        );
    }
    assert!(std::fs::read(dir.join("disk.img")).unwrap()[5 * 512..][..512] == block(2), "{listen}");
    assert_eq!(
        [a.flush().is_ok(), a.flush().is_ok()],
        [!looks, true],
        "{listen}: what A wrote to block 5 is not there, and that is told once"
    );
    assert!(b.flush().is_ok(), "{listen}: all that B has written is there");
}

#[test]
fn a_gateway_overwrites_nothing_that_another_has_flushed() {
    // The NVMe target tells that the cache of the system has lost nothing.
    for (listen, looks) in [
        ("nvme+tcp://127.0.0.1:0", false),
        ("iscsi://127.0.0.1:0", true),
        ("nbd://127.0.0.1:0", true),
    ] {
        let scratch = Scratch::new(&format!("flushed-{}", &listen[..3]));
        restart_behind_two_gateways(scratch.path(), listen, looks);
    }
}
