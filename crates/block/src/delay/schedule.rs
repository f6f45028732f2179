//! The end times of services on a device with a fixed parallelism.

use super::spread::Spread;
use crate::op::OpKind;
use crate::random::Random;
use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;
use weft_io::Time;

/// Service times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub read: Duration,
    pub write: Duration,
    /// Bytes a second that go in or out, of all operations together; 0 for no limit.
    pub rate: u64,
}

impl Times {
    pub(super) const fn of(&self, kind: OpKind) -> Duration {
        match kind {
            OpKind::Read | OpKind::Compare => self.read,
            _ => self.write,
        }
    }

    /// Returns the time that it takes to move `bytes` bytes.
    pub(super) fn transfer(&self, bytes: u64) -> Duration {
        if self.rate == 0 {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(bytes as f64 / self.rate as f64)
        }
    }
}

/// The places of a device; each serves one operation at a time. Loops share it, and their clocks
/// have the same epoch.
pub(super) struct Schedule {
    /// The time at which each place becomes free, the earliest first.
    free: BinaryHeap<Reverse<Time>>,
    /// When the way of the data is free.
    way: Time,
    spread: Spread,
    random: Random,
}

impl Schedule {
    /// A schedule with at least one place.
    pub(super) fn new(depth: u32) -> Self {
        Self {
            free: (0..depth.max(1)).map(|_| Reverse(Time::ZERO)).collect(),
            way: Time::ZERO,
            spread: Spread::Fixed,
            random: Random::new(0, 0),
        }
    }

    /// The same, with services that do not all take the same time.
    pub(super) fn with_spread(self, spread: Spread, random: Random) -> Self {
        Self { spread, random, ..self }
    }

    /// Transfers the data of the next operation, which arrives at `now`, as soon as the link is
    /// free, and then assigns the operation to the first free place; returns the end of its
    /// service.
    pub(super) fn serve(&mut self, now: Time, transfer: Duration, service: Duration) -> Time {
        let service = self.spread.draw(service, &mut self.random);
        let mut begin = now;
        if !transfer.is_zero() {
            self.way = self.way.max(now) + transfer;
            begin = self.way;
        }
        let Some(mut place) = self.free.peek_mut() else { return begin + service };
        place.0 = place.0.max(begin) + service;
        place.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_in_parallel_and_each_by_one_at_a_time() {
        let mut schedule = Schedule::new(2);
        let mut serve = |now, service| {
            schedule
                .serve(Time::from_nanos(now), Duration::ZERO, Duration::from_nanos(service))
                .as_nanos()
        };
        assert_eq!(
            [serve(100, 80), serve(100, 20), serve(100, 20), serve(100, 80)],
            [180, 120, 140, 220]
        );
        // The one that ended at 180 is free first. A place that was free for long begins at once.
        assert_eq!([serve(150, 10), serve(1000, 5)], [190, 1005]);
    }

    #[test]
    fn data_goes_one_after_the_other_whatever_places_are_free() {
        let times =
            Times { read: Duration::from_nanos(80), write: Duration::ZERO, rate: 4_000_000_000 };
        let mut schedule = Schedule::new(32);
        let mut read = |now, bytes| {
            schedule.serve(Time::from_nanos(now), times.transfer(bytes), times.read).as_nanos()
        };
        assert_eq!(
            [read(100, 4096), read(100, 400), read(100, 0), read(2000, 4000)],
            [1204, 1304, 180, 3080]
        );
        assert_eq!(Times { rate: 0, ..times }.transfer(u64::MAX), Duration::ZERO);
    }
}
