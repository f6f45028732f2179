//! The least rate of a job (`rate_min`, `rate_iops_min`): one that falls below it ends.

use super::direction::Direction;
use core::time::Duration;
use weft_io::Time;

/// Time after the start in which rates are not looked at, as in fio.
const SETTLE: Duration = Duration::from_secs(2);

/// `rate_min`, `rate_iops_min` and `rate_cycle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateFloor {
    /// `rate_min`: bytes per second, by [`Direction::index`].
    pub bytes: [Option<u64>; 3],
    /// `rate_iops_min`: operations per second.
    pub iops: [Option<u32>; 3],
    /// `rate_cycle`: time over which rates are averaged.
    pub cycle: Duration,
}

impl Default for RateFloor {
    fn default() -> Self {
        Self { bytes: [None; 3], iops: [None; 3], cycle: Duration::from_secs(1) }
    }
}

impl RateFloor {
    /// Returns whether there is a least rate.
    pub fn is_set(&self) -> bool {
        self.bytes.iter().any(Option::is_some) || self.iops.iter().any(Option::is_some)
    }
}

/// Watches the rates of a job.
#[derive(Debug)]
pub(super) struct Watch {
    floor: RateFloor,
    since: Time,
    due: Time,
    /// Operations and bytes of each direction at `since`.
    before: [(u64, u64); 3],
}

impl Watch {
    /// For a job whose measurement begins now; `None` if it has no least rate.
    pub fn new(floor: RateFloor, now: Time) -> Option<Self> {
        let due = now + SETTLE + floor.cycle;
        floor.is_set().then_some(Self { floor, since: now, due, before: [(0, 0); 3] })
    }

    /// When rates are looked at next.
    pub fn due(&self) -> Time {
        self.due
    }

    /// The direction that is too slow, and its rate, given its operations and bytes so far.
    pub fn check(&mut self, now: Time, counts: [(u64, u64); 3]) -> Option<(Direction, f64)> {
        if now < self.due {
            return None;
        }
        let seconds = (now - self.since).as_secs_f64();
        let slow = Direction::ALL.into_iter().find_map(|direction| {
            let d = direction.index();
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            let (ios, bytes) =
                (rate(counts[d].0, self.before[d].0), rate(counts[d].1, self.before[d].1));
            let by_bytes = self.floor.bytes[d].filter(|least| bytes < *least as f64).map(|_| bytes);
            let by_ios = self.floor.iops[d].filter(|least| ios < f64::from(*least)).map(|_| ios);
            by_bytes.or(by_ios).map(|rate| (direction, rate))
        });
        (self.since, self.due, self.before) = (now, now + self.floor.cycle, counts);
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_below_the_least_is_found_after_the_start() {
        let at = |s: u64| Time::from_nanos(s * 1_000_000_000);
        let floor = RateFloor { iops: [Some(100), None, None], ..RateFloor::default() };
        let mut watch = Watch::new(floor, at(0)).unwrap();
        assert_eq!(watch.check(at(2), [(0, 0); 3]), None);
        assert_eq!(watch.check(at(3), [(300, 0), (0, 0), (0, 0)]), None);
        assert_eq!(watch.due(), at(4));
        let slow = watch.check(at(4), [(399, 0), (0, 0), (0, 0)]);
        assert_eq!(slow, Some((Direction::Read, 99.0)));
        let bytes = RateFloor { bytes: [None, Some(1000), None], ..RateFloor::default() };
        let mut watch = Watch::new(bytes, at(0)).unwrap();
        assert_eq!(
            watch.check(at(4), [(0, 0), (1, 3999), (0, 0)]),
            Some((Direction::Write, 999.75))
        );
        assert!(Watch::new(RateFloor::default(), at(0)).is_none());
    }
}
