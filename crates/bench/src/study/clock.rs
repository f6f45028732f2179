//! The time of a study, and of a measurement.

use core::time::Duration;
use std::time::Instant;

/// Bounds of one measurement, warm-up included. Shorter ones show nothing, and longer ones show
/// nothing further.
const SLOT_MIN: Duration = Duration::from_millis(40);
const SLOT_MAX: Duration = Duration::from_secs(3);

/// The part of a measurement that is warm-up.
const WARM_UP: f64 = 0.25;

/// The time of a study.
#[derive(Debug)]
pub struct StudyClock {
    start: Instant,
    budget: Duration,
    /// When it is likely to end.
    expected: Duration,
    /// Time of a measurement beyond its own: threads, connections. Learnt as it goes.
    overhead: Duration,
}

/// The time of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSlot {
    /// Without measuring.
    pub warm_up: Duration,
    /// Measuring.
    pub run: Duration,
}

impl TimeSlot {
    /// Returns a slot that measures for `run`.
    pub fn measuring(run: Duration) -> Self {
        let slot = run.div_f64(1.0 - WARM_UP).clamp(SLOT_MIN, SLOT_MAX);
        let warm_up = slot.mul_f64(WARM_UP);
        Self { warm_up, run: slot - warm_up }
    }
}

impl StudyClock {
    /// Starts now.
    pub fn start(budget: Duration) -> Self {
        Self {
            start: Instant::now(),
            budget,
            expected: budget,
            overhead: Duration::from_millis(10),
        }
    }

    /// When it started.
    pub fn started(&self) -> Instant {
        self.start
    }

    /// Since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The time of all.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// Until its likely end.
    pub fn left(&self) -> Duration {
        self.expected.saturating_sub(self.elapsed())
    }

    /// The used part of the time until its likely end, 0 to 1.
    pub fn fraction(&self) -> f64 {
        (self.elapsed().as_secs_f64() / self.expected.as_secs_f64()).min(1.0)
    }

    /// Time of a measurement beyond its own.
    pub fn overhead(&self) -> Duration {
        self.overhead
    }

    /// It will end then, as far as is known.
    pub fn expect(&mut self, end: Duration) {
        self.expected = end;
    }

    /// Learns what a measurement that was given `slot` took in all.
    pub fn learn(&mut self, slot: TimeSlot, took: Duration) {
        let overhead = took.saturating_sub(slot.warm_up + slot.run);
        self.overhead = (self.overhead * 7 + overhead) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_measurement_is_too_short_or_too_long() {
        let length = |ms| {
            let slot = TimeSlot::measuring(Duration::from_millis(ms));
            (slot.warm_up + slot.run, slot.warm_up * 3 == slot.run)
        };
        assert_eq!(
            [0, 300, 100_000].map(length),
            [(SLOT_MIN, true), (Duration::from_millis(400), true), (SLOT_MAX, true)]
        );
    }

    #[test]
    fn what_a_measurement_takes_beyond_its_time_is_learnt() {
        let mut clock = StudyClock::start(Duration::from_secs(100));
        for _ in 0..100 {
            clock
                .learn(TimeSlot::measuring(Duration::from_millis(300)), Duration::from_millis(450));
        }
        assert!(
            clock.overhead() > Duration::from_millis(49)
                && clock.overhead() < Duration::from_millis(51)
        );
        assert!(clock.left() > Duration::from_secs(1));
        clock.expect(Duration::ZERO);
        assert_eq!((clock.left(), clock.fraction()), (Duration::ZERO, 1.0));
    }
}
