//! Choice of the fault for the next operation of a queue.

use super::plan::{Fault, Plan};
use crate::op::OpKind;
use crate::outcome::status::StatusKind;
use crate::queue::queue_owners::QueueOwners;
use crate::random::Random;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// State that all queues of the device share.
#[derive(Default)]
pub(super) struct Common {
    /// The device is gone (`kind=vanish`).
    pub(super) gone: AtomicBool,
    /// Operations that were affected, if their number has a limit.
    struck: AtomicU64,
    pub(super) owners: QueueOwners,
}

/// Each operation takes its turn in the random sequence of its queue, in place or not.
pub(super) struct Draw {
    pub(super) plan: Plan,
    pub(super) random: Random,
    /// Operations so far, up to the first that may be affected.
    passed: u64,
    pub(super) common: Arc<Common>,
}

impl Draw {
    /// The sequence of the queue with this number.
    pub(super) fn new(plan: Plan, number: u64, common: Arc<Common>) -> Self {
        Self { plan, random: Random::new(plan.seed, number), passed: 0, common }
    }

    /// The fault of the next operation.
    pub(super) fn strike(&mut self, kind: OpKind) -> Option<Fault> {
        if self.is_gone() {
            return Some(Fault::Fails(StatusKind::Gone));
        }
        let fault = self.plan.strike(&mut self.random, kind);
        if self.passed < self.plan.after {
            self.passed += 1;
            return None;
        }
        fault.filter(|_| self.may_strike())
    }

    /// Counts an affected operation; `false` if there were as many as there may be.
    fn may_strike(&self) -> bool {
        let Some(most) = self.plan.count else { return true };
        let more = |struck: u64| (struck < most).then_some(struck + 1);
        self.common.struck.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    fn is_exhausted(&self) -> bool {
        self.plan.count.is_some_and(|most| self.common.struck.load(Ordering::Acquire) >= most)
    }

    /// Returns the next result of [`Self::strike`].
    pub(super) fn next_strike(&self, kind: OpKind) -> Option<Fault> {
        match self.is_gone() {
            true => Some(Fault::Fails(StatusKind::Gone)),
            false if self.passed < self.plan.after || self.is_exhausted() => None,
            false => self.plan.strike(&mut self.random.clone(), kind),
        }
    }

    /// Returns whether the device is gone, for all queues.
    pub(super) fn is_gone(&self) -> bool {
        self.common.gone.load(Ordering::Acquire)
    }

    /// From now on the device is gone, for all queues.
    pub(super) fn vanish(&mut self) {
        self.common.gone.store(true, Ordering::Release);
        self.common.owners.wake_all();
    }
}
