//! A disk that keeps what was written to it, in the order in which it came.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use weft_block::{
    Atomicity, BlockDevice, BlockQueue, Completion, Error, Features, Geometry, Op, OpKind, Outcome,
    SizeAnswer,
};
use weft_io::{DriverId, Handle};

/// What reads of it return: it forgets where anything was written.
pub(super) const READ: u8 = 7;

#[derive(Default)]
pub(super) struct Kept(Arc<Mutex<Vec<Vec<u8>>>>);

impl Kept {
    /// The payloads of all writes.
    pub(super) fn writes(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().clone()
    }
}

impl BlockDevice for Kept {
    fn url(&self) -> &str {
        "kept:"
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            block_bytes: 512,
            blocks: 64 << 11,
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes: 4 << 20,
            atomic: Atomicity::ONE_BLOCK,
        }
    }

    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        Ok(SizeAnswer::Fixed)
    }

    fn features(&self) -> Features {
        Features { write: true, ..Features::default() }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let writes = Arc::clone(&self.0);
        Ok(Box::new(KeptQueue { writes, ready: Vec::new(), on: on.clone(), owner }))
    }
}

struct KeptQueue {
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
    ready: Vec<Completion>,
    on: Handle,
    owner: DriverId,
}

impl BlockQueue for KeptQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        for mut op in ops.drain(..) {
            match op.kind {
                OpKind::Read => op.data.iter_mut().for_each(|part| part.fill(READ)),
                _ => {
                    let bytes = op.data.iter().flat_map(|part| part.iter().copied()).collect();
                    self.writes.lock().unwrap().push(bytes);
                }
            }
            self.ready.push(op.done(Outcome::SUCCESS));
        }
        self.on.wake(self.owner);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
    }

    fn cancel(&mut self, _: u64) {}

    fn in_flight(&self) -> usize {
        self.ready.len()
    }
}
