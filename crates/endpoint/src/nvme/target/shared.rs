//! What the connections of one target share: subsystems, devices, and who belongs to which controller. For the cold path only.

use super::mailbox::{Mailbox, Message};
use super::namespaces::transfer_bytes;
use super::ports::Ports;
use super::subsystems::{ControllerId, Subsystems, View, Which};
use crate::export::seats::Seats;
use crate::inventory::{self, Follower, Inventory, LiveInventory};
use crate::limits::CONNECTIONS_MAX;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use weft_block::{BlockDevice, Change};
use weft_io::Remote;
use weft_proto::limits::HANDSHAKE_S;
use weft_proto::nvme::controller::{CONNECT_BYTES, ConnectError, Control, IoQueue, Port, Refusal, subsystem_name};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::Connect;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Cntlid, Qid};

/// Bounds that a target keeps to.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// Connections; see [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// From accepting a connection to its Connect; see [`HANDSHAKE_S`].
    pub handshake: Duration,
}

impl Default for TargetLimits {
    fn default() -> Self {
        Self { connections: CONNECTIONS_MAX, handshake: Duration::from_secs(HANDSHAKE_S) }
    }
}

/// The connections of one controller.
struct Members {
    admin: Arc<Mailbox>,
    io: Vec<(Qid, Arc<Mailbox>)>,
    /// The association is ending: no more queues.
    ending: bool,
}

/// A queue that was admitted, and the answer to its Connect.
pub(crate) enum Admitted {
    Admin { id: ControllerId, control: Box<Control>, cqe: Cqe, mailbox: Arc<Mailbox> },
    Io { id: ControllerId, queue: IoQueue, view: View, cqe: Cqe, mailbox: Arc<Mailbox> },
}

/// See the module.
pub(crate) struct Shared {
    pub(crate) inventory: Arc<LiveInventory>,
    pub(crate) loops: Vec<Remote>,
    pub(crate) limits: TargetLimits,
    subsystems: Mutex<Subsystems>,
    ports: Mutex<Ports>,
    members: Mutex<HashMap<ControllerId, Members>>,
    /// Connections before their Connect.
    newcomers: Mutex<Vec<Weak<Mailbox>>>,
    /// Nobody is admitted any more.
    stopping: AtomicBool,
    /// One for each connection that is open, in whatever state.
    pub(crate) seats: Arc<Seats>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Serves the inventory, on `loops` whose pools hold so much.
    pub(crate) fn new(inventory: Arc<LiveInventory>, limits: TargetLimits, pool_bytes: usize, loops: Vec<Remote>) -> Arc<Self> {
        let live = Arc::clone(&inventory);
        live.join(|now| {
            let subsystems = Mutex::new(Subsystems::new(now, transfer_bytes(pool_bytes)));
            Arc::new(Self {
                inventory,
                loops,
                limits,
                subsystems,
                ports: Mutex::new(Ports::default()),
                members: Mutex::default(),
                newcomers: Mutex::default(),
                stopping: AtomicBool::new(false),
                seats: Seats::new(limits.connections),
            })
        })
    }

    /// Enters an address at which the target listens.
    pub(crate) fn add_listener(&self, address: SocketAddr) {
        lock(&self.ports).listen(address);
        self.publish();
    }

    /// The port through which a host came to our address `local`.
    pub(crate) fn port(&self, local: SocketAddr) -> Port {
        let (port, is_new) = lock(&self.ports).reached(local);
        if is_new {
            self.publish();
        }
        port
    }

    /// Writes the discovery log anew, and tells of it.
    fn publish(&self) {
        let mut subsystems = lock(&self.subsystems);
        let Some(log) = subsystems.publish(&lock(&self.ports)) else { return };
        let members = lock(&self.members);
        let hosts = members.iter().filter(|((which, _), _)| *which == Which::Discovery);
        hosts.for_each(|(_, members)| members.admin.post(Message::Discovery(Arc::clone(&log))));
    }

    /// What a controller sees.
    pub(crate) fn view(&self, id: ControllerId) -> Option<View> {
        lock(&self.subsystems).view(id)
    }

    /// Enters a connection before its Connect. It leaves by dropping its mailbox.
    pub(crate) fn add_newcomer(&self, mailbox: &Arc<Mailbox>) {
        let mut newcomers = lock(&self.newcomers);
        newcomers.retain(|newcomer| newcomer.strong_count() > 0);
        newcomers.push(Arc::downgrade(mailbox));
        if self.stopping.load(Ordering::Acquire) {
            mailbox.post(Message::Stop);
        }
    }

    /// Admits the queue that a Connect asks for.
    pub(crate) fn admit(&self, now: Duration, sqe: &Sqe, data: &[u8; CONNECT_BYTES], port: Port) -> Result<Admitted, Refusal> {
        // Devices may have changed while no queue was there to tell of it.
        self.inventory.look_at_sizes();
        let not_ready = || Refusal::new(sqe.cid(), ConnectError::NotReady);
        let mut subsystems = lock(&self.subsystems);
        let name = subsystem_name(data);
        let unknown = || Refusal::new(sqe.cid(), ConnectError::Subsystem);
        let which = subsystems.find(name.as_ref()).ok_or_else(unknown)?;
        let subsystem = subsystems.at(which).ok_or_else(unknown)?;
        let mailbox = Arc::new(Mailbox::default());
        if self.stopping.load(Ordering::Acquire) {
            return Err(not_ready());
        }
        if Connect::decode(sqe).qid == Qid(0) {
            let connected = subsystem.connect(now, sqe, data, port)?;
            let id = (which, connected.queue.cntlid());
            let members = Members { admin: Arc::clone(&mailbox), io: Vec::new(), ending: false };
            lock(&self.members).insert(id, members);
            return Ok(Admitted::Admin { id, control: Box::new(connected.queue), cqe: connected.cqe, mailbox });
        }
        let connected = subsystem.connect_io(sqe, data)?;
        let queue = connected.queue;
        let id = (which, queue.cntlid());
        let mut members = lock(&self.members);
        let present = members.get_mut(&id).filter(|members| !members.ending);
        let Some((members, view)) = present.and_then(|members| Some((members, subsystems.view(id)?))) else {
            subsystems.at(which).into_iter().for_each(|subsystem| subsystem.release_io(id.1, queue.qid()));
            return Err(not_ready());
        };
        members.io.push((queue.qid(), Arc::clone(&mailbox)));
        Ok(Admitted::Io { id, queue, view, cqe: connected.cqe, mailbox })
    }

    /// The loop for a queue: queues of one controller go round the loops.
    pub(crate) fn home(&self, cntlid: Cntlid, qid: Qid) -> &Remote {
        &self.loops[(usize::from(cntlid.0) + usize::from(qid.0)) % self.loops.len()]
    }

    /// Has all I/O queues of a controller stop; names them. Each reports to the admin queue when it is quiet.
    pub(crate) fn stop_queues(&self, id: ControllerId) -> Vec<Qid> {
        // A queue that is just being admitted is either seen here or refused.
        let _admission = lock(&self.subsystems);
        let members = lock(&self.members);
        let Some(members) = members.get(&id) else { return Vec::new() };
        members.io.iter().for_each(|(_, mailbox)| mailbox.post(Message::Stop));
        members.io.iter().map(|(qid, _)| *qid).collect()
    }

    /// The association of a controller ends: no more queues, and those that there are stop; names them.
    pub(crate) fn end(&self, id: ControllerId) -> Vec<Qid> {
        if let Some(members) = lock(&self.members).get_mut(&id) {
            members.ending = true;
        }
        self.stop_queues(id)
    }

    /// The association has ended.
    pub(crate) fn release(&self, id: ControllerId) {
        lock(&self.subsystems).release(id);
        lock(&self.members).remove(&id);
    }

    /// The admin queue of a controller could not be made.
    pub(crate) fn give_up(&self, id: ControllerId) {
        self.end(id);
        self.release(id);
    }

    /// The connection of an I/O queue is gone and no device holds anything of it.
    pub(crate) fn queue_gone(&self, id: ControllerId, qid: Qid) {
        if let Some(subsystem) = lock(&self.subsystems).at(id.0) {
            subsystem.release_io(id.1, qid);
        }
        if let Some(members) = lock(&self.members).get_mut(&id) {
            members.io.retain(|(queue, _)| *queue != qid);
            members.admin.post(Message::Quiet(qid));
        }
    }

    /// The mailbox of an I/O queue.
    pub(crate) fn queue_mailbox(&self, id: ControllerId, qid: Qid) -> Option<Arc<Mailbox>> {
        let members = lock(&self.members);
        let (_, mailbox) = members.get(&id)?.io.iter().find(|(queue, _)| *queue == qid)?;
        Some(Arc::clone(mailbox))
    }

    /// Tells every connection that was admitted.
    fn tell_all(&self, message: impl Fn() -> Message) {
        for members in lock(&self.members).values() {
            members.io.iter().map(|(_, io)| io).chain([&members.admin]).for_each(|mailbox| mailbox.post(message()));
        }
    }

    /// Admits nobody any more, and has I/O queues finish and close. Admin queues stay, for Aborts and Keep Alive.
    pub(crate) fn drain(&self) {
        self.stopping.store(true, Ordering::Release);
        lock(&self.newcomers).drain(..).filter_map(|newcomer| newcomer.upgrade()).for_each(|it| it.post(Message::Stop));
        for members in lock(&self.members).values() {
            members.io.iter().for_each(|(_, io)| io.post(Message::Drain));
        }
    }

    /// I/O queues that are connected.
    pub(crate) fn io_queues(&self) -> usize {
        lock(&self.members).values().map(|members| members.io.len()).sum()
    }

    /// Has everybody close.
    pub(crate) fn stop(&self) {
        self.tell_all(|| Message::Stop);
    }

    /// A device has changed: the inventory follows it, and all who serve the inventory.
    pub(crate) fn device_changed(&self, device: &Arc<dyn BlockDevice>, change: Change) {
        match change {
            Change::Resized { .. } => self.inventory.look_at_sizes(),
            Change::Gone => self.inventory.device_gone(device),
        }
    }
}

impl Follower for Shared {
    fn follow(&self, now: &Arc<Inventory>, changes: &[inventory::Change]) {
        // Whoever is just being admitted sees this inventory or is told of it here.
        let mut subsystems = lock(&self.subsystems);
        let news = subsystems.follow(now, changes);
        let members = lock(&self.members);
        for (id, view) in &news.views {
            let Some(members) = members.get(id) else { continue };
            let all = members.io.iter().map(|(_, io)| io).chain([&members.admin]);
            all.for_each(|mailbox| mailbox.post(Message::Namespaces(view.clone())));
        }
        let ended = news.ended.iter().filter_map(|id| members.get(id));
        ended.for_each(|members| members.admin.post(Message::Stop));
        drop((members, subsystems));
        self.publish();
    }
}
