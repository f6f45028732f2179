//! Associations: the connections of each controller, and how they end. Not used per command.

use super::mailbox::{Mailbox, NvmeMessage};
use super::ports::Caller;
use super::subsystems::ControllerId;
use super::target_state::TargetState;
use crate::export::members::{Message, Serving};
use crate::export::shares::Grant;
use std::sync::Arc;
use std::time::Duration;
use weft_proto::nvme::controller::{CONNECT_BYTES, CrossReset};
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::fabrics::ConnectData;
use weft_proto::nvme::sqe::HostMemory;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Id128, Nqn, Qid};
use weft_proto::nvme::wire::NqnField;

/// The connections of one controller.
pub(super) struct Association {
    pub(super) who: Who,
    /// The host's address and port, from where the admin queue was connected.
    peer: Box<str>,
    /// What its transport takes.
    host_memory: HostMemory,
    /// Connections for I/O queues that it was granted and has not used.
    pub(super) granted: GrantedQueues,
    /// HOSTID, and HOSTNQN, which the host has proved.
    pub(super) proven: Option<(Id128, Nqn)>,
    pub(super) admin: Arc<Mailbox>,
    pub(super) io: Vec<IoConnection>,
    /// No more queues.
    pub(super) ending: bool,
    /// Controllers of the same host that wait for its end, and by what name it was lost.
    awaited: Vec<(Arc<Mailbox>, CrossControllerReset)>,
}

pub(super) struct IoConnection {
    qid: Qid,
    pub(super) mailbox: Arc<Mailbox>,
    _serving: Serving<NvmeMessage>,
}

/// HOSTID, SUBNQN and HOSTNQN of a Connect: which host uses which subsystem.
#[derive(PartialEq, Eq)]
pub(super) struct Who(Box<[u8]>);

impl Who {
    pub(super) fn of(data: &[u8; CONNECT_BYTES]) -> Self {
        let names = &data[usize::from(ConnectData::SUBNQN_AT)
            ..usize::from(ConnectData::HOSTNQN_AT) + NQN_FIELD_BYTES];
        Self([&data[..HOST_ID_BYTES], names].concat().into())
    }
}

const HOST_ID_BYTES: usize = size_of::<Id128>();

const NQN_FIELD_BYTES: usize = size_of::<NqnField>();

impl Association {
    pub(super) fn new(who: Who, from: Caller<'_>, admin: Arc<Mailbox>) -> Self {
        Self {
            who,
            peer: from.peer.into(),
            host_memory: from.port.host_memory,
            granted: GrantedQueues::default(),
            admin,
            io: Vec::new(),
            proven: None,
            ending: false,
            awaited: Vec::new(),
        }
    }

    /// A connection serves another I/O queue of the controller.
    pub(super) fn add_queue(
        &mut self,
        qid: Qid,
        mailbox: Arc<Mailbox>,
        serving: Serving<NvmeMessage>,
    ) {
        self.io.push(IoConnection { qid, mailbox, _serving: serving });
    }

    /// Tells every connection.
    pub(super) fn tell(&self, message: impl Fn() -> Message<NvmeMessage>) {
        self.io
            .iter()
            .map(|io| &io.mailbox)
            .chain([&self.admin])
            .for_each(|mailbox| mailbox.post(message()));
    }
}

impl TargetState {
    /// Has all I/O queues of a controller stop; names them. Each reports to the admin queue when it
    /// is quiet.
    pub(crate) fn stop_queues(&self, id: ControllerId) -> Vec<Qid> {
        // A queue that is just being admitted is either seen here or refused.
        let _admission = self.subsystems.lock();
        let associations = self.associations.lock();
        let Some(association) = associations.get(&id) else { return Vec::new() };
        association.io.iter().for_each(|io| io.mailbox.post(Message::Stop));
        association.io.iter().map(|io| io.qid).collect()
    }

    /// The association of a controller ends: no more queues, and those that there are stop; names
    /// them.
    pub(crate) fn end(&self, id: ControllerId) -> Vec<Qid> {
        if let Some(association) = self.associations.lock().get_mut(&id) {
            association.ending = true;
        }
        self.stop_queues(id)
    }

    /// The host of the controller `from`, whose admin queue has this mailbox, wants another one
    /// reset: ends its association, if there is one of this name.
    pub(super) fn cross_reset(
        &self,
        from: ControllerId,
        named: CrossControllerReset,
        mailbox: &Arc<Mailbox>,
    ) -> CrossReset {
        let mut subsystems = self.subsystems.lock();
        let Some(subsystem) = subsystems.at(from.0) else {
            return CrossReset::Refused(Status::INTERNAL_ERROR);
        };
        let found = subsystem.cross_reset(from.1, named);
        if found == CrossReset::UnderWay {
            let mut associations = self.associations.lock();
            // It is released in both places, here last.
            let Some(association) = associations.get_mut(&(from.0, named.icid)) else {
                return CrossReset::Over;
            };
            tracing::info!(
                "controller {}: its host has it reset through controller {}",
                named.icid,
                from.1
            );
            association.ending = true;
            association.awaited.push((Arc::clone(mailbox), named));
            association.tell(|| Message::Stop);
        }
        found
    }

    /// The association has ended.
    pub(crate) fn release(&self, id: ControllerId) {
        self.subsystems.lock().release(id);
        self.generated.release(id);
        let ended = self.associations.lock().remove(&id);
        for (mailbox, named) in ended.into_iter().flat_map(|association| association.awaited) {
            mailbox.post(Message::Own(NvmeMessage::CrossResetOver(named)));
        }
        let held_back = core::mem::take(&mut *self.held_back.lock());
        held_back
            .iter()
            .for_each(|mailbox| mailbox.post(Message::Own(NvmeMessage::AssociationEnded)));
    }

    /// The admin queue of a controller could not be made.
    pub(crate) fn give_up(&self, id: ControllerId) {
        self.end(id);
        self.release(id);
    }

    /// The connection of an I/O queue is gone and no device holds anything of it.
    pub(crate) fn queue_gone(&self, id: ControllerId, qid: Qid) {
        // Both at once: whoever connects this queue next finds it given up in both places, or in
        // none.
        let mut subsystems = self.subsystems.lock();
        if let Some(subsystem) = subsystems.at(id.0) {
            subsystem.release_io(id.1, qid);
        }
        if let Some(association) = self.associations.lock().get_mut(&id) {
            association.io.retain(|io| io.qid != qid);
            association.admin.post(Message::Own(NvmeMessage::Quiet(qid)));
        }
    }

    /// The mailbox of an I/O queue.
    pub(crate) fn queue_mailbox(&self, id: ControllerId, qid: Qid) -> Option<Arc<Mailbox>> {
        let associations = self.associations.lock();
        let io = associations.get(&id)?.io.iter().find(|io| io.qid == qid)?;
        Some(Arc::clone(&io.mailbox))
    }
}

// I/O queues that a controller is granted (Number of Queues): their connections are kept for it
// until it has made them, or has made none for too long. Not used per command.

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
