//! `error:rate=0.01[,OPTIONS],URL`: another device, made unreliable.
//!
//! Each operation is struck with the probability `rate`, 0 to 1. Options:
//!
//! * `ops=read+write`: which operations may be struck: `read`, `write`, `discard`, `flush`, joined with `+`. Comparisons count as
//!   reads, write-zeroes and compare-and-write as writes. Reads and writes unless said.
//! * `kind=media|nospace|protected|busy|transport|gone|internal|timeout`: it fails so, and does not reach the device (`media`
//!   unless said). `timeout`: it is not answered at all until it is cancelled.
//! * `corrupt=bitflip|zero|misplaced|stale`: instead of failing it succeeds, and lies. `bitflip`: one bit of what is read or stored is
//!   wrong. `zero`: one block of it is zeroes. `misplaced`: other blocks are read, or overwritten. `stale`: the write is
//!   dropped, so that the old data stays. Only plain reads and writes are corrupted. A write whose data this filter may not change is
//!   copied first; it fails with `busy` where the loop has no memory for that.
//! * `seed=N`: the same seed strikes the same operations, counted from the opening of each queue (0 unless said).

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

/// A device that is made unreliable.
pub struct FaultDevice {
    url: String,
    inner: Device,
    plan: Plan,
    queues: AtomicU64,
}

impl FaultDevice {
    /// Begins to open `[name=value,]…URL`, which follows `error:`; `begin` does so with the inner URL.
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
