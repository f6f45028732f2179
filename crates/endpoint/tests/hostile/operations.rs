//! Operations on a device, and their outcomes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use weft_block::{BlockDevice, BlockQueue, Completion, Op, OpKind, Outcome};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_io::{Activity, Driver, Handle, Segments};
use weft_testing::wait::PATIENCE;

/// Submits operations to a device and collects what comes of them.
struct Runner {
    queue: Box<dyn BlockQueue>,
    ops: VecDeque<Op>,
    give: Sender<(u64, Outcome)>,
    done: Vec<Completion>,
}

impl Driver for Runner {
    fn work(&mut self, _: &Handle) -> Activity {
        if !self.ops.is_empty() {
            self.queue.submit(&mut self.ops);
        }
        self.queue.reap(&mut self.done);
        let activity = Activity::busy_if(!self.done.is_empty());
        for Completion { op, outcome } in self.done.drain(..) {
            self.give.send((op.user, outcome)).unwrap();
        }
        activity
    }
}

/// Operations on a loop of their own.
pub struct Ops {
    /// Dropping it would end the association.
    _device: Arc<dyn BlockDevice>,
    loops: Option<Loops>,
    done: Receiver<(u64, Outcome)>,
}

impl Ops {
    /// Starts an operation for each pair of a kind and a number of blocks.
    pub fn start(device: Arc<dyn BlockDevice>, kinds: Vec<(OpKind, u32)>) -> Self {
        let loops =
            Loops::start(&LoopsConfig { threads: Some(1), ..LoopsConfig::default() }).unwrap();
        let (give, done) = channel();
        let kept = Arc::clone(&device);
        loops.remotes()[0].post(move |on| {
            let make = |(user, (kind, blocks)): (u64, (OpKind, u32))| {
                let bytes = blocks as usize * 512 * kind.data_factor();
                let data = if bytes == 0 {
                    Segments::new()
                } else {
                    Segments::from_iter([on.pool().take(bytes).unwrap().into()])
                };
                Op::new(kind, user * 8, blocks, user, data)
            };
            let ops = (0..).zip(kinds).map(make).collect();
            on.try_spawn(|id| {
                let queue = device.open_queue(on, id)?;
                Ok::<_, weft_block::Error>(Runner { queue, ops, give, done: Vec::new() })
            })
            .unwrap();
        });
        Self { _device: kept, loops: Some(loops), done }
    }

    /// The outcomes of `count` operations, by their number, and nothing more than those.
    pub fn outcomes(self, count: usize) -> Vec<Outcome> {
        let mut all: Vec<_> = (0..count)
            .map(|_| self.done.recv_timeout(PATIENCE).expect("every operation ends"))
            .collect();
        all.sort_by_key(|(user, _)| *user);
        assert!(all.iter().enumerate().all(|(n, (user, _))| n as u64 == *user), "each ends once");
        assert!(self.done.recv_timeout(Duration::from_millis(100)).is_err(), "nothing ends twice");
        all.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

impl Drop for Ops {
    fn drop(&mut self) {
        let result = self.loops.take().unwrap().stop();
        assert!(std::thread::panicking() || result.is_ok());
    }
}
