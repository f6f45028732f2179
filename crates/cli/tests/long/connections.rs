//! Thousands of connections from one initiator to one target, all at work: what they cost in memory
//! and in processor time.

use crate::process::{self, Holds, cpu, own};
use crate::support::{Scratch, Server};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use weft_block::{BlockDevice, BlockQueue, Completion, Op, OpKind};
use weft_endpoint::loops::Loops;
use weft_endpoint::{ConnectOptions, open};
use weft_io::{Activity, Driver, Handle};
use weft_testing::wait::until;

/// Bytes of an operation.
const BYTES: u32 = 4096;

/// How many connections, and how much they do.
struct Size {
    /// Associations of the one host; each has an admin connection, too.
    associations: usize,
    /// I/O connections of each: a target grants 128 at most.
    queues: u16,
    /// Operations of each I/O connection that are waited for.
    operations: u64,
    /// How long all is quiet afterwards.
    quiet: Duration,
}

impl Size {
    fn connections(&self) -> usize {
        self.associations * (1 + usize::from(self.queues))
    }
}

/// What the loads of all connections share.
#[derive(Default)]
struct Shared {
    pause: AtomicBool,
    counts: Vec<AtomicU64>,
}

impl Shared {
    fn least(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).min().unwrap_or(0)
    }

    fn sum(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// One operation under way at a time: reads and writes in turn.
struct Load {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    nth: usize,
    shared: Arc<Shared>,
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
            let nth = self.shared.counts[self.nth].fetch_add(1, Relaxed);
            let kind =
                if nth.is_multiple_of(2) { OpKind::Read } else { OpKind::Write { fua: false } };
            self.ops.push_back(Op::new(kind, op.lba, op.blocks, op.user, op.data));
        }
        if !self.shared.pause.load(Relaxed) {
            self.queue.submit(&mut self.ops);
        }
        activity
    }
}

/// Puts a load on a queue of its own.
fn start(loops: &Loops, device: &Arc<dyn BlockDevice>, nth: usize, shared: &Arc<Shared>) {
    let (device, shared) = (Arc::clone(device), Arc::clone(shared));
    loops.remotes()[nth % loops.remotes().len()].post(move |on| {
        on.try_spawn(|id| {
            let queue = device.open_queue(on, id)?;
            let data = [on.pool().take(BYTES as usize).unwrap().into()].into_iter().collect();
            let blocks = BYTES / 512;
            let ops = [Op::new(
                OpKind::Write { fua: false },
                nth as u64 * u64::from(blocks),
                blocks,
                0,
                data,
            )]
            .into();
            Ok::<_, weft_block::Error>(Load { queue, ops, done: Vec::new(), nth, shared })
        })
        .unwrap();
    });
}

/// Prints what a process holds for each connection, and has spent for each operation.
fn print_costs(
    who: &str,
    connections: usize,
    [before, after]: [Holds; 2],
    spent: Duration,
    operations: u64,
    quiet: Duration,
) {
    let memory = after.memory_kib.saturating_sub(before.memory_kib);
    println!(
        "{who}: {} MiB more memory, {:.1} KiB a connection; {:.1} µs of processor time an operation; {} ms in the quiet time; {} threads",
        memory >> 10,
        memory as f64 / connections as f64,
        spent.as_secs_f64() * 1e6 / operations as f64,
        quiet.as_millis(),
        after.threads,
    );
}

fn options(size: &Size) -> ConnectOptions {
    ConnectOptions {
        nr_io_queues: size.queues,
        keep_alive_ms: 60_000,
        connect_timeout: Duration::from_secs(120),
        io_timeout: Duration::from_secs(120),
        ..ConnectOptions::default()
    }
}

fn all_work(size: &Size) {
    let connections = size.connections();
    if let Err(why) = process::descriptors(connections as u64 + 500) {
        return weft_testing::skip(why);
    }
    let dir = Scratch::new("connections");
    let server =
        Server::start(dir.path(), &["ram:64MiB", "--nqn", "nqn.2026-01.example.weft:many"]);
    let pids = [server.pid(), own()];
    let loops = process::loops(2);
    let (before, listening) = (pids.map(Holds::of), process::sockets(server.pid()));
    let options = options(size);
    let devices: Vec<_> =
        (0..size.associations).map(|_| open(server.url(), &options).unwrap()).collect();
    let count = size.associations * usize::from(size.queues);
    let shared = Arc::new(Shared {
        counts: (0..count).map(|_| AtomicU64::new(0)).collect(),
        ..Shared::default()
    });
    (0..count)
        .for_each(|nth| start(&loops, &devices[nth / usize::from(size.queues)], nth, &shared));
    until("each connection has done something", || shared.least() > 0);
    let (start, cpu_before, done_before) = (Instant::now(), pids.map(cpu), shared.sum());
    let enough = shared.least() + size.operations;
    until("each connection has done enough", || shared.least() >= enough);
    let (elapsed, operations) = (start.elapsed(), shared.sum() - done_before);
    let (spent, after) = (pids.map(cpu), pids.map(Holds::of));
    let sockets = process::sockets(server.pid()) - listening;
    assert!(sockets >= connections, "the target has {sockets} connections of {connections}");
    shared.pause.store(true, Relaxed);
    let busy = pids.map(cpu);
    std::thread::sleep(size.quiet);
    let quiet = pids.map(cpu);
    println!();
    println!(
        "{connections} connections of one host ({} associations with {} I/O queues)",
        size.associations, size.queues
    );
    println!(
        "{operations} operations of 4 KiB, depth 1 on each connection, at least {} on each: {:.0} a second",
        shared.least(),
        operations as f64 / elapsed.as_secs_f64()
    );
    println!("quiet time: {:.1} s", size.quiet.as_secs_f64());
    for (n, who) in ["target", "initiator"].into_iter().enumerate() {
        let (spent, quiet) = (spent[n] - cpu_before[n], quiet[n] - busy[n]);
        print_costs(who, connections, [before[n], after[n]], spent, operations, quiet);
    }
    loops.stop().unwrap();
    drop(devices);
    options.control.finish();
    until("the target has closed all connections", || process::sockets(server.pid()) <= listening);
}

#[test]
fn forty_connections_of_one_host_all_work() {
    all_work(&Size { associations: 4, queues: 9, operations: 20, quiet: Duration::ZERO });
}

#[test]
#[ignore = "long: cargo xtask long connections"]
fn two_thousand_connections_of_one_host_all_work() {
    all_work(&Size {
        associations: 16,
        queues: 125,
        operations: 200,
        quiet: Duration::from_secs(10),
    });
}
