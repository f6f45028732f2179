//! An operation on a local device allocates nothing: counted by an allocator of this program's own.

use std::collections::VecDeque;
use std::sync::Arc;
use weft_block::sharing::share;
use weft_block::testing::mirror_of_ram;
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, Features, Geometry, Op, OpKind,
    OpenOptions, open,
};
use weft_io::event_loop::spawn;
use weft_io::{Activity, Driver, DriverId, Handle, Loop, LoopConfig, Segments};
use weft_testing::allocations::{Counting, in_a_quiet_window, of_thread};

#[global_allocator]
static COUNTING: Counting = Counting;

const DEPTH: u64 = 32;

struct Owner;

impl Driver for Owner {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// Keeps `DEPTH` operations in flight until a number of them are done: reads and writes by turns.
fn keep_busy(
    event_loop: &mut Loop,
    queue: &mut dyn BlockQueue,
    ops: &mut VecDeque<Op>,
    done: &mut Vec<Completion>,
    total: u64,
) {
    let mut count = 0;
    while count < total {
        queue.submit(ops);
        let _ = event_loop.turn(false).unwrap();
        queue.reap(done);
        for completion in done.drain(..) {
            assert!(completion.outcome.is_success());
            let Op { kind, lba, blocks, user, data, .. } = completion.op;
            // No two are at one block, so none has to wait for another.
            let lba = (lba + DEPTH) % (30 * DEPTH);
            let kind =
                if kind == OpKind::Read { OpKind::Write { fua: false } } else { OpKind::Read };
            ops.push_back(Op::new(kind, lba, blocks, user, data));
            count += 1;
        }
    }
}

/// A device that grants one queue.
struct Single(Device);

impl BlockDevice for Single {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        self.0.renew_size()
    }

    fn features(&self) -> Features {
        self.0.features()
    }

    fn max_queues(&self) -> usize {
        1
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        self.0.open_queue(on, owner)
    }
}

/// Allocations of this thread while a device does 20,000 operations.
fn allocations(url: &str) -> (u64, Option<&'static str>) {
    allocations_of(|_| open(url, &OpenOptions::default()).unwrap())
}

fn allocations_of(make: impl FnOnce(&Handle) -> Device) -> (u64, Option<&'static str>) {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let on = event_loop.handle().clone();
    let owner = on.spawn(|_| Owner);
    let device = make(&on);
    let mut queue = device.open_queue(&on, owner).unwrap();
    let blocks = 4096 / device.geometry().block_bytes;
    let op = |user| {
        Op::new(
            OpKind::Read,
            user,
            blocks,
            user,
            Segments::from_iter([on.pool().take(4096).unwrap().into()]),
        )
    };
    let mut ops: VecDeque<_> = (0..DEPTH).map(op).collect();
    let mut done = Vec::with_capacity(DEPTH as usize);
    let counted = in_a_quiet_window(0, || {
        let before = of_thread();
        keep_busy(&mut event_loop, queue.as_mut(), &mut ops, &mut done, 20_000);
        of_thread() - before
    });
    ops.drain(..).for_each(Op::give_up);
    (counted, on.disk().backend_name())
}

#[test]
fn memory_and_nothing() {
    assert_eq!(allocations("ram:16MiB,block=4096").0, 0);
    assert_eq!(allocations("null:16MiB,block=4096").0, 0);
    assert_eq!(allocations("stats:every=1h,ram:16MiB,block=4096").0, 0);
    assert_eq!(allocations("stripe:ram:8MiB,block=4096,ram:8MiB,block=4096").0, 0);
    assert_eq!(allocations("delay:read=2us,write=1us,depth=8,ram:16MiB,block=4096").0, 0);
}

#[test]
fn a_shared_queue() {
    let shared = |on: &Handle| {
        let device = open("ram:16MiB,block=4096", &OpenOptions::default()).unwrap();
        share(Arc::new(Single(device)), &[on.remote()])
    };
    assert_eq!(allocations_of(shared).0, 0);
}

/// A mirror on the loop that uses it, which writes by itself as soon as the home has marked the
/// region.
#[test]
fn a_mirror() {
    let (_, home, _) = spawn(LoopConfig::default(), |_| ()).unwrap();
    let mirror = |_: &Handle| mirror_of_ram(&home, 32 << 20, 4096).0;
    assert_eq!(allocations_of(mirror).0, 0);
}

/// An operation of several chunks has a part on each member.
#[test]
fn a_stripe_that_cuts_operations() {
    let stripe = "stripe:4KiB,ram:8MiB,block=512,ram:8MiB,block=512";
    assert_eq!(allocations(stripe).0, 0);
}

/// Submissions of operations that come together: a call of the ring for each eight. How often the
/// loop waits for their end depends on how many end together, so nothing is said about that.
#[cfg(target_os = "linux")]
#[test]
fn operations_of_a_file_that_come_together_are_few_calls() {
    for (depth, calls) in [(1, 1), (8, 1), (32, 4)] {
        let path = std::env::temp_dir().join(format!("weft-calls-{}", std::process::id()));
        let url = format!("file:{},size=16MiB,block=4096", path.display());
        let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
        let on = event_loop.handle().clone();
        let owner = on.spawn(|_| Owner);
        let device = open(&url, &OpenOptions::default()).unwrap();
        let mut queue = device.open_queue(&on, owner).unwrap();
        let op = |user| {
            let data = Segments::from_iter([on.pool().take(4096).unwrap().into()]);
            Op::new(OpKind::Read, user, 1, user, data)
        };
        let mut ops: VecDeque<_> = (0..depth).map(op).collect();
        for _ in 0..20 {
            let before = on.counters().snapshot();
            queue.submit(&mut ops);
            let _ = event_loop.turn(false).unwrap();
            let submitted = on.counters().snapshot().since(&before).disk_enters;
            if on.disk().backend_name() == Some("io_uring") {
                assert_eq!(submitted, calls, "{depth} operations");
            }
            let mut done = Vec::new();
            while done.len() < depth as usize {
                let _ = event_loop.turn(false).unwrap();
                queue.reap(&mut done);
            }
            ops.extend(done.into_iter().map(|Completion { op, .. }| {
                Op::new(op.kind, op.lba, op.blocks, op.user, op.data)
            }));
        }
        ops.drain(..).for_each(Op::give_up);
        drop(queue);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn files() {
    let path = std::env::temp_dir().join(format!("weft-allocations-{}", std::process::id()));
    let counted = allocations(&format!("file:{},size=16MiB,block=4096", path.display()));
    std::fs::remove_file(&path).unwrap();
    match counted {
        (count, Some("io_uring")) => assert_eq!(count, 0),
        // A message from the threads is one allocation, for all that they have finished by then.
        (count, _) => assert!(count < 20_000, "{count}"),
    }
}
