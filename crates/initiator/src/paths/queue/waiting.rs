//! The end of operations that no path has.

use super::PathsQueue;
use weft_block::{Op, Outcome, Status};
use weft_connection::settle::lost_writes::GONE;

impl PathsQueue {
    /// No path can be used, and operations do not wait for one.
    pub(super) fn fail_waiting(&mut self) {
        let failed: Vec<Op> = self.waiting.drain(..).collect();
        for op in failed {
            self.end_waiting(op, GONE);
        }
    }

    /// Ends an operation that no path has.
    pub(super) fn end_waiting(&mut self, mut op: Op, status: Status) {
        let name = op.user;
        let Some(flight) = self.flights.remove(name) else { return op.give_up() };
        if let Some(log) =
            self.log.as_ref().filter(|_| flight.may_have_executed && flight.kind.is_write())
        {
            log.doubt(&op);
        }
        if flight.unresolved {
            self.resolve(name, false);
        }
        self.end_order(name, flight.lba, flight.went_out);
        op.user = flight.user;
        let outcome = if flight.may_have_executed {
            Outcome::settled(status)
        } else {
            Outcome::NotSent(status)
        };
        self.ready.push(op.done(outcome));
        self.on.wake(self.owner);
    }
}
