//! One association with a controller, as its admin connection, its I/O queues and its devices share
//! it.
//!
//! The admin connection and the state machine live on the control loop. I/O connections are opened
//! there too, then wait here until a device opens a queue on some loop, move to that loop with all
//! their state, and come back when the queue is dropped.

use super::command_data::CommandData;
use super::learned::{AssociationEnd, Learned};
use super::transport::ConcatenationState;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::queue_owners::QueueOwners;
use weft_block::{AccessState, Presence};
use weft_connection::psk::TlsPsk;
use weft_io::{DriverId, RemoteLoop, Time};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::identify::IdentifyController;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Cid, Nsid, Qid};

use crate::source::ConnectOptions;
use crate::source::queue::QueueGate;
use weft_connection::settle::lost_writes::nvme_bound;
use weft_connection::settle::registry::Unsettled;

/// An I/O connection whose Connect has succeeded.
pub(crate) struct IoConnection<L> {
    pub(crate) qid: Qid,
    /// Commands that may be outstanding.
    pub(crate) commands: u16,
    pub(crate) link: L,
}

/// What comes of an admin command: its completion and the data that came with it, or why there is
/// none.
pub(crate) type AdminReply = Box<dyn FnOnce(Result<(Cqe, Vec<u8>), String>) + Send>;

/// Called after a look at the namespaces: on success they are known as the controller reports them
/// now.
pub(crate) type LookReply = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Messages to the admin connection.
pub(crate) enum ToAdmin {
    /// A command has been under way for too long.
    TimedOut(Qid, Cid),
    /// Nobody wants a command any more.
    Cancelled(Qid, Cid),
    /// A command that was reported as timed out or cancelled has ended.
    Completed(Qid, Cid),
    /// The connection of an I/O queue ended.
    Lost(Qid),
    /// This namespace is used from now on, and no other.
    Use(Nsid),
    /// The namespace that is used does not seem to be there.
    Doubt,
    /// Look at the namespaces again, whatever the controller has reported of them.
    Look(LookReply),
    /// A command was refused for the access state of the namespace that is used.
    AccessDoubt,
    /// Have another controller of the subsystem reset, which this host has lost.
    CrossReset(CrossControllerReset),
    /// Run an admin command.
    Command { sqe: Sqe, data: CommandData, reply: AdminReply },
    /// End the association in an orderly way.
    Shutdown,
}

/// Every access state, at its place in [`Association::access`].
const ACCESS_STATES: [AccessState; 5] = [
    AccessState::Optimized,
    AccessState::NonOptimized,
    AccessState::Inaccessible,
    AccessState::PersistentLoss,
    AccessState::Transition,
];

/// The shared part of an association.
pub(crate) struct Association<L> {
    pub(crate) options: ConnectOptions,
    /// The key for TLS that came of the authentication (secure channel concatenation).
    generated: OnceLock<TlsPsk>,
    /// Where the control loop is, and the admin connection on it.
    control: Lock<Option<(RemoteLoop, DriverId)>>,
    inbox: Lock<Vec<ToAdmin>>,
    idle: Lock<Vec<IoConnection<L>>>,
    /// Drivers of the queues that are in use.
    users: QueueOwners,
    learned: Lock<Learned>,
    ended: AtomicBool,
    /// A [`QueueGate`], for the namespace that is used.
    gate: AtomicU8,
    /// An [`AccessState`], of the namespace that is used.
    access: AtomicU8,
    /// No more I/O.
    stopped: AtomicBool,
    /// Grows whenever a namespace changes.
    changes: AtomicU64,
}

impl<L> Association<L> {
    pub(crate) fn new(options: ConnectOptions) -> Self {
        Self {
            options,
            generated: OnceLock::new(),
            control: Lock::default(),
            inbox: Lock::default(),
            idle: Lock::default(),
            users: QueueOwners::default(),
            learned: Lock::default(),
            ended: AtomicBool::new(false),
            gate: AtomicU8::new(QueueGate::Open as u8),
            access: AtomicU8::new(0),
            stopped: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        }
    }

    /// The key for TLS of all its connections is there.
    pub(crate) fn set_key(&self, psk: TlsPsk) {
        // There is one for each association.
        let _ = self.generated.set(psk);
    }

    /// How connections are to be opened from now on.
    pub(crate) fn opening(&self) -> (ConnectOptions, ConcatenationState) {
        let mut options = self.options.clone();
        let Some(psk) = self.generated.get() else { return (options, ConcatenationState::Other) };
        options.tls.psk = Some(psk.clone());
        (options, ConcatenationState::Keyed)
    }

    /// What its connections are to secure channel concatenation.
    pub(crate) fn channel(&self) -> ConcatenationState {
        if self.generated.get().is_some() {
            ConcatenationState::Keyed
        } else {
            ConcatenationState::Other
        }
    }

    /// Names the admin connection.
    pub(crate) fn set_control(&self, remote: RemoteLoop, driver: DriverId) {
        *self.control.lock() = Some((remote, driver));
    }

    /// Sends a message to the admin connection. After the end of the association what has a reply
    /// is answered at once, and everything else dropped.
    pub(crate) fn tell(&self, message: ToAdmin) {
        let mut inbox = self.inbox.lock();
        if self.is_over() {
            drop(inbox);
            return self.refuse(message);
        }
        inbox.push(message);
        drop(inbox);
        if let Some((remote, driver)) = self.control.lock().clone() {
            remote.wake(driver);
        }
    }

    /// The messages for the admin connection.
    pub(crate) fn take_messages(&self) -> Vec<ToAdmin> {
        core::mem::take(&mut *self.inbox.lock())
    }

    /// Puts a connection where the next queue finds it. After the end of the association it is
    /// closed.
    pub(crate) fn give_idle(&self, connection: IoConnection<L>) {
        let mut idle = self.idle.lock();
        if !self.is_over() {
            idle.push(connection);
        }
    }

    /// Connections that wait.
    pub(crate) fn idle_queues(&self) -> usize {
        self.idle.lock().len()
    }

    /// A connection for a queue.
    pub(crate) fn take_idle(&self) -> Option<IoConnection<L>> {
        self.idle.lock().pop()
    }

    /// Enters the driver of a queue: it is woken when something changes.
    pub(crate) fn enter(&self, remote: RemoteLoop, driver: DriverId) {
        self.users.enter(remote, driver);
    }

    /// Takes it out again.
    pub(crate) fn leave(&self, remote: &RemoteLoop, driver: DriverId) {
        self.users.leave(remote, driver);
    }

    /// Changes what is known and wakes the queues.
    pub(crate) fn learn(&self, change: impl FnOnce(&mut Learned)) {
        change(&mut self.learned.lock());
        self.changes.fetch_add(1, Ordering::Release);
        self.users.wake_all();
    }

    /// What is known.
    pub(crate) fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock()
    }

    /// The size of a namespace in blocks, now; `None` when it is gone.
    pub(crate) fn blocks(&self, nsid: Nsid) -> Option<u64> {
        self.learned.lock().namespaces.iter().find(|ns| ns.nsid == nsid).map(|ns| ns.blocks)
    }

    fn refuse(&self, message: ToAdmin) {
        match message {
            ToAdmin::Command { reply, .. } => reply(Err(self.why_ended())),
            ToAdmin::Look(reply) => reply(Err(self.why_ended())),
            _ => {}
        }
    }

    /// The controller is being reset or shut down: queues take no more operations.
    pub(crate) fn stop_io(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether the controller is being reset or shut down, or has been.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether queues take operations.
    #[inline]
    pub(crate) fn gate(&self) -> QueueGate {
        match self.gate.load(Ordering::Acquire) {
            _ if self.is_stopped() => QueueGate::Shut,
            0 => QueueGate::Open,
            1 => QueueGate::Held,
            _ => QueueGate::Shut,
        }
    }

    /// Whether the namespace that is used can be used now, as the last look at it said.
    pub(crate) fn set_gate(&self, gate: QueueGate) {
        if self.gate.swap(gate as u8, Ordering::AcqRel) != gate as u8 {
            self.changes.fetch_add(1, Ordering::Release);
            self.users.wake_all();
        }
    }

    /// The namespace that is used does not seem to be there: no operation is sent before that is
    /// clear.
    pub(crate) fn doubt(&self) {
        let held = self.gate.compare_exchange(
            QueueGate::Open as u8,
            QueueGate::Held as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if held.is_ok() {
            self.tell(ToAdmin::Doubt);
        }
    }

    /// How well the controller reaches the namespace that is used.
    pub(crate) fn access(&self) -> AccessState {
        let at = usize::from(self.access.load(Ordering::Acquire));
        ACCESS_STATES.get(at).copied().unwrap_or_default()
    }

    /// What the controller says of that.
    pub(crate) fn set_access(&self, state: AccessState) {
        let at = ACCESS_STATES.iter().position(|known| *known == state).unwrap_or_default() as u8;
        if self.access.swap(at, Ordering::AcqRel) != at {
            self.changes.fetch_add(1, Ordering::Release);
            self.users.wake_all();
        }
    }

    /// A command was refused for the access state: until the controller has been asked, it counts
    /// as changing.
    pub(crate) fn doubt_access(&self) {
        if self.learned.lock().controller.identify.cmic & IdentifyController::CMIC_ANA != 0 {
            self.set_access(AccessState::Transition);
            self.tell(ToAdmin::AccessDoubt);
        }
    }

    /// Whether the namespace that is used can be reached.
    pub(crate) fn presence(&self) -> Presence {
        if self.is_over() {
            return Presence::Gone;
        }
        if self.gate.load(Ordering::Acquire) == QueueGate::Shut as u8 {
            Presence::Away
        } else {
            Presence::Here
        }
    }

    /// Ends it for everybody.
    pub(crate) fn end(&self, ended: AssociationEnd) {
        self.learned.lock().end.get_or_insert(ended);
        self.stop_io();
        let unheard = {
            let mut inbox = self.inbox.lock();
            self.ended.store(true, Ordering::Release);
            core::mem::take(&mut *inbox)
        };
        unheard.into_iter().for_each(|message| self.refuse(message));
        self.idle.lock().clear();
        self.users.wake_all();
    }

    /// Whether the association is over.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Why it is over, if it is.
    pub(crate) fn why_ended(&self) -> String {
        self.learned.lock().end.as_ref().map(|ended| ended.why.clone()).unwrap_or_default()
    }

    /// Once the association is over: from when on the controller executes nothing of it any more.
    pub(crate) fn settled_at(&self) -> Option<Time> {
        self.learned.lock().end.as_ref().map(|ended| ended.settled_at)
    }

    /// How long the controller may go on with commands that it has, after its connections were
    /// lost.
    pub(crate) fn settle_bound(&self) -> Duration {
        let ConnectOptions { keep_alive_ms, quiesce_time, .. } = self.options;
        nvme_bound(
            Duration::from_millis(keep_alive_ms.into()),
            &self.learned.lock().controller.identify,
            quiesce_time,
        )
    }

    /// Grows whenever [`Association::learn`] was called.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

impl<L: Send> Unsettled for Association<L> {
    fn settle(&self, at: Time) {
        if let Some(ended) = &mut self.learned.lock().end {
            ended.settled_at = ended.settled_at.min(at);
        }
        self.users.wake_all();
    }

    fn settled_at(&self) -> Option<Time> {
        Self::settled_at(self)
    }
}

/// Keeps an association: when this is dropped, it is shut down in order.
pub(crate) struct HeldAssociation<L>(pub(crate) Arc<Association<L>>);

impl<L> Drop for HeldAssociation<L> {
    fn drop(&mut self) {
        self.0.tell(ToAdmin::Shutdown);
    }
}
