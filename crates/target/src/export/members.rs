//! The connections of one export: their limit, their mailboxes, and telling them to end.

use super::connection_limit::{ConnectionLimit, ConnectionPermit, Newcomer};
use super::mailbox::Mailbox;
use super::shares::Grant;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_connection::capture::Capture;
use weft_connection::refusals::Refusals;

/// Messages to a connection.
pub(crate) enum Message<M> {
    /// Accept no more commands, let those in flight end, then close.
    Drain,
    /// Accept no more commands, cancel the devices' operations, then close.
    Stop,
    /// Be captured from now on.
    Capture(Capture),
    /// A message of the protocol.
    Own(M),
}

/// The connections of one export. `M`: messages between connections of its protocol.
pub(crate) struct Members<M> {
    limit: Arc<ConnectionLimit>,
    serving: AtomicUsize,
    stopping: AtomicBool,
    list: Lock<Vec<Weak<Mailbox<Message<M>>>>>,
    capture: Lock<Option<Capture>>,
}

/// Counts a connection that serves commands: the export's end waits for it.
pub(crate) struct Serving<M>(Arc<Members<M>>);

impl<M> Members<M> {
    /// No connections, with a limit of `max`.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let (serving, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (list, capture) = (Lock::default(), Lock::default());
        Arc::new(Self { limit: ConnectionLimit::new(max), serving, stopping, list, capture })
    }

    /// Open connections, in any state.
    pub(crate) fn open(&self) -> usize {
        self.limit.taken()
    }

    /// Connections that serve commands.
    pub(crate) fn serving(&self) -> usize {
        self.serving.load(Ordering::Acquire)
    }

    /// Whether no more connections are admitted.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A permit for an accepted connection. If there is none, the reason is logged and the connection
    /// must be dropped.
    pub(crate) fn permit(&self, now: Duration, peer: &str) -> Option<(ConnectionPermit, Newcomer)> {
        let refused = |why: &String| {
            self.refusals().log(now, || format!("{peer}: connection refused: {why}"))
        };
        self.limit.take(peer).inspect_err(refused).ok()
    }

    /// Up to `wanted` connections that the host of `peer` makes soon; `None`: none are left.
    pub(crate) fn grant(&self, peer: &str, wanted: usize) -> Option<Grant> {
        self.limit.grant(peer, wanted)
    }

    /// Peers that were refused, for the log.
    pub(crate) fn refusals(&self) -> &Refusals {
        self.limit.refusals()
    }

    /// Counts a connection that serves commands.
    pub(crate) fn serve(self: &Arc<Self>) -> Serving<M> {
        self.serving.fetch_add(1, Ordering::AcqRel);
        Serving(Arc::clone(self))
    }

    /// Adds a connection. Dropping its mailbox removes it.
    pub(crate) fn enter(&self, mailbox: &Arc<Mailbox<Message<M>>>) {
        let mut list = self.list.lock();
        list.retain(|member| member.strong_count() > 0);
        list.push(Arc::downgrade(mailbox));
        if self.is_stopping() {
            mailbox.post(Message::Stop);
        }
    }

    /// Sends a message to all connections, to the latest ones first: a host's I/O queues have it
    /// before the admin queue, which they were connected after, tells the host of a change.
    pub(crate) fn tell(&self, message: impl Fn() -> Message<M>) {
        let list = self.list.lock();
        list.iter().rev().filter_map(Weak::upgrade).for_each(|mailbox| mailbox.post(message()));
    }

    /// Has a capture show what passes on all connections, also those that are accepted later.
    pub(crate) fn capture(&self, capture: &Capture) {
        *self.capture.lock() = Some(capture.clone());
        self.tell(|| Message::Capture(capture.clone()));
    }

    /// What captures new connections.
    pub(crate) fn captured_by(&self) -> Option<Capture> {
        self.capture.lock().clone().filter(Capture::is_running)
    }

    /// Admits no more connections, and tells all to finish and close.
    pub(crate) fn drain(&self) {
        // Under the lock of `enter`: a new connection either gets the message below or sees that
        // the export stops.
        let list = self.list.lock();
        self.stopping.store(true, Ordering::Release);
        drop(list);
        self.tell(|| Message::Drain);
    }

    /// Tells all connections to close.
    pub(crate) fn stop(&self) {
        self.tell(|| Message::Stop);
    }
}

impl<M> Drop for Serving<M> {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::AcqRel);
    }
}
