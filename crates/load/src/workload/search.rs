//! The greatest depth at which latency keeps a limit: `latency_target`.

use core::time::Duration;
use weft_io::Time;

/// `latency_target`: the limit, and how depths are tried, from 1 to the job's `iodepth`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyTarget {
    /// `latency_target`: the longest that an operation may take.
    pub most: Duration,
    /// `latency_window`: how long a depth is tried.
    pub window: Duration,
    /// `latency_percentile`: how many of 100 operations have to keep the limit.
    pub percent: f64,
    /// `latency_run`: go on when the depth is found, and look for another one if it no longer keeps
    /// the limit. Otherwise the job ends then.
    pub runs_on: bool,
}

/// What a look at the operations tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The search goes on, perhaps with another depth.
    GoesOn,
    /// The depth is found, and the job ends.
    Found,
    /// Not even one operation at a time keeps the limit.
    OutOfReach,
}

/// Windows after which a depth that kept the limit may grow again.
const RETRY: u32 = 8;

/// Looks for the depth.
#[derive(Debug)]
pub(super) struct Search {
    target: LatencyTarget,
    depth_max: u32,
    depth: u32,
    /// The greatest depth that kept the limit; 0: none yet.
    good: u32,
    /// The smallest one that did not.
    bad: Option<u32>,
    /// When the window began.
    since: Time,
    /// Operations of the window, and those of them that took too long.
    ios: u64,
    late: u64,
    /// Windows in a row that changed nothing.
    kept: u32,
}

impl Search {
    /// For a job that starts now; `None` if it has no target.
    pub fn new(target: Option<LatencyTarget>, depth_max: u32, now: Time) -> Option<Self> {
        let target = target?;
        let (good, bad, ios, late, kept) = (0, None, 0, 0, 0);
        Some(Self { target, depth_max, depth: 1, good, bad, since: now, ios, late, kept })
    }

    /// Operations that may be in flight.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// When the window ends.
    pub fn due(&self) -> Time {
        self.since + self.target.window
    }

    /// Counts an operation. Those of an earlier window do not count for the depth.
    pub fn ended(&mut self, begun: Time, took: Duration) {
        if begun >= self.since {
            self.ios += 1;
            self.late += u64::from(took > self.target.most);
        }
    }

    /// Judges the window if it is over.
    pub fn look(&mut self, now: Time) -> Look {
        // Where all have to keep the limit, one that does not decides.
        let is_lost = self.late > 0 && self.target.percent >= 100.0;
        if !is_lost && (now < self.due() || self.ios == 0) {
            return Look::GoesOn;
        }
        let in_time = (self.ios - self.late) as f64 * 100.0 / self.ios as f64;
        let look = if in_time >= self.target.percent { self.raise() } else { self.lower() };
        (self.since, self.ios, self.late) = (now, 0, 0);
        look
    }

    fn raise(&mut self) -> Look {
        self.good = self.depth;
        self.depth = match self.bad {
            Some(bad) => u32::midpoint(self.good, bad),
            None => self.depth.saturating_mul(2).min(self.depth_max),
        };
        if self.depth != self.good {
            self.kept = 0;
            return Look::GoesOn;
        }
        if !self.target.runs_on {
            return Look::Found;
        }
        self.kept += 1;
        if self.kept >= RETRY {
            self.kept = 0;
            self.bad = self.bad.map(|bad| bad + 1).filter(|bad| *bad <= self.depth_max);
        }
        Look::GoesOn
    }

    fn lower(&mut self) -> Look {
        self.kept = 0;
        if self.depth == 1 {
            return if self.target.runs_on { Look::GoesOn } else { Look::OutOfReach };
        }
        self.bad = Some(self.depth);
        if self.good >= self.depth {
            self.good = self.depth / 2;
        }
        self.depth = u32::midpoint(self.good, self.depth).max(1);
        Look::GoesOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device at which `n` operations in flight take `n` times so many microseconds.
    struct Slow(u64);

    impl Slow {
        /// The depth after some windows of 10 ms, or how the search ended.
        fn search(&self, search: &mut Search, windows: u64) -> Look {
            for _ in 0..windows {
                let took = Duration::from_micros(self.0 * u64::from(search.depth()));
                for _ in 0..100 {
                    search.ended(search.since, took);
                }
                match search.look(search.due()) {
                    Look::GoesOn => {}
                    look => return look,
                }
            }
            Look::GoesOn
        }
    }

    fn search(percent: f64, runs_on: bool) -> Search {
        let (most, window) = (Duration::from_micros(100), Duration::from_millis(10));
        let target = LatencyTarget { most, window, percent, runs_on };
        Search::new(Some(target), 64, Time::ZERO).unwrap()
    }

    #[test]
    fn the_greatest_depth_is_found() {
        for (micros, depth) in [(10, 10), (1, 64), (100, 1), (3, 33), (49, 2)] {
            let mut search = search(99.0, false);
            assert_eq!(
                (Slow(micros).search(&mut search, 50), search.depth()),
                (Look::Found, depth)
            );
        }
        assert_eq!(Slow(101).search(&mut search(99.0, false), 50), Look::OutOfReach);
        assert!(Search::new(None, 64, Time::ZERO).is_none());
    }

    #[test]
    fn a_search_that_goes_on_follows_the_device() {
        let mut search = search(100.0, true);
        for (micros, depth) in [(10, 10), (25, 4), (200, 1), (50, 2)] {
            assert_eq!(Slow(micros).search(&mut search, 200), Look::GoesOn);
            // It tries the next depth now and then.
            assert!([depth, depth + 1].contains(&search.depth()), "{micros}: {search:?}");
        }
    }

    #[test]
    fn some_operations_may_be_late() {
        let (late, in_time) = (Duration::from_millis(1), Duration::from_micros(1));
        for (percent, depth) in [(100.0, 1), (98.0, 4)] {
            let mut search = search(percent, true);
            search.raise();
            (0..99).for_each(|_| search.ended(Time::ZERO, in_time));
            search.ended(Time::ZERO, late);
            assert_eq!((search.look(search.due()), search.depth()), (Look::GoesOn, depth));
        }
        // What began at another depth does not count.
        let mut search = search(100.0, false);
        search.since = Time::from_nanos(7);
        search.ended(Time::ZERO, late);
        assert_eq!((search.ios, search.look(search.due())), (0, Look::GoesOn));
    }
}
