//! `limit:[iops=10k,][bw=100MB,]URL`: another device with a limited rate. At least one limit is
//! given:
//!
//! * `iops=10k`: operations per second, of any kind; `k` is a thousand, `M` a million.
//! * `bw=100MB`: bytes per second that all operations together transfer.
//! * `read-iops=`, `read-bw=`: the same for reads and comparisons alone. `write-iops=`,
//!   `write-bw=`: for all other operations.
//! * `burst=1s`: after a pause, the amount that otherwise takes this long begins at once;
//!   [`LIMIT_BURST_MS`] by default.
//!
//! All queues share the limits. Operations begin in order of arrival; reads do not wait for writes
//! that exceed only a limit of writes, and the reverse. Operations above the limits wait, up to
//! [`LIMIT_QUEUE_OPS`] of a queue; beyond that the queue accepts none. Nothing is done in place.
//!
//! The same limits apply to all devices that a host uses, if its queues are wrapped with one
//! [`Rate`] ([`with_rate`]).
//!
//! [`LIMIT_QUEUE_OPS`]: crate::limits::LIMIT_QUEUE_OPS
//! [`LIMIT_BURST_MS`]: crate::limits::LIMIT_BURST_MS

mod queue;
mod rate;

use crate::device::{BlockDevice, BlockQueue, Device};
use crate::filter::{Filter, Relay};
use crate::limits::LIMIT_BURST_MS;
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use crate::units::parse_duration;
use crate::url::opening::Opening;
use crate::url::parts::UrlParts;
use core::time::Duration;
use queue::{LimitQueue, Rates};
pub use rate::{Limit, Rate};
use std::sync::Arc;
use weft_io::{DriverId, Handle};

/// A device with a limited rate.
pub struct LimitDevice {
    url: String,
    inner: Device,
    rates: Rates,
}

impl LimitDevice {
    /// Begins to open `[name=value,]…URL`, which follows `limit:`; `begin` opens the inner URL.
    pub(crate) fn begin(
        url: &str,
        rest: &str,
        begin: impl FnOnce(&str) -> Result<Opening, Error>,
    ) -> Result<Opening, Error> {
        let (inner, mut spec) = UrlParts::filter(url, rest);
        let all = limit(&mut spec, ["iops", "bw"])?;
        let apart = [
            limit(&mut spec, ["read-iops", "read-bw"])?,
            limit(&mut spec, ["write-iops", "write-bw"])?,
        ];
        if all == Limit::NONE && apart == [Limit::NONE; 2] {
            return Err(spec
                .wrong(Refusal::OptionMissing { name: "iops", example: "iops=10k or bw=100MB" }));
        }
        let burst = spec.parsed("burst", |text| parse_duration(text).map_err(|e| e.to_string()))?;
        let burst = burst.unwrap_or(Duration::from_millis(LIMIT_BURST_MS));
        spec.finish()?;
        let rate = |limit| Arc::new(Rate::with_burst(limit, burst));
        let rates =
            Rates { all: rate(all), apart: (apart != [Limit::NONE; 2]).then(|| apart.map(rate)) };
        let url = url.to_owned();
        Ok(begin(inner)?.and_then(move |inner| Ok(Arc::new(Self { url, inner, rates }) as Device)))
    }
}

/// The limits of two options, of operations and of bytes.
fn limit(spec: &mut UrlParts<'_>, [operations, bytes]: [&'static str; 2]) -> Result<Limit, Error> {
    Ok(Limit {
        operations: spec.parsed(operations, rate::parse_operations)?.unwrap_or(0),
        bytes: spec.parsed(bytes, rate::parse_bytes)?.unwrap_or(0),
    })
}

/// `queue`, whose operations begin as `rate` allows. It belongs to the loop of `on` and wakes
/// `owner`.
pub fn with_rate(
    queue: Box<dyn BlockQueue>,
    rate: &Arc<Rate>,
    on: &Handle,
    owner: DriverId,
) -> Box<dyn BlockQueue> {
    let rates = Rates { all: Arc::clone(rate), apart: None };
    Box::new(LimitQueue::new(Relay::new(queue, on, owner), rates))
}

impl Filter for LimitDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let relay = Relay::new(self.inner.open_queue(on, owner)?, on, owner);
        Ok(Box::new(LimitQueue::new(relay, self.rates.clone())))
    }
}

#[cfg(test)]
mod tests;
