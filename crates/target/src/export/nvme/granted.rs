//! I/O queues that a controller is granted (Number of Queues): their connections are kept for it
//! until it has made them, or has made none for too long. Not used per command.

use super::associations::Association;
use super::subsystems::ControllerId;
use super::target_state::TargetState;
use crate::export::shares::Grant;
use std::time::Duration;
use weft_proto::nvme::sqe::HostMemory;

/// Connections for I/O queues that a controller was granted and has not made.
#[derive(Default)]
pub(super) struct GrantedQueues {
    connections: Option<Grant>,
    /// When they are not kept any longer: some time after the first of them was granted, or after
    /// the last queue was connected. A host that only asks again gains no time.
    until: Option<Duration>,
}

impl GrantedQueues {
    /// The connection of one queue.
    pub(super) fn take_one(&mut self) -> Option<Grant> {
        self.connections.as_mut()?.split()
    }
}

/// The line about a controller that is granted fewer queues than it asked for.
fn too_few(peer: &str, granted: u16, wanted: u16, by_memory: bool) -> String {
    let left = match by_memory {
        true => "memory for receives over RDMA",
        false => "room for connections",
    };
    match granted {
        0 => format!("{peer}: no I/O queues granted: no {left} is left to this address"),
        _ => format!(
            "{peer}: {granted} I/O queues granted, as little {left} is left; the host asked for {wanted}"
        ),
    }
}

impl TargetState {
    /// Grants a controller up to `wanted` I/O queues, instead of those that it was granted before.
    /// 0: none is left. A controller that has had its time and connected no queue is told a number,
    /// but nothing is kept for it.
    pub(super) fn grant_queues(&self, now: Duration, id: ControllerId, wanted: u16) -> u16 {
        let mut associations = self.associations.lock();
        let Some(Association { peer, host_memory, granted, .. }) = associations.get_mut(&id) else {
            return 0;
        };
        granted.connections = None;
        let possible: usize = match host_memory {
            HostMemory::Transport => wanted.into(),
            HostMemory::Keyed => self.receives.queues_left(peer).min(wanted.into()),
        };
        let new = self.members.grant(peer, possible);
        let amount = new.as_ref().map_or(0, Grant::amount);
        if new.is_some() {
            let until = *granted.until.get_or_insert(now + self.limits.handshake);
            granted.connections = new.filter(|_| now < until);
        }
        let count = amount as u16;
        let peer = (count < wanted).then(|| peer.clone());
        drop(associations);
        if let Some(peer) = peer {
            let by_memory = amount == possible;
            self.few_queues.log(now, || too_few(&peer, count, wanted, by_memory));
        }
        count
    }

    /// Keeps nothing any longer for a controller that was granted queues and has not connected any
    /// for too long. When to look again, if something is kept.
    pub(super) fn lapse(&self, now: Duration, id: ControllerId) -> Option<Duration> {
        let mut associations = self.associations.lock();
        let Association { peer, granted, .. } = associations.get_mut(&id)?;
        let (unused, until) = (granted.connections.as_ref()?.amount(), granted.until?);
        if unused > 0 && now < until {
            return Some(until);
        }
        if unused > 0 {
            tracing::debug!("{peer}: {unused} granted I/O queues were not connected");
        }
        granted.connections = None;
        None
    }

    /// A connection of the controller was admitted: the host has time again for the next one.
    pub(super) fn queue_connected(&self, now: Duration, id: ControllerId) {
        let mut associations = self.associations.lock();
        let Some(association) = associations.get_mut(&id) else { return };
        if let Some(until) = &mut association.granted.until {
            *until = now + self.limits.handshake;
        }
    }

    /// The connection of a queue was not made after all: it is kept again, if others are.
    pub(super) fn give_back(&self, id: ControllerId, granted: Option<Grant>) {
        let Some(granted) = granted else { return };
        let mut associations = self.associations.lock();
        let kept = associations.get_mut(&id).and_then(|of| of.granted.connections.as_mut());
        if let Some(kept) = kept {
            kept.join(granted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_what_is_missing() {
        let of = |granted, by_memory| too_few("192.0.2.1:9", granted, 8, by_memory);
        for (granted, start) in [(0, "192.0.2.1:9: no I/O"), (3, "192.0.2.1:9: 3 I/O")] {
            assert!(of(granted, true).starts_with(start) && of(granted, false).starts_with(start));
            assert!(of(granted, true).contains("memory for receives over RDMA is left"));
            assert!(of(granted, false).contains("room for connections is left"));
        }
    }
}
