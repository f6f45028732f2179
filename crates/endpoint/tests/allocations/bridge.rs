//! The bridge: what comes by one protocol and goes on by another costs no allocation, and of its data no copy but the one of short
//! payloads, which are received together with their headers. A chain in one process: RAM disk, NVMe/TCP, the bridge on loops of its
//! own, iSCSI or NBD, load.

use crate::counting::ALLOCATIONS;
use crate::load::{DEPTH, Mix, Shape, start};
use crate::{GROWTH, one_loop, options, ram, serve};
use std::sync::Arc;
use std::time::Duration;
use weft_block::BlockDevice;
use weft_block::mailbox::Mailbox;
use weft_endpoint::loops::{Loops, LoopsConfig, ask};
use weft_endpoint::open;

/// How the bridge's connections get at the remote device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Each opens a queue on its own loop.
    OwnQueue,
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

/// Operations of 4 KiB and of 64 KiB, and payload bytes that one of them may have copied.
const SHAPES: [(Shape, u64); 2] = [
    (Shape { bytes: 4096, warm_up: 5_000, measured: 20_000, mix: Mix::Both }, 4096),
    (Shape { bytes: 65_536, warm_up: 2_000, measured: 10_000, mix: Mix::Both }, 65_536 * 2 / 100),
];

/// Allocations of each loop that operations do not cause: for the questions of this test, and for lists that grow, once, to the most
/// that ever was in them.
const GROWN_LISTS: u64 = 20;

/// What the bridge's loops have spent together.
#[derive(Clone, Copy, Default)]
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
            let (copied_bytes, received_bytes) = (counters.copied_bytes.value(), counters.recv_bytes.value());
            Self { allocations: ALLOCATIONS.get() - new_buffers, new_buffers, copied_bytes, received_bytes }
        };
        let each = bridge.remotes().iter().map(|remote| ask(remote, question).unwrap());
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

/// Loads the chain and gives what its bridge spent on the measured operations.
fn spent_by_bridge(listen: &str, way: Way, shape: Shape) -> Spent {
    let served = one_loop();
    let target = serve("nvme+tcp://127.0.0.1:0", ram(), served.remotes());
    let bridge = Loops::start(&LoopsConfig { threads: Some(way.loops()), ..LoopsConfig::default() }).unwrap();
    let mut remote: Arc<dyn BlockDevice> = open(&target.urls()[0], &options(false)).unwrap();
    if way != Way::OwnQueue {
        remote = ask(&bridge.remotes()[0], move |on| Mailbox::open(remote, on)).unwrap().unwrap();
    }
    let exports = serve(listen, remote, &bridge.remotes()[way.loops() - 1..]);
    let device = open(&exports.urls()[0], &options(false)).unwrap();
    let client = one_loop();
    let run = start(&client, &device, shape);
    run.recv_timeout(Duration::from_secs(120)).expect("the warm-up ends");
    let before = Spent::of(&bridge);
    run.recv_timeout(Duration::from_secs(120)).expect("the run ends");
    let spent = Spent::of(&bridge).with(before, u64::wrapping_sub);
    // Before what it loads goes away.
    client.stop().unwrap();
    spent
}

fn bridge_is_cheap(listen: &str, way: Way, shape: Shape, copied_per_op: u64) {
    let spent = spent_by_bridge(listen, way, shape);
    let share = spent.copied_bytes as f64 / (shape.measured * u64::from(shape.bytes)) as f64;
    let what = format!(
        "{listen}, {way:?}, {} bytes, {:?}: {} allocations, {} new buffers, {share:.4} of the payload copied",
        shape.bytes, shape.mix, spent.allocations, spent.new_buffers
    );
    println!("{what}");
    assert!(spent.received_bytes > shape.measured / 2 * u64::from(shape.bytes), "it went another way: {what}");
    assert!(spent.allocations <= way.loops() as u64 * (GROWTH + GROWN_LISTS), "{what}");
    assert!(spent.new_buffers <= way.loops() as u64 * DEPTH, "{what}");
    // Some operations began before the run or end after it.
    assert!(spent.copied_bytes <= (shape.measured + DEPTH) * copied_per_op, "{what}");
}

fn every_mix(listen: &str) {
    for (shape, copied_per_op) in SHAPES {
        for mix in [Mix::Reads, Mix::Writes, Mix::Both] {
            bridge_is_cheap(listen, Way::OwnQueue, Shape { mix, ..shape }, copied_per_op);
        }
    }
}

fn shared_queue(listen: &str) {
    for way in [Way::Shared, Way::SharedElsewhere] {
        for (shape, copied_per_op) in SHAPES {
            bridge_is_cheap(listen, way, shape, copied_per_op);
        }
    }
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
fn bridge_to_iscsi_with_a_shared_queue_is_cheap() {
    shared_queue("iscsi://127.0.0.1:0");
}

#[test]
fn bridge_to_nbd_with_a_shared_queue_is_cheap() {
    shared_queue("nbd://127.0.0.1:0");
}
