//! Which fault the next operation of a queue gets.

use super::plan::{Fault, Plan};
use crate::op::OpKind;
use crate::owners::Owners;
use crate::random::Random;
use crate::status::StatusKind;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Whether the device is gone (`kind=vanish`), for all its queues.
#[derive(Default)]
pub(super) struct Vanished {
    pub(super) gone: AtomicBool,
    pub(super) owners: Owners,
}

/// Each operation takes its turn in the random sequence of its queue, in place or not.
pub(super) struct Draw {
    pub(super) plan: Plan,
    pub(super) random: Random,
    /// Operations so far, up to the first that may be affected.
    passed: u64,
    pub(super) vanished: Arc<Vanished>,
}

impl Draw {
    /// The sequence of the queue with this number.
    pub(super) fn new(plan: Plan, number: u64, vanished: Arc<Vanished>) -> Self {
        Self { plan, random: Random::new(plan.seed, number), passed: 0, vanished }
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
        fault
    }

    /// What [`Self::strike`] would return.
    pub(super) fn next_strike(&self, kind: OpKind) -> Option<Fault> {
        match self.is_gone() {
            true => Some(Fault::Fails(StatusKind::Gone)),
            false if self.passed < self.plan.after => None,
            false => self.plan.strike(&mut self.random.clone(), kind),
        }
    }

    /// Whether the device is gone, for all queues.
    pub(super) fn is_gone(&self) -> bool {
        self.vanished.gone.load(Ordering::Acquire)
    }

    /// From now on the device is gone, for all queues.
    pub(super) fn vanish(&mut self) {
        self.vanished.gone.store(true, Ordering::Release);
        self.vanished.owners.wake_all();
    }
}
