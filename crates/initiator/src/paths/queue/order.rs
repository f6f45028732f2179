//! Keeps the order of overlapping writes of a queue over a volatile cache.

use super::PathsQueue;
use std::collections::VecDeque;
use weft_block::{Op, OpKind};

impl PathsQueue {
    /// Whether an operation is among those that go out in order.
    #[inline]
    fn is_ordered(&self, kind: OpKind, blocks: u32) -> bool {
        self.log.is_some() && kind.is_write() && blocks > 0
    }

    /// Whether a new operation may be sent, and whether it is one that others wait for from then
    /// on.
    #[inline]
    pub(super) fn begin(&self, op: &Op) -> (bool, bool) {
        let is_ordered = self.is_ordered(op.kind, op.blocks);
        (!is_ordered || self.group.ordered.go(op.lba, op.blocks), is_ordered)
    }

    /// Whether it is the turn of an operation that waits.
    pub(super) fn is_turn(&mut self, op: &Op) -> bool {
        let is_ordered = self.is_ordered(op.kind, op.blocks);
        let Some(flight) =
            self.flights.get_mut(op.user).filter(|flight| is_ordered && !flight.went_out)
        else {
            return true;
        };
        flight.went_out = self.group.ordered.go_or_wait((self.name, op.user), op.lba, op.blocks);
        flight.went_out
    }

    /// An operation has ended: those that overlap it may go on.
    #[inline]
    pub(super) fn end_order(&self, name: u64, lba: u64, went_out: bool) {
        let ordered = &self.group.ordered;
        let is_waited_for =
            if went_out { ordered.end(lba) } else { ordered.forget((self.name, name)) };
        if is_waited_for {
            self.group.tell_queues();
        }
    }

    /// The queue is closed.
    pub(super) fn leave_order(&mut self) {
        let Self { group, flights, .. } = self;
        let mut is_waited_for = group.ordered.forget_all(self.name);
        for (_, flight) in flights.iter_mut().filter(|(_, flight)| flight.went_out) {
            is_waited_for |= group.ordered.end(flight.lba);
        }
        if is_waited_for {
            group.tell_queues();
        }
    }

    /// Gives a path what it is offered; what it has no room for goes back. Returns whether anything
    /// did.
    #[inline]
    pub(super) fn offer(&mut self, path: usize, count: usize, ops: &mut VecDeque<Op>) -> bool {
        let route = &mut self.routes[path];
        let Some(open) = &mut route.open else { return true };
        open.queue.submit(&mut route.offered);
        let left = route.offered.len();
        route.in_flight += (count - left) as u32;
        while let Some(mut op) = self.routes[path].offered.pop_back() {
            if let Some(flight) = self.flights.remove(op.user) {
                self.end_order(op.user, flight.lba, flight.went_out);
                op.user = flight.user;
            }
            ops.push_front(op);
        }
        left > 0
    }
}
