//! Hosts in this system: the namespaces that they have open, their view of them, and the messages
//! to their queues. For the cold path only.
//!
//! Such a host has the name and the identifier of an NVMe host. The inventory and the reservations
//! treat it like any other host. It opens one namespace at a time, and each queue of that namespace
//! is a connection.

use crate::export::hosts::{ConnectedHost, HostProtocol};
use crate::export::mailbox::Mailbox;
use crate::export::members::{Members, Message};
use crate::inventory::{self, Inventory, LiveInventory, Namespace};
use crate::reservations::{self, PendingChange};
use std::sync::{Arc, Weak};
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_block::{AccessState, DeviceChange, Error, ErrorKind, Features, Geometry, Presence};
use weft_connection::identity::HostIdentity;
use weft_connection::limits::CONNECTIONS_MAX;
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_proto::reservation::{Changes, Registrant, ReservationRefusal};
use weft_proto::stream::Tag;

/// What the queues of one export share.
pub(crate) struct LocalHosts {
    pub(crate) protocol: HostProtocol,
    pub(crate) inventory: Arc<LiveInventory>,
    pub(crate) members: Arc<Members<QueueMessage>>,
    queues: Lock<Vec<OpenQueue>>,
}

/// A namespace, as it was when a host opened it.
pub(crate) struct Opened {
    pub(crate) host: HostIdentity,
    pub(crate) subsystem: Nqn,
    pub(crate) namespace: Arc<Namespace>,
}

/// What a host sees of its namespace now.
#[derive(Clone)]
pub(crate) struct NamespaceView {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) access: AccessState,
    pub(crate) geometry: Geometry,
    pub(crate) features: Features,
}

/// What queues are told of.
pub(crate) enum QueueMessage {
    /// The host sees this; `None`: not the data any more that it opened, and never again.
    View(Option<NamespaceView>),
    /// Another host has preempted this one and aborted its commands. Kept until no device has any.
    Preempted(Arc<PendingChange>),
    /// The operation of this command on reservations has ended.
    Reserved(Tag, Result<(), ReservationRefusal>),
}

pub(crate) type QueueMailbox = Mailbox<Message<QueueMessage>>;

struct OpenQueue {
    mailbox: Weak<QueueMailbox>,
    opened: Arc<Opened>,
    view: Option<NamespaceView>,
}

impl Opened {
    /// What its host sees of it in an inventory; `None`: not the data that it opened.
    pub(crate) fn view(&self, inventory: &Inventory) -> Option<NamespaceView> {
        let subsystem = inventory.subsystem(&self.subsystem)?;
        let namespace = subsystem.namespace(self.namespace.nsid)?;
        let name = &self.host.nqn;
        let is_allowed = subsystem.hosts.allows(name) && namespace.hosts.allows(name);
        (is_allowed && namespace.is_same_data(&self.namespace))
            .then(|| NamespaceView::of(namespace, inventory.access().of(None, namespace.group)))
    }

    /// The host as reservations know it.
    pub(crate) fn registrant(&self) -> Registrant {
        Registrant::Host(self.host.id)
    }
}

impl NamespaceView {
    pub(crate) fn of(namespace: &Arc<Namespace>, access: AccessState) -> Self {
        let (device, reservations) = (&namespace.device, namespace.reservations.is_some());
        let geometry = device.geometry().of_first(namespace.blocks);
        let features = Features { reservations, ..device.features() };
        Self { namespace: Arc::clone(namespace), access, geometry, features }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.namespace, &other.namespace) && self.access == other.access
    }

    /// Whether commands are accepted in this access state.
    pub(crate) fn is_accessible(&self) -> bool {
        matches!(self.access, AccessState::Optimized | AccessState::NonOptimized)
    }

    /// What the host is to be told that saw `was`.
    pub(crate) fn changes_since(&self, was: &Self) -> impl Iterator<Item = DeviceChange> {
        let (blocks, presence) = (self.geometry.blocks, self.namespace.presence);
        let size = (blocks != was.geometry.blocks).then_some(DeviceChange::Resized { blocks });
        let reached = (presence != was.namespace.presence).then_some(match presence {
            Presence::Here => DeviceChange::Back,
            Presence::Away => DeviceChange::Away,
            Presence::Gone => DeviceChange::Gone,
        });
        let access = (self.access != was.access).then_some(DeviceChange::Access(self.access));
        [size, reached, access].into_iter().flatten()
    }
}

impl LocalHosts {
    /// For an export of an inventory.
    pub(crate) fn start(protocol: HostProtocol, inventory: &Arc<LiveInventory>) -> Arc<Self> {
        let members = Members::new(CONNECTIONS_MAX);
        let hosts = inventory.join(|_| {
            let inventory = Arc::clone(inventory);
            Arc::new(Self { protocol, inventory, members, queues: Lock::default() })
        });
        inventory.reservations().join(&hosts);
        hosts
    }

    /// The names of a namespace of which some may be left out: then it is the first one, of the
    /// first subsystem that has one.
    #[cfg(target_os = "linux")]
    pub(crate) fn chosen(&self, nqn: Option<&Nqn>, nsid: Option<Nsid>) -> Option<(Nqn, Nsid)> {
        let now = self.inventory.now();
        let first = || now.subsystems().iter().find(|it| it.namespaces().next().is_some());
        let nqn = nqn.cloned().or_else(|| Some(first()?.nqn.clone()))?;
        let first = || Some(now.subsystem(&nqn)?.namespaces().next()?.nsid);
        let nsid = nsid.or_else(first)?;
        Some((nqn, nsid))
    }

    /// A namespace that a host may open.
    ///
    /// # Errors
    /// There is no such namespace, the host does not see it, or the identifier is another's.
    pub(crate) fn find(
        &self,
        host: HostIdentity,
        subsystem: &Nqn,
        nsid: Nsid,
    ) -> Result<Opened, Error> {
        // Devices may have changed while no queue was there to tell of it.
        self.inventory.look_at_devices();
        let now = self.inventory.now();
        let namespace = now.namespace(subsystem, nsid).cloned().ok_or_else(|| {
            let text = format!("subsystem {subsystem} has no namespace {nsid}");
            Error::new(ErrorKind::NotFound, text)
        })?;
        let denied = |why: String| Error::new(ErrorKind::PermissionDenied, why);
        self.inventory.check_identifier(host.id, &host.nqn).map_err(|_| {
            denied(format!("the host identifier {} is not that of host {}", host.id, host.nqn))
        })?;
        let opened = Opened { host, subsystem: subsystem.clone(), namespace };
        let no_access = || {
            let host = &opened.host.nqn;
            format!("host {host} has no access to namespace {nsid} of subsystem {subsystem}")
        };
        match opened.view(&now) {
            Some(_) => Ok(opened),
            None => Err(denied(no_access())),
        }
    }

    /// The queue of this mailbox serves a namespace from now on. What its host sees of it now;
    /// whatever changes after this is told. `None`: it sees nothing of it any more.
    pub(crate) fn enter(
        &self,
        opened: &Arc<Opened>,
        mailbox: &Arc<QueueMailbox>,
    ) -> Option<NamespaceView> {
        let mut queues = self.queues.lock();
        let view = opened.view(&self.inventory.now())?;
        queues.retain(|queue| queue.mailbox.strong_count() > 0);
        queues.push(OpenQueue {
            mailbox: Arc::downgrade(mailbox),
            opened: Arc::clone(opened),
            view: Some(view.clone()),
        });
        Some(view)
    }

    /// The hosts that have queues, each once.
    pub(crate) fn connected(&self) -> Vec<ConnectedHost> {
        let queues = self.queues.lock();
        let open = queues.iter().filter(|queue| queue.mailbox.strong_count() > 0);
        let host = |OpenQueue { opened, view, .. }: &OpenQueue| ConnectedHost {
            protocol: self.protocol,
            name: opened.host.nqn.to_string(),
            subsystem: opened.subsystem.clone(),
            namespaces: view.iter().map(|view| view.namespace.nsid).collect(),
        };
        let mut hosts: Vec<_> = open.map(host).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

impl inventory::Follower for LocalHosts {
    fn follow(&self, now: &Arc<Inventory>, _: &[inventory::Change]) {
        for OpenQueue { mailbox, opened, view } in self.queues.lock().iter_mut() {
            let (Some(was), Some(mailbox)) = (view.as_ref(), mailbox.upgrade()) else { continue };
            let is = opened.view(now);
            if !is.as_ref().is_some_and(|is| is.is(was)) {
                mailbox.post(Message::Own(QueueMessage::View(is.clone())));
                *view = is;
            }
        }
    }
}

impl reservations::ReservationFollower for LocalHosts {
    fn reservations_changed(
        &self,
        namespace: Uuid,
        changes: &Changes,
        pending: &Arc<PendingChange>,
    ) {
        let is_meant = |queue: &&OpenQueue| {
            queue.opened.namespace.uuid == namespace
                && changes.aborted.contains(&queue.opened.registrant())
        };
        let queues = self.queues.lock();
        let meant = queues.iter().filter(is_meant).filter_map(|queue| queue.mailbox.upgrade());
        meant.for_each(|mailbox| {
            mailbox.post(Message::Own(QueueMessage::Preempted(Arc::clone(pending))));
        });
    }
}
