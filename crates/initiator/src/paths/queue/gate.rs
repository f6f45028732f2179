//! Work of a queue while unflushed writes are written again, and after a loss of some.

use super::super::flights::LEAVING;
use super::PathsQueue;
use weft_block::{Op, OpKind, Outcome, Status, StatusKind};

impl PathsQueue {
    /// Completed writes were lost. Fails every flush submitted before the loss was reported: no
    /// submitter can know that another flush reported it. A flush that is still with a lost path
    /// fails when it comes back; if there is none, the next one fails.
    #[cold]
    pub(super) fn fail_flushes(&mut self) {
        let losses = self.group.losses();
        let flights = &mut self.flights;
        let mut tells = |op: &Op| {
            op.kind == OpKind::Flush
                && flights.get_mut(op.user).is_some_and(|it| it.losses != losses)
        };
        let telling: Vec<u64> =
            self.waiting.iter().filter(|op| tells(op)).map(|op| op.user).collect();
        for name in telling {
            let Some(at) = self.waiting.iter().position(|op| op.user == name) else { continue };
            let Some(mut op) = self.waiting.remove(at) else { continue };
            self.losses = losses;
            op.user = self.flights.remove(op.user).map_or(op.user, |flight| flight.user);
            self.ready.push(op.done(Outcome::Done(Status::new(StatusKind::Internal))));
            self.on.wake(self.owner);
        }
    }

    /// Whether an operation has to wait for writes that were lost. A flush that is sent before one
    /// that hides something would vouch for it.
    pub(super) fn is_held(&self, op: &Op) -> bool {
        let unresolved = &self.group.unresolved;
        unresolved.any()
            && (unresolved.overlaps(op.lba, op.blocks)
                || (op.kind == OpKind::Flush && unresolved.hide_any()))
    }

    /// A write that was lost is completed, or was never sent: others may go on.
    pub(super) fn resolve(&self, name: u64, is_success: bool) {
        let hid = self.group.unresolved.remove((self.name, name));
        self.lose_hidden(hid && !is_success);
        self.group.tell_queues();
    }

    /// A write has ended without success, and hid something: nobody knows whether that is still
    /// there.
    pub(super) fn lose_hidden(&self, hid: bool) {
        if hid {
            tracing::error!(
                "{}: the target has restarted, and data that was written and not flushed may be lost, below a write that failed: the next flush fails",
                self.group.url
            );
            self.group.lose_writes();
        }
    }

    /// Tells the keeper that nothing here disturbs a replay, nor would read what is half written.
    pub(super) fn report_quiet(&mut self) {
        if self.is_gated && !self.flights.iter_mut().any(|(_, flight)| flight.place < LEAVING) {
            self.group.report_quiet(self.name, self.group.replays());
        }
    }
}
