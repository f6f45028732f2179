//! Requests of a host to its queue pair.

use super::slot::{CommandState, Direction};
use super::{Exposure, HostQueuePair};
use crate::nvme::status::Status;
use crate::nvme_rdma::engine::LinkEnd;
use crate::nvme_rdma::keyed::Keyed;
use crate::nvme_rdma::work::Work;
use crate::stream::Tag;

impl HostQueuePair {
    /// Nothing can be sent: when there is nothing left either, the end.
    #[cold]
    pub(super) fn last_work(&mut self) -> Option<Work> {
        self.settle();
        self.link.urgent_work()
    }

    /// Ends the access to memory whose command was answered without doing so.
    #[inline]
    pub(super) fn conceal_next(&mut self) -> Option<Work> {
        let tag = *self.conceal.front()?;
        let by_window = self.config.exposure == Exposure::Window;
        if by_window && !self.link.has_room(1) {
            return None;
        }
        self.conceal.pop_front();
        let slot = self.slots.at(tag)?;
        if by_window {
            slot.invalidating = true;
            self.link.post(1);
            return Some(Work::Invalidate { tag, key: slot.key });
        }
        slot.exposed = false;
        self.finish(tag);
        Some(Work::Conceal { tag })
    }

    /// A queue pair that has failed or was disconnected gives no access to anything: what was
    /// answered is done with.
    #[cold]
    pub(super) fn conceal_closed(&mut self) -> Option<Work> {
        while self.link.is_closed()
            && let Some(tag) = self.conceal.pop_front()
        {
            self.slots.at(tag)?.exposed = false;
            self.finish(tag);
            if self.config.exposure == Exposure::Registration {
                return Some(Work::Conceal { tag });
            }
        }
        None
    }

    /// Sends the command at the front of the queue, or has its memory made accessible before.
    #[inline]
    pub(super) fn send_next(&mut self) -> Option<Work> {
        let tag = *self.queue.front()?;
        if self.unanswered >= self.credits.min(self.link.receives.ready()) {
            return None;
        }
        let by_window = self.config.exposure == Exposure::Window;
        let slot = self.slots.at(tag)?;
        let exposes = matches!(slot.direction, Direction::In | Direction::Out);
        let entries = if exposes && by_window { 2 } else { 1 };
        if !self.link.has_room(entries) {
            return None;
        }
        self.queue.pop_front();
        self.link.post(entries);
        slot.entries = entries;
        if !exposes {
            return self.send(tag);
        }
        slot.state = CommandState::Exposing;
        self.exposed = Some(tag);
        Some(Work::Expose { tag, bytes: slot.bytes, writable: slot.direction == Direction::In })
    }

    /// Sends the command whose memory was made accessible. `None`: the pump has not said whether it
    /// was.
    pub(super) fn send_exposed(&mut self, tag: Tag) -> Option<Work> {
        if !self.slots.peek(tag).is_some_and(|slot| slot.exposed) {
            return None;
        }
        self.exposed = None;
        self.send(tag)
    }

    #[inline]
    fn send(&mut self, tag: Tag) -> Option<Work> {
        let slot = self.slots.at(tag)?;
        slot.state = CommandState::Active;
        slot.sending = true;
        self.unanswered += 1;
        let data_bytes = if slot.direction == Direction::Capsule { slot.bytes } else { 0 };
        Some(Work::Send { tag, data_bytes, invalidate: None })
    }

    /// The answer to [`Work::Expose`]: the memory of `tag` is accessible at `address` by `key`.
    #[inline]
    pub fn exposed(&mut self, tag: Tag, address: u64, key: u32) {
        let invalidate = self.config.exposure == Exposure::Window;
        let Some(slot) = self.slots.at(tag).filter(|slot| slot.state == CommandState::Exposing)
        else {
            return;
        };
        slot.exposed = true;
        slot.binding = invalidate;
        slot.key = key;
        Keyed { address, bytes: slot.bytes, key, invalidate }.put(&mut slot.sqe);
    }

    /// The other answer to [`Work::Expose`]: the memory of `tag` cannot be made accessible. The
    /// command ends with Host Pathing Error.
    #[cold]
    pub fn not_exposed(&mut self, tag: Tag) {
        let Some(slot) =
            self.slots.at(tag).filter(|slot| slot.state == CommandState::Exposing && !slot.exposed)
        else {
            return;
        };
        let entries = core::mem::take(&mut slot.entries);
        self.link.retire(entries);
        self.exposed = None;
        self.refuse(tag, Status::HOST_PATHING_ERROR);
    }
}
