//! A load on a queue, whose own memory is all taken before it starts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_block::{BlockDevice, BlockQueue, Completion, Op, OpKind};
use weft_endpoint::loops::Loops;
use weft_io::{Activity, Driver, Handle, Segments};
use weft_testing::allocations::{of_thread, uncounted};

/// Operations under way together.
pub const DEPTH: u64 = 32;

/// Operations of a load.
#[derive(Clone, Copy, Debug)]
pub enum Mix {
    Reads,
    Writes,
    /// In turn.
    Both,
}

/// A load: bytes of an operation, and how many operations are looked at together.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub bytes: u32,
    pub window: u64,
    pub mix: Mix,
}

/// Keeps the queue full of reads and writes; each uses the memory of the one before.
struct Load {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    shape: Shape,
    submitted: u64,
    completed: u64,
    told: Sender<u64>,
    /// Allocations of this thread when the window began.
    before: u64,
}

impl Load {
    fn next(&mut self, Op { blocks, user, data, .. }: Op) {
        self.submitted += 1;
        let read = match self.shape.mix {
            Mix::Reads => true,
            Mix::Writes => false,
            Mix::Both => self.submitted.is_multiple_of(2),
        };
        let kind = if read { OpKind::Read } else { OpKind::Write { fua: false } };
        let lba = self.submitted * u64::from(blocks) % 16_384;
        self.ops.push_back(Op::new(kind, lba, blocks, user, data));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

impl Driver for Load {
    fn work(&mut self, _: &Handle) -> Activity {
        self.queue.submit(&mut self.ops);
        let mut done = std::mem::take(&mut self.done);
        self.queue.reap(&mut done);
        let activity = Activity::busy_if(!done.is_empty());
        for Completion { op, outcome } in done.drain(..) {
            assert!(outcome.is_success(), "{outcome:?}");
            self.completed += 1;
            if self.completed.is_multiple_of(self.shape.window) {
                let counted = of_thread() - self.before;
                // Nobody listens any more once the test has seen enough.
                uncounted(|| self.told.send(counted).ok());
                self.before = of_thread();
            }
            self.next(op);
        }
        self.done = done;
        if !self.ops.is_empty() {
            self.queue.submit(&mut self.ops);
        }
        activity
    }
}

/// Starts a load on a loop, which goes on until the loop stops. It tells its thread's allocations
/// of each window; those of the first are more than its own.
pub fn start(loops: &Loops, device: &Arc<dyn BlockDevice>, shape: Shape) -> Receiver<u64> {
    let device = Arc::clone(device);
    let (told, result) = channel();
    loops.remotes()[0].post(move |on| {
        on.try_spawn(|id| {
            let queue = device.open_queue(on, id)?;
            let op = |user| {
                let data =
                    Segments::from_iter([on.pool().take(shape.bytes as usize).unwrap().into()]);
                let blocks = shape.bytes / 512;
                Op::new(OpKind::Write { fua: false }, user * u64::from(blocks), blocks, user, data)
            };
            let ops = (0..DEPTH).map(op).collect();
            Ok::<_, weft_block::Error>(Load {
                queue,
                ops,
                done: Vec::new(),
                shape,
                submitted: 0,
                completed: 0,
                told,
                before: 0,
            })
        })
        .unwrap();
    });
    result
}
