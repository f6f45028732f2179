//! Memory of a file beyond that of the submitters: it is bounded for the file, however many queues
//! it has.

use crate::scratch::Scratch;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_block::limits::{FILE_SCRATCH_OPS, MAX_TRANSFER_BYTES};
use weft_block::{BlockQueue, Completion, Op, OpKind, OpenOptions, StatusKind, open};
use weft_io::{Activity, Driver, Handle, Loop, LoopConfig, Pool, Segments};

const QUEUES: usize = 40;
const POOL_BYTES: usize = 1 << 20;
const BYTES: usize = MAX_TRANSFER_BYTES as usize;

/// Counts of all queues.
#[derive(Default)]
struct Tally {
    compared: Cell<usize>,
    most_bytes: Cell<usize>,
}

/// A connection's part: a queue of its own, reaped when it is woken.
struct Comparer {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    tally: Rc<Tally>,
}

impl Driver for Comparer {
    fn work(&mut self, on: &Handle) -> Activity {
        self.queue.submit(&mut self.ops);
        self.tally.most_bytes.set(self.tally.most_bytes.get().max(on.pool().allocated_bytes()));
        self.queue.reap(&mut self.done);
        for completion in self.done.drain(..) {
            // Every byte is zero; what is compared with is not, but for one in two.
            let expected = if completion.op.user == 0 {
                StatusKind::Success
            } else {
                StatusKind::CompareFailed
            };
            assert_eq!(completion.outcome.status().kind, expected);
            self.tally.compared.set(self.tally.compared.get() + 1);
        }
        Activity::Idle
    }
}

#[test]
fn comparisons_of_many_connections_take_what_the_file_allows() {
    let scratch = Scratch::new();
    let device = open(&scratch.url("size=4MiB"), &OpenOptions::default()).unwrap();
    let mut event_loop =
        Loop::new(LoopConfig { pool_bytes: POOL_BYTES, ..LoopConfig::default() }).unwrap();
    let on = event_loop.handle().clone();
    // Each host's own: what it compares with is not what this is about.
    let hosts = Pool::new(QUEUES * 2 * BYTES);
    let tally = Rc::<Tally>::default();
    for _ in 0..QUEUES {
        on.spawn(|id| {
            let ops = (0..2).map(|user| {
                let mut data = hosts.take(BYTES).unwrap();
                data.fill(user as u8);
                Op::new(
                    OpKind::Compare,
                    0,
                    (BYTES / 512) as u32,
                    user,
                    Segments::from_iter([data.into()]),
                )
            });
            let (queue, ops) = (device.open_queue(&on, id).unwrap(), ops.collect());
            on.wake(id);
            Comparer { queue, ops, done: Vec::new(), tally: Rc::clone(&tally) }
        });
    }
    while tally.compared.get() < QUEUES * 2 {
        let _ = event_loop.turn(true).unwrap();
    }
    let most = tally.most_bytes.get();
    assert!(most > POOL_BYTES, "it went beyond the cap: {most}");
    assert!(most <= POOL_BYTES + FILE_SCRATCH_OPS * BYTES, "{most}");
}
