//! A mirror and a stripe of two RAM disks, which answer at once: what is counted is the queue over
//! them, and with it one copy by the disk, or two, and of a mirror's writes one more.
//!
//! The loops are simulated ones: real ones do not run under callgrind, and a mirror's home does what
//! it does at the same time in each run.

use std::collections::VecDeque;
use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use weft_block::testing::{begin_mirror, mirror_labels};
use weft_block::{BlockQueue, Completion, Device, Op, OpKind, OpenOptions, open};
use weft_io::sim::{LoopId, World};
use weft_io::{Activity, Driver, Handle, LoopConfig, Segments};

/// Operations that are under way together.
const DEPTH: u64 = 16;

const BYTES: usize = 4096;

/// Operations that are counted, in rounds of all that are under way together.
const ROUNDS: u64 = 250;

/// Rounds in which nothing but the queue itself was needed, before those that are counted.
const WARM_UP: u64 = 50;

/// Blocks from where an operation begins to where the next one does: a mirror locks so many, and a
/// stripe of chunks as large has each second one on the other member.
const STRIDE: u64 = 4;

const LEG_BYTES: u64 = 16 << 20;

/// How long anything takes that is not at once.
const PATIENCE: Duration = Duration::from_secs(60);

struct Owner;

impl Driver for Owner {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// A queue on a loop, and what goes through it.
struct Bench {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    /// Ends after the queue.
    world: World,
}

/// Counted: operations are submitted, and have ended when they are reaped.
#[inline(never)]
fn measured_composite(bench: &mut Bench) {
    bench.queue.submit(&mut bench.ops);
    bench.queue.reap(&mut bench.done);
}

/// A world of two loops: one for a home, and one for users.
fn world() -> (World, [LoopId; 2]) {
    let mut world = World::new(1);
    let host = world.host("10.0.0.1");
    let loops = [(); 2].map(|()| world.add_loop(host, &LoopConfig::default()));
    (world, loops)
}

fn queue(device: &Device, on: &Handle) -> Box<dyn BlockQueue> {
    let owner = on.spawn(|_| Owner);
    device.open_queue(on, owner).unwrap()
}

impl Bench {
    fn new(world: World, on: LoopId, device: &Device, kind: OpKind) -> Self {
        let on = world.handle(on);
        let op = |nth| {
            let data = Segments::from_iter([on.pool().take(BYTES).unwrap().into()]);
            Op::new(kind, nth * STRIDE, 1, nth, data)
        };
        Self {
            queue: queue(device, &on),
            ops: (0..DEPTH).map(op).collect(),
            world,
            done: Vec::with_capacity(DEPTH as usize),
        }
    }

    /// Lets time pass until all has ended, where the mirror's home is needed for that, and makes the
    /// next round ready. Whether nothing else was needed.
    fn finish(&mut self) -> bool {
        let at_once = self.done.len() == DEPTH as usize;
        let Self { world, queue, ops, done } = self;
        let all = world.run_until(
            |_| {
                queue.submit(ops);
                queue.reap(done);
                done.len() == DEPTH as usize
            },
            PATIENCE,
        );
        assert!(all, "some never end");
        for Completion { op, outcome } in done.drain(..) {
            assert!(outcome.is_success(), "{outcome:?}");
            ops.push_back(Op::new(op.kind, op.lba, op.blocks, op.user, op.data));
        }
        at_once
    }

    fn count(mut self) {
        let mut in_a_row = 0;
        while in_a_row < WARM_UP {
            self.queue.submit(&mut self.ops);
            self.queue.reap(&mut self.done);
            in_a_row = if self.finish() { in_a_row + 1 } else { 0 };
        }
        for _ in 0..ROUNDS {
            measured_composite(&mut self);
            assert!(self.finish(), "nothing else is needed");
        }
        self.ops.drain(..).for_each(Op::give_up);
        println!("commands {}", ROUNDS * DEPTH);
    }
}

/// A new mirror, and its loops.
fn mirror(kind: OpKind) {
    let (mut world, [home, user]) = world();
    let on = world.handle(user);
    let (lba, areas) = mirror_labels(LEG_BYTES, BYTES as u32);
    let disk = |area: Vec<u8>| {
        let disk =
            open(&format!("ram:{LEG_BYTES},block={BYTES}"), &OpenOptions::default()).unwrap();
        let mut data = on.pool().take(area.len()).unwrap();
        data.copy_from_slice(&area);
        let (write, blocks) = (OpKind::Write { fua: true }, (area.len() / BYTES) as u32);
        let mut done = Vec::new();
        let mut queue = queue(&disk, &on);
        queue.submit(&mut [Op::new(write, lba, blocks, 0, [data.into()].into())].into());
        queue.reap(&mut done);
        assert!(done[0].outcome.is_success());
        disk
    };
    let disks: Vec<Device> = areas.into_iter().map(disk).collect();
    let (opening, _closed) = begin_mirror(&world.handle(home).remote(), &disks);
    let (mut opening, mut context) = (Box::pin(opening), Context::from_waker(Waker::noop()));
    let mut opened = None;
    let ended = world.run_until(
        |_| {
            if let Poll::Ready(device) = opening.as_mut().poll(&mut context) {
                opened = Some(device);
            }
            opened.is_some()
        },
        PATIENCE,
    );
    assert!(ended, "opening does not end");
    let device = opened.unwrap().unwrap_or_else(|e| panic!("{e}"));
    Bench::new(world, user, &device, kind).count();
}

fn stripe(kind: OpKind) {
    let url = "stripe:16KiB,ram:8MiB,block=4096,ram:8MiB,block=4096";
    let device = open(url, &OpenOptions::default()).unwrap();
    let (world, [_, user]) = world();
    Bench::new(world, user, &device, kind).count();
}

#[test]
fn mirror_read() {
    mirror(OpKind::Read);
}

#[test]
fn mirror_write() {
    mirror(OpKind::Write { fua: false });
}

#[test]
fn stripe_read() {
    stripe(OpKind::Read);
}

#[test]
fn stripe_write() {
    stripe(OpKind::Write { fua: false });
}
