//! What the connections of one target share: subsystems, devices, and who belongs to which controller. For the cold path only.

use super::mailbox::{Mailbox, Message};
use super::ports::Ports;
use super::target::TargetLimits;
use crate::export::seats::Seats;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use weft_block::{BlockDevice, Change};
use weft_io::Remote;
use weft_proto::nvme::controller::{CONNECT_BYTES, Control, IoQueue, Port, Refusal, Subsystem, subsystem_name};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::Connect;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Cntlid, Nqn, Nsid, Qid};

/// Which of a target's two subsystems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Which {
    /// The one with the namespaces.
    Nvm,
    /// Discovery.
    Discovery,
}

/// A controller, by subsystem and identifier.
pub(super) type ControllerId = (Which, Cntlid);

/// The connections of one controller.
struct Members {
    admin: Arc<Mailbox>,
    io: Vec<(Qid, Arc<Mailbox>)>,
    /// The association is ending: no more queues.
    ending: bool,
}

/// A queue that was admitted, and the answer to its Connect.
pub(super) enum Admitted {
    Admin { id: ControllerId, control: Box<Control>, cqe: Cqe, mailbox: Arc<Mailbox> },
    Io { queue: IoQueue, cqe: Cqe, mailbox: Arc<Mailbox> },
}

/// See the module.
pub(super) struct Shared {
    pub(super) devices: Vec<Arc<dyn BlockDevice>>,
    pub(super) loops: Vec<Remote>,
    pub(super) limits: TargetLimits,
    nvm: Mutex<Subsystem>,
    discovery: Mutex<Subsystem>,
    ports: Mutex<Ports>,
    members: Mutex<HashMap<ControllerId, Members>>,
    /// Connections before their Connect.
    newcomers: Mutex<Vec<Weak<Mailbox>>>,
    /// Nobody is admitted any more.
    stopping: AtomicBool,
    /// One for each connection that is open, in whatever state.
    pub(super) seats: Arc<Seats>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(
        nvm: Subsystem,
        discovery: Subsystem,
        devices: Vec<Arc<dyn BlockDevice>>,
        loops: Vec<Remote>,
        limits: TargetLimits,
    ) -> Self {
        Self {
            devices,
            loops,
            limits,
            ports: Mutex::new(Ports::default()),
            nvm: Mutex::new(nvm),
            discovery: Mutex::new(discovery),
            members: Mutex::default(),
            newcomers: Mutex::default(),
            stopping: AtomicBool::new(false),
            seats: Seats::new(limits.connections),
        }
    }

    /// The name of the subsystem.
    pub(super) fn subsystem_nqn(&self) -> Nqn {
        lock(&self.nvm).config().nqn.clone()
    }

    /// Enters an address at which the target listens.
    pub(super) fn add_listener(&self, address: SocketAddr) {
        lock(&self.ports).listen(address);
        self.publish();
    }

    /// The port through which a host came to our address `local`.
    pub(super) fn port(&self, local: SocketAddr) -> Port {
        let (port, is_new) = lock(&self.ports).reached(local);
        if is_new {
            self.publish();
        }
        port
    }

    /// Writes the discovery log anew.
    fn publish(&self) {
        let nvm = lock(&self.nvm);
        let records = lock(&self.ports).records(nvm.config());
        drop(nvm);
        lock(&self.discovery).set_discovery(records);
    }

    fn subsystem(&self, which: Which) -> MutexGuard<'_, Subsystem> {
        match which {
            Which::Nvm => lock(&self.nvm),
            Which::Discovery => lock(&self.discovery),
        }
    }

    /// Enters a connection before its Connect. It leaves by dropping its mailbox.
    pub(super) fn add_newcomer(&self, mailbox: &Arc<Mailbox>) {
        let mut newcomers = lock(&self.newcomers);
        newcomers.retain(|newcomer| newcomer.strong_count() > 0);
        newcomers.push(Arc::downgrade(mailbox));
        if self.stopping.load(Ordering::Acquire) {
            mailbox.post(Message::Stop);
        }
    }

    /// Admits the queue that a Connect asks for.
    pub(super) fn admit(&self, now: Duration, sqe: &Sqe, data: &[u8; CONNECT_BYTES], port: Port) -> Result<Admitted, Refusal> {
        let name = subsystem_name(data);
        let which = if name == Some(Nqn::discovery()) { Which::Discovery } else { Which::Nvm };
        if which == Which::Nvm {
            self.look_at_sizes();
        }
        let mut subsystem = self.subsystem(which);
        let mailbox = Arc::new(Mailbox::default());
        if self.stopping.load(Ordering::Acquire) {
            return Err(Refusal::new(sqe.cid(), weft_proto::nvme::controller::ConnectError::NotReady));
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
        let mut members = lock(&self.members);
        match members.get_mut(&(which, queue.cntlid())).filter(|members| !members.ending) {
            Some(members) => members.io.push((queue.qid(), Arc::clone(&mailbox))),
            None => {
                subsystem.release_io(queue.cntlid(), queue.qid());
                return Err(Refusal::new(sqe.cid(), weft_proto::nvme::controller::ConnectError::NotReady));
            }
        }
        Ok(Admitted::Io { queue, cqe: connected.cqe, mailbox })
    }

    /// The loop for a queue: queues of one controller go round the loops.
    pub(super) fn home(&self, cntlid: Cntlid, qid: Qid) -> &Remote {
        &self.loops[(usize::from(cntlid.0) + usize::from(qid.0)) % self.loops.len()]
    }

    /// Has all I/O queues of a controller stop; names them. Each reports to the admin queue when it is quiet.
    pub(super) fn stop_queues(&self, id: ControllerId) -> Vec<Qid> {
        // A queue that is just being admitted is either seen here or refused.
        let _admission = self.subsystem(id.0);
        let members = lock(&self.members);
        let Some(members) = members.get(&id) else { return Vec::new() };
        members.io.iter().for_each(|(_, mailbox)| mailbox.post(Message::Stop));
        members.io.iter().map(|(qid, _)| *qid).collect()
    }

    /// The association of a controller ends: no more queues, and those that there are stop; names them.
    pub(super) fn end(&self, id: ControllerId) -> Vec<Qid> {
        if let Some(members) = lock(&self.members).get_mut(&id) {
            members.ending = true;
        }
        self.stop_queues(id)
    }

    /// The association has ended.
    pub(super) fn release(&self, id: ControllerId) {
        self.subsystem(id.0).release(id.1);
        lock(&self.members).remove(&id);
    }

    /// The admin queue of a controller could not be made.
    pub(super) fn give_up(&self, id: ControllerId) {
        self.end(id);
        self.release(id);
    }

    /// The connection of an I/O queue is gone and no device holds anything of it.
    pub(super) fn queue_gone(&self, cntlid: Cntlid, qid: Qid) {
        lock(&self.nvm).release_io(cntlid, qid);
        if let Some(members) = lock(&self.members).get_mut(&(Which::Nvm, cntlid)) {
            members.io.retain(|(queue, _)| *queue != qid);
            members.admin.post(Message::Quiet(qid));
        }
    }

    /// The mailbox of an I/O queue.
    pub(super) fn queue_mailbox(&self, id: ControllerId, qid: Qid) -> Option<Arc<Mailbox>> {
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
    pub(super) fn drain(&self) {
        self.stopping.store(true, Ordering::Release);
        lock(&self.newcomers).drain(..).filter_map(|newcomer| newcomer.upgrade()).for_each(|it| it.post(Message::Stop));
        for members in lock(&self.members).values() {
            members.io.iter().for_each(|(_, io)| io.post(Message::Drain));
        }
    }

    /// I/O queues that are connected.
    pub(super) fn io_queues(&self) -> usize {
        lock(&self.members).values().map(|members| members.io.len()).sum()
    }

    /// Has everybody close.
    pub(super) fn stop(&self) {
        self.tell_all(|| Message::Stop);
    }

    /// Devices may have changed while no queue was there to tell of it.
    fn look_at_sizes(&self) {
        for (index, device) in self.devices.iter().enumerate() {
            self.device_changed(index, Change::Resized { blocks: device.geometry().blocks });
        }
    }

    /// A device has changed: hosts are told.
    pub(super) fn device_changed(&self, index: usize, change: Change) {
        let nsid = Nsid(index as u32 + 1);
        let mut nvm = lock(&self.nvm);
        let table = nvm.namespaces();
        let Some((_, namespace)) = table.find(nsid) else { return };
        let table = match change {
            Change::Resized { blocks } if blocks != namespace.blocks => {
                let mut namespace = namespace.clone();
                namespace.blocks = blocks;
                match nvm.set_namespace(namespace) {
                    Ok(table) => table,
                    Err(e) => return tracing::error!("namespace {nsid}: a new size of {blocks} blocks cannot be served: {e}"),
                }
            }
            Change::Resized { .. } => return,
            Change::Gone => nvm.remove_namespace(nsid),
        };
        drop(nvm);
        tracing::info!("namespace {nsid}: {change:?}");
        self.tell_all(|| Message::Namespaces(Arc::clone(&table)));
    }
}
