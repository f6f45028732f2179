//! What a queue does while unflushed writes are written again, and when some were lost.

use super::super::flights::{Flight, LEAVING};
use super::PathsQueue;
use crate::source::queue::GONE;
use weft_block::{Completion, OpKind, Outcome, Status, StatusKind};

impl PathsQueue {
    /// Completed writes were lost: the first flush that waits fails.
    #[cold]
    pub(super) fn fail_flush(&mut self) {
        let Some(at) = self.waiting.iter().position(|op| op.kind == OpKind::Flush) else { return };
        let Some(mut op) = self.waiting.remove(at) else { return };
        self.losses = self.group.losses();
        op.user = self.flights.remove(op.user).map_or(op.user, |flight| flight.user);
        self.ready.push(op.done(Outcome::Done(Status::new(StatusKind::Internal))));
        self.on.wake(self.owner);
    }

    /// Tells the keeper that nothing here disturbs a replay.
    pub(super) fn report_quiet(&mut self) {
        let disturbs = |flight: &Flight| flight.place < LEAVING && (flight.kind.is_write() || flight.kind == OpKind::Flush);
        if self.is_gated && !self.flights.iter_mut().any(|(_, flight)| disturbs(flight)) {
            self.group.report_quiet(self.name, self.group.replays());
        }
    }
}

/// A write whose completion may be worth nothing is sent again.
pub(super) fn doubt(completion: &mut Completion) {
    let is_write = completion.op.kind.is_write() && !matches!(completion.op.kind, OpKind::CompareAndWrite { .. });
    if is_write && completion.outcome.is_success() {
        completion.outcome = Outcome::settled(GONE);
    }
}
