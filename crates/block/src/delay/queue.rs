//! A queue that holds completions until their service is over.

use super::schedule::{Schedule, Times};
use crate::device::{BlockQueue, Change};
use crate::limits::DELAY_QUEUE_OPS;
use crate::op::{Completion, Op, Outcome};
use crate::slots::Slots;
use crate::status::{Status, StatusKind};
use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use weft_io::event_loop::TimerSlot;
use weft_io::segment::total_len;
use weft_io::{DriverId, Handle, Segments, Time};

pub(super) struct DelayQueue {
    inner: Box<dyn BlockQueue>,
    times: Times,
    schedule: Arc<Mutex<Schedule>>,
    /// Operations in flight; the inner queue knows an operation by its index here.
    begun: Slots<Begun>,
    /// Operations that the inner queue has not accepted yet.
    passing: VecDeque<Op>,
    /// Operations that completed before the end of their service: the end of the service, and their names.
    early: BinaryHeap<Reverse<(Time, u64)>>,
    /// Completions for the next reaping.
    ready: Vec<Completion>,
    returned: Vec<Completion>,
    /// `submit` left operations with the caller.
    refused: bool,
    timer: TimerSlot,
    on: Handle,
    owner: DriverId,
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
    pub(super) fn new(
        inner: Box<dyn BlockQueue>,
        times: Times,
        schedule: Arc<Mutex<Schedule>>,
        on: &Handle,
        owner: DriverId,
    ) -> Self {
        Self {
            inner,
            times,
            schedule,
            begun: Slots::default(),
            passing: VecDeque::new(),
            early: BinaryHeap::new(),
            ready: Vec::new(),
            returned: Vec::new(),
            refused: false,
            timer: TimerSlot::default(),
            on: on.clone(),
            owner,
        }
    }

    /// Passes on as many operations as there is room for. Service begins as soon as the device has a free place.
    fn take(&mut self, ops: &mut VecDeque<Op>) {
        if ops.is_empty() || self.begun.len() >= DELAY_QUEUE_OPS {
            return;
        }
        let now = self.on.clock();
        let mut schedule = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
        while self.begun.len() < DELAY_QUEUE_OPS
            && let Some(mut op) = ops.pop_front()
        {
            let transfer = self.times.transfer(total_len(&op.data) as u64);
            let due = schedule.serve(now, transfer, self.times.of(op.kind));
            op.user = self.begun.insert(Begun { user: op.user, due, done: None });
            self.passing.push_back(op);
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
            self.ready.push(completion);
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

impl BlockQueue for DelayQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.take(ops);
        self.inner.submit(&mut self.passing);
        self.refused = !ops.is_empty();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.inner.submit(&mut self.passing);
        let mut returned = core::mem::take(&mut self.returned);
        self.inner.reap(&mut returned);
        if !(returned.is_empty() && self.early.is_empty()) {
            let now = self.on.clock();
            returned.drain(..).for_each(|completion| self.come_back(completion, now));
            self.tell_due(now);
        }
        self.returned = returned;
        done.append(&mut self.ready);
        if let Some(&Reverse((due, _))) = self.early.peek() {
            self.timer.arm(&self.on, self.owner, due);
        }
        if self.refused && self.begun.len() < DELAY_QUEUE_OPS {
            self.refused = false;
            self.on.wake(self.owner);
        }
    }

    /// An operation that the inner device has completed ends now, with its outcome; others are no longer held.
    fn cancel(&mut self, user: u64) {
        let Some(name) = self.begun.find(|begun| begun.user == user) else { return };
        if let Some(at) = self.passing.iter().position(|op| op.user == name)
            && let Some(op) = self.passing.remove(at)
        {
            self.tell(name, op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
            return self.on.wake(self.owner);
        }
        let Some(begun) = self.begun.get_mut(name) else { return };
        begun.due = Time::ZERO;
        if begun.done.is_none() {
            return self.inner.cancel(name);
        }
        self.early.retain(|Reverse((_, early))| *early != name);
        self.tell_kept(name);
        self.on.wake(self.owner);
    }

    fn in_flight(&self) -> usize {
        self.begun.len() + self.ready.len()
    }

    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        self.inner.overdue(given_back)
    }

    fn change(&mut self) -> Option<Change> {
        self.inner.change()
    }
}

impl Drop for DelayQueue {
    fn drop(&mut self) {
        self.passing.drain(..).for_each(Op::give_up);
    }
}
