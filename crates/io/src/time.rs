//! Points in time of a loop, real or simulated.

use core::ops::{Add, Sub};
use core::time::Duration;
use std::sync::OnceLock;
use std::time::Instant;

/// The epoch of all real loops of this process.
pub(crate) fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// The present time of the real loops of this process, for those who have none.
#[inline]
pub fn of_process() -> Time {
    Time::from_epoch(epoch().elapsed())
}

/// Nanoseconds since the epoch of the process (real loops) or of the world (simulated ones).
/// Monotonic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The epoch.
    pub const ZERO: Self = Self(0);

    /// From nanoseconds since the epoch.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since the epoch: what sans-IO engines take as "now".
    pub const fn since_epoch(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// From the time since the epoch; saturates after 584 years.
    pub fn from_epoch(since: Duration) -> Self {
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;
    /// Zero when `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
