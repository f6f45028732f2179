//! A disk with a volatile cache, which loses what was not flushed when a test says so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use weft_block::{
    Atomicity, BlockDevice, BlockQueue, Completion, Error, Features, Geometry, Op, OpKind, Outcome,
    Status, StatusKind,
};
use weft_io::{DriverId, Handle, RemoteLoop};

type Blocks = BTreeMap<u64, Vec<u8>>;

/// What is durable, and what is in the cache in addition.
struct Contents {
    durable: Blocks,
    cached: Blocks,
    flushes: usize,
    losses: u64,
    /// So many writes fail like this.
    refused: (usize, Status),
    /// Nothing completes, though it is executed.
    held: bool,
    /// What has completed together completes in the reverse order.
    reversed: bool,
    owners: Vec<(RemoteLoop, DriverId)>,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            durable: Blocks::new(),
            cached: Blocks::new(),
            flushes: 0,
            losses: 0,
            refused: (0, Status::SUCCESS),
            held: false,
            reversed: false,
            owners: Vec::new(),
        }
    }
}

#[derive(Clone, Default)]
pub struct Cached(Arc<Mutex<Contents>>);

impl Cached {
    /// Loses what was not flushed.
    pub fn lose(&self) {
        let mut contents = self.0.lock().unwrap();
        contents.cached.clear();
        contents.losses += 1;
    }

    /// Starts again as after a loss, but with all of its data.
    pub fn keep(&self) {
        self.0.lock().unwrap().losses += 1;
    }

    /// Executes operations, and does not complete them.
    pub fn hold(&self) {
        let mut contents = self.0.lock().unwrap();
        (contents.held, contents.reversed) = (true, true);
    }

    /// Completes what was held, in the reverse order of its execution.
    pub fn release(&self) {
        let mut contents = self.0.lock().unwrap();
        contents.held = false;
        for (remote, owner) in &contents.owners {
            remote.wake(*owner);
        }
    }

    /// Makes the next `count` writes fail.
    pub fn refuse(&self, count: usize, kind: StatusKind) {
        self.0.lock().unwrap().refused = (count, Status::new(kind));
    }

    /// Writes that are still to fail.
    pub fn to_refuse(&self) -> usize {
        self.0.lock().unwrap().refused.0
    }

    pub fn flushes(&self) -> usize {
        self.0.lock().unwrap().flushes
    }

    /// The first byte of a block as it is read.
    pub fn value(&self, lba: u64) -> u8 {
        let contents = self.0.lock().unwrap();
        contents.cached.get(&lba).or(contents.durable.get(&lba)).map_or(0, |block| block[0])
    }

    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::new(self.clone())
    }
}

impl BlockDevice for Cached {
    fn url(&self) -> &str {
        "cached:"
    }

    fn geometry(&self) -> Geometry {
        let (blocks, max_transfer_bytes) = (2048, 64 << 10);
        Geometry {
            block_bytes: 512,
            blocks,
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes,
            atomic: Atomicity::ONE_BLOCK,
        }
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        Ok(weft_block::SizeAnswer::Fixed)
    }

    fn features(&self) -> Features {
        Features { write: true, volatile_cache: true, write_zeroes: true, ..Features::default() }
    }

    fn cache_epoch(&self) -> Option<u64> {
        Some(self.0.lock().unwrap().losses)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        self.0.lock().unwrap().owners.push((on.remote(), owner));
        Ok(Box::new(CachedQueue { contents: Arc::clone(&self.0), done: Vec::new() }))
    }
}

struct CachedQueue {
    contents: Arc<Mutex<Contents>>,
    done: Vec<Completion>,
}

fn execute(contents: &mut Contents, op: &mut Op) -> Outcome {
    let blocks = op.lba..op.lba + u64::from(op.blocks);
    if op.kind.is_write() && contents.refused.0 > 0 {
        contents.refused.0 -= 1;
        return Outcome::Done(contents.refused.1);
    }
    match op.kind {
        OpKind::Read => {
            let bytes: Vec<u8> = blocks
                .flat_map(|lba| {
                    contents
                        .cached
                        .get(&lba)
                        .or(contents.durable.get(&lba))
                        .cloned()
                        .unwrap_or(vec![0; 512])
                })
                .collect();
            let mut rest = &bytes[..];
            for segment in &mut op.data {
                let (first, after) = rest.split_at(segment.len());
                segment.copy_from_slice(first);
                rest = after;
            }
        }
        OpKind::Write { fua } => {
            let bytes: Vec<u8> = op.data.iter().flat_map(|segment| segment.to_vec()).collect();
            store(contents, blocks, fua, |n| bytes[n * 512..][..512].to_vec());
        }
        OpKind::WriteZeroes { fua, .. } => store(contents, blocks, fua, |_| vec![0; 512]),
        OpKind::Flush => {
            contents.flushes += 1;
            let cached = core::mem::take(&mut contents.cached);
            contents.durable.extend(cached);
        }
        _ => return Outcome::Done(Status::new(StatusKind::Unsupported)),
    }
    Outcome::SUCCESS
}

fn store(
    contents: &mut Contents,
    blocks: std::ops::Range<u64>,
    durable: bool,
    bytes: impl Fn(usize) -> Vec<u8>,
) {
    for (n, lba) in blocks.enumerate() {
        if durable {
            contents.cached.remove(&lba);
            contents.durable.insert(lba, bytes(n));
        } else {
            contents.cached.insert(lba, bytes(n));
        }
    }
}

impl BlockQueue for CachedQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let contents = &mut *self.contents.lock().unwrap();
        for mut op in ops.drain(..) {
            let outcome = execute(contents, &mut op);
            self.done.push(op.done(outcome));
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let contents = self.contents.lock().unwrap();
        if contents.held {
            return;
        }
        if contents.reversed {
            self.done.reverse();
        }
        done.append(&mut self.done);
    }

    fn cancel(&mut self, _: u64) {}

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}
