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

mod schedule;
mod spread;
#[cfg(test)]
mod tests;

use crate::device::{BlockDevice, BlockQueue, Device, InPlace};
use crate::filter::{Filter, QueueFilter, Relay};
use crate::limits::{DELAY_DEPTH_MAX, DELAY_QUEUE_OPS};
use crate::op::{Completion, Op};
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;
use crate::queue::slots::Slots;
use crate::random::Random;
use crate::units::{parse_duration, parse_size};
use crate::url::opening::Opening;
use crate::url::parts::UrlParts;
use core::cmp::Reverse;
use core::time::Duration;
use schedule::{Schedule, Times};
use spread::Spread;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::event_loop::TimerSlot;
use weft_io::segment::total_len;
use weft_io::{DriverId, Handle, Time};

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
        let (inner, mut spec) = UrlParts::filter(url, rest);
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

fn spread(spec: &mut UrlParts<'_>) -> Result<Spread, Error> {
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
        Ok(Box::new(DelayQueue::new(relay, self.times, Arc::clone(&self.schedule))))
    }
}

// A queue that holds completions until their service is over.

struct DelayQueue {
    relay: Relay,
    times: Times,
    schedule: Arc<Lock<Schedule>>,
    /// Operations in flight; the inner queue knows an operation by its index here.
    begun: Slots<Begun>,
    /// Operations that completed before the end of their service: the end of the service, and their
    /// names.
    early: BinaryHeap<Reverse<(Time, u64)>>,
    timer: TimerSlot,
}

struct Begun {
    /// The submitter's name of the operation.
    user: u64,
    /// End of its service.
    due: Time,
    /// Its completion, if that came first.
    done: Option<Completion>,
}

impl DelayQueue {
    fn new(relay: Relay, times: Times, schedule: Arc<Lock<Schedule>>) -> Self {
        Self {
            relay,
            times,
            schedule,
            begun: Slots::default(),
            early: BinaryHeap::new(),
            timer: TimerSlot::default(),
        }
    }

    /// Passes on as many operations as there is room for. Service begins as soon as the device has
    /// a free place.
    fn take(&mut self, ops: &mut VecDeque<Op>) {
        if ops.is_empty() || self.begun.len() >= DELAY_QUEUE_OPS {
            return;
        }
        let now = self.relay.on.clock();
        let mut schedule = self.schedule.lock();
        while self.begun.len() < DELAY_QUEUE_OPS
            && let Some(mut op) = ops.pop_front()
        {
            let transfer = self.times.transfer(total_len(&op.data) as u64);
            let due = schedule.serve(now, transfer, self.times.of(op.kind));
            op.user = self.begun.insert(Begun { user: op.user, due, done: None });
            self.relay.passing.push_back(op);
        }
    }

    /// Reports a completion, or holds it until its service is over.
    fn come_back(&mut self, completion: Completion, now: Time) {
        let name = completion.op.user;
        match self.begun.get_mut(name) {
            Some(begun) if begun.due > now => {
                self.early.push(Reverse((begun.due, name)));
                begun.done = Some(completion);
            }
            _ => self.tell(name, completion),
        }
    }

    fn tell(&mut self, name: u64, mut completion: Completion) {
        if let Some(begun) = self.begun.remove(name) {
            completion.op.user = begun.user;
            self.relay.ready.push(completion);
        }
    }

    /// Reports completions whose service is over.
    fn tell_due(&mut self, now: Time) {
        while let Some(&Reverse((due, name))) = self.early.peek()
            && due <= now
        {
            self.early.pop();
            self.tell_kept(name);
        }
    }

    fn tell_kept(&mut self, name: u64) {
        if let Some(completion) = self.begun.get_mut(name).and_then(|begun| begun.done.take()) {
            self.tell(name, completion);
        }
    }
}

impl QueueFilter for DelayQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.relay.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.relay.inner.as_mut()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.take(ops);
        self.relay.pass();
        self.relay.leave(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.relay.pass();
        let mut returned = self.relay.returned();
        if !(returned.is_empty() && self.early.is_empty()) {
            let now = self.relay.on.clock();
            returned.drain(..).for_each(|completion| self.come_back(completion, now));
            self.tell_due(now);
        }
        self.relay.keep(returned);
        if let Some(&Reverse((due, _))) = self.early.peek() {
            self.timer.arm(&self.relay.on, self.relay.owner, due);
        }
        self.relay.finish(done, self.begun.len() < DELAY_QUEUE_OPS);
    }

    /// An operation that the inner device has completed ends now, with its outcome; others are no
    /// longer held.
    fn cancel(&mut self, user: u64) {
        let Some(name) = self.begun.find(|begun| begun.user == user) else { return };
        if let Some(mut op) = self.relay.recall(name) {
            self.begun.remove(name);
            op.user = user;
            return self.relay.abort(op);
        }
        let Some(begun) = self.begun.get_mut(name) else { return };
        begun.due = Time::ZERO;
        if begun.done.is_none() {
            return self.relay.inner.cancel(name);
        }
        self.early.retain(|Reverse((_, early))| *early != name);
        self.tell_kept(name);
        self.relay.wake();
    }

    fn in_flight(&self) -> usize {
        self.begun.len() + self.relay.ready.len()
    }
}
