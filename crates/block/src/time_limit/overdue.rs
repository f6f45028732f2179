//! Work of a queue when the device has not answered in time.

use super::queue::TimeLimitedQueue;
use crate::op::{Completion, Op, Outcome};
use crate::status::{Status, StatusKind};
use std::collections::VecDeque;

const TIMED_OUT: Status = Status::new(StatusKind::TimedOut);

impl TimeLimitedQueue {
    /// Ends operations that the device has not accepted.
    #[cold]
    pub(super) fn refuse(&mut self, ops: &mut VecDeque<Op>) {
        self.relay.ready.extend(ops.drain(..).map(|op| op.done(Outcome::NotSent(TIMED_OUT))));
    }

    #[cold]
    pub(super) fn refuse_passing(&mut self) {
        let mut passing = core::mem::take(&mut self.relay.passing);
        for op in &mut passing {
            self.under_way.end(op.user).into_iter().for_each(|begun| begun.restore(op, false));
        }
        self.refuse(&mut passing);
    }

    #[cold]
    pub(super) fn come_back_late(&mut self, completion: Completion) {
        if self.own.is_none() {
            self.given_back.push(completion.op.data);
        }
        self.under_way.overdue -= 1;
        self.health.came_back(1);
    }

    /// Completes what is overdue, and asks the device to end it.
    #[cold]
    pub(super) fn sweep(&mut self) {
        let now = self.relay.on.now();
        // Those that the device has not even accepted are not overdue: they end with their memory.
        if self.relay.passing.iter().any(|op| self.under_way.is_over(op.user, now)) {
            self.refuse_passing();
        }
        if self.relay.inner.holds_back() {
            // Which of them wait for a rate is not known: their time begins when none does.
            self.under_way.restart(now);
        }
        let swept = self.under_way.sweep(now, Outcome::unsettled(TIMED_OUT));
        self.health.overdue(swept.len());
        for (name, completion) in swept {
            self.relay.ready.push(completion);
            self.relay.inner.cancel(name);
        }
        self.wait();
    }
}
