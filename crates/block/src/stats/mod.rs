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
#[cfg(test)]
mod tests;

use crate::device::{BlockDevice, BlockQueue, Device, InPlace};
use crate::filter::{Filter, QueueFilter};
use crate::limits::STATS_EVERY_S;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::error::Error;
use crate::queue::slots::Slots;
use crate::units::parse_duration;
use crate::url::opening::Opening;
use crate::url::parts::UrlParts;
use core::time::Duration;
use counts::Counts;
pub use counts::{KindTotals, Totals};
use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use weft_base::lock::Lock;
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, Segments, Time};

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
        let (inner, mut spec) = UrlParts::filter(url, rest);
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
        Ok(Box::new(StatsQueue::new(
            inner,
            Arc::clone(&self.shared),
            counts,
            block_bytes,
            on,
            owner,
        )))
    }
}

struct StatsQueue {
    inner: Box<dyn BlockQueue>,
    shared: Arc<DeviceStatistics>,
    counts: Arc<Counts>,
    block_bytes: u64,
    /// Operations in flight: the submitter's name, and when it was submitted. The inner queue knows
    /// an operation by its index here.
    begun: Slots<(u64, Time)>,
    /// When it is due to tell.
    due: Time,
    /// True if something was counted since the last report.
    news: bool,
    timer: TimerSlot,
    on: Handle,
    owner: DriverId,
}

impl StatsQueue {
    fn new(
        inner: Box<dyn BlockQueue>,
        shared: Arc<DeviceStatistics>,
        counts: Arc<Counts>,
        block_bytes: u64,
        on: &Handle,
        owner: DriverId,
    ) -> Self {
        let due = shared.tell(on.now());
        let (begun, timer) = (Slots::default(), TimerSlot::default());
        Self {
            inner,
            shared,
            counts,
            block_bytes,
            begun,
            due,
            news: false,
            timer,
            on: on.clone(),
            owner,
        }
    }

    fn count(&mut self, kind: OpKind, blocks: u32, took: Duration, succeeded: bool) {
        self.counts.count(kind, u64::from(blocks) * self.block_bytes, took, succeeded);
        self.news = true;
    }

    /// Gives a completion the name that its submitter knows.
    fn come_back(&mut self, completion: &mut Completion, now: Time) {
        let Some((user, since)) = self.begun.remove(completion.op.user) else { return };
        completion.op.user = user;
        let took = now.max(since) - since;
        self.count(completion.op.kind, completion.op.blocks, took, completion.outcome.is_success());
    }

    fn tell(&mut self) {
        let now = self.on.now();
        if now >= self.due {
            self.due = self.shared.tell(now);
            self.news = false;
        } else if self.news {
            self.timer.arm(&self.on, self.owner, self.due);
        }
    }
}

impl QueueFilter for StatsQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.inner.as_mut()
    }

    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        if ops.is_empty() {
            return self.inner.submit(ops);
        }
        let now = self.on.clock();
        for op in ops.iter_mut() {
            op.user = self.begun.insert((op.user, now));
        }
        self.inner.submit(ops);
        // What was not accepted stays with the submitter, under its own name.
        for op in ops {
            if let Some((user, _)) = self.begun.remove(op.user) {
                op.user = user;
            }
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        self.inner.reap(done);
        if done.len() > before {
            let now = self.on.clock();
            done[before..].iter_mut().for_each(|completion| self.come_back(completion, now));
        }
        self.tell();
    }

    fn cancel(&mut self, user: u64) {
        if let Some(name) = self.begun.find(|(submitted, _)| *submitted == user) {
            self.inner.cancel(name);
        }
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        // `lend` asks again; a queue that has none here never has one.
        self.inner.in_place()?;
        Some(self)
    }
}

impl Drop for StatsQueue {
    fn drop(&mut self) {
        self.shared.end(&self.counts);
    }
}

/// Operations that take no time.
impl InPlace for StatsQueue {
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        let lent = self.inner.in_place().is_some_and(|device| device.lend(lba, blocks, into));
        if lent {
            self.count(OpKind::Read, blocks, Duration::ZERO, true);
        }
        lent
    }

    fn spare(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.inner.in_place().is_some_and(|device| device.spare(lba, blocks, into))
    }

    fn stores(&mut self) -> bool {
        self.inner.in_place().is_some_and(InPlace::stores)
    }

    fn store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        let Some(device) = self.inner.in_place() else {
            return Outcome::NotSent(crate::Status::new(crate::StatusKind::Unsupported));
        };
        let outcome = device.store(lba, blocks, data);
        if !matches!(outcome, Outcome::NotSent(_)) {
            self.count(OpKind::Write { fua: false }, blocks, Duration::ZERO, outcome.is_success());
        }
        outcome
    }
}

// Joint counts of the queues of a device, and when they are logged.

/// State shared by all queues.
struct DeviceStatistics {
    url: String,
    every: Duration,
    log: Lock<Log>,
}

#[derive(Default)]
struct Log {
    /// Of each open queue.
    counts: Vec<Arc<Counts>>,
    /// Of those that were dropped.
    ended: Totals,
    /// The last logged totals, and their time.
    told: Totals,
    at: Option<Time>,
}

impl Log {
    fn sum(&self) -> Totals {
        self.counts.iter().fold(self.ended.clone(), |sum, counts| sum.plus(&counts.totals()))
    }
}

impl DeviceStatistics {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// Logs what was done since the last time, if that is long enough ago. When it is due again, if
    /// anything was done since.
    fn tell(&self, now: Time) -> Time {
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
    fn end(&self, counts: &Arc<Counts>) {
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
