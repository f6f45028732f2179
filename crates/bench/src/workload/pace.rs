//! Open-loop pacing: when the next operation is due, whether or not the device keeps up.
//!
//! Each direction has a clock of its own, as fio's `rate_iops` does. An operation that cannot start when it is due, because the
//! queue is full, stays due at that time and its latency counts from there.

use super::spec::{Direction, Rw};
use core::time::Duration;
use weft_io::Time;

/// The schedule of one job.
#[derive(Clone, Debug)]
pub struct Pace {
    per_second: u64,
    start: Time,
    /// Operations begun, of each direction; `None` for those that do not occur.
    begun: [Option<u64>; Direction::ALL.len()],
}

impl Pace {
    /// `per_second` operations (at least 1) of each direction of `rw`, the first at `start`.
    pub fn new(rw: Rw, per_second: u32, start: Time) -> Self {
        Self { per_second: per_second.into(), start, begun: Direction::ALL.map(|d| rw.has(d).then_some(0)) }
    }

    /// The direction that is due next, and when.
    #[inline]
    pub fn next(&self) -> (Direction, Time) {
        let due = |d: &Direction| self.begun[d.index()].map(|begun| (*d, self.due(begun)));
        Direction::ALL.iter().filter_map(due).min_by_key(|(_, at)| *at).unwrap_or((Direction::Read, self.start))
    }

    /// Notes that the operation of [`Pace::next`] has begun.
    #[inline]
    pub fn begin(&mut self, direction: Direction) {
        if let Some(begun) = &mut self.begun[direction.index()] {
            *begun += 1;
        }
    }

    /// Operations that are due before `end` and have not begun.
    pub fn missed(&self, end: Time) -> u64 {
        let due = u128::from(end.as_nanos().saturating_sub(self.start.as_nanos())) * u128::from(self.per_second);
        let due = u64::try_from(due.div_ceil(1_000_000_000)).unwrap_or(u64::MAX);
        self.begun.iter().flatten().map(|begun| due.saturating_sub(*begun)).sum()
    }

    /// When operation number `number` is due: by multiplication, so that rounding does not add up.
    #[inline]
    fn due(&self, number: u64) -> Time {
        let ns = u128::from(number) * 1_000_000_000 / u128::from(self.per_second.max(1));
        self.start + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holds_as_many_as_asked_for() {
        let start = Time::from_nanos(5);
        let mut pace = Pace::new(Rw::RandRead, 3, start);
        let mut due = Vec::new();
        for _ in 0..4 {
            let (direction, at) = pace.next();
            assert_eq!(direction, Direction::Read);
            due.push((at - start).as_nanos());
            pace.begin(direction);
        }
        assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    }

    #[test]
    fn each_direction_of_a_mix_has_the_rate() {
        let mut pace = Pace::new(Rw::RandRw, 10, Time::ZERO);
        let mut counts = [0; 3];
        while pace.next().1 < Time::from_nanos(1_000_000_000) {
            let (direction, _) = pace.next();
            counts[direction.index()] += 1;
            pace.begin(direction);
        }
        assert_eq!(counts, [10, 10, 0]);
        assert_eq!(pace.missed(Time::from_nanos(1_000_000_000)), 0);
        assert_eq!(pace.missed(Time::from_nanos(2_000_000_001)), 22);
    }
}
