//! `ram:SIZE`: a RAM disk.
//!
//! Its blocks are in a [`Region`], which all queues access concurrently: a block is never torn, and
//! compare-and-write is atomic over its range. Operations execute within [`BlockQueue::submit`];
//! their completions wait for [`BlockQueue::reap`] without waking the owner, who reaps after
//! submitting anyway. Only discards and write-zeroes are executed by `reap`,
//! [`limits::RAM_ZERO_BYTES_PER_STEP`] at a time, so that a long one does not block the loop.
//!
//! Memory is allocated as blocks are written, in huge pages if the system has them; discards free
//! it. The data lasts as long as the device is open, and so does the UUID, unless `uuid=` sets it.

use crate::device::{BlockDevice, BlockQueue, Features, Geometry, Identity, InPlace, SizeAnswer};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use crate::outcome::status::{Status, StatusKind};
use crate::queue::spare;
use crate::url::parts::UrlParts;
use crate::{check, limits};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;
use weft_io::region::{Lender, Region};
use weft_io::{DriverId, Handle, Segment, Segments};

/// Bytes that are zeroed at a time.
const PIECE_BYTES: u64 = 2 << 20;

/// A RAM disk.
pub struct Ram {
    url: String,
    region: Arc<Region>,
    geometry: Geometry,
    uuid: Uuid,
    /// Another number each time it is opened.
    epoch: u64,
}

const FEATURES: Features = Features {
    write: true,
    // A power failure loses everything; a flush would change nothing.
    volatile_cache: false,
    cache_unknown: false,
    discard: true,
    discard_zeroes: true,
    write_zeroes: true,
    compare: true,
    reservations: false,
};

impl Ram {
    /// Bytes of a block, blocks, and the UUID that is given.
    pub(crate) fn parse(url: &str, rest: &str) -> Result<(u32, u64, Option<Uuid>), Error> {
        let (size, mut spec) = UrlParts::source(url, rest);
        let (block_bytes, blocks) = spec.sized(size)?;
        let (uuid, is_known) = (spec.uuid()?, spec.switch("volatile")? == Some(true));
        if let Some(uuid) = uuid.filter(|_| !is_known) {
            let why = "a RAM disk is empty after a restart, and hosts would take it for the same disk; add volatile=on if that is fine";
            return Err(spec.wrong(Refusal::OptionValue {
                name: "uuid",
                value: uuid.to_string(),
                why: why.into(),
            }));
        }
        spec.finish()?;
        Ok((block_bytes, blocks, uuid))
    }

    /// Opens `ram:SIZE[,block=512|4096][,uuid=…,volatile=on]`; `rest` is the part after `ram:`. A
    /// fixed UUID would let hosts take an empty disk, after a restart, for the one that they know;
    /// so it needs the consent of `volatile=on`.
    pub(crate) fn open(url: &str, rest: &str) -> Result<Self, Error> {
        let (block_bytes, blocks, uuid) = Self::parse(url, rest)?;
        let uuid = uuid.unwrap_or_else(Uuid::new_v4);
        let bytes = blocks * u64::from(block_bytes);
        let region = usize::try_from(bytes)
            .ok()
            .and_then(|len| Region::new(len).ok())
            .ok_or_else(|| Error::refused(url, Refusal::NoMemory { bytes }))?;
        let geometry = Geometry {
            block_bytes,
            blocks,
            padding_bytes: 0,
            optimal_blocks: 4096 / block_bytes,
            max_transfer_bytes: limits::MAX_TRANSFER_BYTES,
            atomic: crate::device::Atomicity::local(block_bytes),
        };
        Ok(Self {
            url: url.into(),
            region: Arc::new(region),
            geometry,
            uuid,
            epoch: weft_io::random::number(),
        })
    }
}

impl BlockDevice for Ram {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        Ok(SizeAnswer::Fixed)
    }

    fn features(&self) -> Features {
        FEATURES
    }

    fn identity(&self) -> Identity {
        Identity {
            uuid: Some(self.uuid),
            model: Some("weft RAM disk".into()),
            ..Identity::default()
        }
    }

    /// Written data is lost with the process.
    fn cache_epoch(&self) -> Option<u64> {
        Some(self.epoch)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(RamQueue {
            lender: Lender::new(Arc::clone(&self.region)),
            region: Arc::clone(&self.region),
            geometry: self.geometry,
            ready: Vec::new(),
            slow: VecDeque::new(),
            refused: false,
            on: on.clone(),
            owner,
        }))
    }
}

struct RamQueue {
    region: Arc<Region>,
    lender: Rc<Lender>,
    geometry: Geometry,
    ready: Vec<Completion>,
    /// Long ranges being zeroed, with the number of bytes done.
    slow: VecDeque<(Op, u64)>,
    /// `submit` left operations with the caller.
    refused: bool,
    on: Handle,
    owner: DriverId,
}

impl RamQueue {
    #[inline]
    fn execute(&mut self, mut op: Op) {
        if let Some(status) = check::refusal(&op, &self.geometry, &FEATURES) {
            return self.ready.push(op.done(Outcome::Done(status)));
        }
        // The region's length is a `usize`, and the operation is within it.
        let at = (op.lba * u64::from(self.geometry.block_bytes)) as usize;
        let equal = match op.kind {
            OpKind::Read => {
                self.copied(&op);
                self.region.read(at, &mut op.data);
                true
            }
            OpKind::Write { .. } => {
                if op.data.iter().any(|segment| matches!(segment, Segment::Frame(_))) {
                    self.region.adopt(at, &mut op.data);
                } else {
                    self.copied(&op);
                    self.region.write(at, &op.data);
                }
                true
            }
            OpKind::Flush => true,
            OpKind::Compare => self.region.compare(at, &op.data),
            OpKind::CompareAndWrite { .. } => self.region.compare_and_write(at, &op.data),
            OpKind::Reserve(_) | OpKind::ReservationReport => {
                unreachable!("memory has no reservations, so they were refused")
            }
            OpKind::Discard | OpKind::WriteZeroes { .. } => {
                return self.slow.push_back((op, 0));
            }
        };
        let outcome = if equal {
            Outcome::SUCCESS
        } else {
            Outcome::Done(Status::new(StatusKind::CompareFailed))
        };
        self.ready.push(op.done(outcome));
    }

    fn copied(&self, op: &Op) {
        self.on
            .counters()
            .copied_bytes
            .add(u64::from(op.blocks) * u64::from(self.geometry.block_bytes));
    }

    /// Position of blocks that exist.
    #[inline]
    fn range(&self, lba: u64, blocks: u32) -> Option<(usize, usize)> {
        let block = u64::from(self.geometry.block_bytes);
        let exist =
            lba.checked_add(u64::from(blocks)).is_some_and(|end| end <= self.geometry.blocks);
        exist.then(|| ((lba * block) as usize, blocks as usize * block as usize))
    }

    /// Zeroes up to this many bytes of the waiting ranges; wakes the owner if some are left.
    fn zero_some(&mut self) {
        let block = u64::from(self.geometry.block_bytes);
        let mut budget = limits::RAM_ZERO_BYTES_PER_STEP;
        while budget > 0
            && let Some((op, done)) = self.slow.front_mut()
        {
            let total = u64::from(op.blocks) * block;
            let at = op.lba * block + *done;
            // Pieces end at whole huge pages, which can be freed.
            let len = (total - *done).min(budget).min(PIECE_BYTES - at % PIECE_BYTES);
            match op.kind {
                OpKind::WriteZeroes { deallocate: false, .. } => {
                    self.region.zero(at as usize, len as usize)
                }
                _ => self.region.release(at as usize, len as usize),
            }
            *done += len;
            budget -= len;
            if *done == total
                && let Some((op, _)) = self.slow.pop_front()
            {
                self.ready.push(op.done(Outcome::SUCCESS));
            }
        }
        if !self.slow.is_empty() {
            self.on.wake(self.owner);
        }
    }
}

impl BlockQueue for RamQueue {
    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        spare::provide(&mut self.ready);
        while self.in_flight() < limits::MEMORY_QUEUE_OPS {
            let Some(op) = ops.pop_front() else { break };
            self.execute(op);
        }
        self.refused = !ops.is_empty();
        if !self.slow.is_empty() {
            self.on.wake(self.owner);
        }
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        if !self.slow.is_empty() {
            self.zero_some();
        }
        spare::append(done, &mut self.ready);
        if core::mem::take(&mut self.refused) {
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, user: u64) {
        let Some(at) = self.slow.iter().position(|(op, _)| op.user == user) else { return };
        if let Some((op, _)) = self.slow.remove(at) {
            // Bytes zeroed so far stay zeroed.
            self.ready.push(op.done(Outcome::settled(Status::new(StatusKind::Aborted))));
        }
    }

    #[inline]
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }

    fn in_flight(&self) -> usize {
        self.ready.len() + self.slow.len()
    }
}

impl Drop for RamQueue {
    fn drop(&mut self) {
        self.slow.drain(..).for_each(|(op, _)| op.give_up());
    }
}

impl InPlace for RamQueue {
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        let range = self.range(lba, blocks).filter(|&(_, len)| len >= limits::RAM_LENT_BYTES);
        range.is_some_and(|(at, len)| {
            // The disk is larger than the caches: prefetch what a send would otherwise wait for.
            self.region.prefetch(at, len);
            self.lender.lend(at, len, into)
        })
    }

    fn spare(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        let range = self.range(lba, blocks).filter(|&(_, len)| len >= limits::RAM_SPARE_BYTES);
        range.is_some_and(|(at, len)| self.lender.spare(at, len, into))
    }

    fn stores(&mut self) -> bool {
        true
    }

    #[inline]
    fn store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        let Some((at, _)) = self.range(lba, blocks).filter(|&(_, len)| len == data.len()) else {
            return Outcome::NotSent(Status::new(StatusKind::OutOfRange));
        };
        self.region.write_slice(at, data);
        Outcome::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_io::{Activity, Driver, Loop, LoopConfig};

    struct Owner;

    impl Driver for Owner {
        fn work(&mut self, _: &Handle) -> Activity {
            Activity::Idle
        }
    }

    fn write(on: &Handle, lba: u64, value: u8) -> Op {
        let mut data = on.pool().take(512).unwrap();
        data.fill(value);
        Op::new(OpKind::Write { fua: false }, lba, 1, lba, [data.into()].into())
    }

    #[test]
    fn an_epoch_is_a_random_number() {
        let epochs: Vec<u64> = (0..100)
            .map(|_| Ram::open("ram:4KiB", "4KiB").unwrap().cache_epoch().unwrap())
            .collect();
        assert_eq!(
            epochs.iter().fold(u64::MAX, |all, epoch| all & epoch),
            0,
            "no bit is always set"
        );
        assert_eq!(epochs.iter().fold(0, |all, epoch| all | epoch), u64::MAX, "and none never");
    }

    #[test]
    fn operations_are_done_when_submit_returns_and_no_more_than_fit_are_taken() {
        let event_loop = Loop::new(LoopConfig::default()).unwrap();
        let on = event_loop.handle();
        let owner = on.spawn(|_| Owner);
        let ram = Ram::open("ram:1MiB", "1MiB").unwrap();
        let mut queue = ram.open_queue(on, owner).unwrap();
        let mut ops: VecDeque<_> =
            (0..limits::MEMORY_QUEUE_OPS as u64 + 3).map(|lba| write(on, lba, lba as u8)).collect();
        queue.submit(&mut ops);
        assert_eq!((ops.len(), queue.in_flight()), (3, limits::MEMORY_QUEUE_OPS));
        let mut done = Vec::new();
        queue.reap(&mut done);
        assert!(done.iter().all(|c| c.outcome.is_success()));
        queue.submit(&mut ops);
        assert_eq!((ops.len(), queue.in_flight(), done.len()), (0, 3, limits::MEMORY_QUEUE_OPS));
        let mut read = write(on, 77, 0);
        (read.kind, read.user) = (OpKind::Read, 5000);
        queue.submit(&mut VecDeque::from([read]));
        done.clear();
        queue.reap(&mut done);
        let read = done.iter().find(|c| c.op.user == 5000).unwrap();
        assert!(read.op.data[0].iter().all(|&byte| byte == 77));
    }

    #[test]
    fn a_long_discard_takes_several_turns_and_can_be_cancelled() {
        let event_loop = Loop::new(LoopConfig::default()).unwrap();
        let on = event_loop.handle();
        let owner = on.spawn(|_| Owner);
        let ram = Ram::open("ram:64MiB", "64MiB").unwrap();
        let mut queue = ram.open_queue(on, owner).unwrap();
        let mut ops =
            VecDeque::from([write(on, 100_000, 9), Op::bare(OpKind::Discard, 3, 131_069, 1)]);
        queue.submit(&mut ops);
        let mut done = Vec::new();
        let mut reaps = 0;
        while queue.in_flight() > 0 {
            queue.reap(&mut done);
            reaps += 1;
        }
        assert_eq!((done.len(), reaps), (2, 16));
        let mut read = write(on, 100_000, 1);
        read.kind = OpKind::Read;
        queue.submit(&mut VecDeque::from([read, Op::bare(OpKind::Discard, 0, 131_072, 7)]));
        queue.cancel(7);
        done.clear();
        queue.reap(&mut done);
        assert!(done[0].outcome.is_success() && done[0].op.data[0].iter().all(|&byte| byte == 0));
        assert_eq!(done[1].outcome.status().kind, StatusKind::Aborted);
    }
}
