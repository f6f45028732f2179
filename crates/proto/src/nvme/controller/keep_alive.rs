//! When an association has to end because its host is not heard of any more (Base §3.9).

use std::time::Duration;

use crate::limits::ASSOCIATION_IDLE_MS;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Nothing: the host wants no keep alive timer.
    Nothing,
    /// Keep Alive commands (Base §3.9.3).
    KeepAlive { timeout_ms: u32 },
    /// Any admin command: there is no keep alive timer now, but a host that is gone must not hold the controller for ever.
    Commands,
}

#[derive(Debug)]
pub(super) struct KeepAlive {
    restarted: Duration,
    last_command: Duration,
    expired: bool,
}

impl KeepAlive {
    pub fn new(now: Duration) -> Self {
        Self { restarted: now, last_command: now, expired: false }
    }

    /// The timer starts anew.
    pub fn restart(&mut self, now: Duration) {
        self.restarted = now;
    }

    /// Any admin command came.
    pub fn command(&mut self, now: Duration) {
        self.last_command = now;
    }

    /// When it will expire, if nothing happens.
    pub fn deadline(&self, watch: Watch) -> Option<Duration> {
        if self.expired {
            return None;
        }
        match watch {
            Watch::Nothing => None,
            Watch::KeepAlive { timeout_ms } => Some(self.restarted + Duration::from_millis(u64::from(timeout_ms))),
            Watch::Commands => Some(self.last_command + Duration::from_millis(u64::from(ASSOCIATION_IDLE_MS))),
        }
    }

    /// Whether it expires now; says so once.
    pub fn expire(&mut self, now: Duration, watch: Watch) -> bool {
        let expires = self.deadline(watch).is_some_and(|deadline| now >= deadline);
        self.expired |= expires;
        expires
    }
}
