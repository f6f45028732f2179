//! A disk that misbehaves on purpose.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Error, Features, Geometry, Op, OpKind, Outcome, Status,
    StatusKind,
};
use weft_io::{DriverId, Handle};

/// What the misbehaving disk does; it decides by block and by how often the block was written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trick {
    None,
    /// The second write of this block is acknowledged and lost.
    LoseSecondWrite(u64),
    /// What is written to the first goes to the second instead.
    Stray(u64, u64),
    /// A bit of this block flips on its way in.
    Flip(u64),
    /// Operations on this block fail; writes may have been executed.
    Fail(u64),
    /// Takes at most this many operations at once, and completes them in the reverse order.
    Small(usize),
    /// Never completes anything on this block.
    Hang(u64),
}

pub(super) struct Tricky {
    bytes: Arc<Mutex<Vec<u8>>>,
    pub(super) writes: Arc<Mutex<Vec<u32>>>,
    trick: Trick,
    pub(super) submitted: Arc<AtomicU64>,
    /// Kind, first block and blocks of each operation.
    pub(super) log: Log,
    /// Operations that overlapped another one in flight.
    pub(super) overlaps: Arc<AtomicU64>,
}

pub(super) type Log = Arc<Mutex<Vec<(OpKind, u64, u32)>>>;

pub(super) const BLOCK: usize = 512;

impl Tricky {
    pub(super) fn new(blocks: usize, trick: Trick) -> Self {
        Self {
            bytes: Arc::new(Mutex::new(vec![0; blocks * BLOCK])),
            writes: Arc::new(Mutex::new(vec![0; blocks])),
            trick,
            submitted: Arc::default(),
            log: Arc::default(),
            overlaps: Arc::default(),
        }
    }

    /// The same data, behaving otherwise.
    pub(super) fn with(&self, trick: Trick) -> Self {
        Self {
            bytes: self.bytes.clone(),
            writes: self.writes.clone(),
            trick,
            submitted: Arc::default(),
            log: self.log.clone(),
            overlaps: self.overlaps.clone(),
        }
    }
}

impl BlockDevice for Tricky {
    fn url(&self) -> &str {
        "tricky:"
    }

    fn geometry(&self) -> Geometry {
        let blocks = self.writes.lock().unwrap().len() as u64;
        Geometry {
            block_bytes: BLOCK as u32,
            blocks,
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes: 1 << 22,
            atomic: weft_block::Atomicity::ONE_BLOCK,
        }
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        Ok(weft_block::SizeAnswer::Fixed)
    }

    fn features(&self) -> Features {
        Features { write: true, discard: true, ..Features::default() }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let queue = TrickyQueue {
            disk: self.with(self.trick),
            submitted: self.submitted.clone(),
            ready: Vec::new(),
            stuck: Vec::new(),
            on: on.clone(),
            owner,
        };
        Ok(Box::new(queue))
    }
}

struct TrickyQueue {
    disk: Tricky,
    submitted: Arc<AtomicU64>,
    ready: Vec<Completion>,
    stuck: Vec<Op>,
    on: Handle,
    owner: DriverId,
}

impl TrickyQueue {
    fn execute(&mut self, mut op: Op) {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        self.disk.log.lock().unwrap().push((op.kind, op.lba, op.blocks));
        let overlaps = |other: &Completion| {
            let (one, other) = (&op, &other.op);
            one.lba < other.lba + u64::from(other.blocks)
                && other.lba < one.lba + u64::from(one.blocks)
        };
        let overlapping = self.ready.iter().any(overlaps);
        self.disk.overlaps.fetch_add(overlapping.into(), Ordering::Relaxed);
        let covers = |lba: u64| (op.lba..op.lba + u64::from(op.blocks)).contains(&lba);
        match self.disk.trick {
            Trick::Hang(lba) if covers(lba) && op.kind != OpKind::Read => {
                return self.stuck.push(op);
            }
            Trick::Fail(lba) if covers(lba) && op.kind != OpKind::Read => {
                let status = Status::with_raw(StatusKind::Media, weft_block::Raw::Nvme(0x280));
                return self.ready.push(op.done(Outcome::settled(status)));
            }
            _ => {}
        }
        let (mut bytes, mut writes) =
            (self.disk.bytes.lock().unwrap(), self.disk.writes.lock().unwrap());
        let blocks = op.data.iter_mut().flat_map(|segment| segment.chunks_exact_mut(BLOCK));
        for (lba, block) in (op.lba as usize..).zip(blocks) {
            match op.kind {
                OpKind::Read => block.copy_from_slice(&bytes[lba * BLOCK..][..BLOCK]),
                _ => write(&mut bytes, &mut writes, self.disk.trick, lba, block),
            }
        }
        self.ready.push(op.done(Outcome::SUCCESS));
    }
}

fn write(bytes: &mut [u8], writes: &mut [u32], trick: Trick, lba: usize, block: &[u8]) {
    writes[lba] += 1;
    let mut to = lba;
    match trick {
        Trick::LoseSecondWrite(lost) if lost == lba as u64 && writes[lba] == 2 => return,
        Trick::Stray(from, stray) if from == lba as u64 => to = stray as usize,
        Trick::Stray(_, stray) if stray == lba as u64 => return,
        _ => {}
    }
    bytes[to * BLOCK..][..BLOCK].copy_from_slice(block);
    if matches!(trick, Trick::Flip(flipped) if flipped == lba as u64) {
        bytes[to * BLOCK + 100] ^= 4;
    }
}

impl Drop for TrickyQueue {
    fn drop(&mut self) {
        self.stuck.drain(..).for_each(Op::give_up);
    }
}

impl BlockQueue for TrickyQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let room = if let Trick::Small(room) = self.disk.trick { room } else { usize::MAX };
        while self.ready.len() < room
            && let Some(op) = ops.pop_front()
        {
            self.execute(op);
        }
        self.on.wake(self.owner);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.extend(self.ready.drain(..).rev());
    }

    fn cancel(&mut self, _: u64) {}

    fn in_flight(&self) -> usize {
        self.ready.len() + self.stuck.len()
    }
}
