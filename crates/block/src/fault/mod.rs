//! `error:rate=0.01[,OPTIONS],URL`: injects errors into another device.
//!
//! Each operation is affected with the probability `rate`, 0 to 1. Options:
//!
//! * `ops=read+write`: the operations that may be affected: `read`, `write`, `discard`, `flush`,
//!   joined with `+`. Comparisons count as reads, write-zeroes and compare-and-write as writes.
//!   Default: reads and writes.
//! * `kind=media|nospace|protected|busy|transport|path|gone|internal`: the operation fails with
//!   this error and does not reach the device (default: `media`). `enospc` is `nospace`.
//! * `kind=short`: a read, write or comparison is executed for the first half of its blocks only,
//!   and fails with `media`.
//! * `kind=vanish`: from the first affected operation on, every operation of every queue fails with
//!   `gone`, and so does the device.
//! * `kind=hang`: the operation does not complete, even if it is cancelled; with `for=90s` it is
//!   executed after this time.
//! * `kind=timeout`: the operation does not complete until it is cancelled.
//! * `after=N`: the first N operations of each queue are not affected (default: 0).
//! * `count=N`: at most N operations of all queues together are affected (default: no limit).
//! * `corrupt=bitflip|zero|misplaced|stale`: the operation succeeds, but with wrong data.
//!   `bitflip`: one bit of the data that is read or stored is wrong. `zero`: one block is zeroes.
//!   `misplaced`: other blocks are read, or overwritten. `stale`: the write is dropped, so the old
//!   data remains. Only plain reads and writes are corrupted. The data of a write that this filter
//!   must not change is copied first; the write fails with `busy` if the loop has no memory for the
//!   copy.
//! * `seed=N`: with the same seed the same operations are affected, counted from the opening of
//!   each queue (default: 0).

mod draw;
mod plan;
mod queue;

use crate::device::{BlockDevice, BlockQueue, Device, Presence};
use crate::filter::{Filter, Relay};
use crate::outcome::error::Error;
use crate::url::opening::Opening;
use crate::url::parts::UrlParts;
use core::sync::atomic::{AtomicU64, Ordering};
use draw::Common;
use plan::Plan;
use std::sync::Arc;
use weft_io::{DriverId, Handle};

/// A device with injected errors.
pub struct FaultDevice {
    url: String,
    inner: Device,
    plan: Plan,
    queues: AtomicU64,
    common: Arc<Common>,
}

impl FaultDevice {
    /// Begins to open `[name=value,]…URL`, which follows `error:`; `begin` opens the inner URL.
    pub(crate) fn begin(
        url: &str,
        rest: &str,
        begin: impl FnOnce(&str) -> Result<Opening, Error>,
    ) -> Result<Opening, Error> {
        let (inner, mut spec) = UrlParts::filter(url, rest);
        let plan = Plan::parse(&mut spec)?;
        spec.finish()?;
        let url = url.to_owned();
        Ok(begin(inner)?.and_then(move |inner| {
            Ok(Arc::new(Self {
                url,
                inner,
                plan,
                queues: AtomicU64::new(0),
                common: Arc::default(),
            }) as Device)
        }))
    }
}

impl Filter for FaultDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn presence(&self) -> Presence {
        if self.common.gone.load(Ordering::Acquire) {
            Presence::Gone
        } else {
            self.inner.presence()
        }
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let relay = Relay::new(self.inner.open_queue(on, owner)?, on, owner);
        let number = self.queues.fetch_add(1, Ordering::Relaxed);
        let common = Arc::clone(&self.common);
        Ok(Box::new(queue::FaultQueue::new(
            relay,
            self.plan,
            self.inner.geometry(),
            number,
            common,
        )))
    }
}

#[cfg(test)]
mod tests;
