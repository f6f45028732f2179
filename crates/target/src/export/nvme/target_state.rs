//! The state that the connections of one target share: subsystems, devices, and the connections of
//! each controller. Not used per command.

use super::arithmetic::Jobs;
use super::associations::Association;
use super::attempts::Attempts;
use super::generated::GeneratedKeys;
use super::mailbox::{Mailbox, NvmeMessage};
use super::namespaces::{SubsystemLimits, transfer_bytes};
use super::ports::{OtherPort, PortAddress, Ports};
use super::subsystems::{ControllerId, ControllerView, Subsystems, Which};
use crate::export::hosts::ConnectedHost;
use crate::export::members::{Members, Message};
use crate::export::nvme::rdma::ReceiveMemory;
use crate::inventory::{Follower, Inventory, LiveInventory};
use crate::reservations::PendingChange;
use crate::{inventory, reservations};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_connection::limits::CONNECTIONS_MAX;
use weft_connection::nvme::names::HostRemarks;
use weft_connection::refusals::Refusals;
use weft_io::RemoteLoop;
use weft_proto::limits::{CONTROLLER_QUIESCE_MS, HANDSHAKE_S};
use weft_proto::nvme::auth::ControllerKeys;
use weft_proto::nvme::controller::{CNTLID_MAX, Port};
use weft_proto::nvme::deviation::Deviations;
use weft_proto::nvme::types::Nqn;
use weft_proto::reservation::{Changes, Registrant};

/// Bounds that a target keeps to.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// Connections; see [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// From accepting a connection to its Connect; see [`HANDSHAKE_S`].
    pub handshake: Duration,
    /// Time that a controller may go on with commands after its keep alive timer has expired (CQT);
    /// zero: not reported.
    pub quiesce: Duration,
}

impl Default for TargetLimits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            handshake: Duration::from_secs(HANDSHAKE_S),
            quiesce: Duration::from_millis(CONTROLLER_QUIESCE_MS.into()),
        }
    }
}

/// The state that the connections of one target share.
pub(crate) struct TargetState {
    pub(crate) inventory: Arc<LiveInventory>,
    pub(crate) loops: Vec<RemoteLoop>,
    pub(crate) limits: TargetLimits,
    pub(super) subsystems: Lock<Subsystems>,
    ports: Lock<Ports>,
    pub(super) associations: Lock<BTreeMap<ControllerId, Association>>,
    /// Connections that wait for the end of an association of their host.
    pub(super) held_back: Lock<Vec<Arc<Mailbox>>>,
    /// All connections; those that serve commands are those of I/O queues.
    pub(crate) members: Arc<Members<NvmeMessage>>,
    remarks: HostRemarks,
    /// Hosts whose keep alive timers expired, for the log.
    pub(super) expired: Refusals,
    /// Hosts that were granted fewer queues than they asked for, for the log.
    pub(super) few_queues: Refusals,
    /// Authentications that were begun.
    pub(super) attempts: Attempts,
    /// What is computed for them.
    pub(super) jobs: Jobs,
    /// Keys for TLS that came of those that did.
    pub(crate) generated: Arc<GeneratedKeys>,
    /// The number of the last challenge.
    sequence: AtomicU32,
    /// Of queue pairs.
    pub(crate) receives: ReceiveMemory,
}

impl TargetState {
    /// Serves the inventory, on `loops` whose pools hold so much. `random` is another number in
    /// each process, and for each target.
    pub(crate) fn new(
        inventory: Arc<LiveInventory>,
        limits: TargetLimits,
        pool_bytes: usize,
        loops: Vec<RemoteLoop>,
        random: u64,
    ) -> Arc<Self> {
        let live = Arc::clone(&inventory);
        let shared = live.join(|now| {
            let subsystems = Lock::new(Subsystems::new(
                now,
                transfer_bytes(pool_bytes),
                SubsystemLimits {
                    quiesce: limits.quiesce,
                    controllers: u16::try_from(limits.connections).unwrap_or(CNTLID_MAX),
                },
                (random, inventory.health()),
            ));
            Arc::new(Self {
                inventory,
                loops,
                limits,
                subsystems,
                ports: Lock::new(Ports::new(now.first_port())),
                associations: Lock::default(),
                held_back: Lock::default(),
                members: Members::new(limits.connections),
                remarks: HostRemarks::default(),
                expired: Refusals::new(),
                few_queues: Refusals::new(),
                attempts: Attempts::default(),
                jobs: Jobs::default(),
                generated: Arc::default(),
                sequence: AtomicU32::new(random as u32),
                receives: ReceiveMemory::default(),
            })
        });
        live.reservations().join(&shared);
        shared
    }

    /// The target listens at this port now, and discovery tells of it.
    pub(crate) fn port_opened(&self, address: &PortAddress) {
        let changed = self.ports.lock().open(address);
        if changed {
            self.publish();
        }
    }

    /// The port of a listener, for a host that came to the address `local` of this machine.
    pub(crate) fn port(&self, address: &PortAddress, local: IpAddr) -> Port {
        self.ports.lock().reached(address, local)
    }

    /// The target does not listen any more where this is false of a port.
    pub(crate) fn keep_ports(&self, listens: impl Fn(&PortAddress) -> bool) {
        let changed = self.ports.lock().keep(listens);
        if changed {
            self.publish();
        }
    }

    /// Other gateways have these ports from now on.
    pub(crate) fn set_others(&self, others: Vec<OtherPort>) {
        self.ports.lock().set_others(others);
        self.publish();
    }

    /// The hosts that have controllers, and what they see.
    pub(crate) fn hosts(&self) -> Vec<ConnectedHost> {
        self.subsystems.lock().hosts()
    }

    /// Writes the discovery log anew, and tells of it.
    fn publish(&self) {
        let mut subsystems = self.subsystems.lock();
        let Some(log) = subsystems.publish(&self.ports.lock()) else {
            return;
        };
        let associations = self.associations.lock();
        let hosts = associations.iter().filter(|((which, _), _)| *which == Which::Discovery);
        hosts.for_each(|(_, association)| {
            association.admin.post(Message::Own(NvmeMessage::Discovery(Arc::clone(&log))))
        });
    }

    /// What a controller sees.
    pub(crate) fn view(&self, id: ControllerId) -> Option<ControllerView> {
        self.subsystems.lock().view(id)
    }

    /// The host of a controller does something that is let pass although it is not allowed.
    #[cold]
    pub(super) fn remark(&self, (which, cntlid): ControllerId, noted: Deviations) {
        let mut subsystems = self.subsystems.lock();
        let Some(subsystem) = subsystems.at(which) else { return };
        let host =
            subsystem.controllers().find(|(of, _)| *of == cntlid).map(|(_, host)| host.clone());
        drop(subsystems);
        host.into_iter().for_each(|host| self.remarks.on(&host, noted));
    }

    /// The names of a controller's subsystem and of its host.
    pub(super) fn names(&self, (which, cntlid): ControllerId) -> Option<(Nqn, String)> {
        let mut subsystems = self.subsystems.lock();
        let subsystem = subsystems.at(which)?;
        let host = subsystem.controllers().find(|(of, _)| *of == cntlid).map(|(_, host)| {
            match &host.nqn {
                Some(nqn) => nqn.to_string(),
                None => host.to_string(),
            }
        })?;
        Some((subsystem.config().nqn.clone(), host))
    }
}

impl Follower for TargetState {
    fn follow(&self, now: &Arc<Inventory>, changes: &[inventory::Change]) {
        // Whoever is just being admitted sees this inventory or is told of it here.
        let mut subsystems = self.subsystems.lock();
        let news = subsystems.follow(now, changes);
        let associations = self.associations.lock();
        for (id, view) in &news.views {
            let Some(association) = associations.get(id) else { continue };
            association.tell(|| Message::Own(NvmeMessage::Namespaces(view.clone())));
        }
        let ended = news.ended.iter().filter_map(|id| associations.get(id));
        ended.for_each(|association| association.admin.post(Message::Stop));
        drop((associations, subsystems));
        self.publish();
    }
}

impl reservations::ReservationFollower for TargetState {
    fn reservations_changed(
        &self,
        namespace: Uuid,
        changes: &Changes,
        pending: &Arc<PendingChange>,
    ) {
        self.end_strangers(namespace, &mut self.associations.lock(), pending);
        if changes.notices.is_empty() && changes.aborted.is_empty() {
            return;
        }
        let subsystems = self.subsystems.lock();
        let associations = self.associations.lock();
        for (id, host, nsid) in subsystems.using(namespace) {
            let (host, Some(association)) = (Registrant::Host(host), associations.get(&id)) else {
                continue;
            };
            let notices = changes.notices.iter().filter(|(to, _)| *to == host);
            for (nsid, (_, notice)) in
                nsid.into_iter().flat_map(|nsid| notices.clone().map(move |notice| (nsid, notice)))
            {
                association.admin.post(Message::Own(NvmeMessage::Notice { nsid, notice: *notice }));
            }
            if changes.aborted.contains(&host) {
                let message =
                    || Message::Own(NvmeMessage::Preempted { nsid, pending: Arc::clone(pending) });
                association.io.iter().for_each(|io| io.mailbox.post(message()));
            }
        }
    }
}

// Authentication that a target demands of its hosts before it serves them.

impl TargetState {
    /// What is known of a host now, where `before` was.
    pub(super) fn keys(
        &self,
        subsystem: &Nqn,
        host: Option<&Nqn>,
        before: &ControllerKeys,
    ) -> Option<ControllerKeys> {
        let inventory = self.inventory.now();
        let demanded = inventory.authentication(subsystem)?;
        let now = demanded.keys(host, subsystem, before.is_admin);
        Some(ControllerKeys { subnqn: before.subnqn.clone(), has_tls: before.has_tls, ..now })
    }

    /// The number of the next challenge: never 0, and another one for as long as there are any.
    pub(super) fn next_sequence(&self) -> u32 {
        match self.sequence.fetch_add(1, Ordering::Relaxed).wrapping_add(1) {
            0 => self.next_sequence(),
            number => number,
        }
    }
}
