//! Counts of what the legs of a mirror do, for its status.
//!
//! The home and each loop have a queue of a leg, and each queue counts for itself
//! ([`LegQueueCounts`]): one pass over each batch of completions, then one store for each counter.
//! No other thread writes these counters, so counting needs no synchronisation, and the counts are
//! exact when nothing is in flight.
//!
//! The latency is sampled: a queue times one read or write of a user at a time, and begins the next
//! sample after a pause. Times are those of the loop's turns, so no clock is read.

use core::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use std::sync::{Arc, MutexGuard};

use weft_base::lock::Lock;
use weft_io::Time;

use crate::{
    op::{Completion, Op},
    outcome::status::StatusKind,
    path::PathStatus,
};

/// The shortest time from the end of a sample to the next one on the same queue.
const SAMPLE_PAUSE: Duration = Duration::from_millis(1);

/// Counts of a leg since its mirror was opened.
#[derive(Default)]
pub(crate) struct LegCounts {
    queues: Lock<Queues>,
    retries: AtomicU64,
    reconnects: AtomicU64,
    /// Average of the last samples in nanoseconds; 0 if there are none.
    latency_ns: AtomicU64,
}

#[derive(Default)]
struct Queues {
    open: Vec<Arc<Counters>>,
    /// Sum over the queues that were closed.
    closed: Counted,
}

/// Counters of one queue. Only its loop writes them.
#[derive(Default)]
struct Counters {
    operations: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

/// Values of [`Counters`].
#[derive(Clone, Copy, Default)]
struct Counted {
    operations: u64,
    bytes: u64,
    errors: u64,
}

fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(value), Relaxed);
}

impl Counted {
    fn plus(self, of: &Counters) -> Self {
        Self {
            operations: self.operations + of.operations.load(Relaxed),
            bytes: self.bytes + of.bytes.load(Relaxed),
            errors: self.errors + of.errors.load(Relaxed),
        }
    }
}

impl LegCounts {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock()
    }

    /// Counts an operation that failed on the leg and is sent again, there or to another leg.
    pub(crate) fn retried(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// Counts that the leg was opened again after the mirror had used it.
    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Relaxed);
    }

    /// Adds a sample to the average, with a weight of an eighth. A sample is lost if another loop
    /// adds one at the same moment.
    fn sampled(&self, took: Duration) {
        let sample = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let average = self.latency_ns.load(Relaxed);
        let next = if average == 0 { sample } else { average - average / 8 + sample / 8 };
        // At least 1, as 0 means that there are none.
        self.latency_ns.store(next.max(1), Relaxed);
    }

    /// Fills in the counts of a status.
    pub(super) fn fill(&self, status: &mut PathStatus) {
        let queues = self.queues();
        let counted = queues.open.iter().fold(queues.closed, |sum, one| sum.plus(one));
        (status.operations, status.bytes) = (counted.operations, counted.bytes);
        (status.errors, status.retries) = (counted.errors, self.retries.load(Relaxed));
        status.reconnects = self.reconnects.load(Relaxed);
        let latency_ns = self.latency_ns.load(Relaxed);
        status.latency = (latency_ns > 0).then(|| Duration::from_nanos(latency_ns));
    }
}

/// Counts what one queue of a leg does. When it is dropped, the leg keeps the counts.
pub(crate) struct LegQueueCounts {
    of: Arc<LegCounts>,
    own: Arc<Counters>,
    block_bytes: u64,
    /// The operation that is being timed, and the turn in which it was submitted.
    sample: Option<(u64, Time)>,
    /// When the next sample may begin.
    due: Time,
}

impl LegQueueCounts {
    pub(crate) fn new(of: &Arc<LegCounts>, block_bytes: u32) -> Self {
        let own = Arc::<Counters>::default();
        of.queues().open.push(Arc::clone(&own));
        let block_bytes = u64::from(block_bytes);
        Self { of: Arc::clone(of), own, block_bytes, sample: None, due: Time::ZERO }
    }

    /// Returns true if the next sample may begin.
    #[inline]
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.sample.is_none() && now >= self.due
    }

    /// Times this operation, which is submitted now.
    pub(crate) fn time(&mut self, op: &Op, now: Time) {
        self.sample = Some((op.user, now));
    }

    /// Counts operations that ended on the queue.
    #[inline]
    pub(crate) fn ended(&mut self, done: &[Completion], now: Time) {
        if done.is_empty() {
            return;
        }
        let mut blocks = 0;
        for completion in done {
            blocks += u64::from(completion.op.blocks);
            if !completion.outcome.is_success() {
                self.failed(completion);
            }
        }
        add(&self.own.operations, done.len() as u64);
        add(&self.own.bytes, blocks * self.block_bytes);
        if let Some((user, since)) = self.sample
            && done.iter().any(|completion| completion.op.user == user)
        {
            self.of.sampled(now - since);
            (self.sample, self.due) = (None, now + SAMPLE_PAUSE);
        }
    }

    /// A comparison that finds different data is an answer, and not an error of the leg.
    #[cold]
    fn failed(&self, completion: &Completion) {
        if completion.outcome.status().kind != StatusKind::CompareFailed {
            add(&self.own.errors, 1);
        }
    }

    /// Counts an operation that failed here and is sent again.
    pub(crate) fn retried(&self) {
        self.of.retried();
    }
}

impl Drop for LegQueueCounts {
    fn drop(&mut self) {
        let mut queues = self.of.queues();
        queues.open.retain(|one| !Arc::ptr_eq(one, &self.own));
        queues.closed = queues.closed.plus(&self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        op::{OpKind, Outcome},
        outcome::status::Status,
        path::{AccessState, PathState},
    };

    fn status(of: &LegCounts) -> PathStatus {
        let mut status = PathStatus {
            url: String::new(),
            state: PathState::Live,
            access: AccessState::Optimized,
            operations: 0,
            bytes: 0,
            errors: 0,
            retries: 0,
            reconnects: 0,
            latency: None,
            why: None,
            epoch: None,
        };
        of.fill(&mut status);
        status
    }

    fn op(user: u64, blocks: u32) -> Op {
        Op::bare(OpKind::Discard, 0, blocks, user)
    }

    fn failed(kind: StatusKind) -> Outcome {
        Outcome::Done(Status::new(kind))
    }

    #[test]
    fn the_queues_of_a_leg_count_together_and_keep_counting_when_closed() {
        let leg = Arc::<LegCounts>::default();
        let mut queues = [(); 2].map(|()| LegQueueCounts::new(&leg, 512));
        queues[0].ended(&[], Time::ZERO);
        assert_eq!(status(&leg).operations, 0);
        let done = [op(1, 8).done(Outcome::SUCCESS), op(2, 0).done(Outcome::SUCCESS)];
        queues[0].ended(&done, Time::ZERO);
        queues[1].ended(&[op(1, 3).done(failed(StatusKind::Media))], Time::ZERO);
        queues[1].ended(&[op(1, 1).done(failed(StatusKind::CompareFailed))], Time::ZERO);
        queues[1].retried();
        leg.reconnected();
        let is_as_counted = |status: PathStatus| {
            assert_eq!((status.operations, status.bytes), (4, 12 * 512));
            assert_eq!((status.errors, status.retries, status.reconnects), (1, 1, 1));
        };
        is_as_counted(status(&leg));
        drop(queues);
        is_as_counted(status(&leg));
        let mut again = LegQueueCounts::new(&leg, 512);
        again.ended(&[op(1, 1).done(Outcome::SUCCESS)], Time::ZERO);
        assert_eq!(status(&leg).operations, 5);
    }

    #[test]
    fn one_operation_at_a_time_is_timed_and_then_none_for_a_while() {
        let leg = Arc::<LegCounts>::default();
        let mut queue = LegQueueCounts::new(&leg, 512);
        let at = |us| Time::ZERO + Duration::from_micros(us);
        let (timed, other) = (op(7, 1), op(8, 1));
        assert!(queue.is_due(at(0)));
        queue.time(&timed, at(0));
        assert!(!queue.is_due(at(5000)), "one is being timed");
        queue.ended(&[other.done(Outcome::SUCCESS)], at(30));
        assert_eq!(status(&leg).latency, None, "of another operation");
        queue.ended(&[timed.done(Outcome::SUCCESS)], at(80));
        assert_eq!(status(&leg).latency, Some(Duration::from_micros(80)));
        assert!(!queue.is_due(at(1079)) && queue.is_due(at(1080)));
        let next = op(7, 1);
        queue.time(&next, at(2000));
        queue.ended(&[next.done(Outcome::SUCCESS)], at(2160));
        assert_eq!(status(&leg).latency, Some(Duration::from_micros(90)));
    }

    #[test]
    fn what_ends_in_the_same_turn_has_a_latency() {
        let leg = Arc::<LegCounts>::default();
        leg.sampled(Duration::ZERO);
        assert_eq!(status(&leg).latency, Some(Duration::from_nanos(1)));
    }
}
