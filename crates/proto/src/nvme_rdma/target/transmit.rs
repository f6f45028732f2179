//! Requests of a target to its queue pair.

use super::TargetQueuePair;
use super::slot::CommandState;
use crate::nvme::cqe::Cqe;
use crate::nvme_rdma::keyed::Keyed;
use crate::nvme_rdma::work::{RemoteMemory, Work};
use crate::stream::Tag;

impl TargetQueuePair {
    /// The completion in the capsule of a tag, for [`Work::Send`].
    ///
    /// # Panics
    /// If there never was such a command.
    pub fn capsule(&self, tag: Tag) -> [u8; Cqe::BYTES] {
        self.slots.peek(tag).expect("a capsule that is sent has a completion").cqe.encode()
    }

    #[inline]
    pub(super) fn place(&mut self) -> Option<Work> {
        while let Some(tag) = self.placing.pop_front() {
            let Some(slot) = self.slots.at(tag).filter(|slot| slot.placing) else { continue };
            let Some(buffer) = slot.buffer else { continue };
            return Some(Work::Place { tag, buffer, bytes: slot.wanted });
        }
        None
    }

    /// Writes data of a command that is complete, or sends its response, or the last of the one and
    /// then the other.
    #[inline]
    pub(super) fn answer(&mut self) -> Next {
        let Some(&tag) = self.answering.front() else { return Next::Nothing };
        let Some(slot) = self.slots.at(tag).filter(|slot| slot.state == CommandState::Completing)
        else {
            self.answering.pop_front();
            self.taken += 1;
            return Next::Nothing;
        };
        let bytes = (slot.data_bytes - slot.data_sent).min(self.config.limits.transfer_bytes());
        let last = slot.data_sent + bytes == slot.data_bytes;
        // The last data is posted together with the response, so that one completion tells of both.
        let entries = if last && bytes > 0 { 2 } else { 1 };
        if last && self.sends >= self.config.host_receives.max(1) {
            return Next::Nothing;
        }
        if !self.link.has_room(entries) {
            return Next::Full;
        }
        self.answering.pop_front();
        self.taken += 1;
        let (offset, to) = (slot.data_sent, at(slot.remote, slot.data_sent));
        slot.data_sent += bytes;
        if last {
            slot.entries = entries;
            self.link.post(entries);
            self.sends += 1;
            if bytes == 0 {
                return self.respond(tag).map_or(Next::Nothing, Next::Work);
            }
            slot.unsignaled = true;
            self.responding = Some(tag);
        } else {
            // Others have their turn before the next one.
            slot.posted += 1;
            self.link.post(1);
            self.answering.push_back(tag);
        }
        Next::Work(Work::Write { tag, offset, bytes, to, signaled: !last })
    }

    #[inline]
    pub(super) fn respond(&mut self, tag: Tag) -> Option<Work> {
        let slot = self.slots.at(tag)?;
        slot.state = CommandState::Sending;
        self.outstanding = self.outstanding.saturating_sub(1);
        let invalidate = Keyed::read(&slot.sqe).ok().and_then(|keyed| keyed.invalidates());
        Some(Work::Send { tag, data_bytes: 0, invalidate })
    }

    /// Reads some of the host's data.
    #[inline]
    pub(super) fn read(&mut self) -> Option<Work> {
        while let Some(&tag) = self.reading.front() {
            let slot = self.slots.at(tag)?;
            if slot.state != CommandState::Fetching {
                slot.queued = false;
                self.reading.pop_front();
                continue;
            }
            if self.reads >= self.config.limits.reads.max(1) || !self.link.has_room(1) {
                return None;
            }
            let bytes = (slot.wanted - slot.asked).min(self.config.limits.transfer_bytes());
            let (offset, from) = (slot.asked, at(slot.remote, slot.asked));
            slot.asked += bytes;
            slot.posted += 1;
            self.reads += 1;
            self.link.post(1);
            self.reading.pop_front();
            slot.queued = slot.asked < slot.wanted;
            if slot.queued {
                self.reading.push_back(tag);
            }
            return Some(Work::Read { tag, offset, bytes, from });
        }
        None
    }
}

/// Result of a look at the answers.
pub(super) enum Next {
    Work(Work),
    /// The send queue is too full for the first of them.
    Full,
    Nothing,
}

/// The host's memory from `offset` on.
fn at(remote: RemoteMemory, offset: u32) -> RemoteMemory {
    RemoteMemory { address: remote.address.wrapping_add(offset.into()), ..remote }
}
