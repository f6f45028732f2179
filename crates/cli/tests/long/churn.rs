//! Hosts that connect, read a block and disconnect, again and again: nothing grows, neither in the
//! target nor in the initiator.

use crate::process::{self, Holds, own};
use crate::support::{Scratch, Server};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use weft_block::{BlockQueue, Completion, Op, OpKind};
use weft_endpoint::{ConnectOptions, PathOptions, open};
use weft_io::{Activity, Driver, Handle, RemoteLoop};
use weft_testing::wait::until;

const LISTEN: [&str; 3] = ["nvme+tcp://127.0.0.1:0", "iscsi://127.0.0.1:0", "nbd://127.0.0.1:0"];

/// Memory that a process may have more at the end than in between: pages that the allocator happens
/// to touch, far less than a leak of a hundred bytes for each of ten thousand times.
const GROWTH_KIB: u64 = 768;

/// Reads one block, and is done.
struct Once {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    told: Sender<bool>,
}

impl Drop for Once {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

impl Driver for Once {
    fn work(&mut self, _: &Handle) -> Activity {
        self.queue.submit(&mut self.ops);
        self.queue.reap(&mut self.done);
        let activity = Activity::busy_if(!self.done.is_empty());
        for completion in self.done.drain(..) {
            // Who has given up does not listen.
            let _ = self.told.send(completion.outcome.is_success());
        }
        activity
    }
}

/// One host that comes, reads and goes.
pub fn visit(url: &str, options: &ConnectOptions, on: &RemoteLoop) {
    let device = open(url, options).unwrap();
    let (told, result) = channel();
    let (give, driver) = channel();
    let read = Arc::clone(&device);
    on.post(move |on| {
        let once = on.try_spawn(|id| {
            let data = [on.pool().take(512).unwrap().into()].into_iter().collect();
            let ops = [Op::new(OpKind::Read, 0, 1, 0, data)].into();
            Ok::<_, weft_block::Error>(Once {
                queue: read.open_queue(on, id)?,
                ops,
                done: Vec::new(),
                told,
            })
        });
        let _ = give.send(once.unwrap());
    });
    let driver = driver.recv().unwrap();
    assert!(result.recv().unwrap(), "the block is read");
    on.post(move |on| on.remove(driver));
    drop(device);
}

/// Waits until process `pid` has at most as many descriptors as `before`, prints the names of
/// those that stay open, and returns what the process holds.
fn settled(pid: u32, before: Holds) -> Holds {
    let mut named = false;
    until("the descriptors are at most as many as after half of the connections", || {
        let more = Holds::of(pid).descriptors > before.descriptors;
        if more && !core::mem::replace(&mut named, true) {
            println!("open in {pid}: {}", process::descriptors_of(pid).join(", "));
        }
        !more
    });
    Holds::of(pid)
}

fn come_and_go(listen: &str, times: usize) {
    let dir = Scratch::new(&format!("churn-{}", &listen[..3]));
    let server = Server::start(dir.path(), &["ram:16MiB", "--listen", listen, "--threads", "1"]);
    let loops = process::loops(1);
    let options = ConnectOptions {
        paths: PathOptions::once(),
        connect_timeout: Duration::from_secs(60),
        ..ConnectOptions::default()
    };
    let pids = [server.pid(), own()];
    let before = pids.map(Holds::of);
    // Tests beside a short one have connections and threads in this process, too.
    let alone = times > 1000;
    let round = || {
        (0..times / 2).for_each(|_| visit(server.url(), &options, &loops.remotes()[0]));
        options.control.finish();
        until("the target has closed its connections", || {
            Holds::of(server.pid()).descriptors <= before[0].descriptors
        });
        if alone {
            until("the initiator has closed its connections", || process::sockets(own()) == 0);
        }
        pids.map(Holds::of)
    };
    let half = round();
    let whole = round();
    // What is open for a moment only is no leak; a leak stays. The target closes the last
    // connections of a round when it hears that they ended.
    let whole =
        [settled(pids[0], half[0]), if alone { settled(pids[1], half[1]) } else { whole[1] }];
    println!();
    for (n, who) in ["target", "initiator"].into_iter().enumerate() {
        let [from, to] = [half[n], whole[n]];
        println!(
            "{}, {who}, after {} and {times} connections: {} and {} descriptors, {} and {} threads, {} and {} KiB",
            listen.split(':').next().unwrap_or(listen),
            times / 2,
            from.descriptors,
            to.descriptors,
            from.threads,
            to.threads,
            from.memory_kib,
            to.memory_kib
        );
        if who == "target" || alone {
            assert_nothing_grew(&format!("{listen}: {who}"), from, to);
        }
    }
}

/// Compares what a process holds after half of the connections and after all of them.
fn assert_nothing_grew(who: &str, from: Holds, to: Holds) {
    // What was open for a moment only at first is less later.
    let is_no_more = to.descriptors <= from.descriptors && to.threads <= from.threads;
    assert!(is_no_more, "{who}: {from:?}, {to:?}");
    assert!(to.memory_kib <= from.memory_kib + GROWTH_KIB, "{who}: {from:?}, {to:?}");
}

#[test]
fn a_hundred_visits_leave_nothing_behind() {
    LISTEN.iter().for_each(|listen| come_and_go(listen, 100));
}

#[test]
#[ignore = "long: cargo xtask long visits"]
fn ten_thousand_visits_leave_nothing_behind() {
    for (listen, times) in LISTEN.into_iter().zip([10_000, 4_000, 4_000]) {
        come_and_go(listen, times);
    }
}
