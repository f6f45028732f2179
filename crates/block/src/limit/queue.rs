//! A queue whose operations begin when their rate allows it.

use super::Rates;
use crate::device::{BlockQueue, Change};
use crate::limits::{LIMIT_LOOK_MS, LIMIT_QUEUE_OPS};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::status::{Status, StatusKind};
use std::collections::VecDeque;
use std::time::Duration;
use weft_io::event_loop::TimerSlot;
use weft_io::segment::total_len;
use weft_io::{DriverId, Handle, Segments, Time};

pub(super) struct LimitQueue {
    inner: Box<dyn BlockQueue>,
    rates: Rates,
    /// The generation of the rate in which operations were given their times.
    generation: u32,
    /// Operations, each with the time at which it may begin, in order: reads and others, or all in the first if no limit is of one kind.
    waiting: [VecDeque<(Time, Op)>; 2],
    /// Operations that the inner queue has not accepted yet.
    passing: VecDeque<Op>,
    /// Operations that were cancelled.
    ready: Vec<Completion>,
    /// `submit` left operations with the caller.
    refused: bool,
    timer: TimerSlot,
    on: Handle,
    owner: DriverId,
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
    pub(super) fn new(inner: Box<dyn BlockQueue>, rates: Rates, on: &Handle, owner: DriverId) -> Self {
        Self {
            inner,
            generation: rates.all.generation(),
            rates,
            waiting: Default::default(),
            passing: VecDeque::new(),
            ready: Vec::new(),
            refused: false,
            timer: TimerSlot::default(),
            on: on.clone(),
            owner,
        }
    }

    fn len(&self) -> usize {
        self.waits() + self.passing.len() + self.inner.in_flight() + self.ready.len()
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
                self.passing.push_back(op);
            }
        }
        self.inner.submit(&mut self.passing);
        if let Some(at) = self.waiting.iter().filter_map(|line| Some(line.front()?.0)).min() {
            // The limit may change meanwhile.
            let look = now + Duration::from_millis(LIMIT_LOOK_MS);
            self.timer.arm(&self.on, self.owner, look.min(at));
        }
    }
}

impl BlockQueue for LimitQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let now = self.on.now();
        self.take(ops, now);
        self.let_go(now);
        self.refused = !ops.is_empty();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.let_go(self.on.now());
        self.inner.reap(done);
        done.append(&mut self.ready);
        if self.refused && self.len() < LIMIT_QUEUE_OPS {
            self.refused = false;
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, user: u64) {
        let mut waiting = None;
        for line in &mut self.waiting {
            let at = line.iter().position(|(_, op)| op.user == user);
            waiting = waiting.or_else(|| Some(line.remove(at?)?.1));
        }
        let passing = || self.passing.iter().position(|op| op.user == user).and_then(|at| self.passing.remove(at));
        let Some(op) = waiting.or_else(passing) else { return self.inner.cancel(user) };
        self.ready.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
        self.on.wake(self.owner);
    }

    fn in_flight(&self) -> usize {
        self.len()
    }

    fn holds_back(&self) -> bool {
        self.waits() > 0 || self.inner.holds_back()
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        self.inner.overdue(given_back)
    }

    fn change(&mut self) -> Option<Change> {
        self.inner.change()
    }
}

impl Drop for LimitQueue {
    fn drop(&mut self) {
        let waiting = self.waiting.iter_mut().flat_map(|line| line.drain(..)).map(|(_, op)| op);
        waiting.chain(self.passing.drain(..)).for_each(Op::give_up);
    }
}
