//! Messages between connections on different loops, and from whoever starts and stops exports. Not
//! used per command.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_base::lock::Lock;

use weft_io::{DriverId, RemoteLoop};

/// The mailbox of one connection.
pub(crate) struct Mailbox<M> {
    messages: Lock<Vec<M>>,
    /// There may be messages.
    full: AtomicBool,
    /// The connection's driver, once known.
    home: Lock<Option<(RemoteLoop, DriverId)>>,
}

impl<M> Default for Mailbox<M> {
    fn default() -> Self {
        Self { messages: Lock::default(), full: AtomicBool::new(false), home: Lock::default() }
    }
}

impl<M> Mailbox<M> {
    /// Sets the connection's driver, and wakes it if there are messages.
    pub(crate) fn settle(&self, remote: RemoteLoop, driver: DriverId) {
        *self.home.lock() = Some((remote, driver));
        self.ring();
    }

    /// Sends a message.
    pub(crate) fn post(&self, message: M) {
        self.messages.lock().push(message);
        self.full.store(true, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        if let Some((remote, driver)) = self.home.lock().clone() {
            remote.wake(driver);
        }
    }

    /// Takes all messages. Costs one load if there are none.
    #[inline]
    pub(crate) fn take(&self) -> Vec<M> {
        if !self.full.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.full.store(false, Ordering::Release);
        core::mem::take(&mut *self.messages.lock())
    }
}
