//! State that the connections of one target share: its logical units and devices, and the
//! initiators that are logged in. For the cold path only.

use super::logins::Guesses;
use super::ports::Ports;
use super::units::{News, Units, View};
use crate::export::hosts::{ConnectedHost, HostProtocol};
use crate::export::mailbox;
use crate::export::members::{self, Members};
use crate::inventory::{self, Follower, Inventory, LiveInventory};
use crate::reservations::{self, PendingChange};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_block::Error;
use weft_block::limit::Rate;
use weft_connection::identity::Identities;
use weft_connection::iscsi_remarks::Remarks;
use weft_connection::limits::{LOGIN_NAMES_MAX, PORTS_KNOWN_MAX};
use weft_connection::statistics::{ConnectionName, Meter, NamespaceName};
use weft_proto::iscsi::pdu::{Isid, LoginStatus};
use weft_proto::iscsi::target::{ChapPolicy, IscsiTargetConfig, Login, Portals, Reinstatement};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_proto::reservation::{Changes, Registrant, ReservationRefusal};
use weft_proto::scsi::lun::{
    Arrival, Nexus, NexusId, NexusName, Target as ScsiTarget, TransportId,
};
use weft_proto::scsi::status::AdditionalSense;
use weft_proto::stream::Tag;

/// What connections tell each other.
pub(super) enum IscsiMessage {
    /// Another session had commands of this one aborted.
    Abort(Ticket),
    /// A device does not give back in time what a ticket of this number is for.
    Overdue(u64),
    /// A ticket of this number came back.
    Settled(u64),
    /// Commands of this session were aborted by a reservation that was preempted.
    Preempted(Arc<PendingChange>),
    /// The operation on reservations of this command has ended.
    Reserved(Tag, Result<(), ReservationRefusal>),
    /// The session that stood in the way of this login has ended.
    Freed(Box<Before>),
    /// The logical unit of this number has another size, or is reached in another way.
    Changed(usize, AdditionalSense),
    /// The initiator sees other logical units, or there are other devices behind them.
    Units(View),
}

pub(super) type Message = members::Message<IscsiMessage>;

pub(super) type Mailbox = mailbox::Mailbox<Message>;

/// Says, when it is dropped, that no device holds anything any more of what was to be aborted.
pub(super) struct Ticket {
    pub(super) number: u64,
    pub(super) issuer: Arc<Mailbox>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.issuer.post(Message::Own(IscsiMessage::Settled(self.number)));
    }
}

/// The session that a login replaces or takes over.
pub(super) struct Before {
    tsih: u16,
    pub(super) takeover: Reinstatement,
}

/// The name of a session: the initiator port, and the number of the target port. An initiator may
/// use an ISID once at each of them (RFC 7143 §4.4.1).
type SessionName = (Name, Isid, u16);

/// A session.
struct Entry {
    tsih: u16,
    cid: u16,
    nexus: NexusId,
    mailbox: Arc<Mailbox>,
    /// A login that waits for its end.
    next: Option<Arc<Mailbox>>,
}

/// What is said to a login.
pub(super) enum Verdict {
    /// The session may be.
    Enter { tsih: u16, nexus: Box<Nexus>, view: View },
    /// Another session has to end first: [`IscsiMessage::Freed`] tells when it has.
    Wait,
    /// It may not be.
    Refuse(LoginStatus),
}

/// State that all connections of one target share.
pub(super) struct TargetState {
    pub(super) inventory: Arc<LiveInventory>,
    config: Lock<Arc<IscsiTargetConfig>>,
    scsi: Arc<ScsiTarget>,
    units: Lock<Units>,
    pub(super) members: Arc<Members<IscsiMessage>>,
    /// In an order that does not depend on chance, as all of them are told of changes.
    sessions: Lock<BTreeMap<SessionName, Entry>>,
    last_tsih: Lock<u16>,
    /// Sessions that there were since the start, at most [`PORTS_KNOWN_MAX`]: nothing was lost for
    /// those that come again.
    known: Lock<VecDeque<SessionName>>,
    /// Initiator names that users acquired by logging in first.
    owners: Lock<HashMap<Name, String>>,
    /// Where secrets can be guessed.
    pub(super) guesses: Option<Arc<Guesses>>,
    /// What was said of initiators.
    pub(super) remarks: Remarks,
    /// Where the challenges of CHAP come from.
    pub(super) identities: Identities,
}

impl TargetState {
    /// What an initiator may use of all logical units together; `None`: all there is.
    pub(super) fn rate_of(&self, initiator: &Name) -> Option<Arc<Rate>> {
        self.inventory.rate_of(initiator.as_str())
    }

    /// The namespaces of the units that an initiator sees, by their numbers.
    pub(super) fn names(&self, view: &View) -> impl Iterator<Item = Option<NamespaceName>> {
        let nqn = self.units.lock().nqn.clone();
        (1..)
            .zip(view.devices.iter())
            .map(move |(nsid, device)| device.as_ref().map(|_| (nqn.clone(), Nsid(nsid))))
    }

    /// Counts the commands of an initiator at `peer`, with so many tags.
    pub(super) fn meter(&self, initiator: &Name, peer: &str, tags: u16, view: &View) -> Meter {
        let (host, peer) = (initiator.to_string(), peer.to_owned());
        let name = ConnectionName { protocol: "iscsi", host, peer, queue: None, tls: None };
        let mut meter = self.inventory.statistics().enter(name, tags.into());
        meter.follow(self.names(view));
        meter
    }

    /// Serves the subsystem `nqn` of the inventory, on loops that take transfers of so many bytes.
    pub(super) fn new(
        inventory: Arc<LiveInventory>,
        nqn: Nqn,
        mut config: IscsiTargetConfig,
        connections: usize,
        identities: Identities,
        guesses: Option<Arc<Guesses>>,
        transfer_bytes: u32,
    ) -> Arc<Self> {
        let scsi = ScsiTarget::new(config.name.as_str());
        let live = Arc::clone(&inventory);
        let shared = live.join(|now| {
            let units = Units::new(now, nqn, transfer_bytes);
            config.allow = units.initiators();
            Arc::new(Self {
                inventory,
                config: Lock::new(Arc::new(config)),
                scsi,
                units: Lock::new(units),
                members: Members::new(connections),
                sessions: Lock::default(),
                last_tsih: Lock::default(),
                known: Lock::default(),
                owners: Lock::default(),
                guesses,
                remarks: Remarks::default(),
                identities,
            })
        });
        live.reservations().join(&shared);
        shared
    }

    /// The configuration of a connection's engine.
    pub(super) fn config(&self) -> Arc<IscsiTargetConfig> {
        Arc::clone(&self.config.lock())
    }

    /// Whether an initiator may log in.
    pub(super) fn allows(&self, initiator: &Name) -> bool {
        self.units.lock().allows(initiator)
    }

    /// The numbers of the logical units.
    pub(super) fn numbers(&self) -> Vec<usize> {
        self.units.lock().numbers()
    }

    /// A port for an address; [`Self::port_opened`] tells that it listens.
    pub(super) fn add_port(&self, url: &str) -> Result<u16, Error> {
        self.units.lock().ports.add(url)
    }

    /// A port listens at this address.
    pub(super) fn port_opened(&self, number: u16, at: SocketAddr) {
        self.change_ports(|ports| ports.open(number, at));
    }

    /// The port of a URL does not listen any more.
    pub(super) fn port_closed(&self, url: &str) {
        self.change_ports(|ports| ports.close(url));
    }

    fn change_ports(&self, change: impl FnOnce(&mut Ports)) {
        let mut units = self.units.lock();
        change(&mut units.ports);
        // What an address that opens is to tell was perhaps said before.
        let news = units.refresh(&self.inventory.now());
        self.tell(&units, &news);
    }

    /// Tells sessions what has changed of the logical units that they see.
    fn tell(&self, units: &Units, news: &News) {
        let resized =
            news.resized.iter().map(|number| (*number, AdditionalSense::CAPACITY_DATA_CHANGED));
        let moved =
            news.moved.iter().map(|number| (*number, AdditionalSense::ACCESS_STATE_CHANGED));
        let changed: Vec<_> = resized.chain(moved).collect();
        for ((initiator, ..), entry) in
            self.sessions.lock().iter().filter(|((initiator, ..), _)| units.allows(initiator))
        {
            let seen = changed.iter().filter(|(number, _)| units.sees(initiator, *number));
            seen.for_each(|(number, what)| {
                entry.mailbox.post(Message::Own(IscsiMessage::Changed(*number, *what)))
            });
        }
    }

    /// The initiators that are logged in, and what they see.
    pub(super) fn hosts(&self) -> Vec<ConnectedHost> {
        let units = self.units.lock();
        let of = |initiator: &Name| {
            let (subsystem, namespaces) = units.seen(initiator);
            ConnectedHost {
                protocol: HostProtocol::Iscsi,
                name: initiator.to_string(),
                subsystem,
                namespaces,
            }
        };
        let mut hosts: Vec<_> =
            self.sessions.lock().keys().map(|(initiator, ..)| of(initiator)).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// What discovery tells an initiator that came by the port `number` to our address `local`.
    pub(super) fn portals(&self, number: u16, local: Option<SocketAddr>) -> Portals {
        let now = self.inventory.now();
        self.units.lock().ports.portals(number, local, &now.discovery().others)
    }

    /// A number for a session, which no other one has.
    pub(super) fn new_tsih(&self) -> u16 {
        let sessions = self.sessions.lock();
        let mut last = self.last_tsih.lock();
        loop {
            *last = last.wrapping_add(1).max(1);
            if sessions.values().all(|entry| entry.tsih != *last) {
                return *last;
            }
        }
    }

    /// Whether an initiator name belongs to the authenticated user: it was configured for the user,
    /// or no other user has logged in under it. The user keeps it, because reservations belong to
    /// the name.
    fn is_own(&self, login: &Login) -> bool {
        let Some(user) = &login.user else { return true };
        let given = |policy: &ChapPolicy| {
            policy.users.iter().any(|user| user.initiators.contains(&login.initiator))
        };
        if self.config().chap.as_ref().is_some_and(given) {
            return true;
        }
        let mut owners = self.owners.lock();
        if let Some(owner) = owners.get(&login.initiator) {
            return owner == user;
        }
        let has_room = owners.values().filter(|owner| *owner == user).count() < LOGIN_NAMES_MAX;
        if has_room {
            owners.insert(login.initiator.clone(), user.clone());
        }
        has_room
    }

    /// Whether an initiator port was here before; it is known from now on.
    fn know(&self, port: &SessionName) -> bool {
        let mut known = self.known.lock();
        let at = known.iter().position(|other| other == port);
        if let Some(at) = at {
            known.remove(at);
        }
        known.truncate(PORTS_KNOWN_MAX - 1);
        known.push_front(port.clone());
        at.is_some()
    }

    /// Whether a normal session at a target port may be (RFC 7143 §6.3.1). `before` is the session
    /// that this login had to wait for.
    pub(super) fn enter(
        &self,
        login: &Login,
        port: u16,
        mailbox: &Arc<Mailbox>,
        before: Option<&Before>,
    ) -> Verdict {
        if self.members.is_stopping() {
            return Verdict::Refuse(LoginStatus::SERVICE_UNAVAILABLE);
        }
        let name = (login.initiator.clone(), login.isid, port);
        let fresh = self.new_tsih();
        // Whoever enters sees these units, and is told of the next change.
        let units = self.units.lock();
        if !units.allows(&login.initiator) || !self.is_own(login) {
            return Verdict::Refuse(LoginStatus::AUTHORIZATION_FAILURE);
        }
        let mut sessions = self.sessions.lock();
        if let Some(entry) = sessions.get_mut(&name) {
            if login.tsih != 0 && login.tsih != entry.tsih {
                return Verdict::Refuse(LoginStatus::NO_SESSION);
            }
            if login.tsih != 0 && login.cid != entry.cid {
                return Verdict::Refuse(LoginStatus::TOO_MANY_CONNECTIONS);
            }
            tracing::info!("{} logs in again; its previous session ends", login.initiator);
            entry.mailbox.post(Message::Stop);
            if let Some(given_up) = entry.next.replace(Arc::clone(mailbox)) {
                given_up.post(Message::Stop);
            }
            return Verdict::Wait;
        }
        let before = before.filter(|before| login.tsih == 0 || before.tsih == login.tsih);
        if login.tsih != 0 && before.is_none() {
            return Verdict::Refuse(LoginStatus::NO_SESSION);
        }
        let tsih = if login.tsih == 0 { fresh } else { login.tsih };
        let arrival =
            if self.know(&name) || before.is_some() { Arrival::Again } else { Arrival::New };
        let initiator = TransportId::iscsi(login.initiator.as_str(), login.isid.0);
        let view = units.view(&login.initiator);
        let nexus = Box::new(self.scsi.attach(initiator, port, arrival, &view.units));
        sessions.insert(
            name,
            Entry {
                tsih,
                cid: login.cid,
                nexus: nexus.id(),
                mailbox: Arc::clone(mailbox),
                next: None,
            },
        );
        Verdict::Enter { tsih, nexus, view }
    }

    /// A session has ended: its connection is gone and no device holds anything of it.
    pub(super) fn leave(
        &self,
        login: &Login,
        port: u16,
        mailbox: &Arc<Mailbox>,
        takeover: Reinstatement,
    ) {
        let name = (login.initiator.clone(), login.isid, port);
        let mut sessions = self.sessions.lock();
        if sessions.get(&name).is_some_and(|entry| Arc::ptr_eq(&entry.mailbox, mailbox))
            && let Some(Entry { tsih, next: Some(next), .. }) = sessions.remove(&name)
        {
            next.post(Message::Own(IscsiMessage::Freed(Box::new(Before { tsih, takeover }))));
        }
    }

    /// The mailbox of another session.
    pub(super) fn mailbox(&self, nexus: NexusId) -> Option<Arc<Mailbox>> {
        self.sessions
            .lock()
            .values()
            .find(|entry| entry.nexus == nexus)
            .map(|entry| Arc::clone(&entry.mailbox))
    }

    /// Ends all sessions but one.
    pub(super) fn stop_others(&self, but: &Arc<Mailbox>) {
        let sessions = self.sessions.lock();
        let others = sessions.values().filter(|entry| !Arc::ptr_eq(&entry.mailbox, but));
        others.for_each(|entry| entry.mailbox.post(Message::Stop));
    }

    /// Sessions with commands.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.lock().len()
    }
}

impl Follower for TargetState {
    fn follow(&self, now: &Arc<Inventory>, _: &[inventory::Change]) {
        let mut units = self.units.lock();
        let news = units.refresh(now);
        let mut config = self.config.lock();
        if config.allow != units.initiators() {
            *config = Arc::new(IscsiTargetConfig {
                allow: units.initiators(),
                ..IscsiTargetConfig::clone(&config)
            });
        }
        drop(config);
        for ((initiator, ..), entry) in self.sessions.lock().iter() {
            if !units.allows(initiator) {
                tracing::info!("{initiator} may no longer log in; its session ends");
                entry.mailbox.post(Message::Stop);
                continue;
            }
            entry.mailbox.post(Message::Own(IscsiMessage::Units(units.view(initiator))));
        }
        self.tell(&units, &news);
    }
}

impl reservations::ReservationFollower for TargetState {
    /// The logical units know already; sessions whose commands are aborted have to look.
    fn reservations_changed(&self, _: Uuid, changes: &Changes, pending: &Arc<PendingChange>) {
        if changes.aborted.is_empty() {
            return;
        }
        for ((initiator, isid, target_port), entry) in self.sessions.lock().iter() {
            let (initiator, target_port) =
                (TransportId::iscsi(initiator.as_str(), isid.0), *target_port);
            let nexus = Registrant::Nexus(NexusName { initiator, target_port });
            if changes.aborted.iter().any(|lost| lost.covers(&nexus)) {
                entry.mailbox.post(Message::Own(IscsiMessage::Preempted(Arc::clone(pending))));
            }
        }
    }
}
