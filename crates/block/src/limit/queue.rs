//! A queue whose operations begin when their rate allows it.

use super::rate::Rate;
use crate::device::{BlockQueue, InPlace};
use crate::filter::{QueueFilter, Relay};
use crate::limits::{LIMIT_LOOK_MS, LIMIT_QUEUE_OPS};
use crate::op::{Completion, Op, OpKind};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weft_io::Time;
use weft_io::event_loop::TimerSlot;
use weft_io::segment::total_len;

/// Limits of the operations of a queue.
#[derive(Clone)]
pub(super) struct Rates {
    pub(super) all: Arc<Rate>,
    /// Limits of reads and of other operations.
    pub(super) apart: Option<[Arc<Rate>; 2]>,
}

pub(super) struct LimitQueue {
    relay: Relay,
    rates: Rates,
    /// The generation of the rate in which operations were given their times.
    generation: u32,
    /// Operations, each with the time at which it may begin, in order: reads and others, or all in
    /// the first if no limit is of one kind.
    waiting: [VecDeque<(Time, Op)>; 2],
    timer: TimerSlot,
}

impl Rates {
    /// When an operation may begin, and in which line it waits until then.
    fn admit(&self, now: Time, op: &Op) -> (Time, usize) {
        let bytes = total_len(&op.data) as u64;
        let at = self.all.admit(now, bytes);
        let Some(apart) = &self.apart else { return (at, 0) };
        let line = usize::from(!matches!(op.kind, OpKind::Read | OpKind::Compare));
        (at.max(apart[line].admit(now, bytes)), line)
    }
}

impl LimitQueue {
    pub(super) fn new(relay: Relay, rates: Rates) -> Self {
        Self {
            relay,
            generation: rates.all.generation(),
            rates,
            waiting: Default::default(),
            timer: TimerSlot::default(),
        }
    }

    fn len(&self) -> usize {
        self.waits() + self.relay.in_flight()
    }

    fn waits(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    fn take(&mut self, ops: &mut VecDeque<Op>, now: Time) {
        self.follow_limit(now);
        let mut room = LIMIT_QUEUE_OPS.saturating_sub(self.len());
        while room > 0
            && let Some(op) = ops.pop_front()
        {
            let (at, line) = self.rates.admit(now, &op);
            self.waiting[line].push_back((at, op));
            room -= 1;
        }
    }

    /// If the limit has changed, operations that wait get other times.
    fn follow_limit(&mut self, now: Time) {
        let generation = self.rates.all.generation();
        if core::mem::replace(&mut self.generation, generation) != generation {
            for (at, op) in self.waiting.iter_mut().flatten() {
                *at = self.rates.admit(now, op).0;
            }
        }
    }

    /// Submits what may begin, and waits for the rest.
    fn let_go(&mut self, now: Time) {
        self.follow_limit(now);
        for line in &mut self.waiting {
            while let Some((_, op)) = line.pop_front_if(|(at, _)| *at <= now) {
                self.relay.passing.push_back(op);
            }
        }
        self.relay.pass();
        if let Some(at) = self.waiting.iter().filter_map(|line| Some(line.front()?.0)).min() {
            // The limit may change meanwhile.
            let look = now + Duration::from_millis(LIMIT_LOOK_MS);
            self.timer.arm(&self.relay.on, self.relay.owner, look.min(at));
        }
    }
}

impl QueueFilter for LimitQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.relay.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.relay.inner.as_mut()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let now = self.relay.on.now();
        self.take(ops, now);
        self.let_go(now);
        self.relay.leave(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.let_go(self.relay.on.now());
        self.relay.inner.reap(done);
        done.append(&mut self.relay.ready);
        self.relay.finish(done, self.len() < LIMIT_QUEUE_OPS);
    }

    fn cancel(&mut self, user: u64) {
        let mut waiting = None;
        for line in &mut self.waiting {
            let at = line.iter().position(|(_, op)| op.user == user);
            waiting = waiting.or_else(|| Some(line.remove(at?)?.1));
        }
        match waiting.or_else(|| self.relay.recall(user)) {
            Some(op) => self.relay.abort(op),
            None => self.relay.inner.cancel(user),
        }
    }

    fn in_flight(&self) -> usize {
        self.len()
    }

    fn holds_back(&self) -> bool {
        self.waits() > 0 || self.relay.inner.holds_back()
    }
}

impl Drop for LimitQueue {
    fn drop(&mut self) {
        self.waiting.iter_mut().flat_map(|line| line.drain(..)).for_each(|(_, op)| op.give_up());
    }
}
