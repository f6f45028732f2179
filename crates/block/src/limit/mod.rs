//! `limit:[iops=10k,][bw=100MB,]URL`: another device that is used only so much. At least one limit is given:
//!
//! * `iops=10k`: operations per second, of any kind; `k` is a thousand, `M` a million.
//! * `bw=100MB`: bytes per second that all operations together transfer.
//!
//! All queues share the limits. Operations begin in order of arrival; what exceeds the limits waits, up to [`LIMIT_QUEUE_OPS`] operations of a
//! queue, and then the queue accepts no more. After a pause as much as fits into [`LIMIT_BURST_MS`] begins at once. Nothing is done in place.
//!
//! The same limits apply to all devices that a host uses, if its queues are wrapped with one [`Rate`] ([`with_rate`]).
//!
//! [`LIMIT_QUEUE_OPS`]: crate::limits::LIMIT_QUEUE_OPS
//! [`LIMIT_BURST_MS`]: crate::limits::LIMIT_BURST_MS

mod queue;
mod rate;

pub use rate::{Limit, Rate};

use crate::device::{BlockDevice, BlockQueue, Features, Geometry};
use crate::error::Error;
use crate::opening::Opening;
use crate::refusal::Refusal;
use crate::registry::Device;
use crate::spec::Spec;
use std::sync::Arc;
use weft_io::{DriverId, Handle};

/// A device that is used only so much.
pub struct LimitDevice {
    url: String,
    inner: Device,
    rate: Arc<Rate>,
}

impl LimitDevice {
    /// Begins to open `[name=value,]…URL`, which follows `limit:`; `begin` opens the inner URL.
    pub(crate) fn begin(url: &str, rest: &str, begin: impl FnOnce(&str) -> Result<Opening, Error>) -> Result<Opening, Error> {
        let (inner, mut spec) = Spec::filter(url, rest);
        let limit = Limit {
            operations: spec.parsed("iops", rate::parse_operations)?.unwrap_or(0),
            bytes: spec.parsed("bw", rate::parse_bytes)?.unwrap_or(0),
        };
        if limit == Limit::NONE {
            return Err(spec.wrong(Refusal::OptionMissing { name: "iops", example: "iops=10k or bw=100MB" }));
        }
        spec.finish()?;
        let (url, rate) = (url.to_owned(), Arc::new(Rate::new(limit)));
        Ok(begin(inner)?.and_then(move |inner| Ok(Arc::new(Self { url, inner, rate }) as Device)))
    }
}

/// `queue`, whose operations begin as `rate` allows. It belongs to the loop of `on` and wakes `owner`.
pub fn with_rate(queue: Box<dyn BlockQueue>, rate: &Arc<Rate>, on: &Handle, owner: DriverId) -> Box<dyn BlockQueue> {
    Box::new(queue::LimitQueue::new(queue, Arc::clone(rate), on, owner))
}

impl BlockDevice for LimitDevice {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(self.inner.as_ref())
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(with_rate(self.inner.open_queue(on, owner)?, &self.rate, on, owner))
    }
}

#[cfg(test)]
mod tests;
