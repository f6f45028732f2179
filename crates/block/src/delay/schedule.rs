//! The end times of services on a device with a fixed parallelism.

use crate::op::OpKind;
use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;
use weft_io::Time;

/// Service times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub read: Duration,
    pub write: Duration,
}

impl Times {
    pub(super) const fn of(&self, kind: OpKind) -> Duration {
        match kind {
            OpKind::Read | OpKind::Compare => self.read,
            _ => self.write,
        }
    }
}

/// The places of a device; each serves one operation at a time. Loops share it, and their clocks have the same epoch.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The time at which each place becomes free, the earliest first.
    free: BinaryHeap<Reverse<Time>>,
}

impl Schedule {
    /// A schedule with at least one place.
    pub(super) fn new(depth: u32) -> Self {
        Self { free: (0..depth.max(1)).map(|_| Reverse(Time::ZERO)).collect() }
    }

    /// Assigns the next operation, which arrives at `now`, to the first free place; returns the end of its service.
    pub(super) fn serve(&mut self, now: Time, service: Duration) -> Time {
        let Some(mut place) = self.free.peek_mut() else { return now + service };
        place.0 = place.0.max(now) + service;
        place.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_in_parallel_and_each_by_one_at_a_time() {
        let mut schedule = Schedule::new(2);
        let mut serve = |now, service| schedule.serve(Time::from_nanos(now), Duration::from_nanos(service)).as_nanos();
        assert_eq!([serve(100, 80), serve(100, 20), serve(100, 20), serve(100, 80)], [180, 120, 140, 220]);
        // The one that ended at 180 is free first. A place that was free for long begins at once.
        assert_eq!([serve(150, 10), serve(1000, 5)], [190, 1005]);
    }
}
