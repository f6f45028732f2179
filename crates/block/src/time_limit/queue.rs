//! A queue that completes overdue operations without their memory.

use super::health::Health;
use super::memory::OwnMemory;
use crate::device::{BlockQueue, DeviceChange, InPlace};
use crate::filter::{QueueFilter, Relay};
use crate::limits::TIME_LIMIT_QUEUE_OPS;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use crate::queue::slots::Slots;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::event_loop::TimerSlot;
use weft_io::{Segments, Time};

pub(super) struct TimeLimitedQueue {
    relay: Relay,
    limit: Duration,
    health: Arc<Health>,
    /// Memory for the device in place of the users', if that must not stay with it.
    own: Option<OwnMemory>,
    under_way: UnderWay,
    /// The memory of overdue operations that have come back.
    given_back: Vec<Segments>,
    /// True if the owner was last told that the device is away.
    told_away: bool,
    timer: TimerSlot,
}

impl TimeLimitedQueue {
    pub(super) fn new(
        relay: Relay,
        limit: Duration,
        health: Arc<Health>,
        own: Option<OwnMemory>,
    ) -> Self {
        health.owners.enter(relay.on.remote(), relay.owner);
        let under_way = UnderWay::new(limit);
        Self {
            relay,
            limit,
            health,
            own,
            under_way,
            given_back: Vec::new(),
            told_away: false,
            timer: TimerSlot::default(),
        }
    }

    /// Passes on as many operations as there is room for.
    #[inline]
    fn take(&mut self, ops: &mut VecDeque<Op>) {
        let since = self.relay.on.now();
        while self.under_way.len() < TIME_LIMIT_QUEUE_OPS
            && let Some(mut op) = ops.pop_front()
        {
            let memory =
                self.own.as_ref().map(|own| own.put_in(&mut op, self.under_way.len() == 0));
            if matches!(memory, Some(None)) {
                // What is under way gives memory back.
                ops.push_front(op);
                break;
            }
            self.under_way.begin(&mut op, memory.flatten(), since);
            self.relay.passing.push_back(op);
        }
        if self.under_way.due.is_none() && self.under_way.len() > 0 {
            self.under_way.due = Some(since + self.limit);
            self.wait();
        }
    }

    pub(super) fn wait(&mut self) {
        if let Some(due) = self.under_way.due {
            self.timer.arm(&self.relay.on, self.relay.owner, due);
        }
    }

    #[inline]
    fn come_back(&mut self, mut completion: Completion, done: &mut Vec<Completion>) {
        let Some(begun) = self.under_way.end(completion.op.user) else { return };
        if begun.overdue {
            return self.come_back_late(completion);
        }
        begun.restore(&mut completion.op, completion.outcome.is_success());
        done.push(completion);
    }
}

impl QueueFilter for TimeLimitedQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.relay.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.relay.inner.as_mut()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        self.relay.inner.in_place()
    }

    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        if self.health.is_hung() {
            return self.refuse(ops);
        }
        self.take(ops);
        self.relay.pass();
        self.relay.leave(ops);
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        if !self.relay.passing.is_empty() {
            if self.health.is_hung() {
                self.refuse_passing();
            }
            self.relay.pass();
        }
        let mut returned = self.relay.returned();
        returned.drain(..).for_each(|completion| self.come_back(completion, done));
        self.relay.keep(returned);
        if self.under_way.due.is_some_and(|due| due <= self.relay.on.now()) {
            self.sweep();
        }
        done.append(&mut self.relay.ready);
        let has_room = if self.own.is_some() {
            !done.is_empty()
        } else {
            self.under_way.len() < TIME_LIMIT_QUEUE_OPS
        };
        self.relay.finish(done, has_room);
    }

    fn cancel(&mut self, user: u64) {
        let Some(name) = self.under_way.find(user) else { return };
        let Some(mut op) = self.relay.recall(name) else { return self.relay.inner.cancel(name) };
        self.under_way.end(name).into_iter().for_each(|begun| begun.restore(&mut op, false));
        self.relay.abort(op);
    }

    fn in_flight(&self) -> usize {
        self.under_way.len() + self.relay.ready.len()
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        given_back.append(&mut self.given_back);
        self.under_way.overdue
    }

    fn change(&mut self) -> Option<DeviceChange> {
        let away = self.health.is_hung();
        if core::mem::replace(&mut self.told_away, away) != away {
            return Some(if away { DeviceChange::Away } else { DeviceChange::Back });
        }
        self.relay.inner.change()
    }
}

impl Drop for TimeLimitedQueue {
    fn drop(&mut self) {
        self.health.owners.leave(&self.relay.on.remote(), self.relay.owner);
        if self.under_way.overdue > 0 {
            tracing::error!(
                "a queue with {} overdue operations was dropped; its device stays refused",
                self.under_way.overdue
            );
        }
    }
}

// Work of a queue when the device has not answered in time.

const TIMED_OUT: Status = Status::new(StatusKind::TimedOut);

impl TimeLimitedQueue {
    /// Ends operations that the device has not accepted.
    #[cold]
    fn refuse(&mut self, ops: &mut VecDeque<Op>) {
        self.relay.ready.extend(ops.drain(..).map(|op| op.done(Outcome::NotSent(TIMED_OUT))));
    }

    #[cold]
    fn refuse_passing(&mut self) {
        let mut passing = core::mem::take(&mut self.relay.passing);
        for op in &mut passing {
            self.under_way.end(op.user).into_iter().for_each(|begun| begun.restore(op, false));
        }
        self.refuse(&mut passing);
    }

    #[cold]
    fn come_back_late(&mut self, completion: Completion) {
        if self.own.is_none() {
            self.given_back.push(completion.op.data);
        }
        self.under_way.overdue -= 1;
        self.health.came_back(1);
    }

    /// Completes what is overdue, and asks the device to end it.
    #[cold]
    fn sweep(&mut self) {
        let now = self.relay.on.now();
        // Those that the device has not even accepted are not overdue: they end with their memory.
        if self.relay.passing.iter().any(|op| self.under_way.is_over(op.user, now)) {
            self.refuse_passing();
        }
        if self.relay.inner.holds_back() {
            // Which of them wait for a rate is not known: their time begins when none does.
            self.under_way.restart(now);
        }
        let swept = self.under_way.sweep(now, Outcome::unsettled(TIMED_OUT));
        self.health.overdue(swept.len());
        for (name, completion) in swept {
            self.relay.ready.push(completion);
            self.relay.inner.cancel(name);
        }
        self.wait();
    }
}

// The operations that the device has, and which of them are overdue.

/// The operations under way. The inner queue knows an operation by its index here.
pub(super) struct UnderWay {
    begun: Slots<Begun>,
    limit: Duration,
    /// Those that are overdue.
    overdue: usize,
    /// The earliest time at which one can be overdue.
    due: Option<Time>,
}

/// An operation, without its memory.
struct Begun {
    /// The submitter's name of it.
    user: u64,
    kind: OpKind,
    lba: u64,
    blocks: u32,
    since: Time,
    /// It was completed at the limit.
    overdue: bool,
    /// The user's memory, where the device has other.
    memory: Option<Segments>,
}

impl Begun {
    /// Makes the operation that the inner queue has given back that of the user again.
    #[inline]
    fn restore(self, op: &mut Op, is_success: bool) {
        op.user = self.user;
        if let Some(memory) = self.memory {
            OwnMemory::take_out(op, memory, is_success);
        }
    }
}

impl UnderWay {
    fn new(limit: Duration) -> Self {
        Self { begun: Slots::default(), limit, overdue: 0, due: None }
    }

    #[inline]
    fn len(&self) -> usize {
        self.begun.len()
    }

    /// Gives an operation that begins now the name by which the inner queue knows it.
    #[inline]
    fn begin(&mut self, op: &mut Op, memory: Option<Segments>, since: Time) {
        let &mut Op { user, kind, lba, blocks, .. } = op;
        op.user =
            self.begun.insert(Begun { user, kind, lba, blocks, since, overdue: false, memory });
    }

    #[inline]
    fn end(&mut self, name: u64) -> Option<Begun> {
        self.begun.remove(name)
    }

    /// The operation that its submitter knows by this name, if it is not overdue.
    fn find(&self, user: u64) -> Option<u64> {
        self.begun.find(|begun| begun.user == user && !begun.overdue)
    }

    /// Returns whether the limit of an operation is over.
    fn is_over(&self, name: u64, now: Time) -> bool {
        self.begun.get(name).is_some_and(|begun| begun.since + self.limit <= now)
    }

    /// The time of all begins again.
    fn restart(&mut self, now: Time) {
        self.begun.values_mut().for_each(|begun| begun.since = now);
    }

    /// Marks those whose limit is over, and gives their names and their ends with `outcome`.
    #[cold]
    fn sweep(&mut self, now: Time, outcome: Outcome) -> Vec<(u64, crate::op::Completion)> {
        let (mut swept, mut next) = (Vec::new(), None::<Time>);
        for (name, begun) in self.begun.iter_mut().filter(|(_, begun)| !begun.overdue) {
            let due = begun.since + self.limit;
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                continue;
            }
            begun.overdue = true;
            let mut op = Op::bare(begun.kind, begun.lba, begun.blocks, begun.user);
            op.data = begun.memory.take().unwrap_or_default();
            swept.push((name, op.done(outcome)));
        }
        self.overdue += swept.len();
        self.due = next;
        swept
    }
}
