//! An operation on a local device allocates nothing: counted by an allocator of this program's own.

#![allow(clippy::missing_const_for_thread_local, reason = "it is const; for Windows the lint overlooks that")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use weft_block::{BlockQueue, Op, OpKind, OpenOptions, open};
use weft_io::{Activity, Driver, Handle, Loop, LoopConfig, Segments};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator; counts what each thread asks of it.
struct Counting;

fn count() {
    // A thread that is ending has no counter any more; nobody asks for it.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came; counting touches a thread-local without a destructor and
// does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`; `ptr` came from `System`, as all of ours do.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DEPTH: u64 = 32;

struct Owner;

impl Driver for Owner {
    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// Keeps `DEPTH` operations in flight until so many are done: reads and writes by turns.
fn keep_busy(event_loop: &mut Loop, queue: &mut dyn BlockQueue, ops: &mut VecDeque<Op>, total: u64) {
    let mut done = Vec::with_capacity(DEPTH as usize);
    let mut count = 0;
    while count < total {
        queue.submit(ops);
        let _ = event_loop.turn(false).unwrap();
        queue.reap(&mut done);
        for completion in done.drain(..) {
            assert!(completion.outcome.is_success());
            let mut op = completion.op;
            // No two are at one block, so none has to wait for another.
            op.lba = (op.lba + DEPTH) % (30 * DEPTH);
            op.kind = if op.kind == OpKind::Read { OpKind::Write { fua: false } } else { OpKind::Read };
            ops.push_back(op);
            count += 1;
        }
    }
}

/// Allocations of this thread while a device does 20,000 operations, after as many to warm up.
fn allocations(url: &str) -> (u64, Option<&'static str>) {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let on = event_loop.handle().clone();
    let owner = on.spawn(|_| Owner);
    let device = open(url, &OpenOptions::default()).unwrap();
    let mut queue = device.open_queue(&on, owner).unwrap();
    let op =
        |user| Op { data: Segments::from_iter([on.pool().take(4096).unwrap().into()]), ..Op::bare(OpKind::Read, user, 1, user) };
    let mut ops: VecDeque<_> = (0..DEPTH).map(op).collect();
    keep_busy(&mut event_loop, queue.as_mut(), &mut ops, 20_000);
    let before = ALLOCATIONS.get();
    keep_busy(&mut event_loop, queue.as_mut(), &mut ops, 20_000);
    (ALLOCATIONS.get() - before, on.disk().backend_name())
}

#[test]
fn memory_and_nothing() {
    // The list in `keep_busy` is one.
    assert_eq!(allocations("ram:16MiB,block=4096").0, 1);
    assert_eq!(allocations("null:16MiB,block=4096").0, 1);
}

#[test]
fn files() {
    let path = std::env::temp_dir().join(format!("weft-allocations-{}", std::process::id()));
    let counted = allocations(&format!("file:{},size=16MiB,block=4096", path.display()));
    std::fs::remove_file(&path).unwrap();
    match counted {
        (count, Some("io_uring")) => assert_eq!(count, 1),
        // A message from the threads is one allocation, for all that they have finished by then.
        (count, _) => assert!(count < 20_000, "{count}"),
    }
}
