//! The timers of a host, except those of its commands: a fixed set, each set or not.

use core::time::Duration;

/// Event of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// To read CSTS again.
    Status,
    /// For the whole of a stage: becoming ready, opening queues, reset, shutdown.
    Stage,
    /// To send the next Keep Alive.
    KeepAlive,
    /// To look at the namespaces again after that failed.
    Rescan,
    /// To read the access states again.
    Access,
    /// To look how far resets of other controllers are.
    CrossReset,
}

impl Timer {
    const ALL: [Self; 6] =
        [Self::Status, Self::Stage, Self::KeepAlive, Self::Rescan, Self::Access, Self::CrossReset];
}

/// The timers.
#[derive(Debug, Default)]
pub(super) struct Timers([Option<Duration>; Timer::ALL.len()]);

impl Timers {
    /// Sets a timer to a time.
    pub fn set(&mut self, timer: Timer, at: Duration) {
        self.0[timer as usize] = Some(at);
    }

    /// Unsets a timer.
    pub fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    /// Returns whether a timer is set.
    pub fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// Unsets all.
    pub fn stop_all(&mut self) {
        self.0 = Default::default();
    }

    /// Takes a timer whose time has come.
    pub fn take_expired(&mut self, now: Duration) -> Option<Timer> {
        let timer = Timer::ALL
            .into_iter()
            .find(|&timer| self.0[timer as usize].is_some_and(|at| at <= now))?;
        self.stop(timer);
        Some(timer)
    }

    /// When the first comes.
    pub fn deadline(&self) -> Option<Duration> {
        self.0.iter().flatten().copied().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_go_off_once() {
        let mut timers = Timers::default();
        timers.set(Timer::Stage, Duration::from_secs(2));
        timers.set(Timer::KeepAlive, Duration::from_secs(1));
        assert_eq!(timers.deadline(), Some(Duration::from_secs(1)));
        assert_eq!(timers.take_expired(Duration::from_secs(1)), Some(Timer::KeepAlive));
        assert_eq!(timers.take_expired(Duration::from_secs(1)), None);
        assert_eq!(timers.take_expired(Duration::from_secs(3)), Some(Timer::Stage));
        assert_eq!(timers.deadline(), None);
    }
}
