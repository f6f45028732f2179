//! Detection of peers that have closed the other end of a socket.
//!
//! A process that stood still (stopped, or on a machine that was) finds in its sockets data that
//! arrived in the meantime, also from peers that have since closed or reset the connection. Such a
//! peer has given up waiting for answers, and may have sent its requests elsewhere: they must not
//! be executed. The poller reports the close together with readable data. But a busy loop reads
//! without asking the poller first, and the poller's last report may be outdated. So the answer
//! here is never older than [`LOOK_AGAIN_MS`].

use super::driver::DriverId;
use super::handle::Handle;
use super::registrar::Ready;
use crate::limits::{EVENTS_PER_POLL, LOOK_AGAIN_MS};
use core::time::Duration;
use std::io;

impl Handle {
    /// Returns whether the peer of the socket that `driver` has registered is known to have closed
    /// or reset the connection.
    #[inline]
    pub fn has_peer_left(&self, driver: DriverId) -> bool {
        let now = self.0.backend.borrow_mut().coarse();
        if now - self.0.looked.get() > Duration::from_millis(LOOK_AGAIN_MS) {
            self.look_again();
        }
        let drivers = self.0.drivers.borrow();
        drivers
            .get(driver.index as usize)
            .is_some_and(|slot| slot.closed && slot.generation == driver.generation)
    }

    /// Asks the poller until it has said everything.
    #[cold]
    fn look_again(&self) {
        let mut ready = Vec::new();
        loop {
            // The loop itself ends with a poller that fails.
            if self.look(Some(Duration::ZERO), &mut ready).is_err() {
                return;
            }
            let is_all = ready.len() < EVENTS_PER_POLL;
            self.wake_ready(&mut ready);
            if is_all {
                return;
            }
        }
    }

    /// Asks the poller; returns whether a remote wake-up came in.
    pub(super) fn look(&self, wait: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let mut backend = self.0.backend.borrow_mut();
        let before = backend.coarse();
        let woken = backend.poll(wait, ready)?;
        // A full list may not be all, and a wait may have ended without a look.
        if ready.len() < EVENTS_PER_POLL && (wait == Some(Duration::ZERO) || !ready.is_empty()) {
            self.0.looked.set(before);
        }
        Ok(woken)
    }

    /// Wakes the drivers whose sources became ready.
    #[inline]
    pub(super) fn wake_ready(&self, ready: &mut Vec<Ready>) {
        for Ready { driver, closed } in ready.drain(..) {
            if closed {
                self.wake_closed(driver);
            } else {
                self.wake(driver);
            }
        }
    }
}
