//! Open-loop pacing: the time of the next operation, independent of the device's speed.
//!
//! Each direction has its own clock, as with fio's `rate_iops` and `rate`; the first counts
//! operations, the second bytes. With a total rate there is one clock for all. An operation that
//! cannot start when it is due, because the queue is full, stays due at that time, and its latency
//! counts from then. A direction without a rate is always due.

use super::direction::Direction;
use super::job_spec::{JobSpec, TotalRate};
use crate::random::Pcg;
use core::time::Duration;
use weft_io::Time;

/// The schedule of one job.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    start: Time,
    /// By direction; `None` for those that do not occur.
    clocks: [Option<Clock>; Direction::ALL.len()],
    /// Of all directions, instead of those.
    total: Option<Clock>,
    /// Of random times only, so that addresses do not depend on these.
    rng: Pcg,
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
    /// Nanoseconds after the start at which the next operation is due, if these times are random.
    random: Option<u64>,
}

impl Clock {
    /// When so many operations or bytes are due: by multiplication, so that rounding does not add
    /// up.
    #[inline]
    fn due(&self, start: Time) -> Time {
        let Some(per_second) = self.per_second else { return start };
        let ns = match self.random {
            Some(ns) => u128::from(ns),
            None => u128::from(self.begun) * 1_000_000_000 / u128::from(per_second.max(1)),
        };
        start + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Notes that an operation of so many bytes has begun. A random time to the next one has an
    /// exponential distribution.
    #[inline]
    fn begin(&mut self, bytes: u64, rng: &mut Pcg) {
        let counted = if self.bytes { bytes } else { 1 };
        self.begun += counted;
        if let (Some(ns), Some(per_second)) = (&mut self.random, self.per_second) {
            let mean = counted as f64 * 1e9 / per_second.max(1) as f64;
            // Casting saturates.
            *ns = ns.saturating_add((-(1.0 - rng.unit()).ln() * mean) as u64);
        }
    }

    /// Operations that are due before `ns` and have not begun: on average, if the times are random.
    fn missed(&self, ns: u64) -> u64 {
        let Some(per_second) = self.per_second else { return 0 };
        let operations = |ns: u64| {
            let due = (u128::from(ns) * u128::from(per_second))
                .div_ceil(1_000_000_000 * u128::from(self.mean));
            u64::try_from(due).unwrap_or(u64::MAX)
        };
        match self.random {
            Some(next) => operations(ns.saturating_sub(next)),
            None => operations(ns).saturating_sub(self.begun.div_ceil(self.mean)),
        }
    }
}

impl Pace {
    /// The schedule that `spec` asks for, the first operation at `start`; none where it has no rate
    /// for what it does. `seed` is that of the job.
    pub fn new(spec: &JobSpec, start: Time, seed: u64) -> Option<Self> {
        let clock = |per_second: Option<u64>, bytes: bool, mean: u64| Clock {
            per_second,
            bytes,
            begun: 0,
            mean: if bytes { mean.max(1) } else { 1 },
            random: spec.poisson.then_some(0),
        };
        let directions = || Direction::ALL.into_iter().filter(|d| spec.rw.has(*d));
        let total = spec.rate_total.map(|rate| match rate {
            TotalRate::Iops(rate) => clock(Some(rate.into()), false, 1),
            TotalRate::Bytes(rate) => {
                let sum: u64 = directions().map(|d| spec.mean_bytes(d)).sum();
                clock(Some(rate), true, sum / directions().count().max(1) as u64)
            }
        });
        let clocks = Direction::ALL.map(|direction| {
            let bytes = spec.rate[direction.index()];
            let iops = spec.rate_iops[direction.index()].map(u64::from);
            let mean = spec.mean_bytes(direction);
            spec.rw.has(direction).then(|| clock(bytes.or(iops), bytes.is_some(), mean))
        });
        let is_paced = clocks.iter().flatten().any(|clock| clock.per_second.is_some());
        let rng = Pcg::new(!seed);
        (is_paced || total.is_some()).then_some(Self { start, clocks, total, rng })
    }

    /// The direction that is due next, and when; no direction if there is one clock for all.
    #[inline]
    pub fn next(&self) -> (Option<Direction>, Time) {
        if let Some(total) = &self.total {
            return (None, total.due(self.start));
        }
        let due = |d: Direction| self.clocks[d.index()].map(|clock| (d, clock.due(self.start)));
        let next = Direction::ALL.into_iter().filter_map(due).min_by_key(|(_, at)| *at);
        next.map_or((Some(Direction::Read), self.start), |(d, at)| (Some(d), at))
    }

    /// Returns the direction without a rate, if the other one has a rate.
    pub fn free(&self) -> Option<Direction> {
        let free =
            |d: &Direction| self.clocks[d.index()].is_some_and(|clock| clock.per_second.is_none());
        Direction::ALL.into_iter().find(free).filter(|_| self.total.is_none())
    }

    /// When `direction` is due next.
    pub fn due(&self, direction: Direction) -> Time {
        self.clocks[direction.index()].map_or(self.start, |clock| clock.due(self.start))
    }

    /// Notes that an operation of `bytes` bytes has begun.
    #[inline]
    pub fn begin(&mut self, direction: Direction, bytes: u64) {
        let clock = match &mut self.total {
            Some(total) => Some(total),
            None => self.clocks[direction.index()].as_mut(),
        };
        if let Some(clock) = clock {
            clock.begin(bytes, &mut self.rng);
        }
    }

    /// Moves all that is still due by a pause.
    pub fn delay(&mut self, pause: Duration) {
        self.start = self.start + pause;
    }

    /// Operations that are due before `end` and have not begun.
    pub fn missed(&self, end: Time) -> u64 {
        let ns = end.as_nanos().saturating_sub(self.start.as_nanos());
        match &self.total {
            Some(total) => total.missed(ns),
            None => self.clocks.iter().flatten().map(|clock| clock.missed(ns)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::direction::Rw;
    use super::*;

    fn iops(rw: Rw, rate: u32, start: Time) -> Pace {
        let spec = JobSpec { rw, rate_iops: [Some(rate); 3], ..JobSpec::default() };
        Pace::new(&spec, start, 4).unwrap()
    }

    fn count(pace: &mut Pace, until: u64) -> [u32; 3] {
        let mut counts = [0; 3];
        while pace.next().1 < Time::from_nanos(until) {
            let direction = pace.next().0.unwrap_or(Direction::Read);
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
            assert_eq!(direction, Some(Direction::Read));
            due.push((at - start).as_nanos());
            pace.begin(Direction::Read, 4096);
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
        let mut pace = Pace::new(&spec, Time::ZERO, 4).unwrap();
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
        let mut pace = Pace::new(&spec, Time::ZERO, 4).unwrap();
        pace.begin(Direction::Write, 4096);
        assert_eq!((pace.free(), pace.next().1), (Some(Direction::Read), Time::ZERO));
        assert_eq!(pace.due(Direction::Write), Time::from_nanos(1_000_000_000));
        let of_writes = JobSpec { rate: [None, Some(1), None], ..JobSpec::default() };
        assert!(Pace::new(&of_writes, Time::ZERO, 4).is_none());
    }

    #[test]
    fn each_direction_may_have_a_rate_of_its_own() {
        let rate_iops = [Some(90), Some(10), None];
        let spec = JobSpec { rw: Rw::RandRw, rate_iops, ..JobSpec::default() };
        let mut pace = Pace::new(&spec, Time::ZERO, 4).unwrap();
        assert_eq!(count(&mut pace, 1_000_000_000), [90, 10, 0]);
    }

    #[test]
    fn a_total_rate_is_that_of_all_directions() {
        let spec = |rate| JobSpec { rw: Rw::RandRw, rate_total: Some(rate), ..JobSpec::default() };
        for rate in [TotalRate::Iops(100), TotalRate::Bytes(409_600)] {
            let mut pace = Pace::new(&spec(rate), Time::ZERO, 4).unwrap();
            assert_eq!((pace.next().0, pace.free()), (None, None));
            assert_eq!(count(&mut pace, 1_000_000_000), [100, 0, 0], "{rate:?}");
            assert_eq!(pace.missed(Time::from_nanos(1_500_000_000)), 50);
        }
    }

    #[test]
    fn random_times_have_the_rate_and_the_spread_of_independent_clients() {
        let rate_iops = [Some(10_000); 3];
        let spec = JobSpec { rw: Rw::RandRead, rate_iops, poisson: true, ..JobSpec::default() };
        let mut pace = Pace::new(&spec, Time::ZERO, 4).unwrap();
        let mut gaps = Vec::new();
        for _ in 0..50_000 {
            let (_, before) = pace.next();
            pace.begin(Direction::Read, 4096);
            gaps.push((pace.next().1 - before).as_nanos() as f64);
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The standard deviation of an exponential distribution is its mean.
        assert!((mean / 100_000.0 - 1.0).abs() < 0.03, "{mean}");
        assert!((square.sqrt() / mean - 1.0).abs() < 0.05, "{square}");
    }

    #[test]
    fn a_pause_moves_what_is_due() {
        let mut pace = iops(Rw::RandRead, 10, Time::ZERO);
        pace.begin(Direction::Read, 4096);
        pace.delay(Duration::from_secs(2));
        assert_eq!(pace.next().1, Time::from_nanos(2_100_000_000));
    }
}
