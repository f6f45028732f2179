//! A host's end as the pump sees it.

use super::HostQueuePair;
use crate::nvme_rdma::cm::CmAccept;
use crate::nvme_rdma::engine::{LinkEnd, QueuePairEngine};
use crate::nvme_rdma::link::{Phase, QueuePairState};
use crate::nvme_rdma::violation::Violation;
use crate::nvme_rdma::work::{Received, Work, WorkId, WorkKind, WorkOutcome};

impl QueuePairEngine for HostQueuePair {
    fn established(&mut self, private_data: &[u8]) {
        if self.link.phase != Phase::Connecting {
            return;
        }
        match CmAccept::decode(private_data) {
            Ok(accept) => {
                self.credits = accept.receives;
                self.link.phase = Phase::Open;
            }
            Err(error) => self.link.fail(error.into()),
        }
    }

    #[inline]
    fn received(&mut self, received: &Received<'_>) {
        if !self.link.take(received) {
            return self.settle();
        }
        self.link.receives.repost(received.buffer);
        if let Err(violation) = self.response(received) {
            self.link.fail(violation);
            self.settle();
        }
    }

    #[inline]
    fn completed(&mut self, id: WorkId, ended: WorkOutcome) {
        let Some(entries) = self.slots.at(id.tag).and_then(|slot| slot.take_posted(id.kind, ended))
        else {
            self.link.fail(Violation::UnknownCompletion);
            return self.settle();
        };
        let failed = match id.kind {
            WorkKind::Invalidate => Violation::Invalidate,
            WorkKind::Bind => Violation::Bind,
            WorkKind::Send | WorkKind::Read | WorkKind::Write => Violation::Send,
        };
        self.link.retire(entries);
        self.link.work_ended(ended, failed);
        self.finish(id.tag);
        self.settle();
    }

    #[inline]
    fn next_work(&mut self) -> Option<Work> {
        if self.link.is_urgent() || !self.link.is_live() {
            return self.link.urgent_work().or_else(|| self.conceal_closed());
        }
        if let Some(work) = self.conceal_next() {
            return Some(work);
        }
        let work = match self.exposed {
            Some(tag) => self.send_exposed(tag),
            None => self.send_next(),
        };
        if work.is_none() && self.link.phase == Phase::Closing {
            return self.last_work();
        }
        work
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        self.link.is_urgent()
            || (self.link.is_live()
                && !(self.queue.is_empty() && self.conceal.is_empty() && self.exposed.is_none()))
    }

    #[cold]
    fn give_up(&mut self, held: Work) {
        match (held, held.id()) {
            (Work::Expose { tag, .. }, _) => self.not_exposed(tag),
            (_, Some(id)) => self.completed(id, WorkOutcome::Flushed),
            (_, None) => {}
        }
    }

    fn destroyed(&mut self) {
        self.link.destroyed();
        for tag in self.slots.tags() {
            let Some(slot) = self.slots.at(tag) else { continue };
            (slot.sending, slot.binding, slot.invalidating, slot.exposed) =
                (false, false, false, false);
            self.finish(tag);
        }
        self.settle();
    }
}

impl LinkEnd for HostQueuePair {
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
            Phase::Connecting | Phase::Open => return,
            Phase::Closing => {
                if !self.queue.is_empty() || self.exposed.is_some() || self.is_sending() {
                    return;
                }
                self.link.end();
            }
            Phase::Closed => {}
        }
        if let Some(slot) = self.exposed.take().and_then(|tag| self.slots.at(tag)) {
            // For the SEND that was to follow.
            slot.entries -= 1;
            self.link.retire(1);
        }
    }
}
