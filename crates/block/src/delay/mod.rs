//! `delay:[OPTIONS,]URL`: another device with the service times of a slower one. A RAM disk behind
//! it behaves like a flash device, so that the time which a network adds has a realistic
//! proportion.
//!
//! The device serves `depth` operations at a time, over all its queues, in order of arrival. A
//! service takes a fixed time, whatever the size of the operation; only `rate` depends on the size.
//! An operation completes when its service is over and the inner device has completed it, whichever
//! is later. Options:
//!
//! * `read=80us`: mean service time of reads and comparisons.
//! * `write=20us`: mean service time of all other operations: writes, flushes, discards.
//! * `depth=32`: operations served at a time, 1 to [`DELAY_DEPTH_MAX`]. With the defaults the
//!   device completes at most 400,000 reads per second.
//! * `spread=fixed|uniform|exponential|lognormal`: how service times spread around the mean: not at
//!   all (the default); evenly, from half to one and a half times of it; as independent events do;
//!   or with a long tail, as flash does, whose 99th percentile is `tail=5` times the median.
//!   `seed=N` draws other times.
//! * `rate=7GB`: bytes per second that all operations together transfer, one after the other, each
//!   before its service. `0`, the default: no limit.
//!
//! The other values are the defaults: they model a flash drive for servers. `0s` means no delay.
//!
//! The filter uses the loop's timers. If the loop sleeps, a completion is late by the time that the
//! system takes to wake a thread. Nothing is done in place, because a delayed operation owns its
//! memory until its end.

mod queue;
mod schedule;
mod spread;

use crate::device::{BlockDevice, BlockQueue, Device};
use crate::error::Error;
use crate::filter::{Filter, Relay};
use crate::limits::DELAY_DEPTH_MAX;
use crate::opening::Opening;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::spec::Spec;
use crate::units::{parse_duration, parse_size};
use core::time::Duration;
use schedule::{Schedule, Times};
use spread::Spread;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::{DriverId, Handle};

const READ: Duration = Duration::from_micros(80);
const WRITE: Duration = Duration::from_micros(20);
const DEPTH: u32 = 32;

/// A device with the service times of a slower one.
pub struct DelayDevice {
    url: String,
    inner: Device,
    times: Times,
    schedule: Arc<Lock<Schedule>>,
}

impl DelayDevice {
    /// Begins to open `[name=value,]…URL`, which follows `delay:`; `begin` opens the inner URL.
    pub(crate) fn begin(
        url: &str,
        rest: &str,
        begin: impl FnOnce(&str) -> Result<Opening, Error>,
    ) -> Result<Opening, Error> {
        let (inner, mut spec) = Spec::filter(url, rest);
        let mut time =
            |name| spec.parsed(name, |text| parse_duration(text).map_err(|e| e.to_string()));
        let times = Times {
            read: time("read")?.unwrap_or(READ),
            write: time("write")?.unwrap_or(WRITE),
            rate: 0,
        };
        let rate = spec.parsed("rate", |text| parse_size(text).map_err(|e| e.to_string()))?;
        let times = Times { rate: rate.unwrap_or(0), ..times };
        let depth = spec.parsed("depth", depth)?.unwrap_or(DEPTH);
        let spread = spread(&mut spec)?;
        let seed = spec
            .parsed("seed", |text| text.parse::<u64>().map_err(|_| "use a whole number".into()))?;
        spec.finish()?;
        let schedule = Schedule::new(depth).with_spread(spread, Random::new(seed.unwrap_or(0), 0));
        let (url, schedule) = (url.to_owned(), Arc::new(Lock::new(schedule)));
        Ok(begin(inner)?
            .and_then(move |inner| Ok(Arc::new(Self { url, inner, times, schedule }) as Device)))
    }
}

fn spread(spec: &mut Spec<'_>) -> Result<Spread, Error> {
    let spread = spec.parsed("spread", Spread::parse)?.unwrap_or(Spread::Fixed);
    match (spread, spec.parsed("tail", Spread::parse_p99)?) {
        (_, None) => Ok(spread),
        (Spread::LogNormal { .. }, Some(multiple)) => Ok(Spread::with_p99(multiple)),
        _ => Err(spec
            .wrong(Refusal::Contradiction { why: "tail= belongs to spread=lognormal; add that" })),
    }
}

fn depth(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|depth| (1..=DELAY_DEPTH_MAX).contains(depth));
    number.ok_or_else(|| format!("use a whole number from 1 to {DELAY_DEPTH_MAX}"))
}

impl Filter for DelayDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let relay = Relay::new(self.inner.open_queue(on, owner)?, on, owner);
        Ok(Box::new(queue::DelayQueue::new(relay, self.times, Arc::clone(&self.schedule))))
    }
}

#[cfg(test)]
mod tests;
