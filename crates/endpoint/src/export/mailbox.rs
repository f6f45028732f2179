//! Messages between connections on different loops, and from whoever starts and stops exports. Not
//! used per command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use weft_io::{DriverId, RemoteLoop};

/// The mailbox of one connection.
pub(crate) struct Mailbox<M> {
    messages: Mutex<Vec<M>>,
    /// There may be messages.
    full: AtomicBool,
    /// The connection's driver, once known.
    home: Mutex<Option<(RemoteLoop, DriverId)>>,
}

impl<M> Default for Mailbox<M> {
    fn default() -> Self {
        Self { messages: Mutex::default(), full: AtomicBool::new(false), home: Mutex::default() }
    }
}

impl<M> Mailbox<M> {
    /// Sets the connection's driver, and wakes it if there are messages.
    pub(crate) fn settle(&self, remote: RemoteLoop, driver: DriverId) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = Some((remote, driver));
        self.ring();
    }

    /// Sends a message.
    pub(crate) fn post(&self, message: M) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.full.store(true, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        if let Some((remote, driver)) =
            self.home.lock().unwrap_or_else(PoisonError::into_inner).clone()
        {
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
        core::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
