//! A queue that injects faults into operations.

use super::draw::{Common, Draw};
use super::plan::{Corruption, Fault, Plan};
use crate::device::{BlockQueue, DeviceChange, Geometry, InPlace};
use crate::filter::{QueueFilter, Relay};
use crate::limits::FAULT_HELD_OPS;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use crate::random::Random;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weft_io::event_loop::TimerSlot;
use weft_io::segment::{Divided, total_len};
use weft_io::{Pool, Segment, Segments, Time};

pub(super) const GONE: Outcome = Outcome::Done(Status::new(StatusKind::Gone));

pub(super) struct FaultQueue {
    /// Passes at most one operation whose fault is decided, and what no longer hangs.
    relay: Relay,
    draw: Draw,
    altered: Altered,
    told_gone: bool,
    /// Operations that are left incomplete.
    held: Vec<Op>,
    /// Operations that hang, and until when.
    hanging: Vec<(Option<Time>, Op)>,
    timer: TimerSlot,
}

impl FaultQueue {
    pub(super) fn new(
        relay: Relay,
        plan: Plan,
        geometry: Geometry,
        number: u64,
        common: Arc<Common>,
    ) -> Self {
        common.owners.enter(relay.on.remote(), relay.owner);
        Self {
            relay,
            draw: Draw::new(plan, number, common),
            altered: Altered::new(geometry),
            told_gone: false,
            held: Vec::new(),
            hanging: Vec::new(),
            timer: TimerSlot::default(),
        }
    }

    fn take(&mut self, mut op: Op) {
        let mut end = |op: Op, outcome| self.relay.ready.push(op.done(outcome));
        let failed = |kind| Outcome::Done(Status::new(kind));
        match self.draw.strike(op.kind) {
            Some(Fault::Fails(kind)) => return end(op, failed(kind)),
            Some(Fault::Held) => return self.held.push(op),
            Some(Fault::Hangs(lasts)) => return self.hang(op, lasts),
            Some(Fault::Vanishes) => {
                self.draw.vanish();
                return end(op, GONE);
            }
            Some(Fault::Short) if op.blocks < 2 => return end(op, failed(StatusKind::Media)),
            Some(Fault::Short) => self.altered.shorten(&mut op),
            Some(Fault::Corrupted(Corruption::Stale)) => return end(op, Outcome::SUCCESS),
            Some(Fault::Corrupted(how)) if op.blocks > 0 => {
                if !self.altered.corrupt(&mut op, how, &mut self.draw.random, self.relay.on.pool())
                {
                    return end(op, Outcome::NotSent(Status::new(StatusKind::Busy)));
                }
            }
            Some(Fault::Corrupted(_)) | None => {}
        }
        self.relay.passing.push_back(op);
        self.relay.pass();
    }

    fn hang(&mut self, op: Op, lasts: Option<Duration>) {
        let until = lasts.map(|lasts| self.relay.on.now() + lasts);
        if let Some(until) = until {
            self.timer.arm(&self.relay.on, self.relay.owner, until);
        }
        self.hanging.push((until, op));
    }

    /// Has the device execute what no longer hangs.
    fn let_go(&mut self) {
        if self.hanging.is_empty() {
            return;
        }
        let now = self.relay.on.now();
        let over =
            self.hanging.extract_if(.., |(until, _)| until.is_some_and(|until| until <= now));
        self.relay.passing.extend(over.map(|(_, op)| op));
        if let Some(next) = self.hanging.iter().filter_map(|(until, _)| *until).min() {
            self.timer.arm(&self.relay.on, self.relay.owner, next);
        }
    }
}

impl QueueFilter for FaultQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.relay.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.relay.inner.as_mut()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        if self.relay.inner.in_place().is_some() { Some(self) } else { None }
    }

    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.relay.pass();
        while self.relay.passing.is_empty() && self.held.len() + self.hanging.len() < FAULT_HELD_OPS
        {
            let Some(op) = ops.pop_front() else { break };
            self.take(op);
        }
        self.relay.leave(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.let_go();
        self.relay.pass();
        let mut returned = self.relay.returned();
        done.extend(returned.drain(..).map(|completion| self.altered.undo(completion)));
        self.relay.keep(returned);
        self.relay.finish(done, self.relay.passing.is_empty());
    }

    fn cancel(&mut self, user: u64) {
        let held =
            self.held.iter().position(|op| op.user == user).map(|at| self.held.swap_remove(at));
        let Some(op) = held.or_else(|| self.relay.recall(user)) else {
            return self.relay.inner.cancel(user);
        };
        let ended = self.altered.undo(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
        self.relay.ready.push(ended);
        self.relay.wake();
    }

    fn in_flight(&self) -> usize {
        self.relay.in_flight() + self.held.len() + self.hanging.len()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        if self.draw.is_gone() && !core::mem::replace(&mut self.told_gone, true) {
            return Some(DeviceChange::Gone);
        }
        let change = self.relay.inner.change();
        if let Some(DeviceChange::Resized { blocks }) = change {
            self.altered.geometry.blocks = blocks;
        }
        change
    }
}

impl Drop for FaultQueue {
    fn drop(&mut self) {
        self.draw.common.owners.leave(&self.relay.on.remote(), self.relay.owner);
        let hanging = self.hanging.drain(..).map(|(_, op)| op);
        self.held.drain(..).chain(hanging).for_each(Op::give_up);
    }
}

// Faults of what is done in the device's own memory.

/// The kind of operation that storing in place counts as.
const WRITE: OpKind = OpKind::Write { fua: false };

impl FaultQueue {
    /// Stores other data than `data`, or at another address, or nothing.
    fn store_corrupted(&mut self, lba: u64, blocks: u32, data: &[u8], how: Corruption) -> Outcome {
        let size = self.altered.geometry.block_bytes as usize;
        let Spot { block, bit } = Spot::draw(&mut self.draw.random, blocks, size);
        let mut data = data.to_vec();
        match how {
            Corruption::Stale => return Outcome::SUCCESS,
            Corruption::Misplaced => {
                let lba = self.altered.elsewhere(lba, blocks, &mut self.draw.random);
                return self.pass_store(lba, blocks, &data);
            }
            Corruption::BitFlip => data[block + (bit / 8) as usize] ^= 1 << (bit % 8),
            Corruption::Zero => data[block..][..size].fill(0),
        }
        self.pass_store(lba, blocks, &data)
    }

    /// Stores the first half, and fails.
    fn store_half(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        let half = blocks / 2;
        if half > 0 {
            self.pass_store(
                lba,
                half,
                &data[..half as usize * self.altered.geometry.block_bytes as usize],
            );
        }
        Outcome::Done(Status::new(StatusKind::Media))
    }

    fn pass_store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        let own = self.relay.inner.in_place();
        own.map_or(Outcome::NotSent(Status::new(StatusKind::Unsupported)), |own| {
            own.store(lba, blocks, data)
        })
    }
}

impl InPlace for FaultQueue {
    /// Declines if the next read is affected: it then arrives as an operation, which can fail and
    /// whose memory can be corrupted.
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        let struck = self.draw.next_strike(OpKind::Read).is_some();
        let lent =
            !struck && self.relay.inner.in_place().is_some_and(|own| own.lend(lba, blocks, into));
        if lent {
            self.draw.strike(OpKind::Read);
        }
        lent
    }

    fn spare(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.relay.inner.in_place().is_some_and(|own| own.spare(lba, blocks, into))
    }

    /// Not if a write may be left incomplete.
    fn stores(&mut self) -> bool {
        !self.draw.plan.may_hold(WRITE) && self.relay.inner.in_place().is_some_and(InPlace::stores)
    }

    fn store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        match self.draw.strike(WRITE) {
            Some(Fault::Fails(kind)) => Outcome::Done(Status::new(kind)),
            Some(Fault::Vanishes) => {
                self.draw.vanish();
                GONE
            }
            Some(Fault::Short) => self.store_half(lba, blocks, data),
            Some(Fault::Held | Fault::Hangs(_)) => {
                Outcome::NotSent(Status::new(StatusKind::Unsupported))
            }
            Some(Fault::Corrupted(how)) if !data.is_empty() => {
                self.store_corrupted(lba, blocks, data, how)
            }
            Some(Fault::Corrupted(_)) | None => self.pass_store(lba, blocks, data),
        }
    }
}

// Operations that reach the device in another form, and come back to their user in their own.

/// The altered operations of a queue.
pub(super) struct Altered {
    geometry: Geometry,
    /// Actions for their completions, by the names of the operations.
    on_return: HashMap<u64, OnReturn>,
}

/// The action on an operation that completes.
enum OnReturn {
    /// Corrupt the data read: flip the bit.
    Flip(u64),
    /// Corrupt the data read: zero the bytes.
    Zero(usize, usize),
    /// Restore the submitter's memory.
    Restore(usize, Vec<u8>),
    /// Return the submitter's own read-only memory: the device received a corrupted copy.
    Memory(Segments),
    /// Restore the original address.
    Place(u64),
    /// Restore the whole memory and the number of blocks, and fail.
    Whole(Divided, u32),
}

impl Altered {
    fn new(geometry: Geometry) -> Self {
        Self { geometry, on_return: HashMap::new() }
    }

    fn block_bytes(&self) -> usize {
        self.geometry.block_bytes as usize
    }

    /// Leaves the first half of an operation.
    fn shorten(&mut self, op: &mut Op) {
        let mut whole = Divided::new();
        whole.fill(core::mem::take(&mut op.data));
        let blocks = op.blocks;
        op.blocks /= 2;
        whole.cut(0, op.blocks as usize * self.block_bytes(), &mut op.data);
        self.on_return.insert(op.user, OnReturn::Whole(whole, blocks));
    }

    /// Corrupts an operation now, or when it comes back. `false`: `pool` has no memory for that.
    fn corrupt(&mut self, op: &mut Op, how: Corruption, random: &mut Random, pool: &Pool) -> bool {
        let reads = op.kind == OpKind::Read;
        let size = self.block_bytes();
        let Spot { block, bit } = Spot::draw(random, op.blocks, size);
        let stays =
            reads || how == Corruption::Misplaced || op.data.iter().all(Segment::is_writable);
        let own = if stays { None } else { replace_by_copy(&mut op.data, pool) };
        if !stays && own.is_none() {
            return false;
        }
        let undo = match how {
            Corruption::BitFlip if reads => OnReturn::Flip(block as u64 * 8 + bit),
            Corruption::BitFlip => {
                let at = block + (bit / 8) as usize;
                let old = change(&mut op.data, at, 1, |byte| byte ^ (1 << (bit % 8)));
                OnReturn::Restore(at, old)
            }
            Corruption::Zero if reads => OnReturn::Zero(block, size),
            Corruption::Zero => OnReturn::Restore(block, change(&mut op.data, block, size, |_| 0)),
            Corruption::Misplaced | Corruption::Stale => {
                let place = OnReturn::Place(op.lba);
                op.lba = self.elsewhere(op.lba, op.blocks, random);
                place
            }
        };
        self.on_return.insert(op.user, own.map_or(undo, OnReturn::Memory));
        true
    }

    /// Another address for the operation, if the device has one.
    fn elsewhere(&self, lba: u64, blocks: u32, random: &mut Random) -> u64 {
        let places = self.geometry.blocks.saturating_sub(u64::from(blocks));
        if places == 0 || lba > places {
            return lba;
        }
        (lba + 1 + random.below(places)) % (places + 1)
    }

    /// The completion as its user expects it.
    fn undo(&mut self, mut completion: Completion) -> Completion {
        let Some(undo) = self.on_return.remove(&completion.op.user) else { return completion };
        let op = &mut completion.op;
        match undo {
            OnReturn::Flip(bit) => {
                _ = change(&mut op.data, (bit / 8) as usize, 1, |byte| byte ^ (1 << (bit % 8)))
            }
            OnReturn::Zero(at, len) => _ = change(&mut op.data, at, len, |_| 0),
            OnReturn::Restore(at, old) => {
                let mut old = old.into_iter();
                let len = old.len();
                change(&mut op.data, at, len, |byte| old.next().unwrap_or(byte));
            }
            OnReturn::Memory(own) => op.data = own,
            OnReturn::Place(lba) => op.lba = lba,
            OnReturn::Whole(mut whole, blocks) => {
                op.data.clear();
                op.data = whole.take_back().unwrap_or_default();
                op.blocks = blocks;
                if completion.outcome.is_success() {
                    completion.outcome = Outcome::Done(Status::new(StatusKind::Media));
                }
            }
        }
        completion
    }
}

/// Corrupted part of an operation's data.
struct Spot {
    /// The first byte of the block.
    block: usize,
    /// The bit in it.
    bit: u64,
}

impl Spot {
    /// A place in `blocks` blocks of `size` bytes.
    fn draw(random: &mut Random, blocks: u32, size: usize) -> Self {
        let block = random.below(u64::from(blocks)) as usize * size;
        Self { block, bit: random.below(size as u64 * 8) }
    }
}

/// Replaces read-only memory by a copy, if the pool has memory for it, and returns the original.
fn replace_by_copy(data: &mut Segments, pool: &Pool) -> Option<Segments> {
    let mut copy = pool.take(total_len(data))?;
    let mut at = 0;
    for segment in data.iter() {
        copy[at..at + segment.len()].copy_from_slice(segment);
        at += segment.len();
    }
    Some(core::mem::replace(data, Segments::from_iter([copy.into()])))
}

/// Changes `len` bytes from `at` on; returns the original ones.
fn change(data: &mut [Segment], at: usize, len: usize, mut new: impl FnMut(u8) -> u8) -> Vec<u8> {
    if !data.iter().all(Segment::is_writable) {
        return Vec::new();
    }
    let bytes = data.iter_mut().flat_map(|segment| segment.iter_mut()).skip(at).take(len);
    bytes.map(|byte| core::mem::replace(byte, new(*byte))).collect()
}
