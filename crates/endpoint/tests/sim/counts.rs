//! System calls and copies of both ends, on a fixed schedule: in virtual time they depend on the
//! code and on nothing else.

use crate::sim::scene::{Scene, Setup, options};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use weft_block::{BlockDevice, BlockQueue, Completion, Error, Op, OpKind, OpenOptions};
use weft_io::counters::Snapshot;
use weft_io::sim::{LoopId, NetConfig};
use weft_io::{Activity, Driver, Handle, Segments};

const BLOCK_BYTES: u32 = 4096;

/// Operations that are counted, of short payloads; a quarter as many go before, for the two ends to
/// fall into step.
const COUNTED: u64 = 2000;

/// Bytes that large ones move together.
const COUNTED_BYTES: u64 = 64 << 20;

/// Operations that a call has to serve at least, on average, where that many are under way. More in
/// one call costs fewer calls and less overlap of the two ends, so it is no aim.
const BATCH: u32 = 16;

/// Calls for each batch: one receives, one sends, one sleeps; and of large payloads, which are
/// received into place, every other one is answered by a call of its own.
const CALLS: f64 = 3.5;

/// A workload: what, how large, and how deep.
#[derive(Clone, Copy, Debug)]
struct Point {
    kind: OpKind,
    bytes: u32,
    depth: u32,
}

impl Point {
    const fn new(kind: OpKind, kib: u32, depth: u32) -> Self {
        Self { kind, bytes: kib << 10, depth }
    }

    /// Operations that are counted.
    fn counted(&self) -> u64 {
        COUNTED.min(COUNTED_BYTES / u64::from(self.bytes))
    }

    /// Calls that an operation may cost an end. A socket's buffer bounds what a call moves, so
    /// large ones need some for each 64 KiB.
    fn calls(&self) -> f64 {
        CALLS
            * (1.0 / f64::from(self.depth.min(BATCH)))
                .max(f64::from(self.bytes) / f64::from(64 << 10))
    }

    /// Copies of its payload that an operation may cost an end: at 4 KiB one; from 64 KiB on none
    /// but what comes along with a header. At the end of the count some have been copied that are
    /// not complete yet.
    fn copies(&self) -> f64 {
        let each = if self.bytes >= 64 << 10 { 1.0 / 16.0 } else { 1.0 };
        each * (1.0 + f64::from(self.depth) / self.counted() as f64)
    }
}

const READ: OpKind = OpKind::Read;
const WRITE: OpKind = OpKind::Write { fua: false };

const POINTS: [Point; 12] = [
    Point::new(READ, 4, 1),
    Point::new(READ, 4, 8),
    Point::new(READ, 4, 32),
    Point::new(READ, 4, 128),
    Point::new(WRITE, 4, 1),
    Point::new(WRITE, 4, 8),
    Point::new(WRITE, 4, 32),
    Point::new(WRITE, 4, 128),
    Point::new(READ, 64, 32),
    Point::new(WRITE, 64, 32),
    Point::new(READ, 1024, 8),
    Point::new(WRITE, 1024, 8),
];

/// Keeps `depth` operations under way.
struct Load {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    completed: Rc<Cell<u64>>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

impl Driver for Load {
    fn work(&mut self, _: &Handle) -> Activity {
        self.queue.reap(&mut self.done);
        let activity = Activity::busy_if(!self.done.is_empty());
        for Completion { op, outcome } in self.done.drain(..) {
            assert!(outcome.is_success(), "{outcome:?}");
            self.completed.set(self.completed.get() + 1);
            self.ops.push_back(Op::new(op.kind, op.lba, op.blocks, op.user, op.data));
        }
        self.queue.submit(&mut self.ops);
        activity
    }
}

/// What each end, the initiator first, did for an operation: system calls, and copies of the
/// payload.
fn costs(point: Point) -> [(f64, f64); 2] {
    let device =
        weft_block::open(&format!("ram:32MiB,block={BLOCK_BYTES}"), &OpenOptions::default())
            .unwrap();
    let mut scene = Scene::new(Setup::new(7, device));
    // As the loopback is: quick, even, and of large pieces.
    scene.world.set_net(|net| {
        *net = NetConfig {
            send_buffer_bytes: 2 << 20,
            recv_buffer_bytes: 2 << 20,
            ..NetConfig::default()
        }
    });
    let remote = scene.open(&options()).unwrap();
    let (on, blocks) = (scene.io_loop(0), point.bytes / BLOCK_BYTES);
    let completed = Rc::<Cell<u64>>::default();
    let op = |user: u64| {
        let data = Segments::from_iter([on.pool().take(point.bytes as usize).unwrap().into()]);
        Op::new(point.kind, user * u64::from(blocks), blocks, user, data)
    };
    let ops = (0..point.depth.into()).map(op).collect();
    let load = |id| {
        let queue = remote.open_queue(&on, id)?;
        Ok::<_, Error>(Load { queue, ops, done: Vec::new(), completed: Rc::clone(&completed) })
    };
    on.try_spawn(load).unwrap();
    let ends: [LoopId; 2] = [scene.client_loops[1], scene.target_loops[0]];
    let counters = |scene: &Scene| ends.map(|end| scene.world.handle(end).counters().snapshot());
    let run = |scene: &mut Scene, until: u64| {
        assert!(
            scene.world.run_until(|_| completed.get() >= until, Duration::from_secs(600)),
            "it goes on"
        );
        (completed.get(), counters(scene))
    };
    let (first, before) = run(&mut scene, point.counted() / 4);
    let (last, after) = run(&mut scene, first + point.counted());
    let each = |end: usize| {
        let spent: Snapshot = after[end].since(&before[end]);
        let calls = spent.recv_calls + spent.send_calls + spent.send_blocked + spent.sleeps;
        let ops = (last - first) as f64;
        (calls as f64 / ops, spent.copied_bytes as f64 / ops / f64::from(point.bytes))
    };
    [each(0), each(1)]
}

#[test]
fn calls_and_copies_of_an_operation_are_few() {
    let mut faults = Vec::new();
    for point in POINTS {
        for (end, (calls, copies)) in ["initiator", "target"].into_iter().zip(costs(point)) {
            let found = format!(
                "{point:?}, {end}: {calls:.4} calls of {:.4}, {copies:.4} copies of {:.4}",
                point.calls(),
                point.copies()
            );
            println!("{found}");
            if calls > point.calls() || copies > point.copies() {
                faults.push(found);
            }
        }
    }
    assert!(faults.is_empty(), "more for each operation than may be:\n{}", faults.join("\n"));
}

#[test]
fn counts_do_not_depend_on_the_run() {
    let point = Point::new(READ, 4, 32);
    assert_eq!(costs(point), costs(point));
}
