//! The device that users of a mirror have: each of its queues fails its next flush after a loss, so that all of them hear of it.

use super::seen::Seen;
use crate::device::{BlockDevice, BlockQueue, Change, Features, Geometry, InPlace};
use crate::error::Error;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::registry::Device;
use crate::status::{Status, StatusKind};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use weft_io::{DriverId, Handle, Segments};

/// A device whose queues tell of the losses of a mirror.
pub(super) fn tells_of_losses(inner: Device, seen: Arc<Mutex<Seen>>) -> Device {
    Arc::new(Tells { inner, seen })
}

struct Tells {
    inner: Device,
    seen: Arc<Mutex<Seen>>,
}

fn losses(seen: &Mutex<Seen>) -> u64 {
    seen.lock().unwrap_or_else(PoisonError::into_inner).losses
}

impl BlockDevice for Tells {
    fn below(&self) -> Option<&dyn BlockDevice> {
        Some(self.inner.as_ref())
    }

    fn url(&self) -> &str {
        self.inner.url()
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn features(&self) -> Features {
        self.inner.features()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let (inner, seen) = (self.inner.open_queue(on, owner)?, Arc::clone(&self.seen));
        let told = losses(&seen);
        Ok(Box::new(TellsQueue { inner, seen, told, failed: Vec::new(), on: on.clone(), owner }))
    }
}

struct TellsQueue {
    inner: Box<dyn BlockQueue>,
    seen: Arc<Mutex<Seen>>,
    /// Losses of which a flush has told.
    told: u64,
    /// Flushes that failed for that.
    failed: Vec<Completion>,
    on: Handle,
    owner: DriverId,
}

impl TellsQueue {
    /// Fails the flushes among these: none of their submitters knew of the loss.
    fn fail_flushes(&mut self, ops: &mut VecDeque<Op>) {
        let losses = losses(&self.seen);
        if self.told == losses {
            return;
        }
        self.told = losses;
        let (flushes, others) = ops.drain(..).partition(|op| op.kind == OpKind::Flush);
        *ops = others;
        let flushes: VecDeque<Op> = flushes;
        self.failed.extend(flushes.into_iter().map(|op| op.done(Outcome::Done(Status::new(StatusKind::Internal)))));
        self.on.wake(self.owner);
    }
}

impl BlockQueue for TellsQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        if ops.iter().any(|op| op.kind == OpKind::Flush) {
            self.fail_flushes(ops);
        }
        self.inner.submit(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.failed);
        let first = done.len();
        self.inner.reap(done);
        // The mirror fails those that it has itself.
        if done[first..].iter().any(|it| it.op.kind == OpKind::Flush && !it.outcome.is_success()) {
            self.told = losses(&self.seen);
        }
    }

    fn cancel(&mut self, user: u64) {
        self.inner.cancel(user);
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        self.inner.in_place()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.failed.len()
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        self.inner.overdue(given_back)
    }

    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }

    fn change(&mut self) -> Option<Change> {
        self.inner.change()
    }
}
