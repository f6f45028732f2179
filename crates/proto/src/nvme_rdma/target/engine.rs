//! A controller's end as the pump sees it.

use core::time::Duration;

use super::TargetQueuePair;
use super::transmit::Next;
use crate::nvme_rdma::engine::{LinkEnd, QueuePairEngine};
use crate::nvme_rdma::link::{Phase, QueuePairState};
use crate::nvme_rdma::violation::Violation;
use crate::nvme_rdma::work::{Received, Work, WorkId, WorkKind, WorkOutcome};

impl QueuePairEngine for TargetQueuePair {
    fn established(&mut self, _: &[u8]) {
        if self.link.phase == Phase::Connecting {
            self.link.phase = Phase::Open;
        }
    }

    #[inline]
    fn received(&mut self, received: &Received<'_>) {
        if !self.link.take(received) {
            return self.settle();
        }
        if self.link.phase == Phase::Closing {
            return;
        }
        if let Err(violation) = self.take_capsule(received) {
            self.link.fail(violation);
            self.settle();
        }
    }

    #[inline]
    fn completed(&mut self, id: WorkId, ended: WorkOutcome) {
        let Some(entries) = self.take_posted(id, ended) else {
            self.link.fail(Violation::UnknownCompletion);
            return self.settle();
        };
        self.link.retire(entries);
        let failed = match id.kind {
            WorkKind::Read => Violation::Read,
            WorkKind::Write => Violation::Write,
            WorkKind::Send | WorkKind::Invalidate | WorkKind::Bind => Violation::Send,
        };
        self.link.work_ended(ended, failed);
        match id.kind {
            WorkKind::Read => {
                if let Some(slot) = self.slots.at(id.tag) {
                    slot.damaged |= ended != WorkOutcome::Done;
                }
                self.settle_fetch(id.tag);
            }
            WorkKind::Send => self.release(id.tag),
            _ => self.release_unsent(id.tag),
        }
        self.settle();
    }

    #[inline]
    fn next_work(&mut self) -> Option<Work> {
        if self.link.is_urgent() || !self.link.is_live() {
            return self.link.urgent_work();
        }
        if let Some(tag) = self.responding.take() {
            return self.respond(tag);
        }
        if let Some(work) = self.place() {
            return Some(work);
        }
        match self.answer() {
            Next::Work(work) => Some(work),
            // What is first gets the room first, or never would.
            Next::Full => None,
            Next::Nothing => self.read(),
        }
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        let queues = [&self.placing, &self.reading, &self.answering];
        self.link.is_urgent()
            || (self.link.is_live()
                && (self.responding.is_some() || queues.iter().any(|queue| !queue.is_empty())))
    }

    fn destroyed(&mut self) {
        self.link.destroyed();
        (self.reads, self.sends) = (0, 0);
        for tag in self.slots.tags() {
            self.lose(tag);
        }
        self.settle_closed();
    }

    #[inline]
    fn tick(&mut self, now: Duration) {
        if let Some(start) = &mut self.start
            && !self.link.is_closed()
            && start.has_passed(now)
        {
            let limit = start.limit();
            self.link.fail(Violation::ConnectLate(limit));
        }
        self.link.tick(now);
        self.settle();
    }

    #[inline]
    fn deadline(&self) -> Option<Duration> {
        let start = self.start.filter(|_| !self.link.is_closed()).map(|start| start.deadline());
        match (start, self.link.deadline()) {
            (Some(start), Some(end)) => Some(start.min(end)),
            (start, end) => start.or(end),
        }
    }
}

impl LinkEnd for TargetQueuePair {
    #[inline]
    fn link(&self) -> &QueuePairState {
        &self.link
    }

    #[inline]
    fn link_mut(&mut self) -> &mut QueuePairState {
        &mut self.link
    }

    #[inline]
    fn settle(&mut self) {
        match self.link.phase {
            Phase::Connecting | Phase::Open => {}
            Phase::Closing => {
                if self.answering.is_empty() && self.responding.is_none() && self.sends == 0 {
                    self.link.end();
                    self.settle_closed();
                }
            }
            Phase::Closed if self.settled => {}
            Phase::Closed => self.settle_closed(),
        }
    }
}
