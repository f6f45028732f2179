//! `error:rate=0.01[,OPTIONS],URL`: injects errors into another device.
//!
//! Each operation is affected with the probability `rate`, 0 to 1. Options:
//!
//! * `ops=read+write`: the operations that may be affected: `read`, `write`, `discard`, `flush`, joined with `+`. Comparisons
//!   count as reads, write-zeroes and compare-and-write as writes. Default: reads and writes.
//! * `kind=media|nospace|protected|busy|transport|gone|internal|timeout`: the operation fails with this error and does not reach
//!   the device (default: `media`). `timeout`: it does not complete until it is cancelled.
//! * `corrupt=bitflip|zero|misplaced|stale`: the operation succeeds, but with wrong data. `bitflip`: one bit of the data that is
//!   read or stored is wrong. `zero`: one block is zeroes. `misplaced`: other blocks are read, or overwritten. `stale`: the write
//!   is dropped, so the old data remains. Only plain reads and writes are corrupted. The data of a write that this filter must not change
//!   is copied first; the write fails with `busy` if the loop has no memory for the copy.
//! * `seed=N`: with the same seed the same operations are affected, counted from the opening of each queue (default: 0).

mod plan;
mod queue;
mod random;

use crate::device::{BlockDevice, BlockQueue, Features, Geometry, Identity, Presence};
use crate::error::Error;
use crate::opening::Opening;
use crate::registry::Device;
use crate::spec::Spec;
use core::sync::atomic::{AtomicU64, Ordering};
use plan::Plan;
use std::sync::Arc;
use weft_io::{DriverId, Handle};

/// A device with injected errors.
pub struct FaultDevice {
    url: String,
    inner: Device,
    plan: Plan,
    queues: AtomicU64,
}

impl FaultDevice {
    /// Begins to open `[name=value,]…URL`, which follows `error:`; `begin` opens the inner URL.
    pub(crate) fn begin(url: &str, rest: &str, begin: impl FnOnce(&str) -> Result<Opening, Error>) -> Result<Opening, Error> {
        let (inner, mut spec) = Spec::filter(url, rest);
        let plan = Plan::parse(&mut spec)?;
        spec.finish()?;
        let url = url.to_owned();
        Ok(begin(inner)?.and_then(move |inner| Ok(Arc::new(Self { url, inner, plan, queues: AtomicU64::new(0) }) as Device)))
    }
}

impl BlockDevice for FaultDevice {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn presence(&self) -> Presence {
        self.inner.presence()
    }

    fn max_queues(&self) -> usize {
        self.inner.max_queues()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let inner = self.inner.open_queue(on, owner)?;
        let number = self.queues.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(queue::FaultQueue::new(inner, self.plan, self.geometry(), number, on, owner)))
    }
}

#[cfg(test)]
mod tests;
