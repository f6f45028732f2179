//! The bridge: what comes by one protocol and goes on by another, or by the same one, costs no
//! allocation, and of its data no copy but the one of short payloads, which are received together
//! with their headers. A chain in one process: a disk, NVMe/TCP, the bridge on loops of its own, a
//! protocol, load. The bridge's device reconnects in all of them, as that of `weft connect` does.

use crate::counting::asked;
use crate::load::{Mix, Shape, start};
use crate::{GROWTH, PATIENCE, one_loop, options, ram, serve};
use std::sync::Arc;
use weft_block::sharing::share;
use weft_block::{BlockDevice, OpenOptions};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::paths::IoPolicy;
use weft_endpoint::{ConnectOptions, PathOptions, open};
use weft_testing::allocations::{in_a_quiet_window, of_thread};

/// How the bridge's connections get at the remote device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All share one queue on their loop.
    Shared,
    /// All share one queue on another loop.
    SharedElsewhere,
}

impl Way {
    /// Loops of the bridge; the last serves.
    fn loops(self) -> usize {
        if self == Self::SharedElsewhere { 2 } else { 1 }
    }
}

/// What the remote device is, and how it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remote {
    /// A RAM disk; lost writes are sent again at once.
    Ram,
    /// A RAM disk by the default options of paths, with keep alive.
    ByDefault,
    /// A disk with a volatile cache, whose writes are kept until a flush.
    Cached,
    /// Two paths, used in turn.
    TwoPaths,
}

impl Remote {
    /// The options by which the bridge opens a device that is served at these URLs.
    fn options(self, urls: &[String]) -> ConnectOptions {
        let plain = options(false);
        // Longer than a test takes: the commands of keep alive may allocate.
        let kept = |paths| ConnectOptions { keep_alive_ms: 3_600_000, paths, ..plain.clone() };
        match self {
            Self::Ram => plain,
            Self::ByDefault | Self::Cached => kept(PathOptions::default()),
            Self::TwoPaths => {
                let further = urls[1..].to_vec();
                kept(PathOptions {
                    further,
                    io_policy: IoPolicy::RoundRobin,
                    ..PathOptions::default()
                })
            }
        }
    }
}

/// A file of a test's own, removed at its end: it has a volatile cache.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self(
            std::env::temp_dir().join(format!("weft-allocations-{}-{nth}.img", std::process::id())),
        )
    }

    fn device(&self) -> Arc<dyn BlockDevice> {
        weft_block::open(&format!("file:{},size=16MiB", self.0.display()), &OpenOptions::default())
            .unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind it is in nobody's way.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Operations of 4 KiB and of 64 KiB, and the part of the received bytes that may have been copied.
const SHAPES: [(Shape, f64); 2] = [
    (Shape { bytes: 4096, window: 10_000, mix: Mix::Both }, 1.0),
    (Shape { bytes: 65_536, window: 4_000, mix: Mix::Both }, 0.02),
];

/// What the bridge's loops have spent together.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// All but those of the pool.
    allocations: u64,
    /// Payload buffers that the pool had not had before.
    new_buffers: u64,
    copied_bytes: u64,
    received_bytes: u64,
}

impl Spent {
    fn of(bridge: &Loops) -> Self {
        let question = |on: &weft_io::Handle| {
            let counters = on.counters();
            let new_buffers = on.pool().allocations();
            let (copied_bytes, received_bytes) =
                (counters.copied_bytes.value(), counters.recv_bytes.value());
            Self {
                allocations: of_thread() - new_buffers,
                new_buffers,
                copied_bytes,
                received_bytes,
            }
        };
        let each = bridge.remotes().iter().map(|remote| asked(remote, question));
        each.fold(Self::default(), |sum, one| sum.with(one, u64::wrapping_add))
    }

    fn with(self, other: Self, op: fn(u64, u64) -> u64) -> Self {
        Self {
            allocations: op(self.allocations, other.allocations),
            new_buffers: op(self.new_buffers, other.new_buffers),
            copied_bytes: op(self.copied_bytes, other.copied_bytes),
            received_bytes: op(self.received_bytes, other.received_bytes),
        }
    }
}

/// Loads the chain and gives what its bridge spent in a window in which that was `good`, or in the
/// last.
fn spent_by_bridge(
    listen: &str,
    remote: Remote,
    way: Way,
    shape: Shape,
    good: impl Fn(&Spent) -> bool,
) -> Spent {
    let (served, scratch) = (one_loop(), Scratch::new());
    let disk = if remote == Remote::Cached { scratch.device() } else { ram() };
    let ports = ["nvme+tcp://127.0.0.1:0"; 2];
    let target =
        serve(&ports[..if remote == Remote::TwoPaths { 2 } else { 1 }], disk, served.remotes());
    let bridge =
        Loops::start(&LoopsConfig { threads: Some(way.loops()), ..LoopsConfig::default() })
            .unwrap();
    let urls = target.urls();
    let mut remote: Arc<dyn BlockDevice> = open(&urls[0], &remote.options(&urls)).unwrap();
    if way == Way::SharedElsewhere {
        remote = share(remote, &bridge.remotes()[..1]);
    }
    let exports = serve(&[listen], remote, &bridge.remotes()[way.loops() - 1..]);
    let device = open(&exports.urls()[0], &options(false)).unwrap();
    let client = one_loop();
    let run = start(&client, &device, shape);
    let mut before = Spent::of(&bridge);
    let mut spent = Spent::default();
    in_a_quiet_window(0, || {
        run.recv_timeout(PATIENCE).expect("the window ends");
        let so_far = Spent::of(&bridge);
        spent = so_far.with(std::mem::replace(&mut before, so_far), u64::wrapping_sub);
        u64::from(!good(&spent))
    });
    // Before what it loads goes away.
    client.stop().unwrap();
    spent
}

fn bridge_is_cheap(listen: &str, remote: Remote, way: Way, shape: Shape, copied: f64) {
    let good = |spent: &Spent| {
        (0..=way.loops() as u64 * GROWTH).contains(&spent.allocations)
            && spent.new_buffers == 0
            && spent.copied_bytes as f64 <= spent.received_bytes as f64 * copied
    };
    let spent = spent_by_bridge(listen, remote, way, shape, good);
    let what =
        format!("{listen}, {remote:?}, {way:?}, {} bytes, {:?}: {spent:?}", shape.bytes, shape.mix);
    assert!(
        spent.received_bytes > shape.window / 2 * u64::from(shape.bytes),
        "it went another way: {what}"
    );
    assert!(good(&spent), "{what}");
}

fn every_mix(listen: &str) {
    for (shape, copied) in SHAPES {
        for mix in [Mix::Reads, Mix::Writes, Mix::Both] {
            bridge_is_cheap(listen, Remote::Ram, Way::Shared, Shape { mix, ..shape }, copied);
        }
    }
}

fn shared_elsewhere(listen: &str) {
    for (shape, copied) in SHAPES {
        bridge_is_cheap(listen, Remote::Ram, Way::SharedElsewhere, shape, copied);
    }
}

fn every_remote(listen: &str) {
    for (shape, copied) in SHAPES {
        for remote in [Remote::ByDefault, Remote::Cached, Remote::TwoPaths] {
            bridge_is_cheap(listen, remote, Way::Shared, shape, copied);
        }
    }
}

#[test]
fn bridge_to_iscsi_with_the_usual_paths_is_cheap() {
    every_remote("iscsi://127.0.0.1:0");
}

#[test]
fn bridge_to_nbd_with_the_usual_paths_is_cheap() {
    every_remote("nbd://127.0.0.1:0");
}

#[test]
fn a_gateway_of_nvme_tcp_is_cheap() {
    every_mix("nvme+tcp://127.0.0.1:0");
}

#[test]
fn a_gateway_of_nvme_tcp_with_the_usual_paths_is_cheap() {
    every_remote("nvme+tcp://127.0.0.1:0");
}

#[test]
fn bridge_from_nvme_tcp_to_iscsi_is_cheap() {
    every_mix("iscsi://127.0.0.1:0");
}

#[test]
fn bridge_from_nvme_tcp_to_nbd_is_cheap() {
    every_mix("nbd://127.0.0.1:0");
}

#[test]
fn bridge_to_iscsi_with_a_queue_on_another_loop_is_cheap() {
    shared_elsewhere("iscsi://127.0.0.1:0");
}

#[test]
fn bridge_to_nbd_with_a_queue_on_another_loop_is_cheap() {
    shared_elsewhere("nbd://127.0.0.1:0");
}
