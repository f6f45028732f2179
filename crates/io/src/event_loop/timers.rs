//! Deadlines of drivers, in a heap. Deadlines of removed drivers are dropped before they wake
//! anything.

use super::driver::DriverId;
use crate::time::Time;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Notes below which nothing is worth forgetting.
const FEW: usize = 64;

/// The deadlines of a loop's drivers.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32, u32)>>,
    /// Notes that were left when those of the gone were last forgotten.
    kept: usize,
}

impl Timers {
    /// Schedules a wake of `driver` at `at`. Earlier notes stay; waking once too often is harmless.
    pub(super) fn set(&mut self, driver: DriverId, at: Time, is_alive: impl Fn(DriverId) -> bool) {
        if self.heap.len() >= FEW.max(2 * self.kept) {
            self.heap.retain(|Reverse((_, index, generation))| {
                is_alive(DriverId { index: *index, generation: *generation })
            });
            self.kept = self.heap.len();
        }
        self.heap.push(Reverse((at, driver.index, driver.generation)));
    }

    /// Returns the time of the next wake of a driver that still exists.
    pub(super) fn next(&mut self, is_alive: impl Fn(DriverId) -> bool) -> Option<Time> {
        while let Some(Reverse((at, index, generation))) = self.heap.peek() {
            if is_alive(DriverId { index: *index, generation: *generation }) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes one note that is due.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<DriverId> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        let Reverse((_, index, generation)) = self.heap.pop()?;
        Some(DriverId { index, generation })
    }
}
