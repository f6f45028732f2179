//! One association with a controller, as its admin connection, its I/O queues and its devices share it.
//!
//! The admin connection and the state machine live on the control loop. I/O connections are opened there too, then wait here until a
//! device opens a queue on some loop, move to that loop with all their state, and come back when the queue is dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_io::{DriverId, Remote};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::{RemoteController, RemoteNamespace};
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Cid, Nsid, Qid};
use weft_proto::nvme_tcp::HostConnection;

use crate::pump::StreamPump;
use crate::source::ConnectOptions;

/// An I/O connection whose Connect has succeeded.
pub(super) struct IdleQueue {
    pub(super) qid: Qid,
    /// Commands that may be outstanding.
    pub(super) commands: u16,
    pub(super) pump: StreamPump<HostConnection>,
}

/// What comes of an admin command: its completion and the data that came with it, or why there is none.
pub(super) type AdminReply = Box<dyn FnOnce(Result<(Cqe, Vec<u8>), String>) + Send>;

/// Messages to the admin connection.
pub(super) enum ToAdmin {
    /// A command has been under way for too long.
    TimedOut(Qid, Cid),
    /// A command that was reported as timed out has ended after all.
    Completed(Qid, Cid),
    /// The connection of an I/O queue ended.
    Lost(Qid),
    /// Run an admin command.
    Command { sqe: Sqe, len: u32, reply: AdminReply },
    /// End the association in an orderly way.
    Shutdown,
}

/// What the state machine has learned.
#[derive(Default)]
pub(super) struct Learned {
    pub(super) controller: RemoteController,
    pub(super) namespaces: Vec<RemoteNamespace>,
    /// Active namespaces that cannot be used, and why.
    pub(super) unusable: Vec<(Nsid, String)>,
    /// Why the association is over.
    pub(super) end: Option<String>,
}

/// The shared part of an association.
pub(super) struct Association {
    pub(super) options: ConnectOptions,
    /// Where the control loop is, and the admin connection on it.
    control: Mutex<Option<(Remote, DriverId)>>,
    inbox: Mutex<Vec<ToAdmin>>,
    idle: Mutex<Vec<IdleQueue>>,
    /// Drivers of the queues that are in use.
    users: Mutex<Vec<(Remote, DriverId)>>,
    learned: Mutex<Learned>,
    ended: AtomicBool,
    /// No more I/O.
    stopped: AtomicBool,
    /// Grows whenever a namespace changes.
    changes: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Association {
    pub(super) fn new(options: ConnectOptions) -> Self {
        Self {
            options,
            control: Mutex::default(),
            inbox: Mutex::default(),
            idle: Mutex::default(),
            users: Mutex::default(),
            learned: Mutex::default(),
            ended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        }
    }

    /// Names the admin connection.
    pub(super) fn set_control(&self, remote: Remote, driver: DriverId) {
        *lock(&self.control) = Some((remote, driver));
    }

    /// Sends a message to the admin connection. After the end of the association a command is answered at once, and everything else
    /// dropped.
    pub(super) fn tell(&self, message: ToAdmin) {
        let mut inbox = lock(&self.inbox);
        if self.is_over() {
            drop(inbox);
            return self.refuse(message);
        }
        inbox.push(message);
        drop(inbox);
        if let Some((remote, driver)) = lock(&self.control).clone() {
            remote.wake(driver);
        }
    }

    /// The messages for the admin connection.
    pub(super) fn take_messages(&self) -> Vec<ToAdmin> {
        core::mem::take(&mut *lock(&self.inbox))
    }

    /// Puts a connection where the next queue finds it. After the end of the association it is closed.
    pub(super) fn give_idle(&self, queue: IdleQueue) {
        let mut idle = lock(&self.idle);
        if !self.is_over() {
            idle.push(queue);
        }
    }

    /// Connections that wait.
    pub(super) fn idle_queues(&self) -> usize {
        lock(&self.idle).len()
    }

    /// A connection for a queue.
    pub(super) fn take_idle(&self) -> Option<IdleQueue> {
        lock(&self.idle).pop()
    }

    /// Enters the driver of a queue: it is woken when something changes.
    pub(super) fn enter(&self, remote: Remote, driver: DriverId) {
        lock(&self.users).push((remote, driver));
    }

    /// Takes it out again.
    pub(super) fn leave(&self, remote: &Remote, driver: DriverId) {
        lock(&self.users).retain(|(of, user)| *user != driver || !of.is_same_loop(remote));
    }

    /// Changes what is known and wakes the queues.
    pub(super) fn learn(&self, change: impl FnOnce(&mut Learned)) {
        change(&mut lock(&self.learned));
        self.changes.fetch_add(1, Ordering::Release);
        self.wake_users();
    }

    /// What is known.
    pub(super) fn learned(&self) -> MutexGuard<'_, Learned> {
        lock(&self.learned)
    }

    /// The size of a namespace in blocks, now; `None` when it is gone.
    pub(super) fn blocks(&self, nsid: Nsid) -> Option<u64> {
        lock(&self.learned).namespaces.iter().find(|ns| ns.nsid == nsid).map(|ns| ns.blocks)
    }

    fn refuse(&self, message: ToAdmin) {
        if let ToAdmin::Command { reply, .. } = message {
            reply(Err(lock(&self.learned).end.clone().unwrap_or_default()));
        }
    }

    /// The controller is being reset or shut down: queues take no more operations.
    pub(super) fn stop_io(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether queues take operations.
    #[inline]
    pub(super) fn takes_io(&self) -> bool {
        !self.stopped.load(Ordering::Acquire)
    }

    /// Ends it for everybody.
    pub(super) fn end(&self, reason: String) {
        lock(&self.learned).end.get_or_insert(reason);
        self.stop_io();
        let unheard = {
            let mut inbox = lock(&self.inbox);
            self.ended.store(true, Ordering::Release);
            core::mem::take(&mut *inbox)
        };
        unheard.into_iter().for_each(|message| self.refuse(message));
        lock(&self.idle).clear();
        self.wake_users();
    }

    /// Whether the association is over.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Grows whenever [`Association::learn`] was called.
    #[inline]
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn wake_users(&self) {
        for (remote, driver) in lock(&self.users).iter() {
            let driver = *driver;
            remote.wake(driver);
        }
    }
}

/// Keeps an association: when this is dropped, it is shut down in order.
pub(super) struct Held(pub(super) Arc<Association>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.tell(ToAdmin::Shutdown);
    }
}
