//! Reads and writes through source and export, in one process: no allocation for any of them. Counted by an allocator of this
//! program's own.

#![allow(clippy::missing_const_for_thread_local, reason = "it is const; for Windows the lint overlooks that")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use weft_block::{BlockDevice, BlockQueue, Completion, Op, OpKind, OpenOptions};
use weft_endpoint::export::iscsi::Settings;
use weft_endpoint::export::{self, ExportConfig, Exports, Named};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::loops::{Loops, LoopsConfig, ask};
use weft_endpoint::source::iscsi::IscsiOptions;
use weft_endpoint::{ConnectOptions, TlsFiles, open};
use weft_io::{Activity, Driver, Handle, Segments};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Id128, Nqn};

const NQN: &str = "nqn.2026-01.example.weft:allocations";

/// Bytes of an operation, and operations before the measured run and of it: those that are copied, and those that are not.
const SHAPES: [(u32, u64, u64); 2] = [(4096, 10_000, 100_000), (65_536, 2_000, 10_000)];

/// Operations under way together.
const DEPTH: u64 = 32;

/// Allocations that all of them may cost together: none, but for the poller's own tables on Windows.
const GROWTH: u64 = if cfg!(windows) { 50 } else { 0 };

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

/// Keeps the queue full of reads and writes; each uses the memory of the one before.
struct Load {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    warm_up: u64,
    left: u64,
    submitted: u64,
    told: Sender<u64>,
    /// Allocations of this thread when the warm-up was over.
    at_start: u64,
}

impl Load {
    fn next(&mut self, mut op: Op) {
        self.left -= 1;
        self.submitted += 1;
        op.kind = if self.submitted.is_multiple_of(2) { OpKind::Read } else { OpKind::Write { fua: false } };
        op.lba = self.submitted * u64::from(op.blocks) % 16_384;
        self.ops.push_back(op);
    }
}

impl Driver for Load {
    fn work(&mut self, _: &Handle) -> Activity {
        self.queue.submit(&mut self.ops);
        let mut done = std::mem::take(&mut self.done);
        self.queue.reap(&mut done);
        let activity = Activity::busy_if(!done.is_empty());
        for Completion { op, outcome } in done.drain(..) {
            // What is left behind the last measured one may meet the end of the test.
            assert!(outcome.is_success() || self.left == u64::MAX, "{outcome:?}");
            if self.submitted == self.warm_up {
                self.told.send(0).unwrap();
                self.at_start = ALLOCATIONS.get();
            }
            match self.left {
                0 => {
                    self.left = u64::MAX;
                    self.told.send(ALLOCATIONS.get() - self.at_start).unwrap();
                }
                u64::MAX => {}
                _ => self.next(op),
            }
        }
        self.done = done;
        if !self.ops.is_empty() {
            self.queue.submit(&mut self.ops);
        }
        activity
    }
}

fn start(loops: &Loops, device: &Arc<dyn BlockDevice>, (bytes, warm_up, ops_measured): (u32, u64, u64)) -> Receiver<u64> {
    let device = Arc::clone(device);
    let (told, result) = channel();
    loops.remotes()[0].post(move |on| {
        on.try_spawn(|id| {
            let queue = device.open_queue(on, id)?;
            let op = |user| {
                let data = Segments::from_iter([on.pool().take(bytes as usize).unwrap().into()]);
                let blocks = bytes / 512;
                Op { kind: OpKind::Write { fua: false }, lba: user * u64::from(blocks), blocks, user, data }
            };
            let ops = (0..DEPTH).map(op).collect();
            let (left, at_start) = (warm_up + ops_measured, 0);
            Ok::<_, weft_block::Error>(Load { queue, ops, done: Vec::new(), warm_up, left, submitted: 0, told, at_start })
        })
        .unwrap();
    });
    result
}

/// Allocations of a loop's thread so far, those for this answer not included.
fn allocations(of: &weft_io::Remote) -> u64 {
    ask(of, |_| ALLOCATIONS.get()).unwrap()
}

/// Serves a RAM disk by one protocol.
fn serve(listen: &str, on: &Loops) -> Exports {
    let name = Name::new("iqn.2026-01.example.weft:allocations").unwrap();
    let device = weft_block::open("ram:16MiB", &OpenOptions::default()).unwrap();
    let config = ExportConfig {
        devices: vec![Named { name: "1".into(), device }],
        subsystem: Nqn::new(NQN).unwrap(),
        allow_hosts: None,
        iscsi: Settings { name: Some(name), ..Settings::default() },
        tls: TlsFiles::default(),
    };
    export::start(&config, &[listen.to_owned()], on.remotes()).unwrap()
}

/// Without keep alive, whose commands may allocate.
fn options(digests: bool) -> ConnectOptions {
    let host = HostIdentity { nqn: Nqn::new("nqn.2026-01.example.host:allocations").unwrap(), id: Id128([1; 16]) };
    let initiator_name = Some(Name::new("iqn.2026-01.example.host:allocations").unwrap());
    ConnectOptions {
        host: Some(host),
        keep_alive_ms: 0,
        hdr_digest: digests,
        data_digest: digests,
        iscsi: IscsiOptions { initiator_name, ..IscsiOptions::default() },
        ..ConnectOptions::default()
    }
}

fn nothing_is_allocated(listen: &str) {
    for (shape, digests) in SHAPES.into_iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let served = Loops::start(&LoopsConfig { threads: Some(1), ..LoopsConfig::default() }).unwrap();
        let exports = serve(listen, &served);
        let device = open(&exports.urls()[0], &options(digests)).unwrap();
        let client = Loops::start(&LoopsConfig { threads: Some(1), ..LoopsConfig::default() }).unwrap();
        let run = start(&client, &device, shape);
        run.recv_timeout(Duration::from_secs(120)).expect("the warm-up ends");
        let before = allocations(&served.remotes()[0]);
        let of_source = run.recv_timeout(Duration::from_secs(120)).expect("the run ends");
        let of_target = allocations(&served.remotes()[0]) - before;
        println!("{listen}: {of_source} of the source, {of_target} of the target, {} bytes, digests {digests}", shape.0);
        assert!((0..=GROWTH).contains(&of_source), "{of_source} allocations of the source");
        // What the first question took is its own.
        assert!((0..=GROWTH + 4).contains(&of_target), "{of_target} allocations of the target");
    }
}

#[test]
fn reads_and_writes_over_nvme_tcp_allocate_nothing() {
    nothing_is_allocated("nvme+tcp://127.0.0.1:0");
}

#[test]
fn reads_and_writes_over_iscsi_allocate_nothing() {
    nothing_is_allocated("iscsi://127.0.0.1:0");
}
