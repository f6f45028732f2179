//! Processing of messages and of ended work at a host.

use super::slot::{CommandSlot, CommandState};
use super::{Exposure, HostQueuePair};
use crate::nvme::cqe::Cqe;
use crate::nvme_rdma::violation::Violation;
use crate::nvme_rdma::work::{Received, WorkKind, WorkOutcome};

impl HostQueuePair {
    pub(super) fn response(&mut self, received: &Received<'_>) -> Result<(), Violation> {
        let bytes = received
            .bytes
            .try_into()
            .map_err(|_| Violation::ResponseLength(received.bytes.len()))?;
        let cqe = Cqe::decode(bytes);
        let by_window = self.config.exposure == Exposure::Window;
        let (tag, slot) = self.slots.active(cqe.cid).ok_or(Violation::ResponseCommandId)?;
        if let Some(key) = received.invalidated {
            slot.check_invalidation(key, by_window)?;
            slot.exposed = false;
        }
        slot.cqe = cqe;
        slot.state = CommandState::Answered;
        self.unanswered -= 1;
        let ends_alone = slot.exposed && self.config.exposure == Exposure::Standing;
        slot.exposed &= !ends_alone;
        if slot.exposed {
            self.conceal.push_back(tag);
        }
        self.finish(tag);
        Ok(())
    }
}

impl CommandSlot {
    /// Checks that a message may have invalidated this key.
    fn check_invalidation(&self, key: u32, by_window: bool) -> Result<(), Violation> {
        if by_window && self.exposed && self.key == key {
            Ok(())
        } else {
            Err(Violation::Invalidation(key))
        }
    }

    /// Work is no longer posted: returns the entries of the send queue that it gives back. `None`:
    /// it was not posted.
    #[inline]
    pub(super) fn take_posted(&mut self, kind: WorkKind, ended: WorkOutcome) -> Option<u16> {
        match kind {
            WorkKind::Send if self.sending => {
                (self.sending, self.binding) = (false, false);
                Some(self.entries)
            }
            // Or the queue pair has failed, and gives no access to anything.
            WorkKind::Invalidate if self.invalidating => {
                (self.invalidating, self.exposed) = (false, false);
                Some(1)
            }
            // The SEND tells of a bind that succeeds.
            WorkKind::Bind if self.binding && ended != WorkOutcome::Done => {
                self.binding = false;
                self.entries -= 1;
                Some(1)
            }
            _ => None,
        }
    }
}
