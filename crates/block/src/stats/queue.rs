//! A queue that counts its operations.

use super::counts::Counts;
use super::log::DeviceStatistics;
use crate::device::{BlockQueue, InPlace};
use crate::filter::QueueFilter;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::slots::Slots;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, Segments, Time};

pub(super) struct StatsQueue {
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
    pub(super) fn new(
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
