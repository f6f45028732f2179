//! State shared by several drivers on one loop: the queue, and the operations of each.

use crate::device::{BlockQueue, DeviceChange};
use crate::limits::SHARER_OPS;
use crate::op::{Completion, Op, Outcome};
use crate::slots::Slots;
use crate::status::{Status, StatusKind};
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_io::{Activity, Driver, DriverId, Handle};

/// Operations that are offered to a queue at a time: it handles each one that it has no room for.
const OFFERED_OPS: usize = 8;

/// See [`SharedQueue`](super::SharedQueue).
pub(super) struct Core {
    /// `None` if it is closed.
    pub(super) queue: Option<Box<dyn BlockQueue>>,
    pub(super) on: Handle,
    /// The driver that the queue wakes.
    pub(super) dispatcher: DriverId,
    pub(super) sharers: Slots<Member>,
    /// Sharers whose end exists.
    pub(super) joined: usize,
    /// The sharer of each operation and its name there, by the name that the queue knows.
    pub(super) origins: Slots<(u64, u64)>,
    /// Sharers with waiting operations, each once; the first is served next.
    pub(super) turns: VecDeque<u64>,
    /// Operations to be passed to the queue. Between calls: those for which it had no room, at most
    /// one per sharer.
    pub(super) offered: VecDeque<Op>,
    pub(super) done: Vec<Completion>,
    /// The device is gone: no new sharers.
    pub(super) gone: bool,
    /// True if the queue works in place.
    pub(super) in_place: bool,
}

/// The state of one sharer.
pub(super) struct Member {
    pub(super) owner: DriverId,
    pub(super) waiting: VecDeque<Op>,
    pub(super) done: Vec<Completion>,
    pub(super) changes: VecDeque<DeviceChange>,
    /// Operations accepted and not reaped.
    pub(super) in_flight: usize,
    /// Those of them that the queue has, or was offered.
    pub(super) in_queue: usize,
    /// `submit` left operations with the sharer.
    pub(super) refused: bool,
    pub(super) left: bool,
}

impl Core {
    /// Accepts operations of a sharer from the front of `ops`.
    #[inline]
    pub(super) fn submit(&mut self, sharer: u64, ops: &mut VecDeque<Op>) {
        let nobody_waits = self.turns.is_empty() && self.offered.is_empty();
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        let count = SHARER_OPS.saturating_sub(member.in_flight).min(ops.len());
        member.in_flight += count;
        member.refused = count < ops.len();
        if !nobody_waits {
            if member.waiting.is_empty() && count > 0 {
                self.turns.push_back(sharer);
            }
            member.waiting.extend(ops.drain(..count));
            // It offers them once in a turn of the loop, however many sharers submit.
            return self.on.wake(self.dispatcher);
        }
        member.in_queue += count;
        for mut op in ops.drain(..count) {
            op.user = self.origins.insert((sharer, op.user));
            self.offered.push_back(op);
        }
        let Some(queue) = &mut self.queue else { return };
        queue.submit(&mut self.offered);
        if !self.offered.is_empty() {
            self.take_back(sharer);
        }
    }

    /// Operations that the queue left wait with their sharer.
    fn take_back(&mut self, sharer: u64) {
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        member.in_queue -= self.offered.len();
        for mut op in self.offered.drain(..) {
            if let Some((_, user)) = self.origins.remove(op.user) {
                op.user = user;
                member.waiting.push_back(op);
            }
        }
        self.turns.push_back(sharer);
    }

    /// Offers waiting operations to the queue, one per sharer in turn, while there is room. Returns
    /// whether there was room.
    fn serve(&mut self) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let mut some = false;
        loop {
            if self.offered.is_empty() {
                for _ in 0..self.turns.len().min(OFFERED_OPS) {
                    let Some(sharer) = self.turns.pop_front() else { break };
                    let Some(member) = self.sharers.get_mut(sharer) else { continue };
                    let Some(mut op) = member.waiting.pop_front() else { continue };
                    op.user = self.origins.insert((sharer, op.user));
                    member.in_queue += 1;
                    self.offered.push_back(op);
                    if !member.waiting.is_empty() {
                        self.turns.push_back(sharer);
                    }
                }
            }
            let offered = self.offered.len();
            if offered == 0 {
                return some;
            }
            queue.submit(&mut self.offered);
            some |= self.offered.len() < offered;
            if !self.offered.is_empty() {
                return some;
            }
        }
    }

    /// Reaps the queue, reads changes of the device, and passes on waiting operations: a sharer
    /// only where completions have made room. Wakes the sharers concerned, except the caller.
    /// Returns whether something completed, and whether something was passed on.
    #[inline]
    pub(super) fn advance(&mut self, asks: Option<u64>) -> (bool, bool) {
        let Some(queue) = &mut self.queue else { return (false, false) };
        queue.reap(&mut self.done);
        let out = !self.done.is_empty();
        let mut done = core::mem::take(&mut self.done);
        done.drain(..).for_each(|completion| self.deliver(completion, asks));
        self.done = done;
        self.tell_changes();
        let waits = !self.turns.is_empty() || !self.offered.is_empty();
        (out, waits && (out || asks.is_none()) && self.serve())
    }

    /// Puts a completion into the list of its sharer, unless that has left.
    #[inline]
    fn deliver(&mut self, mut completion: Completion, asks: Option<u64>) {
        let Some((sharer, user)) = self.origins.remove(completion.op.user) else { return };
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        member.in_queue -= 1;
        if member.left {
            if member.in_queue == 0 {
                self.sharers.remove(sharer);
            }
            return;
        }
        completion.op.user = user;
        member.done.push(completion);
        if asks != Some(sharer) {
            self.on.wake(member.owner);
        }
    }

    #[inline]
    fn tell_changes(&mut self) {
        while let Some(change) = self.queue.as_mut().and_then(|queue| queue.change()) {
            self.gone |= change == DeviceChange::Gone;
            for member in self.sharers.values_mut().filter(|member| !member.left) {
                member.changes.retain(|told| !change.supersedes(*told));
                member.changes.push_back(change);
                self.on.wake(member.owner);
            }
        }
    }

    /// Appends a sharer's completions.
    #[inline]
    pub(super) fn reap(&mut self, sharer: u64, done: &mut Vec<Completion>) {
        if let (_, true) = self.advance(Some(sharer)) {
            // The queue may have completed operations of others at once.
            self.on.wake(self.dispatcher);
        }
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        let count = member.done.len();
        member.in_flight -= count;
        done.append(&mut member.done);
        if count > 0 && core::mem::take(&mut member.refused) {
            self.on.wake(member.owner);
        }
    }

    pub(super) fn cancel(&mut self, sharer: u64, user: u64) {
        let name = self.origins.find(|origin| *origin == (sharer, user));
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        let at = member.waiting.iter().position(|op| op.user == user);
        let waited = match at.and_then(|at| member.waiting.remove(at)) {
            Some(op) => Some(op),
            None => {
                let Some(name) = name else { return };
                let Some(at) = self.offered.iter().position(|op| op.user == name) else {
                    return self.queue.iter_mut().for_each(|queue| queue.cancel(name));
                };
                self.origins.remove(name);
                member.in_queue -= 1;
                self.offered.remove(at).map(|mut op| {
                    op.user = user;
                    op
                })
            }
        };
        if let Some(op) = waited {
            member.done.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
            self.on.wake(member.owner);
        }
    }

    pub(super) fn in_flight(&self, sharer: u64) -> usize {
        self.sharers.get(sharer).map_or(0, |member| member.in_flight)
    }

    pub(super) fn change(&mut self, sharer: u64) -> Option<DeviceChange> {
        self.sharers.get_mut(sharer)?.changes.pop_front()
    }

    /// A sharer drops its end: its waiting operations are given up, and its operations in the queue
    /// are cancelled. Returns the queue if it has no other user.
    pub(super) fn leave(&mut self, sharer: u64) -> Option<Box<dyn BlockQueue>> {
        self.joined -= 1;
        let names: Vec<u64> = self
            .origins
            .names()
            .filter(|name| self.origins.get(*name).is_some_and(|of| of.0 == sharer))
            .collect();
        let (queue, offered) = (&mut self.queue, &mut self.offered);
        let mut withdrawn = 0;
        for name in names {
            if let Some(at) = offered.iter().position(|op| op.user == name) {
                offered.remove(at).into_iter().for_each(Op::give_up);
                self.origins.remove(name);
                withdrawn += 1;
            } else {
                queue.iter_mut().for_each(|queue| queue.cancel(name));
            }
        }
        self.turns.retain(|waits| *waits != sharer);
        if let Some(member) = self.sharers.get_mut(sharer) {
            member.left = true;
            member.waiting.drain(..).for_each(Op::give_up);
            member.done.clear();
            member.in_queue -= withdrawn;
            if member.in_queue == 0 {
                self.sharers.remove(sharer);
            }
        }
        self.on.wake(self.dispatcher);
        self.close()
    }

    /// The queue and its dispatcher, if it has no sharers and nothing is in flight.
    fn close(&mut self) -> Option<Box<dyn BlockQueue>> {
        if self.joined > 0 || !self.origins.is_empty() {
            return None;
        }
        let queue = self.queue.take();
        if queue.is_some() {
            self.on.remove(self.dispatcher);
        }
        queue
    }
}

impl Drop for Core {
    /// The loop ends.
    fn drop(&mut self) {
        let waiting = self.sharers.values_mut().flat_map(|member| member.waiting.drain(..));
        waiting.chain(self.offered.drain(..)).for_each(Op::give_up);
    }
}

/// The driver that the queue wakes.
pub(super) struct Dispatcher(pub(super) Rc<RefCell<Core>>);

impl Driver for Dispatcher {
    fn work(&mut self, _: &Handle) -> Activity {
        let ((out, within), closed) = {
            let core = &mut *self.0.borrow_mut();
            (core.advance(None), core.close())
        };
        drop(closed);
        // A busy driver gets another turn, in which it reaps what a device completed at once.
        Activity::busy_if(out || within)
    }
}
