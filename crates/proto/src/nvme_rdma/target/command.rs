//! Operations of the layer above a target on a command.

#[cfg(doc)]
use super::RdmaTargetEvent;
use super::TargetQueuePair;
use super::slot::{CommandSlot, CommandState, PendingEvent};
use crate::nvme::cqe::Cqe;
use crate::nvme::sqe::Sgl;
use crate::nvme::status::Status;
use crate::nvme_rdma::keyed::Keyed;
use crate::nvme_rdma::work::RemoteMemory;
use crate::stream::Tag;

impl TargetQueuePair {
    /// Asks for the first `bytes` (more than zero) of the host's data of a command that was not
    /// fetched yet. Errors are the status to complete the command with: its SGL describes something
    /// else.
    pub fn fetch(&mut self, tag: Tag, bytes: u32) -> Result<(), Status> {
        let max = self.config.max_data_bytes;
        let closed = self.link.is_closed();
        let Some(slot) = self.slots.at(tag).filter(|slot| slot.state == CommandState::Held) else {
            return Err(Status::INTERNAL_ERROR);
        };
        if bytes == 0 || bytes > max {
            return Err(Status::INVALID_FIELD);
        }
        let sgl = slot.sqe.sgl();
        let in_capsule = sgl.identifier == Sgl::IN_CAPSULE;
        if in_capsule {
            if sgl.address != 0 || sgl.length > slot.in_capsule_bytes || slot.buffer.is_none() {
                return Err(Status::SGL_OFFSET_INVALID);
            }
            if bytes != sgl.length {
                return Err(Status::DATA_SGL_LENGTH_INVALID);
            }
        } else {
            slot.remote = Keyed::read(&slot.sqe)?.start(bytes)?;
        }
        slot.state = CommandState::Fetching;
        slot.wanted = bytes;
        slot.asked = 0;
        if closed {
            slot.damaged = true;
            self.settle_fetch(tag);
        } else if in_capsule {
            slot.placing = true;
            self.placing.push_back(tag);
        } else if !core::mem::replace(&mut slot.queued, true) {
            self.reading.push_back(tag);
        }
        Ok(())
    }

    /// The data in the capsule of a command is not wanted: its receive can be posted again.
    pub fn ignore_data(&mut self, tag: Tag) {
        if let Some(slot) = self.slots.at(tag)
            && slot.state == CommandState::Held
            && let Some(buffer) = slot.buffer.take()
        {
            self.link.receives.repost(buffer);
        }
    }

    /// Answers a command with the first `data_bytes` of its memory and `cqe`. No more is sent than
    /// the command's SGL describes, and if that is not the host's memory then the answer is what is
    /// wrong with it. Not to be called between a fetch and the end of its data.
    #[inline]
    pub fn complete(&mut self, tag: Tag, cqe: Cqe, data_bytes: u32) {
        self.ignore_data(tag);
        let Some(slot) = self.slots.at(tag) else { return };
        debug_assert_eq!(
            slot.state,
            CommandState::Held,
            "complete() of a command that the layer above does not hold"
        );
        if slot.state != CommandState::Held {
            return;
        }
        slot.state = CommandState::Completing;
        slot.cqe = cqe;
        (slot.data_bytes, slot.data_sent) = (0, 0);
        if data_bytes > 0 {
            match slot.destination(data_bytes) {
                Ok((remote, bytes)) => (slot.data_bytes, slot.remote) = (bytes, remote),
                Err(status) => (slot.cqe.status, slot.cqe.do_not_retry) = (status, true),
            }
        }
        if self.link.is_closed() {
            self.release_unsent(tag);
        } else {
            self.answering.push_back(tag);
        }
    }

    /// Entries of the queue of answers that were posted so far, in order.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the value of [`Self::taken`] once all answers so far are posted.
    pub fn queued(&self) -> u64 {
        self.taken + self.answering.len() as u64
    }

    /// The layer above has heard that the memory of an answered command is free: the tag may name
    /// another command.
    #[inline]
    pub fn sent(&mut self, tag: Tag) {
        if self
            .slots
            .at(tag)
            .is_some_and(|slot| slot.state == CommandState::Released && slot.news.is_none())
        {
            self.free(tag);
        }
    }

    /// Abandons a command without a response. If its data was asked for,
    /// [`RdmaTargetEvent::Dropped`] follows, and nothing else; otherwise its memory is free at
    /// once. Completed commands are not affected.
    pub fn abandon(&mut self, tag: Tag) {
        self.ignore_data(tag);
        let Some(slot) = self.slots.at(tag) else { return };
        match slot.state {
            CommandState::Held => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.free(tag);
            }
            CommandState::Fetching => {
                slot.state = CommandState::Draining;
                self.settle_fetch(tag);
            }
            CommandState::Arrived => {
                slot.state = CommandState::Draining;
                slot.news = Some(PendingEvent::Dropped);
            }
            _ => {}
        }
    }

    /// Gives up all commands whose data is awaited, for a controller that is reset or disabled; see
    /// [`Self::abandon`].
    pub fn drop_pending(&mut self) {
        for tag in self.slots.tags() {
            if self.slots.peek(tag).is_some_and(|slot| {
                matches!(slot.state, CommandState::Fetching | CommandState::Arrived)
            }) {
                self.abandon(tag);
            }
        }
    }
}

impl CommandSlot {
    /// Where the first `bytes` of data for the host go, as far as the command has room for them.
    /// The error is the status to answer it with.
    #[inline]
    fn destination(&self, bytes: u32) -> Result<(RemoteMemory, u32), Status> {
        let keyed = Keyed::read(&self.sqe)?;
        match bytes.min(keyed.bytes) {
            0 => Ok((self.remote, 0)),
            bytes => Ok((keyed.start(bytes)?, bytes)),
        }
    }
}
