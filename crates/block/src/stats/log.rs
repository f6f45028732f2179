//! Joint counts of the queues of a device, and when they are logged.

use super::counts::{Counts, Totals};
use core::time::Duration;
use std::sync::{Arc, MutexGuard};
use weft_base::lock::Lock;
use weft_io::Time;

/// State shared by all queues.
pub(super) struct DeviceStatistics {
    pub(super) url: String,
    pub(super) every: Duration,
    pub(super) log: Lock<Log>,
}

#[derive(Default)]
pub(super) struct Log {
    /// Of each open queue.
    pub(super) counts: Vec<Arc<Counts>>,
    /// Of those that were dropped.
    ended: Totals,
    /// The last logged totals, and their time.
    told: Totals,
    at: Option<Time>,
}

impl Log {
    pub(super) fn sum(&self) -> Totals {
        self.counts.iter().fold(self.ended.clone(), |sum, counts| sum.plus(&counts.totals()))
    }
}

impl DeviceStatistics {
    pub(super) fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// Logs what was done since the last time, if that is long enough ago. When it is due again, if
    /// anything was done since.
    pub(super) fn tell(&self, now: Time) -> Time {
        let mut log = self.lock();
        let since = *log.at.get_or_insert(now);
        if now >= since + self.every {
            let sum = log.sum();
            self.say(&sum.minus(&log.told), now - since);
            (log.told, log.at) = (sum, Some(now));
        }
        log.at.unwrap_or(now) + self.every
    }

    /// A queue was dropped.
    pub(super) fn end(&self, counts: &Arc<Counts>) {
        let mut log = self.lock();
        log.ended = log.ended.plus(&counts.totals());
        log.counts.retain(|other| !Arc::ptr_eq(other, counts));
    }

    fn say(&self, done: &Totals, within: Duration) {
        if let Some(text) = done.text(within) {
            tracing::info!("{}: in {:.1} s: {text}", self.url, within.as_secs_f64());
        }
    }
}

impl Drop for DeviceStatistics {
    fn drop(&mut self) {
        let sum = self.lock().sum();
        if let Some(text) = sum.text(Duration::ZERO) {
            tracing::info!("{}: in all: {text}", self.url);
        }
    }
}
