//! What the connections of one target share: its logical units and devices, and who is logged in. For the cold path only.

use super::target::TargetLimits;
use crate::export::mailbox;
use crate::export::seats::Seats;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_block::{BlockDevice, Change};
use weft_proto::iscsi::pdu::{Isid, LoginStatus};
use weft_proto::iscsi::target::{Login, Takeover, TargetConfig};
use weft_proto::iscsi::text::Name;
use weft_proto::scsi::lun::{Arrival, Nexus, NexusId, Target as ScsiTarget, TransportId};

/// Messages between connections.
pub(super) enum Message {
    /// End: abort what is under way, then close.
    Stop,
    /// Take no more commands, let those under way end, then close.
    Drain,
    /// Another session had commands of this one aborted.
    Abort(Ticket),
    /// A ticket of this number came back.
    Settled(u64),
    /// The session that stood in the way of this login has ended.
    Freed(Box<Before>),
    /// The logical unit of this number has another size.
    Resized(usize),
}

pub(super) type Mailbox = mailbox::Mailbox<Message>;

/// Says, when it is dropped, that no device holds anything any more of what was to be aborted.
pub(super) struct Ticket {
    pub(super) number: u64,
    pub(super) issuer: Arc<Mailbox>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.issuer.post(Message::Settled(self.number));
    }
}

/// The session that a login replaces or takes over.
pub(super) struct Before {
    tsih: u16,
    pub(super) takeover: Takeover,
}

/// The name of a session: the initiator port.
type PortName = (Name, Isid);

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
    Enter { tsih: u16, nexus: Box<Nexus> },
    /// Another session has to end first: [`Message::Freed`] tells when it has.
    Wait,
    /// It may not be.
    Refuse(LoginStatus),
}

/// See the module.
pub(super) struct Shared {
    pub(super) config: Arc<TargetConfig>,
    pub(super) scsi: Arc<ScsiTarget>,
    pub(super) devices: Vec<Arc<dyn BlockDevice>>,
    pub(super) limits: TargetLimits,
    pub(super) seats: Arc<Seats>,
    addresses: Mutex<Vec<SocketAddr>>,
    sessions: Mutex<HashMap<PortName, Entry>>,
    /// Every connection, by the address of its mailbox.
    members: Mutex<Vec<Arc<Mailbox>>>,
    last_tsih: Mutex<u16>,
    stopping: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(
        config: TargetConfig,
        scsi: Arc<ScsiTarget>,
        devices: Vec<Arc<dyn BlockDevice>>,
        limits: TargetLimits,
    ) -> Self {
        Self {
            config: Arc::new(config),
            scsi,
            devices,
            limits,
            seats: Seats::new(limits.connections),
            addresses: Mutex::default(),
            sessions: Mutex::default(),
            members: Mutex::default(),
            last_tsih: Mutex::default(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Enters an address at which the target listens.
    pub(super) fn add_listener(&self, address: SocketAddr) {
        lock(&self.addresses).push(address);
    }

    /// What discovery tells an initiator that came to our address `local`: that one, then the others that it may reach as well.
    pub(super) fn portals(&self, local: SocketAddr) -> Arc<[String]> {
        let others = lock(&self.addresses).clone();
        let reachable = |other: &SocketAddr| {
            *other != local && !other.ip().is_unspecified() && (!other.ip().is_loopback() || local.ip().is_loopback())
        };
        let others = others.into_iter().filter(reachable);
        [local].into_iter().chain(others).map(|address| address.to_string()).collect()
    }

    /// Enters a connection.
    pub(super) fn join(&self, mailbox: &Arc<Mailbox>) {
        lock(&self.members).push(Arc::clone(mailbox));
        if self.stopping.load(Ordering::Acquire) {
            mailbox.post(Message::Stop);
        }
    }

    /// Forgets a connection.
    pub(super) fn part(&self, mailbox: &Arc<Mailbox>) {
        lock(&self.members).retain(|member| !Arc::ptr_eq(member, mailbox));
    }

    /// A number for a session, which no other one has.
    pub(super) fn new_tsih(&self) -> u16 {
        let sessions = lock(&self.sessions);
        let mut last = lock(&self.last_tsih);
        loop {
            *last = last.wrapping_add(1).max(1);
            if sessions.values().all(|entry| entry.tsih != *last) {
                return *last;
            }
        }
    }

    /// Whether a normal session may be (RFC 7143 §6.3.1). `before` is the session that this login had to wait for.
    pub(super) fn enter(&self, login: &Login, mailbox: &Arc<Mailbox>, before: Option<&Before>) -> Verdict {
        if self.stopping.load(Ordering::Acquire) {
            return Verdict::Refuse(LoginStatus::SERVICE_UNAVAILABLE);
        }
        let name = (login.initiator.clone(), login.isid);
        let fresh = self.new_tsih();
        let mut sessions = lock(&self.sessions);
        if let Some(entry) = sessions.get_mut(&name) {
            if login.tsih != 0 && login.tsih != entry.tsih {
                return Verdict::Refuse(LoginStatus::NO_SESSION);
            }
            if login.tsih != 0 && login.cid != entry.cid {
                return Verdict::Refuse(LoginStatus::TOO_MANY_CONNECTIONS);
            }
            tracing::info!("{}: logs in again, its session before ends", login.initiator);
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
        let arrival = if before.is_some() { Arrival::Again } else { Arrival::New };
        let port = TransportId::iscsi(login.initiator.as_str(), login.isid.0);
        let nexus = Box::new(self.scsi.attach(port, self.config.portal_group_tag, arrival));
        sessions.insert(name, Entry { tsih, cid: login.cid, nexus: nexus.id(), mailbox: Arc::clone(mailbox), next: None });
        Verdict::Enter { tsih, nexus }
    }

    /// A session has ended: its connection is gone and no device holds anything of it.
    pub(super) fn leave(&self, login: &Login, mailbox: &Arc<Mailbox>, takeover: Takeover) {
        let name = (login.initiator.clone(), login.isid);
        let mut sessions = lock(&self.sessions);
        if sessions.get(&name).is_some_and(|entry| Arc::ptr_eq(&entry.mailbox, mailbox))
            && let Some(Entry { tsih, next: Some(next), .. }) = sessions.remove(&name)
        {
            next.post(Message::Freed(Box::new(Before { tsih, takeover })));
        }
    }

    /// The mailbox of another session.
    pub(super) fn mailbox(&self, nexus: NexusId) -> Option<Arc<Mailbox>> {
        lock(&self.sessions).values().find(|entry| entry.nexus == nexus).map(|entry| Arc::clone(&entry.mailbox))
    }

    /// Ends all sessions but one.
    pub(super) fn stop_others(&self, but: &Arc<Mailbox>) {
        let sessions = lock(&self.sessions);
        let others = sessions.values().filter(|entry| !Arc::ptr_eq(&entry.mailbox, but));
        others.for_each(|entry| entry.mailbox.post(Message::Stop));
    }

    /// Lets nobody in any more, and has sessions finish and close.
    pub(super) fn drain(&self) {
        self.stopping.store(true, Ordering::Release);
        let sessions = lock(&self.sessions);
        let is_session = |member: &Arc<Mailbox>| sessions.values().any(|entry| Arc::ptr_eq(&entry.mailbox, member));
        for member in lock(&self.members).iter() {
            member.post(if is_session(member) { Message::Drain } else { Message::Stop });
        }
    }

    /// Has everybody close.
    pub(super) fn stop(&self) {
        lock(&self.members).iter().for_each(|member| member.post(Message::Stop));
    }

    /// Sessions with commands.
    pub(super) fn sessions(&self) -> usize {
        lock(&self.sessions).len()
    }

    /// Devices may have changed while no queue was there to tell of it.
    pub(super) fn look_at_sizes(&self) {
        for (number, device) in self.devices.iter().enumerate() {
            self.device_changed(number, Change::Resized { blocks: device.geometry().blocks });
        }
    }

    /// A device has changed: initiators are told.
    pub(super) fn device_changed(&self, number: usize, change: Change) {
        let Some(unit) = self.scsi.unit(number) else { return };
        match change {
            Change::Resized { blocks } if blocks == unit.geometry().blocks => return,
            Change::Resized { blocks } => {
                unit.resize(blocks);
                lock(&self.sessions).values().for_each(|entry| entry.mailbox.post(Message::Resized(number)));
            }
            Change::Gone => {
                self.scsi.remove(number);
            }
        }
        tracing::info!("logical unit {number}: {change:?}");
    }
}
