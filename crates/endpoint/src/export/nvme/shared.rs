//! The state that the connections of one target share: subsystems, devices, and the connections of
//! each controller. Not used per command.

use super::admission::{Admitted, Claim, Queue};
use super::arithmetic::Jobs;
use super::attempts::Attempts;
use super::generated::GeneratedKeys;
use super::mailbox::{Mailbox, Told};
use super::namespaces::transfer_bytes;
use super::ports::{OtherPort, Ports};
use super::subsystems::{ControllerId, Subsystems, View, Which};
use super::transport::PortAddress;
use crate::export::hosts::ConnectedHost;
use crate::export::members::{Members, Message, Serving};
use crate::export::nvme::rdma::ReceiveMemory;
use crate::inventory::{self, Follower, Inventory, LiveInventory};
use crate::limits::CONNECTIONS_MAX;
use crate::nvme::names::HostRemarks;
use crate::reservations::{self, Pending};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uuid::Uuid;
use weft_io::RemoteLoop;
use weft_proto::limits::{CONTROLLER_QUIESCE_MS, HANDSHAKE_S};
use weft_proto::nvme::auth::Named;
use weft_proto::nvme::controller::{
    CONNECT_BYTES, ConnectError, CrossReset, Port, Refusal, subsystem_name,
};
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::deviation::Deviations;
use weft_proto::nvme::fabrics::{Connect, ConnectData};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Id128, Nqn, Qid};
use weft_proto::nvme::wire::NqnField;
use weft_proto::reservation::{Changes, Registrant};

/// Bounds that a target keeps to.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// Connections; see [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// From accepting a connection to its Connect; see [`HANDSHAKE_S`].
    pub handshake: Duration,
    /// How long a controller may go on with commands after its keep alive timer has run out (CQT);
    /// zero: not told.
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

/// Where a Connect came from.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) port: Port,
    /// The host's address and port.
    pub(crate) peer: &'a str,
    /// The identity of the connection's key, where it is encrypted.
    pub(crate) identity: Option<&'a [u8]>,
}

impl<'a> Caller<'a> {
    /// The same, if an authentication made the key.
    fn generated(&self) -> Option<&'a [u8]> {
        self.identity
            .filter(|identity| Named::parse(identity).is_some_and(|named| named.is_generated))
    }
}

/// The connections of one controller.
pub(super) struct Association {
    who: Who,
    /// HOSTID, and HOSTNQN, which the host has proved.
    pub(super) proven: Option<(Id128, Nqn)>,
    admin: Arc<Mailbox>,
    pub(super) io: Vec<IoConnection>,
    /// No more queues.
    pub(super) ending: bool,
    /// Controllers of the same host that wait for its end, and by what name it was lost.
    awaited: Vec<(Arc<Mailbox>, CrossControllerReset)>,
}

pub(super) struct IoConnection {
    qid: Qid,
    pub(super) mailbox: Arc<Mailbox>,
    _serving: Serving<Told>,
}

/// HOSTID, SUBNQN and HOSTNQN of a Connect: which host uses which subsystem.
#[derive(PartialEq, Eq)]
struct Who(Box<[u8]>);

impl Who {
    fn of(data: &[u8; CONNECT_BYTES]) -> Self {
        let names = &data[usize::from(ConnectData::SUBNQN_AT)
            ..usize::from(ConnectData::HOSTNQN_AT) + NQN_FIELD_BYTES];
        Self([&data[..HOST_ID_BYTES], names].concat().into())
    }
}

const HOST_ID_BYTES: usize = size_of::<Id128>();
const NQN_FIELD_BYTES: usize = size_of::<NqnField>();

impl Association {
    /// Tells every connection.
    pub(super) fn tell(&self, message: impl Fn() -> Message<Told>) {
        self.io
            .iter()
            .map(|io| &io.mailbox)
            .chain([&self.admin])
            .for_each(|mailbox| mailbox.post(message()));
    }
}

/// The state that the connections of one target share.
pub(crate) struct Shared {
    pub(crate) inventory: Arc<LiveInventory>,
    pub(crate) loops: Vec<RemoteLoop>,
    pub(crate) limits: TargetLimits,
    subsystems: Mutex<Subsystems>,
    ports: Mutex<Ports>,
    pub(super) associations: Mutex<BTreeMap<ControllerId, Association>>,
    /// Connections that wait for the end of an association of their host.
    held_back: Mutex<Vec<Arc<Mailbox>>>,
    /// All connections; those that serve commands are those of I/O queues.
    pub(crate) members: Arc<Members<Told>>,
    remarks: HostRemarks,
    /// Authentications that were begun.
    pub(super) attempts: Attempts,
    /// What is computed for them.
    pub(super) jobs: Jobs,
    /// Keys for TLS that came of those that did.
    pub(crate) generated: Arc<GeneratedKeys>,
    /// The number of the last challenge.
    pub(super) sequence: AtomicU32,
    /// Of queue pairs.
    pub(crate) receives: ReceiveMemory,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
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
        let discovery = live.discovery_nqn();
        let shared = live.join(|now| {
            let subsystems = Mutex::new(Subsystems::new(
                now,
                discovery,
                transfer_bytes(pool_bytes),
                limits.quiesce,
                random,
            ));
            Arc::new(Self {
                inventory,
                loops,
                limits,
                subsystems,
                ports: Mutex::new(Ports::new(now.first_port())),
                associations: Mutex::default(),
                held_back: Mutex::default(),
                members: Members::new(limits.connections),
                remarks: HostRemarks::default(),
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

    /// The port of an address at which hosts reach the target. Discovery tells of it from the first
    /// time on.
    pub(crate) fn port(&self, address: &PortAddress) -> Port {
        let (port, is_new) = lock(&self.ports).reached(address);
        if is_new {
            self.publish();
        }
        port
    }

    /// The target does not listen any more where this is false of a port.
    pub(crate) fn keep_ports(&self, listens: impl Fn(&PortAddress) -> bool) {
        let changed = lock(&self.ports).keep(listens);
        if changed {
            self.publish();
        }
    }

    /// Other gateways have these ports from now on.
    pub(crate) fn set_others(&self, others: Vec<OtherPort>) {
        lock(&self.ports).set_others(others);
        self.publish();
    }

    /// The hosts that have controllers, and what they see.
    pub(crate) fn hosts(&self) -> Vec<ConnectedHost> {
        let inventory = self.inventory.now();
        lock(&self.subsystems).hosts(&inventory)
    }

    /// Writes the discovery log anew, and tells of it.
    fn publish(&self) {
        let mut subsystems = lock(&self.subsystems);
        let Some(log) = subsystems.publish(&lock(&self.ports), &self.inventory.referrals()) else {
            return;
        };
        let associations = lock(&self.associations);
        let hosts = associations.iter().filter(|((which, _), _)| *which == Which::Discovery);
        hosts.for_each(|(_, association)| {
            association.admin.post(Message::Own(Told::Discovery(Arc::clone(&log))))
        });
    }

    /// What a controller sees.
    pub(crate) fn view(&self, id: ControllerId) -> Option<View> {
        lock(&self.subsystems).view(id)
    }

    /// Whether a Connect of an admin queue has to wait, as devices have writes yet of an
    /// association that its host has lost: the host might write the same blocks anew, before them.
    /// The connection of this mailbox hears of the end of any such association; one that waits for
    /// too long is closed like any other that does not get beyond its Connect.
    pub(super) fn holds_back(&self, data: &[u8; CONNECT_BYTES], mailbox: &Arc<Mailbox>) -> bool {
        let who = Who::of(data);
        let associations = lock(&self.associations);
        let held =
            associations.values().any(|association| association.ending && association.who == who);
        if held {
            lock(&self.held_back).push(Arc::clone(mailbox));
        }
        held
    }

    /// Admits the queue that a Connect asks for, to be served by the connection of this mailbox.
    pub(crate) fn admit(
        self: &Arc<Self>,
        now: Duration,
        sqe: &Sqe,
        data: &[u8; CONNECT_BYTES],
        from: Caller<'_>,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Admitted, Refusal> {
        // Devices may have changed while no queue was there to tell of it.
        self.inventory.look_at_devices();
        let refuse = |reason| Refusal::new(sqe.cid(), reason);
        let not_ready = || refuse(ConnectError::NotReady);
        let mut subsystems = lock(&self.subsystems);
        let name = subsystem_name(data);
        let unknown = || refuse(ConnectError::Subsystem);
        let which = subsystems.find(name.as_ref()).ok_or_else(unknown)?;
        let subsystem = subsystems.at(which).ok_or_else(unknown)?;
        if self.members.is_stopping() {
            return Err(not_ready());
        }
        let is_admin = Connect::decode(sqe).qid == Qid(0);
        let (generated, is_secure) = (from.generated(), (is_admin, from.identity.is_some()));
        let demanded =
            self.authentication(which, subsystem.config(), data, (from, mailbox), is_secure);
        let mailbox = Arc::clone(mailbox);
        if is_admin {
            let connected = subsystem.connect(now, sqe, data, from.port)?;
            let controller = (which, connected.queue.cntlid());
            if let Some(Err(reason)) =
                generated.map(|identity| self.generated.claim(now, identity, controller))
            {
                subsystem.release(controller.1);
                return Err(refuse(reason));
            }
            let association = Association {
                who: Who::of(data),
                admin: mailbox,
                io: Vec::new(),
                proven: None,
                ending: false,
                awaited: Vec::new(),
            };
            lock(&self.associations).insert(controller, association);
            let claim = Claim::new(self, controller, Qid(0));
            let queue = Queue::Admin(Box::new(connected.queue));
            return Ok(Admitted::new(controller, queue, connected.cqe, claim)
                .demand(demanded, generated.is_some()));
        }
        if demanded.as_ref().is_some_and(|demanded| demanded.demands_channel()) {
            return Err(refuse(ConnectError::NoSecureChannel));
        }
        let connected = subsystem.connect_io(sqe, data)?;
        let queue = connected.queue;
        let (controller, qid) = ((which, queue.cntlid()), queue.qid());
        if let Err(reason) = self.generated.check(generated, controller) {
            subsystem.release_io(controller.1, qid);
            return Err(refuse(reason));
        }
        let mut associations = lock(&self.associations);
        let present = associations.get_mut(&controller).filter(|association| !association.ending);
        let Some((association, view)) =
            present.and_then(|association| Some((association, subsystems.view(controller)?)))
        else {
            subsystems
                .at(which)
                .into_iter()
                .for_each(|subsystem| subsystem.release_io(controller.1, qid));
            return Err(not_ready());
        };
        association.io.push(IoConnection { qid, mailbox, _serving: self.members.serve() });
        let claim = Claim::new(self, controller, qid);
        let queue = Queue::Io(Box::new(queue), view);
        // Whose key it is was found out when it was made.
        Ok(Admitted::new(controller, queue, connected.cqe, claim)
            .demand(demanded.filter(|_| generated.is_none()), false))
    }

    /// The host of a controller does something that is let pass although it is not allowed.
    #[cold]
    pub(super) fn remark(&self, (which, cntlid): ControllerId, noted: Deviations) {
        let mut subsystems = lock(&self.subsystems);
        let Some(subsystem) = subsystems.at(which) else { return };
        let host =
            subsystem.controllers().find(|(of, _)| *of == cntlid).map(|(_, host)| host.clone());
        drop(subsystems);
        host.into_iter().for_each(|host| self.remarks.on(&host, noted));
    }

    /// The names of a controller's subsystem and of its host.
    pub(super) fn names(&self, (which, cntlid): ControllerId) -> Option<(Nqn, String)> {
        let mut subsystems = lock(&self.subsystems);
        let subsystem = subsystems.at(which)?;
        let host = subsystem.controllers().find(|(of, _)| *of == cntlid).map(|(_, host)| {
            match &host.nqn {
                Some(nqn) => nqn.to_string(),
                None => host.to_string(),
            }
        })?;
        Some((subsystem.config().nqn.clone(), host))
    }

    /// The loop for a queue: queues of one controller go round the loops.
    pub(super) fn home(&self, admitted: &Admitted) -> &RemoteLoop {
        let (_, cntlid) = admitted.controller;
        &self.loops[(usize::from(cntlid.0) + usize::from(admitted.qid().0)) % self.loops.len()]
    }

    /// Has all I/O queues of a controller stop; names them. Each reports to the admin queue when it
    /// is quiet.
    pub(crate) fn stop_queues(&self, id: ControllerId) -> Vec<Qid> {
        // A queue that is just being admitted is either seen here or refused.
        let _admission = lock(&self.subsystems);
        let associations = lock(&self.associations);
        let Some(association) = associations.get(&id) else { return Vec::new() };
        association.io.iter().for_each(|io| io.mailbox.post(Message::Stop));
        association.io.iter().map(|io| io.qid).collect()
    }

    /// The association of a controller ends: no more queues, and those that there are stop; names
    /// them.
    pub(crate) fn end(&self, id: ControllerId) -> Vec<Qid> {
        if let Some(association) = lock(&self.associations).get_mut(&id) {
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
        let mut subsystems = lock(&self.subsystems);
        let Some(subsystem) = subsystems.at(from.0) else {
            return CrossReset::Refused(Status::INTERNAL_ERROR);
        };
        let found = subsystem.cross_reset(from.1, named);
        if found == CrossReset::UnderWay {
            let mut associations = lock(&self.associations);
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
        lock(&self.subsystems).release(id);
        self.generated.release(id);
        let ended = lock(&self.associations).remove(&id);
        for (mailbox, named) in ended.into_iter().flat_map(|association| association.awaited) {
            mailbox.post(Message::Own(Told::CrossResetOver(named)));
        }
        let held_back = core::mem::take(&mut *lock(&self.held_back));
        held_back.iter().for_each(|mailbox| mailbox.post(Message::Own(Told::AssociationEnded)));
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
        let mut subsystems = lock(&self.subsystems);
        if let Some(subsystem) = subsystems.at(id.0) {
            subsystem.release_io(id.1, qid);
        }
        if let Some(association) = lock(&self.associations).get_mut(&id) {
            association.io.retain(|io| io.qid != qid);
            association.admin.post(Message::Own(Told::Quiet(qid)));
        }
    }

    /// The mailbox of an I/O queue.
    pub(crate) fn queue_mailbox(&self, id: ControllerId, qid: Qid) -> Option<Arc<Mailbox>> {
        let associations = lock(&self.associations);
        let io = associations.get(&id)?.io.iter().find(|io| io.qid == qid)?;
        Some(Arc::clone(&io.mailbox))
    }
}

impl Follower for Shared {
    fn follow(&self, now: &Arc<Inventory>, changes: &[inventory::Change]) {
        // Whoever is just being admitted sees this inventory or is told of it here.
        let mut subsystems = lock(&self.subsystems);
        let news = subsystems.follow(now, changes);
        let associations = lock(&self.associations);
        for (id, view) in &news.views {
            let Some(association) = associations.get(id) else { continue };
            association.tell(|| Message::Own(Told::Namespaces(view.clone())));
        }
        let ended = news.ended.iter().filter_map(|id| associations.get(id));
        ended.for_each(|association| association.admin.post(Message::Stop));
        drop((associations, subsystems));
        self.publish();
    }
}

impl reservations::Follower for Shared {
    fn reservations_changed(&self, namespace: Uuid, changes: &Changes, pending: &Arc<Pending>) {
        self.end_strangers(namespace, &mut lock(&self.associations), pending);
        if changes.notices.is_empty() && changes.aborted.is_empty() {
            return;
        }
        let subsystems = lock(&self.subsystems);
        let associations = lock(&self.associations);
        for (id, host, nsid) in subsystems.using(namespace) {
            let (host, Some(association)) = (Registrant::Host(host), associations.get(&id)) else {
                continue;
            };
            let notices = changes.notices.iter().filter(|(to, _)| *to == host);
            for (nsid, (_, notice)) in
                nsid.into_iter().flat_map(|nsid| notices.clone().map(move |notice| (nsid, notice)))
            {
                association.admin.post(Message::Own(Told::Notice { nsid, notice: *notice }));
            }
            if changes.aborted.contains(&host) {
                let message =
                    || Message::Own(Told::Preempted { nsid, pending: Arc::clone(pending) });
                association.io.iter().for_each(|io| io.mailbox.post(message()));
            }
        }
    }
}
