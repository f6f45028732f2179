//! Runs a workload on a device.

use super::{OpCopy, Shared, SharedWorkload, UnderWay};
use crate::oracle::{Replay, Ticket};
use crate::stamp::UNIT_BYTES;
use core::time::Duration;
use std::collections::VecDeque;
use weft_block::{
    BlockDevice, BlockQueue, Completion, DeviceChange, Error, Op, OpKind, Outcome, StatusKind,
};
use weft_io::{Activity, Driver, DriverId, Handle, Segments, Time};

/// Pause after which an operation is made again for which there was no memory.
const RETRY: Duration = Duration::from_millis(5);

/// Starts to run a workload.
///
/// # Errors
/// If the device gives no queue.
pub fn start(on: &Handle, device: &dyn BlockDevice, workload: &Shared) -> Result<DriverId, Error> {
    let id = on.try_spawn(|id| {
        let queue = device.open_queue(on, id)?;
        Ok::<_, Error>(Runner {
            id,
            queue,
            workload: workload.clone(),
            ops: VecDeque::new(),
            done: Vec::new(),
        })
    })?;
    let mut workload = workload.borrow_mut();
    (workload.running, workload.lost) = (true, false);
    workload.units = device.geometry().block_bytes / UNIT_BYTES as u32;
    workload.compares = device.features().compare;
    Ok(id)
}

struct Runner {
    id: DriverId,
    queue: Box<dyn BlockQueue>,
    workload: Shared,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
}

impl Driver for Runner {
    fn work(&mut self, on: &Handle) -> Activity {
        let workload = self.workload.clone();
        let mut workload = workload.borrow_mut();
        while let Some(change) = self.queue.change() {
            workload.changed(on.now(), change);
        }
        workload.fill_up(on, self.id, &mut self.ops);
        if !self.ops.is_empty() {
            self.queue.submit(&mut self.ops);
        }
        self.queue.reap(&mut self.done);
        let any = !self.done.is_empty();
        for Completion { op, outcome } in self.done.drain(..) {
            workload.end(on.now(), &op, &outcome);
        }
        workload.take_back(&mut self.ops);
        let stops = workload.lost || workload.left == 0;
        if stops && workload.under_way.is_empty() {
            workload.running = false;
            if self.queue.in_flight() != 0 {
                let text = format!(
                    "{}: {} operations stay in the queue after the last completion",
                    workload.plan.name,
                    self.queue.in_flight()
                );
                workload.journal.violation(text);
            }
            on.remove(self.id);
        }
        Activity::busy_if(any)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

impl SharedWorkload {
    fn changed(&mut self, at: Time, change: DeviceChange) {
        self.journal.note(at, &self.plan.name, format_args!("hears of {change:?}"));
        self.lost |= change == DeviceChange::Gone;
    }

    /// What was not submitted because the device is lost never reached it.
    fn take_back(&mut self, ops: &mut VecDeque<Op>) {
        if self.lost {
            for op in ops.drain(..) {
                let outcome =
                    Outcome::NotSent(weft_block::Status::new(weft_block::StatusKind::Gone));
                self.end(Time::ZERO, &op, &outcome);
                op.give_up();
            }
            for user in core::mem::take(&mut self.again) {
                let Some(OpCopy { kind, lba, blocks, .. }) = &self.under_way[&user].copy else {
                    continue;
                };
                let op = Op::new(*kind, *lba, *blocks, user, Segments::new());
                let gone = weft_block::Status::new(StatusKind::Gone);
                self.end(Time::ZERO, &op, &Outcome::settled(gone));
                op.give_up();
            }
        }
    }

    /// Makes the operations that are due.
    fn fill_up(&mut self, on: &Handle, driver: DriverId, ops: &mut VecDeque<Op>) {
        let mut next: Option<Time> = None;
        while let Some(&user) = self.again.front().filter(|_| !self.lost) {
            let Some(op) = self.make_again(on, user) else {
                return on.wake_at(driver, on.now() + RETRY);
            };
            self.again.pop_front();
            ops.push_back(op);
        }
        for slot in 0..self.plan.slots {
            let index = slot as usize;
            if self.left == 0
                || self.lost
                || self.busy[index]
                || self.sweep.is_some_and(|at| at != slot)
            {
                continue;
            }
            if self.free_at[index] <= on.now() {
                match self.make(on, slot) {
                    Some(op) => {
                        ops.push_back(op);
                        continue;
                    }
                    None => self.free_at[index] = on.now() + RETRY,
                }
            }
            next = Some(next.map_or(self.free_at[index], |at| at.min(self.free_at[index])));
        }
        if let Some(next) = next {
            on.wake_at(driver, next);
        }
    }

    /// The next operation of a slot; `None`: there is no memory for it.
    fn make(&mut self, on: &Handle, slot: u32) -> Option<Op> {
        let (kind, skip, blocks) = self.draw();
        let first = if self.plan.overlap { 0 } else { u64::from(slot * self.plan.slot_units) };
        let lba = (self.plan.first + first) / u64::from(self.units) + u64::from(skip);
        let bytes = (blocks * self.units) as usize * UNIT_BYTES * kind.data_factor();
        let data = if bytes == 0 {
            Segments::new()
        } else {
            Segments::from_iter([on.pool().take(bytes)?.into()])
        };
        self.next_user += 1;
        let mut op = Op::new(kind, lba, blocks, self.next_user, data);
        let ticket = self.begin(&mut op).of(self.plan.host);
        self.journal.note(
            on.now(),
            &self.plan.name,
            format_args!("submits {}: {}", op.user, shown(&op, &ticket)),
        );
        let mark = self.reservations.as_ref().map_or(0, |(known, _)| known.borrow().mark());
        let written =
            op.kind.is_write().then(|| (op.lba * u64::from(self.units), op.blocks * self.units));
        let copy = self.plan.is_taken_over.then(|| OpCopy {
            is_left: false,
            kind: op.kind,
            lba: op.lba,
            blocks: op.blocks,
            data: op.data.iter().flat_map(|segment| segment.iter().copied()).collect(),
        });
        self.under_way.insert(op.user, UnderWay { slot: Some(slot), ticket, written, mark, copy });
        self.busy[slot as usize] = true;
        self.left -= 1;
        if let Some(next) = &mut self.sweep {
            *next += 1;
        }
        Some(op)
    }

    /// An operation that a process before this one has left; `None`: there is no memory for it.
    fn make_again(&self, on: &Handle, user: u64) -> Option<Op> {
        let OpCopy { kind, lba, blocks, data, .. } = self.under_way[&user].copy.as_ref()?;
        let mut segments = Segments::new();
        if !data.is_empty() {
            let mut buf = on.pool().take(data.len())?;
            buf.copy_from_slice(data);
            segments.push(buf.into());
        }
        self.journal.note(on.now(), &self.plan.name, format_args!("submits {user} again"));
        Some(Op::new(*kind, *lba, *blocks, user, segments))
    }

    fn draw(&mut self) -> (OpKind, u32, u32) {
        let all = self.plan.slot_units / self.units;
        if self.sweep.is_some() {
            return (OpKind::Read, 0, all);
        }
        if self.plan.overlap && self.compares && self.rng.one_in(4) && !self.looked.is_empty() {
            let nth = self.rng.below(self.looked.len() as u64) as usize;
            let block = self.looked.keys().nth(nth).copied().unwrap_or(0);
            return (OpKind::CompareAndWrite { fua: self.rng.one_in(6) }, block as u32, 1);
        }
        let skip = self.rng.below(u64::from(all)) as u32;
        let blocks = self.rng.magnitude(u64::from(all - skip)) as u32;
        let kind = match self.rng.below(20) {
            0 | 1 => return (OpKind::Flush, 0, 0),
            2 => OpKind::WriteZeroes { deallocate: self.rng.one_in(2), fua: self.rng.one_in(2) },
            3..=9 => OpKind::Read,
            _ => OpKind::Write { fua: self.rng.one_in(6) },
        };
        (kind, skip, blocks)
    }

    /// Tells the oracle of an operation, and stamps what it writes.
    fn begin(&mut self, op: &mut Op) -> Ticket {
        let mut oracle = self.oracle.borrow_mut();
        let (first, units) = (op.lba * u64::from(self.units), op.blocks * self.units);
        match op.kind {
            OpKind::Flush => oracle.begin_flush(self.plan.flushes.0, self.plan.flushes.1),
            OpKind::WriteZeroes { .. } => oracle.begin_write(first, units, true),
            OpKind::CompareAndWrite { .. } => {
                let ticket = oracle.begin_write(first, units, false);
                let (old, new) = op.data[0].split_at_mut(units as usize * UNIT_BYTES);
                old.copy_from_slice(&self.looked[&op.lba]);
                let content = new.chunks_mut(UNIT_BYTES);
                content
                    .zip(first..)
                    .for_each(|(unit, at)| crate::stamp::write(unit, at, ticket.version));
                ticket
            }
            OpKind::Write { .. } => {
                let ticket = oracle.begin_write(first, units, false);
                let content = op.data[0].chunks_mut(UNIT_BYTES);
                content
                    .zip(first..)
                    .for_each(|(unit, at)| crate::stamp::write(unit, at, ticket.version));
                ticket
            }
            _ => {
                op.data[0].fill(0xee);
                oracle.begin_read(first, units)
            }
        }
    }

    /// An operation has ended.
    fn end(&mut self, at: Time, op: &Op, outcome: &Outcome) {
        let Some(UnderWay { slot, ticket, mark, copy, .. }) = self.under_way.remove(&op.user)
        else {
            return self.journal.violation(format!(
                "{}: operation {} was completed twice",
                self.plan.name, op.user
            ));
        };
        let outcome = match outcome {
            // What was not sent again may have been executed before.
            Outcome::NotSent(status) if copy.is_some_and(|copy| copy.is_left) => {
                &Outcome::settled(*status)
            }
            outcome => outcome,
        };
        self.journal.note(at, &self.plan.name, format_args!("ends {}: {outcome:?}", op.user));
        self.ended += 1;
        if let Some(slot) = slot {
            self.busy[slot as usize] = false;
            let pause = self.rng.within(0, self.plan.think.as_nanos() as u64);
            self.free_at[slot as usize] =
                at + Duration::from_nanos(if self.sweep.is_some() { 0 } else { pause });
        }
        let excused = self.check_reservations(op, mark, outcome);
        let kept_out = op.kind == OpKind::Flush && self.may_have_been_kept_out();
        self.judge(op, &ticket, outcome, excused, kept_out);
        if op.kind == OpKind::Flush {
            self.flushed = mark;
        }
    }

    /// Returns whether another host's reservation may have forbidden writes since the flush before:
    /// then what was not flushed could not be written again where the target lost it, and the next
    /// flush tells of that.
    fn may_have_been_kept_out(&self) -> bool {
        self.reservations
            .as_ref()
            .is_some_and(|(known, who)| known.borrow().fate(self.flushed, *who, true).refused)
    }

    /// Checks that what was done or refused is what reservations allow; whether they allow that it
    /// fails.
    fn check_reservations(&self, op: &Op, mark: usize, outcome: &Outcome) -> bool {
        let Some((known, who)) = &self.reservations else { return false };
        let fate = known.borrow().fate(mark, *who, op.kind != OpKind::Read);
        let is_conflict = matches!(outcome, Outcome::Done(status) if status.kind == StatusKind::ReservationConflict);
        // A gateway that does not know yet that it is kept out answers a flush that has nothing to
        // do.
        let is_void = op.kind == OpKind::Flush && !self.plan.is_cached;
        let what = match outcome.is_success() {
            true if !fate.executed && !is_void => "was executed though a reservation forbids it",
            false if is_conflict && !fate.refused => "was refused though no reservation forbids it",
            // A logical unit does not tell everything of itself to who is kept out while it asks.
            false => return fate.refused || outcome.status().kind == StatusKind::Unsupported,
            true => return true,
        };
        let states = format!("{:?}", known.borrow().states());
        self.journal
            .violation(format!("{}: operation {} {what}: {states}", self.plan.name, op.user));
        true
    }

    /// Checks whether an operation may have ended like this, and what it read.
    fn judge(
        &mut self,
        op: &Op,
        ticket: &Ticket,
        outcome: &Outcome,
        excused: bool,
        kept_out: bool,
    ) {
        if let Outcome::MayHaveExecuted { settled: false, .. } = outcome
            && op.kind.is_write()
        {
            let text = format!(
                "{}: write {} ended while it may still be executed",
                self.plan.name, op.user
            );
            self.journal.violation(text);
        }
        self.written += u64::from(outcome.is_success() && op.kind.is_write());
        if !outcome.is_success() {
            self.judge_failure(op, outcome, excused, kept_out);
        }
        let fault = self.tell_oracle(op, ticket, outcome);
        if op.kind == OpKind::Read && outcome.is_success() && self.plan.overlap {
            let bytes = self.units as usize * UNIT_BYTES;
            (op.lba..)
                .zip(op.data[0].chunks(bytes))
                .for_each(|(lba, content)| drop(self.looked.insert(lba, content.to_vec())));
        }
        if let Err(text) = fault {
            self.journal.violation(format!("{}: read {}: {text}", self.plan.name, op.user));
        }
    }

    /// Checks whether an operation may have failed.
    fn judge_failure(&mut self, op: &Op, outcome: &Outcome, excused: bool, kept_out: bool) {
        self.failed += 1;
        let is_swap = matches!(op.kind, OpKind::CompareAndWrite { .. });
        self.lost |= matches!(outcome, Outcome::NotSent(_))
            || matches!(outcome, Outcome::MayHaveExecuted { .. }) && !is_swap;
        // By iSCSI a durable write of zeroes is one and a flush.
        let flushes = op.kind == OpKind::Flush
            || self.plan.overlap && matches!(op.kind, OpKind::WriteZeroes { fua: true, .. });
        let told_loss = flushes && (kept_out || self.oracle.borrow().replay() == Replay::Bounded);
        if told_loss {
            let (first, units) = self.plan.flushes;
            self.oracle.borrow_mut().fail_flush(first, units, self.plan.host);
        }
        // What has changed differs, and what was lost may have been executed: then it would
        // differ from itself.
        if !self.plan.may_fail && !told_loss && !excused && !is_swap {
            let text = format!(
                "{}: operation {} failed though it could have waited: {outcome:?}",
                self.plan.name, op.user
            );
            self.journal.violation(text);
        }
    }

    /// Tells the oracle how an operation has ended; what it finds wrong with what was read.
    fn tell_oracle(&self, op: &Op, ticket: &Ticket, outcome: &Outcome) -> Result<(), String> {
        let mut oracle = self.oracle.borrow_mut();
        let (first, units) = (op.lba * u64::from(self.units), op.blocks * self.units);
        match op.kind {
            OpKind::Write { fua } | OpKind::WriteZeroes { fua, .. } => {
                oracle.end_write(first, units, ticket, fua, outcome);
            }
            OpKind::CompareAndWrite { fua } => {
                let found = &op.data[0][..units as usize * UNIT_BYTES];
                let is_right = if outcome.is_success() {
                    oracle.swapped(first, found, ticket)
                } else {
                    Ok(())
                };
                oracle.end_write(first, units, ticket, fua, outcome);
                return is_right;
            }
            OpKind::Flush if outcome.is_success() => {
                oracle.end_flush(self.plan.flushes.0, self.plan.flushes.1, ticket);
            }
            OpKind::Read if outcome.is_success() => {
                return oracle.end_read(first, &op.data[0], ticket);
            }
            _ => {}
        }
        Ok(())
    }
}

fn shown(op: &Op, ticket: &Ticket) -> String {
    let blocks = || format!("blocks {}..{}", op.lba, op.lba + u64::from(op.blocks));
    match op.kind {
        OpKind::Flush => "flush".into(),
        OpKind::Read => format!("read {}", blocks()),
        OpKind::Write { fua } => {
            format!("write {} to {}{}", ticket.version, blocks(), if fua { ", FUA" } else { "" })
        }
        kind => {
            format!("{kind:?}, write {}, to {}", ticket.version & !crate::oracle::ZEROES, blocks())
        }
    }
}
