//! A load on a queue, whose own memory is all taken before it starts.

use crate::counting::ALLOCATIONS;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_block::{BlockDevice, BlockQueue, Completion, Op, OpKind};
use weft_endpoint::loops::Loops;
use weft_io::{Activity, Driver, Handle, Segments};

/// Operations under way together.
pub const DEPTH: u64 = 32;

/// What a load does.
#[derive(Clone, Copy, Debug)]
pub enum Mix {
    Reads,
    Writes,
    /// In turn.
    Both,
}

/// A load: bytes of an operation, and operations before the measured run and of it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub bytes: u32,
    pub warm_up: u64,
    pub measured: u64,
    pub mix: Mix,
}

/// Keeps the queue full of reads and writes; each uses the memory of the one before.
struct Load {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    shape: Shape,
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
        let read = match self.shape.mix {
            Mix::Reads => true,
            Mix::Writes => false,
            Mix::Both => self.submitted.is_multiple_of(2),
        };
        op.kind = if read { OpKind::Read } else { OpKind::Write { fua: false } };
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
            if self.submitted == self.shape.warm_up {
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

/// Starts a load on a loop. It tells 0 when the measured run begins, and its thread's allocations of that run when it ends.
pub fn start(loops: &Loops, device: &Arc<dyn BlockDevice>, shape: Shape) -> Receiver<u64> {
    let device = Arc::clone(device);
    let (told, result) = channel();
    loops.remotes()[0].post(move |on| {
        on.try_spawn(|id| {
            let queue = device.open_queue(on, id)?;
            let op = |user| {
                let data = Segments::from_iter([on.pool().take(shape.bytes as usize).unwrap().into()]);
                let blocks = shape.bytes / 512;
                Op { kind: OpKind::Write { fua: false }, lba: user * u64::from(blocks), blocks, user, data }
            };
            let ops = (0..DEPTH).map(op).collect();
            let (left, at_start) = (shape.warm_up + shape.measured, 0);
            Ok::<_, weft_block::Error>(Load { queue, ops, done: Vec::new(), shape, left, submitted: 0, told, at_start })
        })
        .unwrap();
    });
    result
}
