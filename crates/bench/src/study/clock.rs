//! How a study keeps to its time: the time that is left is divided by what is left to measure, again before each measurement.

use core::time::Duration;
use std::time::Instant;

/// Bounds of one measurement, warm-up included. Shorter ones say nothing, longer ones no more.
const SLOT_MIN: Duration = Duration::from_millis(40);
const SLOT_MAX: Duration = Duration::from_secs(3);

/// The part of a measurement that is warm-up.
const WARM_UP: f64 = 0.25;

/// The time of a study.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    budget: Duration,
    /// What a measurement takes beyond its own time: threads, connections. Learnt as it goes.
    overhead: Duration,
}

/// The time of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Without measuring.
    pub warm_up: Duration,
    /// Measuring.
    pub run: Duration,
}

impl Slot {
    /// One that measures for so long.
    pub fn measuring(run: Duration) -> Self {
        let slot = run.div_f64(1.0 - WARM_UP).clamp(SLOT_MIN, SLOT_MAX);
        let warm_up = slot.mul_f64(WARM_UP);
        Self { warm_up, run: slot - warm_up }
    }
}

impl Clock {
    /// Starts now.
    pub fn start(budget: Duration) -> Self {
        Self { start: Instant::now(), budget, overhead: Duration::from_millis(10) }
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

    /// Until the budget is used up.
    pub fn left(&self) -> Duration {
        self.budget.saturating_sub(self.elapsed())
    }

    /// How much of the budget is used, 0 to 1.
    pub fn fraction(&self) -> f64 {
        (self.elapsed().as_secs_f64() / self.budget.as_secs_f64()).min(1.0)
    }

    /// The time for the next of `measurements` that are to fit into what is left, `reserve` (0 to 1) of the budget apart.
    pub fn slot(&self, measurements: usize, reserve: f64) -> Slot {
        let left = self.left().saturating_sub(self.budget.mul_f64(reserve));
        self.divide(left, measurements)
    }

    /// How many measurements of the shortest kind fit into what is left, `reserve` (0 to 1) of the budget apart.
    pub fn fitting(&self, reserve: f64) -> usize {
        let left = self.left().saturating_sub(self.budget.mul_f64(reserve));
        left.div_duration_f64(SLOT_MIN + self.overhead) as usize
    }

    /// How many measurements of such a length fit into what is left.
    pub fn fitting_of(&self, slot: Slot) -> usize {
        self.left().div_duration_f64(slot.warm_up + slot.run + self.overhead) as usize
    }

    fn divide(&self, left: Duration, measurements: usize) -> Slot {
        let each = left / u32::try_from(measurements.max(1)).unwrap_or(u32::MAX);
        Slot::measuring(each.saturating_sub(self.overhead).mul_f64(1.0 - WARM_UP))
    }

    /// Learns what a measurement that was given `slot` took in all.
    pub fn learn(&mut self, slot: Slot, took: Duration) {
        let overhead = took.saturating_sub(slot.warm_up + slot.run);
        self.overhead = (self.overhead * 7 + overhead) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_and_overhead_learnt() {
        let mut clock = Clock::start(Duration::from_secs(100));
        let slot = clock.divide(Duration::from_secs(100), 100);
        assert_eq!(slot.warm_up + slot.run, Duration::from_millis(990));
        assert_eq!(slot.warm_up * 3, slot.run);
        for _ in 0..100 {
            clock.learn(slot, Duration::from_millis(1090));
        }
        let slot = clock.divide(Duration::from_secs(100), 100);
        assert!(slot.warm_up + slot.run < Duration::from_millis(902));
    }

    #[test]
    fn no_measurement_is_too_short_or_too_long() {
        let clock = Clock::start(Duration::from_secs(1));
        let length = |left, n| {
            let slot = clock.divide(Duration::from_secs(left), n);
            slot.warm_up + slot.run
        };
        assert_eq!((length(0, 10), length(100_000, 1)), (SLOT_MIN, SLOT_MAX));
        assert!(clock.slot(5, 2.0).run < SLOT_MIN);
        assert_eq!(clock.fitting(1.0), 0);
        assert!(clock.fitting(0.0) > clock.fitting_of(clock.divide(Duration::from_secs(1), 1)));
    }
}
