//! A queue that holds completions until their service is over.

use super::schedule::{Schedule, Times};
use crate::device::{BlockQueue, InPlace};
use crate::filter::{QueueFilter, Relay};
use crate::limits::DELAY_QUEUE_OPS;
use crate::op::{Completion, Op};
use crate::slots::Slots;
use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::Time;
use weft_io::event_loop::TimerSlot;
use weft_io::segment::total_len;

pub(super) struct DelayQueue {
    relay: Relay,
    times: Times,
    schedule: Arc<Lock<Schedule>>,
    /// Operations in flight; the inner queue knows an operation by its index here.
    begun: Slots<Begun>,
    /// Operations that completed before the end of their service: the end of the service, and their
    /// names.
    early: BinaryHeap<Reverse<(Time, u64)>>,
    timer: TimerSlot,
}

struct Begun {
    /// The submitter's name of the operation.
    user: u64,
    /// End of its service.
    due: Time,
    /// Its completion, if that came first.
    done: Option<Completion>,
}

impl DelayQueue {
    pub(super) fn new(relay: Relay, times: Times, schedule: Arc<Lock<Schedule>>) -> Self {
        Self {
            relay,
            times,
            schedule,
            begun: Slots::default(),
            early: BinaryHeap::new(),
            timer: TimerSlot::default(),
        }
    }

    /// Passes on as many operations as there is room for. Service begins as soon as the device has
    /// a free place.
    fn take(&mut self, ops: &mut VecDeque<Op>) {
        if ops.is_empty() || self.begun.len() >= DELAY_QUEUE_OPS {
            return;
        }
        let now = self.relay.on.clock();
        let mut schedule = self.schedule.lock();
        while self.begun.len() < DELAY_QUEUE_OPS
            && let Some(mut op) = ops.pop_front()
        {
            let transfer = self.times.transfer(total_len(&op.data) as u64);
            let due = schedule.serve(now, transfer, self.times.of(op.kind));
            op.user = self.begun.insert(Begun { user: op.user, due, done: None });
            self.relay.passing.push_back(op);
        }
    }

    /// Reports a completion, or holds it until its service is over.
    fn come_back(&mut self, completion: Completion, now: Time) {
        let name = completion.op.user;
        match self.begun.get_mut(name) {
            Some(begun) if begun.due > now => {
                self.early.push(Reverse((begun.due, name)));
                begun.done = Some(completion);
            }
            _ => self.tell(name, completion),
        }
    }

    fn tell(&mut self, name: u64, mut completion: Completion) {
        if let Some(begun) = self.begun.remove(name) {
            completion.op.user = begun.user;
            self.relay.ready.push(completion);
        }
    }

    /// Reports completions whose service is over.
    fn tell_due(&mut self, now: Time) {
        while let Some(&Reverse((due, name))) = self.early.peek()
            && due <= now
        {
            self.early.pop();
            self.tell_kept(name);
        }
    }

    fn tell_kept(&mut self, name: u64) {
        if let Some(completion) = self.begun.get_mut(name).and_then(|begun| begun.done.take()) {
            self.tell(name, completion);
        }
    }
}

impl QueueFilter for DelayQueue {
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
        self.take(ops);
        self.relay.pass();
        self.relay.leave(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.relay.pass();
        let mut returned = self.relay.returned();
        if !(returned.is_empty() && self.early.is_empty()) {
            let now = self.relay.on.clock();
            returned.drain(..).for_each(|completion| self.come_back(completion, now));
            self.tell_due(now);
        }
        self.relay.keep(returned);
        if let Some(&Reverse((due, _))) = self.early.peek() {
            self.timer.arm(&self.relay.on, self.relay.owner, due);
        }
        self.relay.finish(done, self.begun.len() < DELAY_QUEUE_OPS);
    }

    /// An operation that the inner device has completed ends now, with its outcome; others are no
    /// longer held.
    fn cancel(&mut self, user: u64) {
        let Some(name) = self.begun.find(|begun| begun.user == user) else { return };
        if let Some(mut op) = self.relay.recall(name) {
            self.begun.remove(name);
            op.user = user;
            return self.relay.abort(op);
        }
        let Some(begun) = self.begun.get_mut(name) else { return };
        begun.due = Time::ZERO;
        if begun.done.is_none() {
            return self.relay.inner.cancel(name);
        }
        self.early.retain(|Reverse((_, early))| *early != name);
        self.tell_kept(name);
        self.relay.wake();
    }

    fn in_flight(&self) -> usize {
        self.begun.len() + self.relay.ready.len()
    }
}
