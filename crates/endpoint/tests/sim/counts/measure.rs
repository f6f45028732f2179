//! Counting what loops spend on operations of a load, in virtual time.

use crate::sim::scene::{Connections, Scene};
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;
use weft_block::{BlockDevice, BlockQueue, Completion, Error, Op, OpKind};
use weft_io::counters::Snapshot;
use weft_io::sim::{LoopId, NetConfig};
use weft_io::{Activity, Driver, Handle, Segments};

/// Of all disks that are counted here.
pub const BLOCK_BYTES: u32 = 4096;

/// Operations that are counted, of short payloads; a quarter as many go before, for the ends to
/// fall into step.
const COUNTED: u64 = 2000;

/// Bytes that large ones move together.
const COUNTED_BYTES: u64 = 64 << 20;

/// Operations that a call has to serve at least, on average, where that many are under way. More in
/// one call costs fewer calls and less overlap of the two ends, so it is no aim.
const BATCH: u32 = 16;

/// What a socket's buffer bounds: large payloads need a call for each.
const BYTES_OF_CALL: u32 = 64 << 10;

/// The share of large payloads that may be copied: what comes along with a header.
const COPIED_OF_LARGE: f64 = 1.0 / 16.0;

/// Copies of a payload of 64 KiB and more are counted as of a large one.
pub const LARGE_BYTES: u32 = 64 << 10;

pub const READ: OpKind = OpKind::Read;
pub const WRITE: OpKind = OpKind::Write { fua: false };

/// A workload: what, how large, how deep, and how many bytes lie from where an operation begins to
/// where the next one does.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub kind: OpKind,
    pub bytes: u32,
    pub depth: u32,
}

impl Point {
    pub const fn new(kind: OpKind, kib: u32, depth: u32) -> Self {
        Self { kind, bytes: kib << 10, depth }
    }

    /// Operations that are counted.
    fn counted(&self) -> u64 {
        COUNTED.min(COUNTED_BYTES / u64::from(self.bytes))
    }

    /// Returns the calls that an operation may cost, where a batch costs `of_batch`. Large ones
    /// need some for each part of them.
    pub fn calls(&self, of_batch: f64) -> f64 {
        of_batch
            * (1.0 / f64::from(self.depth.min(BATCH)))
                .max(f64::from(self.bytes) / f64::from(BYTES_OF_CALL))
    }

    /// Copies of its payload that an operation may cost whoever receives it once: at 4 KiB one;
    /// from 64 KiB on none but what comes along with a header. At the end of the count some have
    /// been copied that are not complete yet.
    pub fn copies(&self) -> f64 {
        let each = if self.bytes >= LARGE_BYTES { COPIED_OF_LARGE } else { 1.0 };
        each * (1.0 + f64::from(self.depth) / self.counted() as f64)
    }
}

/// Points at which the layers over or next to a protocol are counted.
pub const FEW_POINTS: [Point; 6] = [
    Point::new(READ, 4, 1),
    Point::new(WRITE, 4, 1),
    Point::new(READ, 4, 32),
    Point::new(WRITE, 4, 32),
    Point::new(READ, 64, 32),
    Point::new(WRITE, 64, 32),
];

/// Cost of an operation to a loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    pub receives: f64,
    /// With those that find the socket's buffer full.
    pub sends: f64,
    pub sleeps: f64,
    /// Copies of the payload.
    pub copies: f64,
}

impl Cost {
    fn of(spent: Snapshot, operations: u64, bytes: u32) -> Self {
        let each = |count: u64| count as f64 / operations as f64;
        Self {
            receives: each(spent.recv_calls),
            sends: each(spent.send_calls + spent.send_blocked),
            sleeps: each(spent.sleeps),
            copies: each(spent.copied_bytes) / f64::from(bytes),
        }
    }

    /// System calls.
    pub fn calls(&self) -> f64 {
        self.receives + self.sends + self.sleeps
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.4} calls ({:.4} receives, {:.4} sends, {:.4} sleeps), {:.4} copies",
            self.calls(),
            self.receives,
            self.sends,
            self.sleeps,
            self.copies
        )
    }
}

/// Limits of the cost of an operation to a loop: calls, and copies of its payload.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub calls: f64,
    pub copies: f64,
}

/// Costs that were found, against their limits.
#[derive(Default)]
pub struct Judge(Vec<String>);

impl Judge {
    /// Prints what was found, and keeps it if it is more than may be.
    pub fn judge(&mut self, what: &str, found: Cost, limit: Limit) {
        let text = format!("{what}: {found}; of {:.4} and {:.4}", limit.calls, limit.copies);
        println!("{text}");
        if found.calls() > limit.calls || found.copies > limit.copies {
            self.0.push(text);
        }
    }

    /// # Panics
    /// If something was more than may be.
    pub fn end(self) {
        assert!(self.0.is_empty(), "more for each operation than may be:\n{}", self.0.join("\n"));
    }
}

/// A network as the loopback is: quick, even, and of large pieces.
pub fn like_the_loopback<T: Connections>(scene: &mut Scene<T>) {
    scene.world.set_net(|net| {
        *net = NetConfig {
            send_buffer_bytes: 2 << 20,
            recv_buffer_bytes: 2 << 20,
            ..NetConfig::default()
        }
    });
}

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

/// Loads a device from one loop, and gives what each of `ends` spent on an operation.
pub fn costs<T: Connections, const ENDS: usize>(
    scene: &mut Scene<T>,
    from: LoopId,
    device: &dyn BlockDevice,
    point: Point,
    ends: [LoopId; ENDS],
) -> [Cost; ENDS] {
    let on = scene.world.handle(from);
    // NBD has blocks of its own.
    let block_bytes = device.geometry().block_bytes;
    let blocks = point.bytes / block_bytes;
    let completed = Rc::<Cell<u64>>::default();
    let op = |user: u64| {
        let data = Segments::from_iter([on.pool().take(point.bytes as usize).unwrap().into()]);
        Op::new(point.kind, user * u64::from(blocks), blocks, user, data)
    };
    let ops = (0..point.depth.into()).map(op).collect();
    let load = |id| {
        let queue = device.open_queue(&on, id)?;
        Ok::<_, Error>(Load { queue, ops, done: Vec::new(), completed: Rc::clone(&completed) })
    };
    on.try_spawn(load).unwrap();
    let counters = |scene: &Scene<T>| ends.map(|end| scene.world.handle(end).counters().snapshot());
    let mut run = |until: u64| {
        assert!(
            scene.world.run_until(|_| completed.get() >= until, Duration::from_secs(600)),
            "it goes on"
        );
        (completed.get(), counters(scene))
    };
    let (first, before) = run(point.counted() / 4);
    let (last, after) = run(first + point.counted());
    core::array::from_fn(|end| Cost::of(after[end].since(&before[end]), last - first, point.bytes))
}
