//! What becomes of completed writes that a device has lost and that no flush covered: each user hears of it once, by a flush that fails. It is counted
//! by the device ([`BlockDevice::losses`]) and told here, above whatever users share.
//!
//! A user that closes its queue before it has flushed is told as well: a queue that is opened later tells of a loss of which no queue, or not all that were
//! open, have told.

use crate::device::{BlockDevice, BlockQueue, Change, Features, Geometry, InPlace};
use crate::error::Error;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::registry::Device;
use crate::status::{Status, StatusKind};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_io::{DriverId, Handle, Segments};

/// A device whose queues tell of the losses of `inner`. One that is in it twice tells once.
pub fn telling(inner: Device) -> Device {
    Arc::new(Telling { inner, owed: Arc::default() })
}

/// Numbers of losses.
#[derive(Debug, Default)]
struct Owed {
    /// Some queue has told of the losses up to this one.
    told: u64,
    /// A queue was closed that had told up to this one, and no other one has told in its place.
    left: Option<u64>,
}

struct Telling {
    inner: Device,
    owed: Arc<Mutex<Owed>>,
}

fn lock(owed: &Mutex<Owed>) -> MutexGuard<'_, Owed> {
    owed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlockDevice for Telling {
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
        let inner = self.inner.open_queue(on, owner)?;
        let told = {
            let owed = lock(&self.owed);
            owed.left.map_or(owed.told, |left| left.min(owed.told))
        };
        let (device, owed) = (Arc::clone(&self.inner), Arc::clone(&self.owed));
        Ok(Box::new(TellingQueue { inner, device, owed, told, since: told, flushes: Vec::new() }))
    }
}

struct TellingQueue {
    inner: Box<dyn BlockQueue>,
    device: Device,
    owed: Arc<Mutex<Owed>>,
    /// It has told of the losses up to this one.
    told: u64,
    /// The same when it was opened.
    since: u64,
    /// Flushes under way, and what had been told when they were submitted.
    flushes: Vec<(u64, u64)>,
}

impl TellingQueue {
    /// A flush has ended. Fails it if its submitter did not know of a loss.
    #[cold]
    fn ended(&mut self, completion: &mut Completion) {
        let Some(at) = self.flushes.iter().position(|(user, _)| *user == completion.op.user) else { return };
        let (_, told) = self.flushes.swap_remove(at);
        let losses = self.device.losses();
        if told >= losses {
            return;
        }
        if completion.outcome.is_success() {
            completion.outcome = Outcome::Done(Status::new(StatusKind::Internal));
        } else if !matches!(completion.outcome, Outcome::Done(Status { kind: StatusKind::Internal, .. })) {
            // It failed for another reason, and may be repeated.
            return;
        }
        self.told = losses;
        let mut owed = lock(&self.owed);
        owed.told = owed.told.max(losses);
        if owed.left.is_some_and(|left| self.since <= left) {
            owed.left = None;
        }
    }
}

impl BlockQueue for TellingQueue {
    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let before = self.flushes.len();
        self.flushes.extend(ops.iter().filter(|op| op.kind == OpKind::Flush).map(|op| (op.user, self.told)));
        self.inner.submit(ops);
        if self.flushes.len() > before {
            let is_left = |(user, _): &(u64, u64)| ops.iter().any(|op| op.kind == OpKind::Flush && op.user == *user);
            self.flushes.retain(|flush| !is_left(flush));
        }
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        let first = done.len();
        self.inner.reap(done);
        if !self.flushes.is_empty() {
            done[first..].iter_mut().filter(|it| it.op.kind == OpKind::Flush).for_each(|it| self.ended(it));
        }
    }

    fn cancel(&mut self, user: u64) {
        self.inner.cancel(user);
    }

    #[inline]
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        self.inner.in_place()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
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

impl Drop for TellingQueue {
    fn drop(&mut self) {
        let mut owed = lock(&self.owed);
        if self.told < self.device.losses() {
            owed.left = Some(owed.left.map_or(self.told, |left| left.min(self.told)));
        }
    }
}
