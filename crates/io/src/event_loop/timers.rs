//! One deadline per driver, in a heap with lazy deletion.

use super::DriverId;
use crate::time::Time;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// The deadlines of a loop's drivers.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32, u32)>>,
}

impl Timers {
    /// Notes that `driver` is to be woken at `at`. Earlier notes stay; waking once too often is harmless.
    pub(super) fn set(&mut self, driver: DriverId, at: Time) {
        self.heap.push(Reverse((at, driver.index, driver.generation)));
    }

    /// When the next note is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes one note that is due.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(Time, DriverId)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((at, index, generation)) = self.heap.pop()?;
        Some((at, DriverId { index, generation }))
    }
}
