//! Completed, unflushed writes that a device has lost: each user gets one report, a flush that
//! fails. The device counts them ([`BlockDevice::losses`]); they are reported here, above anything
//! that users share.
//!
//! A user that closes its queue before a flush gets the report as well, for a loss before or after
//! that: the queue leaves its number of reported losses, and a later queue continues from there.
//! Nobody knows whose queue that is, so one flush too many may fail, but never one too few.

use crate::device::{BlockDevice, BlockQueue, Device, InPlace};
use crate::filter::{Filter, QueueFilter};
use crate::limits::LOSSES_OWED_MAX;
use crate::offload::{Offload, OffloadSource};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::error::Error;
use crate::outcome::status::{Status, StatusKind};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::{DriverId, Handle};

/// A device whose queues report the losses of `inner`. One that is in it twice reports once.
pub fn report_losses(inner: Device) -> Device {
    Arc::new(LossReporter { inner, owed: Arc::default() })
}

/// Numbers of losses.
#[derive(Debug, Default)]
struct Owed {
    /// Some queue has reported the losses up to this one.
    told: u64,
    /// For each queue that was closed with writes that no flush covers, and whose place none has
    /// taken: it had told up to this one.
    left: Vec<u64>,
}

struct LossReporter {
    inner: Device,
    owed: Arc<Lock<Owed>>,
}

impl Owed {
    /// A queue has ended in debt. Beyond the limit those are kept that are owed the most.
    fn leave(&mut self, told: u64) {
        self.left.push(told);
        self.left.sort_unstable();
        self.left.truncate(LOSSES_OWED_MAX);
    }

    /// The place of the queue that is owed the most.
    fn take(&mut self) -> Option<u64> {
        (!self.left.is_empty()).then(|| self.left.remove(0))
    }
}

impl Filter for LossReporter {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn served(&self) -> Option<OffloadSource> {
        self.inner.served()
    }

    /// Its flush reports losses itself.
    fn offload(&self, from: &OffloadSource) -> Option<Arc<dyn Offload>> {
        self.inner.offload(from)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let inner = self.inner.open_queue(on, owner)?;
        let (taken, told) = {
            let mut owed = self.owed.lock();
            let taken = owed.take();
            (taken, taken.unwrap_or(owed.told))
        };
        let (device, owed) = (Arc::clone(&self.inner), Arc::clone(&self.owed));
        Ok(Box::new(LossReporterQueue {
            inner,
            device,
            owed,
            told,
            taken,
            written: 0,
            flushed: 0,
            is_used: false,
            flushes: Vec::new(),
        }))
    }
}

struct LossReporterQueue {
    inner: Box<dyn BlockQueue>,
    device: Device,
    owed: Arc<Lock<Owed>>,
    /// It has reported the losses up to this one.
    told: u64,
    /// Losses that its predecessor had reported.
    taken: Option<u64>,
    /// Writes so far, and how many of them a flush covers.
    written: u64,
    flushed: u64,
    /// It has read or written. One that only flushes may be no user's: a target flushes when a host
    /// shuts its controller down.
    is_used: bool,
    /// Flushes under way.
    flushes: Vec<Flush>,
}

struct Flush {
    user: u64,
    /// Losses reported when it was submitted.
    told: u64,
    /// Writes so far.
    written: u64,
}

impl LossReporterQueue {
    /// A flush has ended. Fails it if its submitter did not know of a loss.
    #[cold]
    fn ended(&mut self, completion: &mut Completion) {
        let Some(at) = self.flushes.iter().position(|flush| flush.user == completion.op.user)
        else {
            return;
        };
        let Flush { told, written, .. } = self.flushes.swap_remove(at);
        let losses = self.device.losses();
        if told >= losses {
            if completion.outcome.is_success() {
                self.flushed = self.flushed.max(written);
            }
            return;
        }
        if completion.outcome.is_success() {
            completion.outcome = Outcome::Done(Status::new(StatusKind::Internal));
        } else if !matches!(
            completion.outcome,
            Outcome::Done(Status { kind: StatusKind::Internal, .. })
        ) {
            // It failed for another reason, and may be repeated.
            return;
        }
        self.told = losses;
        let mut owed = self.owed.lock();
        owed.told = owed.told.max(losses);
    }
}

impl QueueFilter for LossReporterQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.inner.as_mut()
    }

    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let before = self.flushes.len();
        for op in &*ops {
            if op.kind == OpKind::Flush {
                self.flushes.push(Flush { user: op.user, told: self.told, written: self.written });
            } else {
                self.is_used = true;
                self.written += u64::from(op.kind.is_write());
            }
        }
        self.inner.submit(ops);
        if self.flushes.len() > before {
            let is_left = |flush: &Flush| {
                ops.iter().any(|op| op.kind == OpKind::Flush && op.user == flush.user)
            };
            self.flushes.retain(|flush| !is_left(flush));
        }
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        let first = done.len();
        self.inner.reap(done);
        if !self.flushes.is_empty() {
            done[first..]
                .iter_mut()
                .filter(|it| it.op.kind == OpKind::Flush)
                .for_each(|it| self.ended(it));
        }
    }

    #[inline]
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        self.inner.in_place()
    }
}

impl Drop for LossReporterQueue {
    fn drop(&mut self) {
        let is_owed = self.flushed < self.written || self.told < self.device.losses();
        // What was told to one that only flushed may not have reached a user.
        let owed = self.taken.filter(|_| !self.is_used).or(is_owed.then_some(self.told));
        owed.into_iter().for_each(|told| self.owed.lock().leave(told));
    }
}
