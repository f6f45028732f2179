//! A queue that completes overdue operations without their memory.

use super::health::Health;
use super::own::OwnMemory;
use crate::device::{BlockQueue, Change, InPlace};
use crate::limits::TIME_LIMIT_QUEUE_OPS;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::slots::Slots;
use crate::status::{Status, StatusKind};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, Segments, Time};

const TIMED_OUT: Status = Status::new(StatusKind::TimedOut);

pub(super) struct TimeLimitedQueue {
    inner: Box<dyn BlockQueue>,
    limit: Duration,
    health: Arc<Health>,
    /// What the device gets in the place of the users' memory, if that must not stay with it.
    own: Option<OwnMemory>,
    /// Operations in flight, also overdue ones; the inner queue knows an operation by its index here.
    begun: Slots<Begun>,
    /// Operations that the inner queue has not accepted yet.
    passing: VecDeque<Op>,
    /// Completions for the next reaping.
    ready: Vec<Completion>,
    returned: Vec<Completion>,
    /// Overdue operations of this queue...
    overdue: usize,
    /// ...and the memory of those that have come back.
    given_back: Vec<Segments>,
    /// The earliest time at which an operation can be overdue.
    due: Option<Time>,
    /// Whether the owner was last told that the device is away.
    told_away: bool,
    /// `submit` left operations with the caller.
    refused: bool,
    timer: TimerSlot,
    on: Handle,
    owner: DriverId,
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

impl TimeLimitedQueue {
    pub(super) fn new(
        inner: Box<dyn BlockQueue>,
        limit: Duration,
        (health, own): (Arc<Health>, Option<OwnMemory>),
        on: &Handle,
        owner: DriverId,
    ) -> Self {
        health.owners.enter(on.remote(), owner);
        Self {
            inner,
            limit,
            health,
            own,
            begun: Slots::default(),
            passing: VecDeque::new(),
            ready: Vec::new(),
            returned: Vec::new(),
            overdue: 0,
            given_back: Vec::new(),
            due: None,
            told_away: false,
            refused: false,
            timer: TimerSlot::default(),
            on: on.clone(),
            owner,
        }
    }

    /// Passes on as many operations as there is room for.
    #[inline]
    fn take(&mut self, ops: &mut VecDeque<Op>) {
        let since = self.on.now();
        while self.begun.len() < TIME_LIMIT_QUEUE_OPS
            && let Some(mut op) = ops.pop_front()
        {
            let memory = match &self.own {
                None => None,
                Some(own) => match own.put_in(&mut op, self.begun.len() == 0) {
                    Some(memory) => Some(memory),
                    // What is under way gives memory back.
                    None => {
                        ops.push_front(op);
                        break;
                    }
                },
            };
            let Op { user, kind, lba, blocks, .. } = op;
            op.user = self.begun.insert(Begun { user, kind, lba, blocks, since, overdue: false, memory });
            self.passing.push_back(op);
        }
        if self.due.is_none() && self.begun.len() > 0 {
            self.wait_until(since + self.limit);
        }
    }

    fn wait_until(&mut self, due: Time) {
        self.due = Some(due);
        self.timer.arm(&self.on, self.owner, due);
    }

    /// Ends operations that the device has not accepted.
    #[cold]
    fn refuse(&mut self, ops: &mut VecDeque<Op>) {
        self.ready.extend(ops.drain(..).map(|op| op.done(Outcome::NotSent(TIMED_OUT))));
    }

    #[cold]
    fn refuse_passing(&mut self) {
        for mut op in core::mem::take(&mut self.passing) {
            if let Some(begun) = self.begun.remove(op.user) {
                begun.restore(&mut op, false);
            }
            self.ready.push(op.done(Outcome::NotSent(TIMED_OUT)));
        }
    }

    #[inline]
    fn come_back(&mut self, mut completion: Completion, done: &mut Vec<Completion>) {
        let Some(begun) = self.begun.remove(completion.op.user) else { return };
        if begun.overdue {
            return self.come_back_late(completion);
        }
        begun.restore(&mut completion.op, completion.outcome.is_success());
        done.push(completion);
    }

    #[cold]
    fn come_back_late(&mut self, completion: Completion) {
        if self.own.is_none() {
            self.given_back.push(completion.op.data);
        }
        self.overdue -= 1;
        self.health.came_back(1);
    }

    /// Completes what is overdue, and asks the device to end it.
    #[cold]
    fn sweep(&mut self, now: Time) {
        let (limit, mut names, mut next) = (self.limit, Vec::new(), None::<Time>);
        if self.inner.holds_back() {
            // Which of them wait for a rate is not known: their time begins when none does.
            self.begun.iter_mut().for_each(|(_, begun)| begun.since = now);
        }
        for (name, begun) in self.begun.iter_mut().filter(|(_, begun)| !begun.overdue) {
            let due = begun.since + limit;
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                continue;
            }
            begun.overdue = true;
            let &mut Begun { user, kind, lba, blocks, .. } = begun;
            let mut op = Op::bare(kind, lba, blocks, user);
            op.data = begun.memory.take().unwrap_or_default();
            self.ready.push(op.done(Outcome::unsettled(TIMED_OUT)));
            names.push(name);
        }
        self.overdue += names.len();
        self.health.overdue(names.len());
        names.iter().for_each(|name| self.inner.cancel(*name));
        self.due = None;
        if let Some(next) = next {
            self.wait_until(next);
        }
    }
}

impl BlockQueue for TimeLimitedQueue {
    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        if self.health.is_hung() {
            return self.refuse(ops);
        }
        self.take(ops);
        self.inner.submit(&mut self.passing);
        self.refused = !ops.is_empty();
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        if !self.passing.is_empty() {
            if self.health.is_hung() {
                self.refuse_passing();
            }
            self.inner.submit(&mut self.passing);
        }
        let mut returned = core::mem::take(&mut self.returned);
        self.inner.reap(&mut returned);
        returned.drain(..).for_each(|completion| self.come_back(completion, done));
        self.returned = returned;
        if self.due.is_some_and(|due| due <= self.on.now()) {
            // Those that the device has not even accepted are not overdue: they end with their memory.
            if self.passing.iter().any(|op| self.begun.get(op.user).is_some_and(|b| b.since + self.limit <= self.on.now())) {
                self.refuse_passing();
            }
            self.sweep(self.on.now());
        }
        done.append(&mut self.ready);
        let has_room = if self.own.is_some() { !done.is_empty() } else { self.begun.len() < TIME_LIMIT_QUEUE_OPS };
        if self.refused && has_room {
            self.refused = false;
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, user: u64) {
        let Some(name) = self.begun.find(|begun| begun.user == user && !begun.overdue) else { return };
        let passing = self.passing.iter().position(|op| op.user == name);
        let Some(mut op) = passing.and_then(|at| self.passing.remove(at)) else { return self.inner.cancel(name) };
        if let Some(begun) = self.begun.remove(name) {
            begun.restore(&mut op, false);
        }
        self.ready.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
        self.on.wake(self.owner);
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        self.inner.in_place()
    }

    fn in_flight(&self) -> usize {
        self.begun.len() + self.ready.len()
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        given_back.append(&mut self.given_back);
        self.overdue
    }

    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    fn change(&mut self) -> Option<Change> {
        let away = self.health.is_hung();
        if core::mem::replace(&mut self.told_away, away) != away {
            return Some(if away { Change::Away } else { Change::Back });
        }
        self.inner.change()
    }
}

impl Drop for TimeLimitedQueue {
    fn drop(&mut self) {
        self.health.owners.leave(&self.on.remote(), self.owner);
        self.passing.drain(..).for_each(Op::give_up);
        if self.overdue > 0 {
            tracing::error!("a queue with {} overdue operations was dropped; its device stays refused", self.overdue);
        }
    }
}
