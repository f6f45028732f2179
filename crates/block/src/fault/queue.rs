//! A queue that injects faults into operations.

use super::altered::Altered;
use super::draw::{Common, Draw};
use super::plan::{Corruption, Fault, Plan};
use crate::device::{BlockQueue, DeviceChange, Geometry, InPlace};
use crate::filter::{QueueFilter, Relay};
use crate::limits::FAULT_HELD_OPS;
use crate::op::{Completion, Op, Outcome};
use crate::status::{Status, StatusKind};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::Time;
use weft_io::event_loop::TimerSlot;

pub(super) const GONE: Outcome = Outcome::Done(Status::new(StatusKind::Gone));

pub(super) struct FaultQueue {
    /// Passes at most one operation whose fault is decided, and what no longer hangs.
    pub(super) relay: Relay,
    pub(super) draw: Draw,
    pub(super) altered: Altered,
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
