//! A workload that knows what it may read: each slot owns some blocks and has one operation under
//! way. What was acknowledged last is read, or what may have been written since; what was never
//! sent is not, and every operation completes once.

#![allow(dead_code, reason = "each test program uses what it needs")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_block::{BlockDevice, BlockQueue, Completion, Error, Op, OpKind, Outcome};
use weft_io::sim::Rng;
use weft_io::{Activity, Driver, DriverId, Handle, Segments};

/// Possible contents of one block.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    acknowledged: u64,
    /// Written since, with nobody knowing whether.
    maybe: Vec<u64>,
}

impl Block {
    fn may_be(&self, version: u64) -> bool {
        self.acknowledged == version || self.maybe.contains(&version)
    }
}

/// The blocks that one checker owns, as far as their contents are known, across associations.
pub(super) struct Ledger {
    pub first_lba: u64,
    pub slot_blocks: u32,
    pub block_bytes: u32,
    blocks: Vec<Block>,
    version: u64,
    pub writes: u64,
    pub reads: u64,
    /// Operations that ended without an answer.
    pub unknown: u64,
    pub not_sent: u64,
    pub failed: u64,
}

pub(super) type SharedLedger = Rc<RefCell<Ledger>>;

impl Ledger {
    pub(super) fn new(
        first_lba: u64,
        slots: u32,
        slot_blocks: u32,
        block_bytes: u32,
    ) -> SharedLedger {
        let blocks = vec![Block::default(); (slots * slot_blocks) as usize];
        let counts = (0, 0, 0, 0, 0);
        let (writes, reads, unknown, not_sent, failed) = counts;
        let ledger = Self {
            first_lba,
            slot_blocks,
            block_bytes,
            blocks,
            version: 0,
            writes,
            reads,
            unknown,
            not_sent,
            failed,
        };
        Rc::new(RefCell::new(ledger))
    }

    fn range(&self, op: &Op) -> std::ops::Range<usize> {
        let at = (op.lba - self.first_lba) as usize;
        at..at + op.blocks as usize
    }

    fn fill(&mut self, op: &mut Op) {
        self.version += 1;
        let (lba, version, bytes) = (op.lba, self.version, self.block_bytes as usize);
        for (n, block) in op.data[0].chunks_mut(bytes).enumerate() {
            block.chunks_mut(16).for_each(|part| {
                part[..8].copy_from_slice(&(lba + n as u64).to_le_bytes());
                part[8..].copy_from_slice(&version.to_le_bytes());
            });
        }
        let range = self.range(op);
        self.blocks[range].iter_mut().for_each(|block| block.maybe.push(version));
    }

    fn written(&mut self, op: &Op, outcome: &Outcome) {
        let version = u64::from_le_bytes(op.data[0][8..16].try_into().unwrap());
        let range = self.range(op);
        for block in &mut self.blocks[range] {
            match outcome {
                Outcome::Done(status) if status.is_success() => {
                    block.acknowledged = version;
                    block.maybe.clear();
                }
                Outcome::NotSent(_) => block.maybe.retain(|v| *v != version),
                Outcome::Done(_) | Outcome::MayHaveExecuted { .. } => {}
            }
        }
        self.writes += 1;
    }

    fn read(&mut self, op: &Op) {
        let range = self.range(op);
        for (n, block) in op.data[0].chunks(self.block_bytes as usize).enumerate() {
            let lba = op.lba + n as u64;
            let first = &block[..16];
            let version = u64::from_le_bytes(first[8..].try_into().unwrap());
            let known = &self.blocks[range.start + n];
            assert!(block.chunks(16).all(|part| part == first), "block {lba} is torn");
            assert!(known.may_be(version), "block {lba}: read version {version}, {known:?}");
            assert!(version == 0 || first[..8] == lba.to_le_bytes(), "block {lba} is another one");
        }
        self.reads += 1;
    }

    fn ended(&mut self, op: &Op, outcome: &Outcome) {
        match outcome {
            Outcome::NotSent(_) => self.not_sent += 1,
            Outcome::MayHaveExecuted { .. } => self.unknown += 1,
            Outcome::Done(status) if !status.is_success() => self.failed += 1,
            Outcome::Done(_) => {}
        }
        match op.kind {
            OpKind::Write { .. } => self.written(op, outcome),
            OpKind::Read if outcome.is_success() => self.read(op),
            _ => {}
        }
    }
}

/// Progress of a checker.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub submitted: u64,
    pub completed: u64,
    /// All operations have ended and no more are submitted.
    pub over: bool,
    /// An operation ended otherwise than with an answer.
    pub lost: bool,
}

/// The driver.
pub(super) struct Checker {
    id: DriverId,
    queue: Box<dyn BlockQueue>,
    ledger: SharedLedger,
    progress: Rc<RefCell<Progress>>,
    rng: Rng,
    left: u64,
    busy: Vec<bool>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    /// Read everything once, in order, instead of by chance.
    sweep: Option<u32>,
}

/// Task of a checker.
#[derive(Clone, Copy)]
pub(super) enum Plan {
    /// So many operations by chance.
    Chance(u64),
    /// Reads every slot once.
    Sweep,
}

impl Checker {
    pub(super) fn spawn(
        on: &Handle,
        device: &dyn BlockDevice,
        ledger: &SharedLedger,
        plan: Plan,
        rng: Rng,
    ) -> Result<Rc<RefCell<Progress>>, Error> {
        let progress = Rc::<RefCell<Progress>>::default();
        let slots = ledger.borrow().blocks.len() / ledger.borrow().slot_blocks as usize;
        let (left, sweep) = match plan {
            Plan::Chance(n) => (n, None),
            Plan::Sweep => (slots as u64, Some(0)),
        };
        on.try_spawn(|id| {
            Ok::<_, Error>(Self {
                id,
                queue: device.open_queue(on, id)?,
                ledger: Rc::clone(ledger),
                progress: Rc::clone(&progress),
                rng,
                left,
                busy: vec![false; slots],
                ops: VecDeque::new(),
                done: Vec::new(),
                sweep,
            })
        })?;
        Ok(progress)
    }

    /// Makes the next operation of an idle slot.
    fn make(&mut self, on: &Handle, slot: usize) -> Option<Op> {
        let mut ledger = self.ledger.borrow_mut();
        let all = ledger.slot_blocks;
        let (kind, skip, blocks) = match self.sweep {
            Some(_) => (OpKind::Read, 0, all),
            None if self.rng.one_in(40) => (OpKind::Flush, 0, 0),
            None => {
                let skip = self.rng.below(u64::from(all)) as u32;
                let kind = if self.rng.one_in(2) {
                    OpKind::Read
                } else {
                    OpKind::Write { fua: self.rng.one_in(8) }
                };
                (kind, skip, self.rng.magnitude(u64::from(all - skip)) as u32)
            }
        };
        if kind == OpKind::Flush {
            return Some(Op::bare(kind, 0, 0, slot as u64));
        }
        let data =
            Segments::from_iter([on.pool().take((blocks * ledger.block_bytes) as usize)?.into()]);
        let lba = ledger.first_lba + u64::from(slot as u32 * all + skip);
        let mut op = Op::new(kind, lba, blocks, slot as u64, data);
        match kind {
            OpKind::Read => op.data[0].fill(0xee),
            _ => ledger.fill(&mut op),
        }
        Some(op)
    }

    fn fill_up(&mut self, on: &Handle) {
        for slot in 0..self.busy.len() {
            if self.left == 0 || self.progress.borrow().lost {
                return;
            }
            let free = !self.busy[slot] && self.sweep.is_none_or(|next| next as usize == slot);
            if free && let Some(op) = self.make(on, slot) {
                self.busy[slot] = true;
                self.left -= 1;
                if let Some(next) = &mut self.sweep {
                    *next += 1;
                }
                self.progress.borrow_mut().submitted += 1;
                self.ops.push_back(op);
            }
        }
    }

    fn reap(&mut self) {
        self.queue.reap(&mut self.done);
        for Completion { op, outcome } in self.done.drain(..) {
            let slot = op.user as usize;
            assert!(std::mem::take(&mut self.busy[slot]), "slot {slot} completed twice");
            self.ledger.borrow_mut().ended(&op, &outcome);
            let mut progress = self.progress.borrow_mut();
            progress.completed += 1;
            progress.lost |= !matches!(outcome, Outcome::Done(_));
        }
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

impl Driver for Checker {
    fn work(&mut self, on: &Handle) -> Activity {
        let before = self.progress.borrow().completed;
        self.fill_up(on);
        if !self.ops.is_empty() {
            self.queue.submit(&mut self.ops);
        }
        self.reap();
        let mut progress = self.progress.borrow_mut();
        let ended = self.left == 0 || progress.lost;
        if ended && self.ops.is_empty() && progress.submitted == progress.completed {
            assert_eq!(self.queue.in_flight(), 0);
            progress.over = true;
            on.remove(self.id);
        }
        Activity::busy_if(progress.completed > before)
    }
}
