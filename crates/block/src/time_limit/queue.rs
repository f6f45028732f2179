//! A queue that completes overdue operations without their memory.

use super::health::Health;
use super::memory::OwnMemory;
use super::under_way::UnderWay;
use crate::device::{BlockQueue, DeviceChange, InPlace};
use crate::filter::{QueueFilter, Relay};
use crate::limits::TIME_LIMIT_QUEUE_OPS;
use crate::op::{Completion, Op};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::Segments;
use weft_io::event_loop::TimerSlot;

pub(super) struct TimeLimitedQueue {
    pub(super) relay: Relay,
    limit: Duration,
    pub(super) health: Arc<Health>,
    /// Memory for the device in place of the users', if that must not stay with it.
    pub(super) own: Option<OwnMemory>,
    pub(super) under_way: UnderWay,
    /// The memory of overdue operations that have come back.
    pub(super) given_back: Vec<Segments>,
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
