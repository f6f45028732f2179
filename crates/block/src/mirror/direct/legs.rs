//! The legs that a loop uses by itself: found, looked after, and let go of.

use super::leg::Leg;
use super::shared::Direct;
use crate::device::DeviceChange;
use crate::limits::MIRROR_BARRED_MS;
use crate::mirror::counts::LegQueueCounts;
use crate::op::Completion;
use crate::sync::Ordering;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::{DriverId, Handle, Time};

/// See the module.
#[derive(Default)]
pub(super) struct Legs {
    pub(super) used: Vec<Leg>,
    /// Legs that are no longer used and still have operations in flight.
    leaving: Vec<Leg>,
    /// Version of the legs in use.
    version: u64,
    /// A leg cannot be used from here: the home does everything until then, or until the legs
    /// change.
    barred: Option<Time>,
}

impl Legs {
    /// Returns whether the loop can do without the home, as far as its queues are concerned.
    pub(super) fn are_usable(&self) -> bool {
        self.barred.is_none() && !self.used.is_empty()
    }

    /// Tries again what could not be used for a while.
    pub(super) fn try_again(&mut self, now: Time) {
        if self.barred.is_some_and(|until| until <= now) {
            // Whatever they are now.
            self.version = 0;
        }
    }

    /// Lets go of legs that are no longer in sync, and opens queues of others. Returns the numbers
    /// of the former: writes there have failed, and may still be executed.
    pub(super) fn follow(&mut self, direct: &Direct, on: &Handle, owner: DriverId) -> Vec<usize> {
        let version = direct.legs_version.load(Ordering::SeqCst);
        if version == self.version {
            return Vec::new();
        }
        (self.version, self.barred) = (version, None);
        let wanted = direct.legs.lock().clone();
        let mut had = core::mem::take(&mut self.used);
        for of in wanted {
            let same = |leg: &Leg| Arc::ptr_eq(&leg.of.use_of_it, &of.use_of_it);
            if let Some(at) = had.iter().position(same) {
                self.used.push(had.swap_remove(at));
                continue;
            }
            match of.device.open_queue(on, owner) {
                Ok(queue) => {
                    let todo = VecDeque::new();
                    let counts = LegQueueCounts::new(&of.counts, of.device.geometry().block_bytes);
                    self.used.push(Leg { queue, todo, reads: 0, is_lost: false, counts, of });
                }
                Err(e) => {
                    // The home has a queue of it.
                    tracing::debug!("{}: no queue for another loop: {e}", of.device.url());
                    self.bar(on);
                }
            }
        }
        self.let_go(had)
    }

    fn bar(&mut self, on: &Handle) {
        self.barred = Some(on.now() + Duration::from_millis(MIRROR_BARRED_MS));
    }

    fn let_go(&mut self, legs: Vec<Leg>) -> Vec<usize> {
        let numbers = legs.iter().map(|leg| leg.of.number).collect();
        self.leaving.extend(legs);
        numbers
    }

    /// Puts what has ended on the leg at this place into `returned`, which is empty.
    pub(super) fn reap(&mut self, place: usize, returned: &mut Vec<Completion>, now: Time) {
        let leg = &mut self.used[place];
        leg.reap(returned, now);
        while let Some(change) = leg.queue.change() {
            leg.is_lost |= matches!(
                change,
                DeviceChange::Gone | DeviceChange::Away | DeviceChange::Resized { .. }
            );
        }
    }

    /// Lets go of legs whose queues say that they are not there; their numbers.
    pub(super) fn let_lost_go(&mut self, on: &Handle) -> Vec<usize> {
        if !self.used.iter().any(|leg| leg.is_lost) {
            return Vec::new();
        }
        self.bar(on);
        let lost = self.used.extract_if(.., |leg| leg.is_lost).collect();
        self.let_go(lost)
    }

    /// Returns the ended operations on legs that are no longer used, with their numbers.
    pub(super) fn reap_leaving(&mut self, direct: &Direct, now: Time) -> Vec<(usize, Completion)> {
        let (mut returned, mut ended) = (Vec::new(), Vec::new());
        let before = self.leaving.len();
        self.leaving.retain_mut(|leg| {
            leg.reap(&mut returned, now);
            let number = leg.of.number;
            ended.extend(returned.drain(..).map(|completion| (number, completion)));
            !leg.is_settled()
        });
        if self.leaving.len() < before {
            direct.wake_home();
        }
        ended
    }

    /// Passes on what the queues have not taken yet. Returns whether there was anything.
    pub(super) fn submit(&mut self, now: Time) -> bool {
        let mut some = false;
        for leg in self.used.iter_mut().chain(&mut self.leaving) {
            if !leg.todo.is_empty() {
                leg.submit(now);
                some = true;
            }
        }
        some
    }

    /// The loop has no user, or ends.
    pub(super) fn drain(&mut self, on: &Handle) {
        self.used.drain(..).chain(self.leaving.drain(..)).for_each(|leg| leg.drain(on));
    }
}
