//! Processing of messages and of ended work at a target.

use super::TargetQueuePair;
use super::capsule::Capsule;
use super::slot::{CommandSlot, CommandState, PendingEvent};
use crate::nvme::sqe::Sqe;
use crate::nvme_rdma::engine::QueuePairEngine;
use crate::nvme_rdma::violation::Violation;
use crate::nvme_rdma::work::{Received, WorkId, WorkKind, WorkOutcome};
use crate::stream::Tag;

impl TargetQueuePair {
    pub(super) fn take_capsule(&mut self, received: &Received<'_>) -> Result<(), Violation> {
        // This end gives access to no memory that could be invalidated.
        if let Some(key) = received.invalidated {
            return Err(Violation::Invalidation(key));
        }
        let bytes = received.bytes.len();
        let max = self.config.in_capsule_bytes.saturating_add(64);
        let length = Violation::CapsuleLength { bytes, max };
        let (sqe, data) =
            received.bytes.split_first_chunk().filter(|_| bytes <= max as usize).ok_or(length)?;
        if usize::from(self.outstanding) >= self.slots.capacity() {
            return Err(Violation::QueueOverrun);
        }
        self.outstanding += 1;
        let buffer = (!data.is_empty()).then_some(received.buffer);
        if buffer.is_none() {
            self.link.receives.repost(received.buffer);
        }
        self.waiting.0.push_back(Capsule {
            sqe: Sqe(*sqe),
            buffer,
            in_capsule_bytes: data.len() as u32,
        });
        self.take_waiting();
        Ok(())
    }

    /// Hands commands that wait for a slot to the layer above.
    #[inline]
    pub(super) fn take_waiting(&mut self) {
        while !self.waiting.0.is_empty()
            && !self.is_closed()
            && let Some((tag, slot)) = self.slots.take()
        {
            if let Some(Capsule { sqe, buffer, in_capsule_bytes }) = self.waiting.0.pop_front() {
                (slot.sqe, slot.buffer, slot.in_capsule_bytes) = (sqe, buffer, in_capsule_bytes);
                self.tell(tag, PendingEvent::Command);
            }
        }
    }

    /// Takes such work if it was posted: returns the entries of the send queue that it gives back.
    /// After that it is not posted.
    #[inline]
    pub(super) fn take_posted(&mut self, id: WorkId, ended: WorkOutcome) -> Option<u16> {
        use CommandState::{Completing, Draining, Fetching, Sending};
        let slot = self.slots.at(id.tag)?;
        match (id.kind, slot.state) {
            (WorkKind::Send, Sending) => {
                slot.unsignaled = false;
                self.sends -= 1;
                Some(slot.entries)
            }
            (WorkKind::Read, Fetching | Draining) if slot.posted > 0 => {
                slot.posted -= 1;
                self.reads -= 1;
                Some(1)
            }
            (WorkKind::Write, Completing | Sending) if slot.posted > 0 => {
                slot.posted -= 1;
                Some(1)
            }
            // The SEND tells of one that succeeds.
            (WorkKind::Write, Completing | Sending)
                if slot.unsignaled && ended != WorkOutcome::Done =>
            {
                slot.unsignaled = false;
                slot.entries -= 1;
                Some(1)
            }
            _ => None,
        }
    }

    /// The data of a capsule was copied as [`Work::Place`](crate::nvme_rdma::Work::Place) said.
    #[inline]
    pub fn placed(&mut self, tag: Tag) {
        let Some(slot) = self.slots.at(tag).filter(|slot| slot.placing) else { return };
        slot.placing = false;
        slot.asked = slot.wanted;
        if let Some(buffer) = slot.buffer.take() {
            self.link.receives.repost(buffer);
        }
        self.settle_fetch(tag);
    }

    /// Ends a fetch once nothing more is put into the memory of its command.
    #[inline]
    pub(super) fn settle_fetch(&mut self, tag: Tag) {
        let closed = self.link.is_closed();
        let Some(slot) = self.slots.at(tag) else { return };
        if slot.is_in_use() {
            return;
        }
        let all_here = slot.asked == slot.wanted && !slot.damaged;
        match slot.state {
            CommandState::Draining if slot.news.is_none() => self.tell(tag, PendingEvent::Dropped),
            CommandState::Fetching if all_here || slot.damaged || closed => {
                slot.state = CommandState::Arrived;
                self.tell(tag, if all_here { PendingEvent::Arrived } else { PendingEvent::Failed });
            }
            _ => {}
        }
    }

    /// The memory of an answered command is free.
    #[inline]
    pub(super) fn release(&mut self, tag: Tag) {
        let Some(slot) = self.slots.at(tag) else { return };
        slot.state = CommandState::Released;
        self.tell(tag, PendingEvent::Released);
    }

    /// The same for an answer of which nothing is posted, on a queue pair that sends nothing more.
    pub(super) fn release_unsent(&mut self, tag: Tag) {
        let is_unsent =
            |slot: &CommandSlot| slot.state == CommandState::Completing && !slot.is_in_use();
        if self.link.is_closed() && self.slots.peek(tag).is_some_and(is_unsent) {
            self.release(tag);
        }
    }

    /// Nothing of a command is posted, because the queue pair is gone.
    pub(super) fn lose(&mut self, tag: Tag) {
        let Some(slot) = self.slots.at(tag) else { return };
        (slot.posted, slot.unsignaled) = (0, false);
        match slot.state {
            CommandState::Sending => self.release(tag),
            CommandState::Fetching => slot.damaged = true,
            _ => {}
        }
    }

    #[cold]
    pub(super) fn settle_closed(&mut self) {
        self.settled = true;
        self.waiting.0.clear();
        self.reading.clear();
        self.answering.clear();
        for tag in self.placing.drain(..) {
            if let Some(slot) = self.slots.at(tag) {
                (slot.placing, slot.damaged) = (false, true);
            }
        }
        if let Some(slot) = self.responding.take().and_then(|tag| self.slots.at(tag)) {
            // For the SEND that was to follow.
            slot.entries -= 1;
            self.link.retire(1);
            self.sends = self.sends.saturating_sub(1);
        }
        for tag in self.slots.tags() {
            self.settle_fetch(tag);
            self.release_unsent(tag);
        }
    }
}
