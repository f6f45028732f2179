//! End of an association whose host has fallen silent (Base §3.9).

use std::time::Duration;

use crate::limits::ASSOCIATION_IDLE_MS;

/// Measured event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvme::controller) enum Watch {
    /// Nothing: the host wants no keep alive timer.
    Nothing,
    /// Keep Alive commands (Base §3.9.3).
    KeepAlive { timeout_ms: u32 },
    /// Any admin command: there is no keep alive timer now, but a host that is gone must not hold
    /// the controller for ever.
    Commands,
}

#[derive(Debug)]
pub(in crate::nvme::controller) struct KeepAlive {
    restarted: Duration,
    last_command: Duration,
    /// The last restart, and the command that came, are not answered yet: see
    /// [`KeepAlive::answered`].
    restart_is_new: bool,
    command_is_new: bool,
    expired: bool,
}

impl KeepAlive {
    pub fn new(now: Duration) -> Self {
        Self {
            restarted: now,
            last_command: now,
            restart_is_new: false,
            command_is_new: false,
            expired: false,
        }
    }

    /// Restarts the timer.
    pub fn restart(&mut self, now: Duration) {
        (self.restarted, self.restart_is_new) = (now, true);
    }

    /// Any admin command came.
    pub fn command(&mut self, now: Duration) {
        (self.last_command, self.command_is_new) = (now, true);
    }

    /// Commands received since the last call are being completed now. The host's timer restarts at
    /// completion, so time spent unread in our queue does not count (Base §3.9.3: the timer
    /// restarts when Keep Alive completes).
    pub fn answered(&mut self, now: Duration) {
        if core::mem::take(&mut self.restart_is_new) {
            self.restarted = now;
        }
        if core::mem::take(&mut self.command_is_new) {
            self.last_command = now;
        }
    }

    /// When it will expire, if nothing happens.
    pub fn deadline(&self, watch: Watch) -> Option<Duration> {
        if self.expired {
            return None;
        }
        match watch {
            Watch::Nothing => None,
            Watch::KeepAlive { timeout_ms } => {
                Some(self.restarted + Duration::from_millis(u64::from(timeout_ms)))
            }
            Watch::Commands => {
                Some(self.last_command + Duration::from_millis(u64::from(ASSOCIATION_IDLE_MS)))
            }
        }
    }

    /// Returns whether it expires now; says so once.
    pub fn expire(&mut self, now: Duration, watch: Watch) -> bool {
        let expires = self.deadline(watch).is_some_and(|deadline| now >= deadline);
        self.expired |= expires;
        expires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_between_a_command_and_its_answer_does_not_count() {
        let at = Duration::from_secs;
        for watch in [Watch::KeepAlive { timeout_ms: ASSOCIATION_IDLE_MS }, Watch::Commands] {
            let idle = Duration::from_millis(ASSOCIATION_IDLE_MS.into());
            let mut timer = KeepAlive::new(at(1));
            timer.restart(at(2));
            timer.command(at(2));
            // The loop was busy with something else before it answered.
            timer.answered(at(2) + idle);
            assert!(!timer.expire(at(3) + idle, watch), "{watch:?}");
            timer.answered(at(3) + idle);
            assert_eq!(
                timer.deadline(watch),
                Some(at(2) + idle * 2),
                "{watch:?}: an answer counts once"
            );
            assert!(timer.expire(at(2) + idle * 2, watch), "{watch:?}");
        }
    }
}
