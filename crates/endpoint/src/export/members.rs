//! The connections of one export: how many there may be, who they are, and telling them that the end is near.

use super::mailbox::Mailbox;
use super::refusals::Refusals;
use super::seats::{Newcomer, Seat, Seats};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// What a connection is told.
pub(crate) enum Message<M> {
    /// Take no more commands, let those under way end, then close.
    Drain,
    /// Take no more commands, end what the devices have, then close.
    Stop,
    /// Something of the protocol.
    Own(M),
}

/// The connections of one export. `M`: what its protocol's connections tell each other.
pub(crate) struct Members<M> {
    seats: Arc<Seats>,
    serving: AtomicUsize,
    stopping: AtomicBool,
    list: Mutex<Vec<Weak<Mailbox<Message<M>>>>>,
}

/// Counts a connection that serves commands: the end of an export waits for it.
pub(crate) struct Serving<M>(Arc<Members<M>>);

impl<M> Members<M> {
    /// None yet, and no more than `max`.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let (serving, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { seats: Seats::new(max), serving, stopping, list: Mutex::default() })
    }

    /// Connections that are open, in whatever state.
    pub(crate) fn open(&self) -> usize {
        self.seats.taken()
    }

    /// Connections that serve commands.
    pub(crate) fn serving(&self) -> usize {
        self.serving.load(Ordering::Acquire)
    }

    /// Whether nobody is let in any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A seat for a connection that was just accepted. Without one it is to be dropped; the log has the reason.
    pub(crate) fn seat(&self, now: Duration, peer: &str) -> Option<(Seat, Newcomer)> {
        let refused = |why: &String| self.refusals().log(now, || format!("{peer}: connection refused: {why}"));
        self.seats.take(peer).inspect_err(refused).ok()
    }

    /// Peers that were refused, for the log.
    pub(crate) fn refusals(&self) -> &Refusals {
        self.seats.refusals()
    }

    /// Counts a connection that serves commands from now on.
    pub(crate) fn serve(self: &Arc<Self>) -> Serving<M> {
        self.serving.fetch_add(1, Ordering::AcqRel);
        Serving(Arc::clone(self))
    }

    fn list(&self) -> MutexGuard<'_, Vec<Weak<Mailbox<Message<M>>>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a connection. It leaves by dropping its mailbox.
    pub(crate) fn enter(&self, mailbox: &Arc<Mailbox<Message<M>>>) {
        let mut list = self.list();
        list.retain(|member| member.strong_count() > 0);
        list.push(Arc::downgrade(mailbox));
        if self.is_stopping() {
            mailbox.post(Message::Stop);
        }
    }

    /// Tells everybody.
    pub(crate) fn tell(&self, message: impl Fn() -> Message<M>) {
        self.list().iter().filter_map(Weak::upgrade).for_each(|mailbox| mailbox.post(message()));
    }

    /// Lets nobody in any more, and has everybody finish and close.
    pub(crate) fn drain(&self) {
        // Under the lock that whoever enters takes: it is either told below or sees that the export stops.
        let list = self.list();
        self.stopping.store(true, Ordering::Release);
        drop(list);
        self.tell(|| Message::Drain);
    }

    /// Has everybody close.
    pub(crate) fn stop(&self) {
        self.tell(|| Message::Stop);
    }
}

impl<M> Drop for Serving<M> {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Ordering::AcqRel);
    }
}
