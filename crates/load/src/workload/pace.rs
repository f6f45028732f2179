//! Open-loop pacing: the time of the next operation, independent of the device's speed.
//!
//! Each direction has its own clock, as with fio's `rate_iops` and `rate`; the first counts
//! operations, the second bytes. An operation that cannot start when it is due, because the queue
//! is full, stays due at that time, and its latency counts from then. A direction without a rate is
//! always due.

use super::direction::Direction;
use super::spec::JobSpec;
use core::time::Duration;
use weft_io::Time;

/// The schedule of one job.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    start: Time,
    /// By direction; `None` for those that do not occur.
    clocks: [Option<Clock>; Direction::ALL.len()],
}

/// The clock of a direction.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Operations or bytes per second; `None`: as fast as possible.
    per_second: Option<u64>,
    /// What an operation counts: 1, or its bytes.
    bytes: bool,
    /// What has begun, of the same.
    begun: u64,
    /// What an operation counts on average, at least 1.
    mean: u64,
}

impl Clock {
    /// When so many operations or bytes are due: by multiplication, so that rounding does not add
    /// up.
    #[inline]
    fn due(&self, start: Time) -> Time {
        let Some(per_second) = self.per_second else { return start };
        let ns = u128::from(self.begun) * 1_000_000_000 / u128::from(per_second.max(1));
        start + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Operations that are due before `ns` and have not begun.
    fn missed(&self, ns: u64) -> u64 {
        let Some(per_second) = self.per_second else { return 0 };
        let due = (u128::from(ns) * u128::from(per_second))
            .div_ceil(1_000_000_000 * u128::from(self.mean));
        u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.begun.div_ceil(self.mean))
    }
}

impl Pace {
    /// The schedule that `spec` asks for, the first operation at `start`; none where it has no rate
    /// for what it does.
    pub fn new(spec: &JobSpec, start: Time) -> Option<Self> {
        let clock = |direction: Direction| {
            let bytes = spec.rate[direction.index()];
            let mean = if bytes.is_some() { spec.mean_bytes(direction).max(1) } else { 1 };
            let per_second = bytes.or(spec.rate_iops.map(u64::from));
            spec.rw.has(direction).then_some(Clock {
                per_second,
                bytes: bytes.is_some(),
                begun: 0,
                mean,
            })
        };
        let clocks = Direction::ALL.map(clock);
        clocks
            .iter()
            .flatten()
            .any(|clock| clock.per_second.is_some())
            .then_some(Self { start, clocks })
    }

    /// The direction that is due next, and when.
    #[inline]
    pub fn next(&self) -> (Direction, Time) {
        let due = |d: &Direction| self.clocks[d.index()].map(|clock| (*d, clock.due(self.start)));
        Direction::ALL
            .iter()
            .filter_map(due)
            .min_by_key(|(_, at)| *at)
            .unwrap_or((Direction::Read, self.start))
    }

    /// The direction that has no rate beside one that has.
    pub fn free(&self) -> Option<Direction> {
        let free =
            |d: &Direction| self.clocks[d.index()].is_some_and(|clock| clock.per_second.is_none());
        Direction::ALL.into_iter().find(free)
    }

    /// When `direction` is due next.
    pub fn due(&self, direction: Direction) -> Time {
        self.clocks[direction.index()].map_or(self.start, |clock| clock.due(self.start))
    }

    /// Notes that an operation of so many bytes has begun.
    #[inline]
    pub fn begin(&mut self, direction: Direction, bytes: u64) {
        if let Some(clock) = &mut self.clocks[direction.index()] {
            clock.begun += if clock.bytes { bytes } else { 1 };
        }
    }

    /// Operations that are due before `end` and have not begun.
    pub fn missed(&self, end: Time) -> u64 {
        let ns = end.as_nanos().saturating_sub(self.start.as_nanos());
        self.clocks.iter().flatten().map(|clock| clock.missed(ns)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::direction::Rw;
    use super::*;

    fn iops(rw: Rw, rate: u32, start: Time) -> Pace {
        Pace::new(&JobSpec { rw, rate_iops: Some(rate), ..JobSpec::default() }, start).unwrap()
    }

    fn count(pace: &mut Pace, until: u64) -> [u32; 3] {
        let mut counts = [0; 3];
        while pace.next().1 < Time::from_nanos(until) {
            let (direction, _) = pace.next();
            counts[direction.index()] += 1;
            pace.begin(direction, 4096);
        }
        counts
    }

    #[test]
    fn a_second_holds_as_many_as_asked_for() {
        let start = Time::from_nanos(5);
        let mut pace = iops(Rw::RandRead, 3, start);
        let mut due = Vec::new();
        for _ in 0..4 {
            let (direction, at) = pace.next();
            assert_eq!(direction, Direction::Read);
            due.push((at - start).as_nanos());
            pace.begin(direction, 4096);
        }
        assert_eq!(due, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    }

    #[test]
    fn each_direction_of_a_mix_has_the_rate() {
        let mut pace = iops(Rw::RandRw, 10, Time::ZERO);
        assert_eq!(count(&mut pace, 1_000_000_000), [10, 10, 0]);
        assert_eq!(pace.missed(Time::from_nanos(1_000_000_000)), 0);
        assert_eq!(pace.missed(Time::from_nanos(2_000_000_001)), 22);
    }

    #[test]
    fn a_rate_in_bytes_counts_bytes() {
        let spec = JobSpec {
            rw: Rw::RandRw,
            rate: [Some(40_960), Some(8192), None],
            ..JobSpec::default()
        };
        let mut pace = Pace::new(&spec, Time::ZERO).unwrap();
        assert_eq!(count(&mut pace, 1_000_000_000), [10, 2, 0]);
        assert_eq!(
            (
                pace.missed(Time::from_nanos(1_000_000_000)),
                pace.missed(Time::from_nanos(2_000_000_000))
            ),
            (0, 12)
        );
        assert_eq!(pace.free(), None);
    }

    #[test]
    fn what_has_no_rate_is_always_due() {
        let spec = JobSpec { rw: Rw::RandRw, rate: [None, Some(4096), None], ..JobSpec::default() };
        let mut pace = Pace::new(&spec, Time::ZERO).unwrap();
        pace.begin(Direction::Write, 4096);
        assert_eq!((pace.free(), pace.next().1), (Some(Direction::Read), Time::ZERO));
        assert_eq!(pace.due(Direction::Write), Time::from_nanos(1_000_000_000));
        assert!(
            Pace::new(&JobSpec { rate: [None, Some(1), None], ..JobSpec::default() }, Time::ZERO)
                .is_none()
        );
    }
}
