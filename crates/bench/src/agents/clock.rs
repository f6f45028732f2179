//! Comparing the clocks of two machines by round trips.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that never goes back: the system's time when it was made, and the monotonic clock since
/// then. Steps of the system's time during a study do not matter to it, and its difference to that
/// of another machine means something to people.
#[derive(Clone, Copy, Debug)]
pub struct AgentClock {
    begin: Instant,
    /// Nanoseconds since 1970 at `begin`.
    begin_ns: i64,
}

impl AgentClock {
    /// Made now.
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { begin: Instant::now(), begin_ns: i64::try_from(since.as_nanos()).unwrap_or(0) }
    }

    /// Nanoseconds since 1970.
    pub fn now_ns(&self) -> i64 {
        self.of(Instant::now())
    }

    /// The reading of an instant after it was made.
    pub fn of(&self, at: Instant) -> i64 {
        let since =
            i64::try_from(at.saturating_duration_since(self.begin).as_nanos()).unwrap_or(i64::MAX);
        self.begin_ns.saturating_add(since)
    }

    /// The instant of a reading; none if it lies too far away. One before the clock was made is the
    /// instant when it was made.
    pub fn instant(&self, ns: i64) -> Option<Instant> {
        let since = u64::try_from(ns.saturating_sub(self.begin_ns)).unwrap_or(0);
        self.begin.checked_add(Duration::from_nanos(since))
    }
}

impl Default for AgentClock {
    fn default() -> Self {
        Self::new()
    }
}

/// One round trip: our readings when we asked and when the answer was there, and theirs in between.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    /// Our clock, when we asked.
    pub asked_ns: i64,
    /// Their clock, when they answered.
    pub theirs_ns: i64,
    /// Our clock, when the answer was there.
    pub answered_ns: i64,
}

/// Lead of another clock over ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Their reading minus ours, ns.
    pub ns: i64,
    /// Maximum error, whatever part of the trip each way took, ns.
    pub uncertainty_ns: i64,
}

impl Offset {
    /// From round trips; none without any. The shortest decides: the answer was given somewhere
    /// within it, so half of it bounds the error.
    pub fn of(trips: &[Trip]) -> Option<Self> {
        let length = |trip: &Trip| trip.answered_ns.saturating_sub(trip.asked_ns).max(0);
        let best = trips.iter().min_by_key(|trip| length(trip))?;
        let half = length(best) / 2;
        let ns = best.theirs_ns.saturating_sub(best.asked_ns.saturating_add(half));
        // Half of an odd number is rounded down.
        Some(Self { ns, uncertainty_ns: half.saturating_add(1) })
    }

    /// A reading of ours on their clock.
    pub fn to_theirs(self, ours_ns: i64) -> i64 {
        ours_ns.saturating_add(self.ns)
    }

    /// A reading of theirs on our clock.
    pub fn to_ours(self, theirs_ns: i64) -> i64 {
        theirs_ns.saturating_sub(self.ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trip that takes `there` and `back`, to a clock that is `ahead`.
    fn trip(at: i64, there: i64, back: i64, ahead: i64) -> Trip {
        Trip { asked_ns: at, theirs_ns: at + there + ahead, answered_ns: at + there + back }
    }

    #[test]
    fn the_shortest_trip_decides_and_bounds_the_error() {
        for ahead in [-5_000_000_000, 0, 1_700_000_000_123] {
            let trips = [
                trip(1_000, 900, 100, ahead),
                trip(5_000, 30, 10, ahead),
                trip(9_000, 10, 400, ahead),
            ];
            let offset = Offset::of(&trips).unwrap();
            assert!(
                (offset.ns - ahead).abs() <= offset.uncertainty_ns && offset.uncertainty_ns == 21,
                "{offset:?}"
            );
            assert_eq!(offset.to_ours(offset.to_theirs(77)), 77);
        }
        assert_eq!(Offset::of(&[]), None);
    }

    #[test]
    fn whatever_a_peer_answers_is_calculated_without_overflow() {
        for theirs_ns in [i64::MIN, -1, 0, i64::MAX] {
            let offset = Offset::of(&[Trip { asked_ns: 5, theirs_ns, answered_ns: 3 }]).unwrap();
            let _ = (offset.to_ours(i64::MIN), offset.to_theirs(i64::MAX));
            let _ = AgentClock::new().instant(theirs_ns);
        }
    }

    #[test]
    fn a_clock_translates_both_ways() {
        let clock = AgentClock::new();
        let at = Instant::now();
        assert_eq!(clock.instant(clock.of(at)), Some(at));
        assert!(clock.now_ns() >= clock.of(at));
    }
}
