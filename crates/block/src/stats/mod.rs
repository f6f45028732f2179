//! `stats:[every=10s,]URL`: another device, whose operations are counted and timed. What they were
//! is logged every `every` while there are any, and in the end: for reads, writes, flushes and
//! everything else the number, the failures, the bytes, the rate, and the mean, the percentiles and
//! the maximum of the time from submission to completion. [`BlockDevice::counted`] has the same
//! numbers since the device was opened; `weft status` and the metrics show them.
//!
//! It shows what a device does below other filters, below one member of a stripe, or where nothing
//! is served (`weft bench`). What was served, and to whom, is counted without it. Each queue counts
//! for itself, without locks; times are those at which its driver looked.

mod counts;
mod log;
mod queue;

pub use counts::{KindTotals, Totals};

use crate::device::{BlockDevice, BlockQueue, Device};
use crate::error::Error;
use crate::filter::Filter;
use crate::limits::STATS_EVERY_S;
use crate::opening::Opening;
use crate::spec::Spec;
use crate::units::parse_duration;
use core::time::Duration;
use counts::Counts;
use log::DeviceStatistics;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::{DriverId, Handle};

/// A device whose operations are counted.
pub struct StatsDevice {
    inner: Device,
    shared: Arc<DeviceStatistics>,
}

impl StatsDevice {
    /// Begins to open `[every=10s,]URL`, which follows `stats:`; `begin` opens the inner URL.
    pub(crate) fn begin(
        url: &str,
        rest: &str,
        begin: impl FnOnce(&str) -> Result<Opening, Error>,
    ) -> Result<Opening, Error> {
        let (inner, mut spec) = Spec::filter(url, rest);
        let every = spec.parsed("every", |text| match parse_duration(text) {
            Ok(Duration::ZERO) => Err("use a time above 0, as in 10s".into()),
            other => other.map_err(|e| e.to_string()),
        })?;
        spec.finish()?;
        let every = every.unwrap_or(Duration::from_secs(STATS_EVERY_S));
        let shared =
            Arc::new(DeviceStatistics { url: url.to_owned(), every, log: Lock::default() });
        Ok(begin(inner)?.and_then(move |inner| Ok(Arc::new(Self { inner, shared }) as Device)))
    }

    /// Returns the totals since it was opened.
    pub fn totals(&self) -> Totals {
        self.shared.lock().sum()
    }
}

impl Filter for StatsDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn url(&self) -> &str {
        &self.shared.url
    }

    fn counted(&self) -> Vec<(String, Totals)> {
        let own = (self.shared.url.clone(), self.totals());
        [vec![own], self.inner.counted()].concat()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let inner = self.inner.open_queue(on, owner)?;
        let counts = Arc::new(Counts::default());
        self.shared.lock().counts.push(Arc::clone(&counts));
        let block_bytes = u64::from(self.inner.geometry().block_bytes);
        Ok(Box::new(queue::StatsQueue::new(
            inner,
            Arc::clone(&self.shared),
            counts,
            block_bytes,
            on,
            owner,
        )))
    }
}

#[cfg(test)]
mod tests;
