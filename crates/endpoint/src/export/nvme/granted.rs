//! I/O queues that a controller is granted (Number of Queues): their connections are kept for it
//! until it has made them, or has made none for too long. Not used per command.

use super::subsystems::ControllerId;
use super::target_state::TargetState;
use crate::export::shares::Grant;
use crate::lock::lock;
use std::time::Duration;
use weft_proto::nvme::sqe::HostMemory;

/// Connections for I/O queues that a controller was granted and has not made.
pub(super) struct GrantedQueues {
    connections: Grant,
    /// When they are not kept any longer.
    until: Duration,
    /// Time from one queue to the next.
    limit: Duration,
}

impl GrantedQueues {
    /// The connection of one queue. The host has time again for the next one.
    pub(super) fn take_one(&mut self, now: Duration) -> Option<Grant> {
        let one = self.connections.split()?;
        self.until = now + self.limit;
        Some(one)
    }
}

impl TargetState {
    /// Grants a controller up to `wanted` I/O queues, instead of those that it was granted before.
    /// 0: none is left.
    pub(super) fn grant_queues(&self, now: Duration, id: ControllerId, wanted: u16) -> u16 {
        let mut associations = lock(&self.associations);
        let Some(association) = associations.get_mut(&id) else { return 0 };
        let peer = &association.peer;
        association.granted = None;
        let possible: usize = match association.host_memory {
            HostMemory::Transport => wanted.into(),
            HostMemory::Keyed => self.receives.queues_left(peer).min(wanted.into()),
        };
        let granted = self.members.grant(peer, possible);
        let count = granted.as_ref().map_or(0, |granted| granted.amount() as u16);
        if count == 0 {
            let text =
                || format!("{peer}: no I/O queues granted: no connection is left to this address");
            self.members.refusals().log(now, text);
        } else if count < wanted {
            tracing::info!(
                "{peer}: {count} I/O queues granted, as few connections are left; the host asked for {wanted}"
            );
        }
        let limit = self.limits.handshake;
        association.granted =
            granted.map(|connections| GrantedQueues { connections, until: now + limit, limit });
        count
    }

    /// Keeps nothing any longer for a controller that was granted queues and has not connected any
    /// for too long. When to look again, if something is kept.
    pub(super) fn lapse(&self, now: Duration, id: ControllerId) -> Option<Duration> {
        let mut associations = lock(&self.associations);
        let association = associations.get_mut(&id)?;
        let granted = association.granted.as_ref()?;
        let unused = granted.connections.amount();
        if unused > 0 && now < granted.until {
            return Some(granted.until);
        }
        if unused > 0 {
            tracing::debug!("{}: {unused} granted I/O queues were not connected", association.peer);
        }
        association.granted = None;
        None
    }

    /// The connection of a queue was not made after all: it is kept again, if others are.
    pub(super) fn give_back(&self, id: ControllerId, granted: Option<Grant>) {
        let Some(granted) = granted else { return };
        let mut associations = lock(&self.associations);
        let kept = associations.get_mut(&id).and_then(|association| association.granted.as_mut());
        if let Some(kept) = kept {
            kept.connections.join(granted);
        }
    }
}
