//! A loop's queue of a leg, and how it ends.

use super::shared::DirectLeg;
use crate::device::BlockQueue;
use crate::limits::MIRROR_DRAIN_MS;
use crate::mirror::counts::LegQueueCounts;
use crate::op::{Completion, Op};
use core::time::Duration;
use std::collections::VecDeque;
use weft_io::{Activity, Driver, DriverId, Handle, Time};

/// See the module.
pub(super) struct Leg {
    pub(super) queue: Box<dyn BlockQueue>,
    /// Operations that it has not taken yet.
    pub(super) todo: VecDeque<Op>,
    /// Reads under way there.
    pub(super) reads: u32,
    /// The queue reports that its device is gone.
    pub(super) is_lost: bool,
    pub(super) counts: LegQueueCounts,
    /// Given back after the queue: until then the leg is not settled.
    pub(super) of: DirectLeg,
}

impl Leg {
    /// Submits what the queue has not taken yet.
    pub(super) fn submit(&mut self, now: Time) {
        if self.counts.is_due(now)
            && let Some(op) = self.todo.get(self.todo.len() / 2)
        {
            self.counts.time(op, now);
        }
        self.queue.submit(&mut self.todo);
    }

    /// Puts what has ended into `returned`, which is empty.
    pub(super) fn reap(&mut self, returned: &mut Vec<Completion>, now: Time) {
        self.queue.reap(returned);
        self.counts.ended(returned, now);
    }

    /// Returns whether none of its commands can be executed.
    pub(super) fn is_settled(&mut self) -> bool {
        self.todo.is_empty()
            && self.queue.in_flight() == 0
            && self.queue.overdue(&mut Vec::new()) == 0
    }

    /// Drops it when it is settled.
    pub(super) fn drain(mut self, on: &Handle) {
        self.todo.drain(..).for_each(Op::give_up);
        if self.is_settled() {
            return;
        }
        if on.is_stopping() {
            // The process ends, or nobody opens the leg again in it.
            core::mem::forget(self.of.use_of_it.clone());
            return;
        }
        on.spawn(|id| Draining { leg: self, id });
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.todo.drain(..).for_each(Op::give_up);
    }
}

/// Waits for the rest of a queue when its loop has no user. The queue wakes a driver that has
/// ended, so this looks from time to time.
struct Draining {
    leg: Leg,
    id: DriverId,
}

impl Driver for Draining {
    fn work(&mut self, on: &Handle) -> Activity {
        self.leg.reap(&mut Vec::new(), on.now());
        if self.leg.is_settled() {
            on.remove(self.id);
        } else {
            on.wake_at(self.id, on.now() + Duration::from_millis(MIRROR_DRAIN_MS));
        }
        Activity::Idle
    }
}
