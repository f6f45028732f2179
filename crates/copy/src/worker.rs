//! The driver on each loop: queues of both devices, and chunks on their way from one to the other.

use crate::chunk::Chunk;
use crate::ends::shown;
use crate::failed::{failed, resized};
use crate::ledger::WorkRange;
use crate::limits::PARTS_MAX;
use crate::shared::{ChunkTask, LoopEvent, PassFailure, Shared, Unread, ZeroMethod};
use crate::zeroes::{Run, runs};
use core::sync::atomic::Ordering::Relaxed;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use weft_block::{
    BlockQueue, Completion, Device, DeviceChange, Error, ErrorKind, Op, OpKind, Outcome, StatusKind,
};
use weft_io::{Activity, Driver, DriverId, Handle, Segment, Segments};

/// Times that a turn looks for what completed since.
const PASSES: usize = 4;

/// Identifies a flush on the queue of TO.
const FLUSH: u64 = u64::MAX;

/// One of the two devices on this loop.
struct End {
    device: Device,
    queue: Box<dyn BlockQueue>,
    /// Waiting for room in the queue.
    ops: VecDeque<Op>,
    block: u64,
}

impl End {
    fn open(device: &Device, on: &Handle, id: DriverId) -> Result<Self, Error> {
        let queue = device.open_queue(on, id)?;
        let block = device.geometry().block_bytes.into();
        Ok(Self { device: Arc::clone(device), queue, ops: VecDeque::new(), block })
    }

    fn push(&mut self, kind: OpKind, at: u64, len: u64, user: u64, data: Segments) {
        let (lba, blocks) = (at / self.block, (len / self.block) as u32);
        assert!(lba * self.block == at && u64::from(blocks) * self.block == len, "whole blocks");
        self.ops.push_back(Op::new(kind, lba, blocks, user, data));
    }

    fn submit(&mut self) -> bool {
        let before = self.ops.len();
        if before > 0 {
            self.queue.submit(&mut self.ops);
        }
        self.ops.len() < before
    }

    /// The error for an operation that failed.
    fn error(&self, op: &Op, outcome: &Outcome) -> Error {
        let (at, len) = (op.lba * self.block, u64::from(op.blocks) * self.block);
        failed(shown(&self.device), op.kind, at, len, outcome)
    }
}

/// See the module.
pub struct CopyWorker {
    shared: Arc<Shared>,
    from: End,
    to: End,
    chunks: Vec<Chunk>,
    free: Vec<usize>,
    /// Work for which there was no memory.
    held: Option<WorkRange>,
    /// Chunks in the order of their bytes that are not in the digest yet.
    order: VecDeque<usize>,
    runs: Vec<Run>,
    done: Vec<Completion>,
    events: Sender<LoopEvent>,
    /// Flushes that were begun.
    flushes: u64,
    /// True if it flushes; one of the loops does.
    is_first: bool,
    /// That there is nothing more to do was told.
    told: bool,
    /// Something failed: what was read is not written any more.
    failed: bool,
}

impl CopyWorker {
    /// A worker with queues on this loop.
    pub fn new(
        on: &Handle,
        id: DriverId,
        shared: Arc<Shared>,
        is_first: bool,
        events: Sender<LoopEvent>,
    ) -> Result<Self, Error> {
        Ok(Self {
            from: End::open(&shared.ends.from, on, id)?,
            to: End::open(&shared.ends.to, on, id)?,
            shared,
            chunks: Vec::new(),
            free: Vec::new(),
            held: None,
            order: VecDeque::new(),
            runs: Vec::new(),
            done: Vec::new(),
            events,
            flushes: 0,
            is_first,
            told: false,
            failed: false,
        })
    }

    fn in_use(&self) -> usize {
        self.chunks.len() - self.free.len()
    }

    /// Begins as many chunks as may be in flight.
    fn fill(&mut self, on: &Handle) {
        // Whoever counts the loops that work relies on that word; who divides work does it, too.
        if self.told {
            return;
        }
        while self.in_use() < self.shared.depth.load(Relaxed) as usize {
            let Some(work) = self.held.take().or_else(|| self.shared.next()) else { return };
            if let Err(work) = self.begin(work, on) {
                if self.in_use() > 0 {
                    self.held = Some(work);
                    return;
                }
                let text = "no memory for the copy: give a smaller --depth or --bs";
                let error = Error::new(ErrorKind::NoResources, text);
                return self.shared.fail(PassFailure::Error(error));
            }
        }
    }

    /// Begins a chunk, if there is memory for it.
    fn begin(&mut self, work: WorkRange, on: &Handle) -> Result<(), WorkRange> {
        let take = |wanted: bool| -> Result<Option<Segments>, WorkRange> {
            if !wanted {
                return Ok(None);
            }
            let buf = on.pool().take(work.len as usize).ok_or(work)?;
            Ok(Some(Segments::from_iter([buf.into()])))
        };
        let compares = self.shared.task == ChunkTask::Compare;
        let (data, found) = (take(!work.is_hole)?, take(compares)?);
        let index = self.free.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::default());
            self.chunks.len() - 1
        });
        let chunk = &mut self.chunks[index];
        chunk.work = Some(work);
        chunk.pending = u32::from(data.is_some()) + u32::from(found.is_some());
        if self.shared.digest.is_some() {
            self.order.push_back(index);
        }
        if let Some(data) = data {
            self.from.push(OpKind::Read, work.at, work.len, index as u64, data);
        }
        if let Some(found) = found {
            let user = index as u64 * PARTS_MAX;
            self.to.push(OpKind::Read, work.at, work.len, user, found);
        }
        if work.is_hole && !compares {
            self.read(index);
        }
        Ok(())
    }

    /// A chunk was read from FROM, or is a hole: it is written, in the order of its bytes if there
    /// is a digest.
    fn read(&mut self, index: usize) {
        if self.failed {
            return self.abandon(index);
        }
        if self.shared.digest.is_none() {
            return self.write(index);
        }
        while let Some(&first) = self.order.front() {
            let chunk = &self.chunks[first];
            let Some(work) = chunk.work else { return };
            let mut digest = self.shared.digest().expect("it was asked for above");
            match &chunk.data {
                Some(data) => digest.data(data),
                None if work.is_hole => digest.zeroes(work.len),
                None => return,
            }
            drop(digest);
            self.order.pop_front();
            self.write(first);
        }
    }

    /// Writes what a chunk holds to TO.
    fn write(&mut self, index: usize) {
        let chunk = &mut self.chunks[index];
        let Some(work) = chunk.work else { return };
        if work.at + work.len <= self.shared.written {
            return self.finish(index);
        }
        let user = index as u64 * PARTS_MAX;
        let Some(data) = chunk.data.take() else {
            self.zero(index, work.at, work.len, user);
            return self.finish(index);
        };
        match self.shared.zeroes {
            ZeroMethod::Write => {
                let len = work.len as usize;
                self.runs.clear();
                self.runs.push(Run { at: 0, len, is_zero: false });
            }
            _ => runs(&data, &mut self.runs),
        }
        if let [Run { is_zero: false, .. }] = self.runs[..] {
            chunk.pending += 1;
            self.to.push(OpKind::Write { fua: false }, work.at, work.len, user, data);
            return;
        }
        chunk.parts.fill(data);
        let all = core::mem::take(&mut self.runs);
        for (run, user) in all.iter().zip(user..) {
            let (at, len) = (work.at + run.at as u64, run.len as u64);
            if run.is_zero {
                self.zero(index, at, len, user);
                continue;
            }
            let mut part = Segments::new();
            let chunk = &mut self.chunks[index];
            chunk.parts.cut(run.at, run.len, &mut part);
            chunk.pending += 1;
            self.to.push(OpKind::Write { fua: false }, at, len, user, part);
        }
        self.runs = all;
        self.finish(index);
    }

    /// Makes TO read as zeroes there.
    fn zero(&mut self, index: usize, at: u64, len: u64, user: u64) {
        let kind = match self.shared.zeroes {
            ZeroMethod::AreThere => return,
            // What is zero already keeps its space, if it has any.
            _ if self.shared.is_zero_in_to(at, len) => return,
            ZeroMethod::Zero | ZeroMethod::Write => {
                OpKind::WriteZeroes { deallocate: true, fua: false }
            }
        };
        self.chunks[index].pending += 1;
        self.to.push(kind, at, len, user, Segments::new());
    }

    /// Frees a chunk of which nothing is left to do.
    fn finish(&mut self, index: usize) {
        let chunk = &mut self.chunks[index];
        if !chunk.is_complete() {
            return;
        }
        let compares = self.shared.task == ChunkTask::Compare && !chunk.failed;
        let differs = if compares { chunk.difference() } else { None };
        let work = chunk.free();
        self.free.push(index);
        match (work, differs) {
            (Some(work), Some(at)) => self.shared.fail(PassFailure::Differs(work.at + at)),
            (Some(work), None) => self.shared.finish(work),
            (None, _) => {}
        }
    }

    /// An operation on FROM is complete.
    fn completed_from(&mut self, Completion { op, outcome }: Completion) {
        let index = op.user as usize;
        self.chunks[index].pending -= 1;
        if outcome.is_success() {
            let bytes = u64::from(op.blocks) * self.from.block;
            self.shared.counts.read.fetch_add(bytes, Relaxed);
            self.chunks[index].data = Some(op.data);
            return match self.shared.task {
                ChunkTask::Copy => self.read(index),
                ChunkTask::Compare => self.finish(index),
            };
        }
        self.unread(index, op, &outcome);
    }

    /// A chunk could not be read from FROM.
    fn unread(&mut self, index: usize, mut op: Op, outcome: &Outcome) {
        let is_medium = outcome.status().kind == StatusKind::Media;
        let can = is_medium && !self.failed && op.data.iter().all(Segment::is_writable);
        let work = self.chunks[index].work.filter(|_| can);
        let hint = match work.map(|work| self.shared.unread(work)) {
            Some(Unread::Divided) => {
                // It is done when its halves are.
                self.chunks[index].failed = true;
                return self.finish(index);
            }
            Some(Unread::Zeroes) => {
                op.data.iter_mut().for_each(|segment| segment.fill(0));
                self.chunks[index].data = Some(op.data);
                return self.read(index);
            }
            Some(Unread::Fails(hint)) => hint,
            None => String::new(),
        };
        let error = self.from.error(&op, outcome);
        let error = Error::new(error.kind(), format!("{error}{hint}"));
        self.shared.fail(PassFailure::Error(error));
        self.abandon(index);
    }

    /// An operation on TO is complete.
    fn completed_to(&mut self, Completion { op, outcome }: Completion) {
        if op.user == FLUSH {
            let result = match outcome.is_success() {
                true => Ok(()),
                false => Err(self.to.error(&op, &outcome)),
            };
            return self.tell(LoopEvent::Flushed(result));
        }
        let index = (op.user / PARTS_MAX) as usize;
        self.chunks[index].pending -= 1;
        if !outcome.is_success() {
            self.shared.fail(PassFailure::Error(self.to.error(&op, &outcome)));
            return self.abandon(index);
        }
        if self.shared.task == ChunkTask::Compare {
            self.chunks[index].found = Some(op.data);
        } else if matches!(op.kind, OpKind::Write { .. }) {
            let bytes = u64::from(op.blocks) * self.to.block;
            self.shared.counts.written.fetch_add(bytes, Relaxed);
            drop(op.data);
        }
        self.finish(index);
    }

    /// A chunk is not done, and is freed when nothing of it is in flight; so are those that wait
    /// for their turn in the digest.
    fn abandon(&mut self, index: usize) {
        self.failed = true;
        self.chunks[index].failed = true;
        self.finish(index);
        for waiting in core::mem::take(&mut self.order) {
            self.chunks[waiting].failed = true;
            self.finish(waiting);
        }
    }

    /// What changed at the devices.
    fn look(&mut self) {
        while let Some(change) = self.from.queue.change() {
            if let DeviceChange::Resized { blocks } = change {
                self.resized(true, blocks);
            }
        }
        while let Some(change) = self.to.queue.change() {
            if let DeviceChange::Resized { blocks } = change {
                self.resized(false, blocks);
            }
        }
    }

    fn resized(&self, is_from: bool, blocks: u64) {
        let end = if is_from { &self.from } else { &self.to };
        let (now, before) = (blocks * end.block, self.shared.bytes);
        // A larger TO holds the copy as well.
        if (is_from && now != before) || now < before {
            self.shared.fail(PassFailure::Error(resized(&end.device, now, before)));
        }
    }

    fn tell(&self, event: LoopEvent) {
        // Nobody waits for it after an error.
        let _ = self.events.send(event);
    }

    /// One look at everything; tells whether there was anything to do.
    fn pass(&mut self, on: &Handle) -> bool {
        let mut done = core::mem::take(&mut self.done);
        self.from.queue.reap(&mut done);
        let mut busy = !done.is_empty();
        done.drain(..).for_each(|completion| self.completed_from(completion));
        self.to.queue.reap(&mut done);
        busy |= !done.is_empty();
        done.drain(..).for_each(|completion| self.completed_to(completion));
        self.done = done;
        self.look();
        self.fill(on);
        if self.is_first && self.flushes < self.shared.flushes.load(Relaxed) {
            self.flushes += 1;
            self.to.push(OpKind::Flush, 0, 0, FLUSH, Segments::new());
        }
        busy |= self.from.submit();
        busy |= self.to.submit();
        if self.in_use() == 0 && !self.told {
            self.told = true;
            self.tell(LoopEvent::Idle);
        }
        busy
    }
}

impl Driver for CopyWorker {
    fn work(&mut self, on: &Handle) -> Activity {
        let mut busy = false;
        for _ in 0..PASSES {
            let some = self.pass(on);
            busy |= some;
            if !some {
                break;
            }
        }
        Activity::busy_if(busy)
    }
}

impl Drop for CopyWorker {
    fn drop(&mut self) {
        self.from.ops.drain(..).chain(self.to.ops.drain(..)).for_each(Op::give_up);
    }
}
