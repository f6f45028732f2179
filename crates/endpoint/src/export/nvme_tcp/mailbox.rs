//! How the connections of one controller, each on a loop of its own, tell each other things. Nothing of it is used per command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weft_io::{DriverId, Remote};
use weft_proto::nvme::controller::{AbortTicket, NamespaceTable};
use weft_proto::nvme::types::{Cid, Qid};

/// Messages between connections.
pub(super) enum Message {
    /// Take no more commands, end what the devices have, then close.
    Stop,
    /// To an I/O queue: take no more commands, let those under way end, then close.
    Drain,
    /// To an I/O queue: abort a command, tell the admin queue what came of it.
    Abort { ticket: AbortTicket, cid: Cid, reply_to: Arc<Mailbox> },
    /// The namespaces have changed.
    Namespaces(Arc<NamespaceTable>),
    /// To an admin queue: what came of an abort.
    Aborted { ticket: AbortTicket, aborted: bool },
    /// To an admin queue: no device holds anything of this I/O queue, and its connection is gone.
    Quiet(Qid),
}

/// The mailbox of one connection.
#[derive(Default)]
pub(super) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    /// There may be messages.
    full: AtomicBool,
    /// Where the connection lives, once it does.
    home: Mutex<Option<(Remote, DriverId)>>,
}

impl Mailbox {
    /// Says where the connection lives now, and wakes it if something has come already.
    pub(super) fn settle(&self, remote: Remote, driver: DriverId) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = Some((remote, driver));
        self.ring();
    }

    /// Sends a message.
    pub(super) fn post(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.full.store(true, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        if let Some((remote, driver)) = self.home.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            remote.post(move |on| on.wake(driver));
        }
    }

    /// Takes what has come. Costs one load when nothing has.
    #[inline]
    pub(super) fn take(&self) -> Vec<Message> {
        if !self.full.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.full.store(false, Ordering::Release);
        core::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
