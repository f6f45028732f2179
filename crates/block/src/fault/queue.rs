//! A queue that injects faults into operations, and hides its changes from the submitter on completion.

use super::Vanished;
use super::plan::{Corruption, Fault, Plan};
use crate::device::{BlockQueue, Change, Geometry, InPlace};
use crate::limits::FAULT_HELD_OPS;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::random::Random;
use crate::status::{Status, StatusKind};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weft_io::event_loop::TimerSlot;
use weft_io::segment::{Divided, total_len};
use weft_io::{DriverId, Handle, Segment, Segments, Time};

const GONE: Outcome = Outcome::Done(Status::new(StatusKind::Gone));

/// The kind of operation that storing in place counts as.
const WRITE: OpKind = OpKind::Write { fua: false };

pub(super) struct FaultQueue {
    inner: Box<dyn BlockQueue>,
    plan: Plan,
    geometry: Geometry,
    random: Random,
    /// Operations so far, up to the first that may be affected.
    passed: u64,
    vanished: Arc<Vanished>,
    told_gone: bool,
    /// At most one operation whose fault is decided, but which the inner queue has not accepted.
    passing: VecDeque<Op>,
    /// Actions on completion of operations of the inner queue, by their name.
    on_return: HashMap<u64, OnReturn>,
    /// Operations that are left incomplete.
    held: Vec<Op>,
    /// Operations that hang, and until when.
    hanging: Vec<(Option<Time>, Op)>,
    timer: TimerSlot,
    ready: Vec<Completion>,
    returned: Vec<Completion>,
    /// `submit` left operations with the caller.
    refused: bool,
    on: Handle,
    owner: DriverId,
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

impl FaultQueue {
    pub(super) fn new(
        inner: Box<dyn BlockQueue>,
        plan: Plan,
        geometry: Geometry,
        number: u64,
        vanished: Arc<Vanished>,
        on: &Handle,
        owner: DriverId,
    ) -> Self {
        vanished.owners.enter(on.remote(), owner);
        Self {
            inner,
            plan,
            geometry,
            random: Random::new(plan.seed, number),
            passed: 0,
            vanished,
            told_gone: false,
            passing: VecDeque::new(),
            on_return: HashMap::new(),
            held: Vec::new(),
            hanging: Vec::new(),
            timer: TimerSlot::default(),
            ready: Vec::new(),
            returned: Vec::new(),
            refused: false,
            on: on.clone(),
            owner,
        }
    }

    fn take(&mut self, mut op: Op) {
        match self.strike(op.kind) {
            Some(Fault::Fails(kind)) => return self.ready.push(op.done(Outcome::Done(Status::new(kind)))),
            Some(Fault::Held) => return self.held.push(op),
            Some(Fault::Hangs(lasts)) => return self.hang(op, lasts),
            Some(Fault::Vanishes) => {
                self.vanish();
                return self.ready.push(op.done(GONE));
            }
            Some(Fault::Short) if op.blocks < 2 => {
                return self.ready.push(op.done(Outcome::Done(Status::new(StatusKind::Media))));
            }
            Some(Fault::Short) => self.shorten(&mut op),
            Some(Fault::Corrupted(Corruption::Stale)) => return self.ready.push(op.done(Outcome::SUCCESS)),
            Some(Fault::Corrupted(how)) if op.blocks > 0 && !self.corrupt(&mut op, how) => {
                return self.ready.push(op.done(Outcome::NotSent(Status::new(StatusKind::Busy))));
            }
            Some(Fault::Corrupted(_)) | None => {}
        }
        self.passing.push_back(op);
        self.inner.submit(&mut self.passing);
    }

    /// The fault of the next operation.
    fn strike(&mut self, kind: OpKind) -> Option<Fault> {
        if self.is_gone() {
            return Some(Fault::Fails(StatusKind::Gone));
        }
        let fault = self.plan.strike(&mut self.random, kind);
        if self.passed < self.plan.after {
            self.passed += 1;
            return None;
        }
        fault
    }

    /// What [`Self::strike`] would return.
    fn next_strike(&self, kind: OpKind) -> Option<Fault> {
        match self.is_gone() {
            true => Some(Fault::Fails(StatusKind::Gone)),
            false if self.passed < self.plan.after => None,
            false => self.plan.strike(&mut self.random.clone(), kind),
        }
    }

    fn is_gone(&self) -> bool {
        self.vanished.gone.load(Ordering::Acquire)
    }

    fn vanish(&mut self) {
        self.vanished.gone.store(true, Ordering::Release);
        self.vanished.owners.wake_all();
    }

    fn hang(&mut self, op: Op, lasts: Option<Duration>) {
        let until = lasts.map(|lasts| self.on.now() + lasts);
        if let Some(until) = until {
            self.timer.arm(&self.on, self.owner, until);
        }
        self.hanging.push((until, op));
    }

    /// Has the device execute what no longer hangs.
    fn let_go(&mut self) {
        if self.hanging.is_empty() {
            return;
        }
        let now = self.on.now();
        let over = self.hanging.extract_if(.., |(until, _)| until.is_some_and(|until| until <= now));
        self.passing.extend(over.map(|(_, op)| op));
        self.inner.submit(&mut self.passing);
        if let Some(next) = self.hanging.iter().filter_map(|(until, _)| *until).min() {
            self.timer.arm(&self.on, self.owner, next);
        }
    }

    /// Leaves the first half of an operation.
    fn shorten(&mut self, op: &mut Op) {
        let mut whole = Divided::new();
        whole.fill(core::mem::take(&mut op.data));
        let blocks = op.blocks;
        op.blocks /= 2;
        whole.cut(0, op.blocks as usize * self.geometry.block_bytes as usize, &mut op.data);
        self.on_return.insert(op.user, OnReturn::Whole(whole, blocks));
    }

    /// Spoils an operation, or sees to it that it is when it comes back. `false`: there is no memory for that.
    fn corrupt(&mut self, op: &mut Op, how: Corruption) -> bool {
        let reads = op.kind == OpKind::Read;
        let size = self.geometry.block_bytes as usize;
        let block = self.random.below(u64::from(op.blocks)) as usize * size;
        let bit = self.random.below(size as u64 * 8);
        let stays = reads || how == Corruption::Misplaced || op.data.iter().all(Segment::is_writable);
        let own = if stays { None } else { self.replace_by_copy(&mut op.data) };
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
                op.lba = self.elsewhere(op.lba, op.blocks);
                place
            }
        };
        self.on_return.insert(op.user, own.map_or(undo, OnReturn::Memory));
        true
    }

    /// Replaces read-only memory by a copy, if the pool has memory for it, and returns the original.
    fn replace_by_copy(&self, data: &mut Segments) -> Option<Segments> {
        let mut copy = self.on.pool().take(total_len(data))?;
        let mut at = 0;
        for segment in data.iter() {
            copy[at..at + segment.len()].copy_from_slice(segment);
            at += segment.len();
        }
        Some(core::mem::replace(data, Segments::from_iter([copy.into()])))
    }

    /// Another address for the operation, if the device has one.
    fn elsewhere(&mut self, lba: u64, blocks: u32) -> u64 {
        let places = self.geometry.blocks.saturating_sub(u64::from(blocks));
        if places == 0 || lba > places {
            return lba;
        }
        (lba + 1 + self.random.below(places)) % (places + 1)
    }

    /// Stores other data than `data`, or at another address, or nothing.
    fn store_corrupted(&mut self, lba: u64, blocks: u32, data: &[u8], how: Corruption) -> Outcome {
        let size = self.geometry.block_bytes as usize;
        let block = self.random.below(u64::from(blocks)) as usize * size;
        let bit = self.random.below(size as u64 * 8);
        let mut data = data.to_vec();
        match how {
            Corruption::Stale => return Outcome::SUCCESS,
            Corruption::Misplaced => {
                let lba = self.elsewhere(lba, blocks);
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
            self.pass_store(lba, half, &data[..half as usize * self.geometry.block_bytes as usize]);
        }
        Outcome::Done(Status::new(StatusKind::Media))
    }

    fn pass_store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        let own = self.inner.in_place();
        own.map_or(Outcome::NotSent(Status::new(StatusKind::Unsupported)), |own| own.store(lba, blocks, data))
    }

    fn come_back(&mut self, mut completion: Completion) -> Completion {
        let Some(undo) = self.on_return.remove(&completion.op.user) else { return completion };
        let op = &mut completion.op;
        match undo {
            OnReturn::Flip(bit) => _ = change(&mut op.data, (bit / 8) as usize, 1, |byte| byte ^ (1 << (bit % 8))),
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

/// Changes `len` bytes from `at` on; returns the original ones.
fn change(data: &mut [Segment], at: usize, len: usize, mut new: impl FnMut(u8) -> u8) -> Vec<u8> {
    if !data.iter().all(Segment::is_writable) {
        return Vec::new();
    }
    let bytes = data.iter_mut().flat_map(|segment| segment.iter_mut()).skip(at).take(len);
    bytes.map(|byte| core::mem::replace(byte, new(*byte))).collect()
}

impl BlockQueue for FaultQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.inner.submit(&mut self.passing);
        while self.passing.is_empty() && self.held.len() + self.hanging.len() < FAULT_HELD_OPS {
            let Some(op) = ops.pop_front() else { return };
            self.take(op);
        }
        self.refused = !ops.is_empty();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.let_go();
        self.inner.submit(&mut self.passing);
        let mut returned = core::mem::take(&mut self.returned);
        self.inner.reap(&mut returned);
        done.extend(returned.drain(..).map(|completion| self.come_back(completion)));
        self.returned = returned;
        done.append(&mut self.ready);
        if self.refused && self.passing.is_empty() {
            self.refused = false;
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, user: u64) {
        let held = self.held.iter().position(|op| op.user == user).map(|at| self.held.swap_remove(at));
        let passing = self.passing.iter().position(|op| op.user == user).and_then(|at| self.passing.remove(at));
        let Some(op) = held.or(passing) else { return self.inner.cancel(user) };
        let ended = self.come_back(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
        self.ready.push(ended);
        self.on.wake(self.owner);
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        if self.inner.in_place().is_some() { Some(self) } else { None }
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.passing.len() + self.held.len() + self.hanging.len() + self.ready.len()
    }

    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        self.inner.overdue(given_back)
    }

    fn change(&mut self) -> Option<Change> {
        if self.is_gone() && !core::mem::replace(&mut self.told_gone, true) {
            return Some(Change::Gone);
        }
        let change = self.inner.change();
        if let Some(Change::Resized { blocks }) = change {
            self.geometry.blocks = blocks;
        }
        change
    }
}

impl Drop for FaultQueue {
    fn drop(&mut self) {
        self.vanished.owners.leave(&self.on.remote(), self.owner);
        let hanging = self.hanging.drain(..).map(|(_, op)| op);
        self.held.drain(..).chain(hanging).chain(self.passing.drain(..)).for_each(Op::give_up);
    }
}

/// Each operation takes its turn in the random sequence, in place or not.
impl InPlace for FaultQueue {
    /// Declines if the next read is to be affected: it then arrives as an operation, which can fail and whose memory can be
    /// corrupted.
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        let struck = self.next_strike(OpKind::Read).is_some();
        let lent = !struck && self.inner.in_place().is_some_and(|own| own.lend(lba, blocks, into));
        if lent {
            self.strike(OpKind::Read);
        }
        lent
    }

    fn spare(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.inner.in_place().is_some_and(|own| own.spare(lba, blocks, into))
    }

    /// Not if a write may be left incomplete.
    fn stores(&mut self) -> bool {
        !self.plan.may_hold(WRITE) && self.inner.in_place().is_some_and(InPlace::stores)
    }

    fn store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        match self.strike(WRITE) {
            Some(Fault::Fails(kind)) => Outcome::Done(Status::new(kind)),
            Some(Fault::Vanishes) => {
                self.vanish();
                GONE
            }
            Some(Fault::Short) => self.store_half(lba, blocks, data),
            Some(Fault::Held | Fault::Hangs(_)) => Outcome::NotSent(Status::new(StatusKind::Unsupported)),
            Some(Fault::Corrupted(how)) if !data.is_empty() => self.store_corrupted(lba, blocks, data, how),
            Some(Fault::Corrupted(_)) | None => self.pass_store(lba, blocks, data),
        }
    }
}
