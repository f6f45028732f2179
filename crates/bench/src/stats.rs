//! Latency histograms and running moments.
//!
//! Percentiles come from an HDR histogram with [`LATENCY_DIGITS`] significant digits; minimum, maximum, mean and deviation are
//! exact. Recording does not allocate.

use crate::limits::{LATENCY_DIGITS, LATENCY_NS_MAX, LATENCY_NS_MIN};
use hdrhistogram::Histogram;

/// Minimum, maximum, mean and deviation of a sequence of values (Welford's method).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: u64,
    min: f64,
    max: f64,
    mean: f64,
    /// Sum of the squares of the distances from the mean.
    spread: f64,
}

impl Moments {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.add_n(value, 1);
    }

    /// Adds a value `n` times.
    #[inline]
    pub fn add_n(&mut self, value: f64, n: u64) {
        self.merge(&Self { count: n, min: value, max: value, mean: value, spread: 0.0 });
    }

    /// Adds all values of another.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.count += other.count;
        self.mean += distance * theirs / (ours + theirs);
        self.spread += other.spread + distance * distance * ours * theirs / (ours + theirs);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Adds, as fio does, the values of another over the same time: rates of concurrent jobs are summed.
    pub fn add_beside(&mut self, other: &Self) {
        *self = Self {
            count: self.count + other.count,
            min: self.min + other.min,
            max: self.max + other.max,
            mean: self.mean + other.mean,
            spread: self.spread + other.spread,
        };
    }

    /// Values added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The minimum; 0 without values.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The maximum; 0 without values.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The mean; 0 without values.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation of the sample, as fio computes it; 0 for fewer than two values.
    pub fn deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.spread / (self.count - 1) as f64).sqrt() }
    }
}

/// The latencies of one kind of operation, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    /// Sums are integers while recording: a division per operation would be expensive.
    sum: u128,
    squares: f64,
}

impl Latency {
    /// Room for all latencies up to [`LATENCY_NS_MAX`]: about 35 KiB.
    pub fn new() -> Self {
        Self::up_to(LATENCY_NS_MAX)
    }

    /// For operations that do not occur: uses very little memory until another is merged into it.
    pub fn unused() -> Self {
        Self::up_to(2)
    }

    fn up_to(high: u64) -> Self {
        let mut histogram = Histogram::new_with_bounds(LATENCY_NS_MIN, high, LATENCY_DIGITS)
            .expect("bounds and digits are in hdrhistogram's range");
        histogram.auto(true);
        Self { histogram, sum: 0, squares: 0.0 }
    }

    /// Adds one latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Adds a latency that `n` operations had.
    #[inline]
    pub fn record_n(&mut self, ns: u64, n: u64) {
        let ns = ns.min(LATENCY_NS_MAX);
        self.histogram.saturating_record_n(ns, n);
        self.sum += u128::from(ns) * u128::from(n);
        self.squares += (ns as f64) * (ns as f64) * n as f64;
    }

    /// Adds all latencies of another.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("the histogram grows by itself");
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// Latencies recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The shortest, ns; 0 without any.
    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.histogram.lowest_equivalent(self.histogram.min()) }
    }

    /// The longest, ns; 0 without any.
    pub fn max_ns(&self) -> u64 {
        self.histogram.max()
    }

    /// The mean, ns; 0 without any.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// The standard deviation, ns; 0 below two.
    pub fn deviation_ns(&self) -> f64 {
        let (n, mean) = (self.count() as f64, self.mean_ns());
        if n < 2.0 { 0.0 } else { ((self.squares - n * mean * mean).max(0.0) / (n - 1.0)).sqrt() }
    }

    /// The latency, ns, that `percent` % of the operations did not exceed; 0 without any.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        if self.count() == 0 { 0 } else { self.histogram.value_at_percentile(percent) }
    }

    /// Latencies in `low_ns..=high_ns`, at the histogram's resolution.
    pub fn count_between(&self, low_ns: u64, high_ns: u64) -> u64 {
        if self.count() == 0 { 0 } else { self.histogram.count_between(low_ns, high_ns) }
    }

    /// Latencies and how many operations had them, in order: what a distribution is drawn from.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.histogram.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::unused()
    }
}

/// The 95 % confidence interval of the mean of a few values, by Student's t. None for fewer than two.
pub fn confidence(values: &[f64]) -> Option<(f64, f64)> {
    // The 97.5th percentile of t with 1, 2, … degrees of freedom.
    const T: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    let mut moments = Moments::default();
    values.iter().for_each(|&value| moments.add(value));
    let degrees = values.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
    let t = T.get(degrees - 1).copied().unwrap_or(1.96 + 2.8 / degrees as f64);
    let half = t * moments.deviation() / (values.len() as f64).sqrt();
    Some(((moments.mean() - half).max(0.0), moments.mean() + half))
}

/// The median; 0 without values. Sorts its argument.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_however_they_are_merged() {
        let mut all = Moments::default();
        let (mut left, mut right) = (Moments::default(), Moments::default());
        for n in 1..=1000u32 {
            all.add(f64::from(n));
            if n % 3 == 0 { left.add(f64::from(n)) } else { right.add(f64::from(n)) }
        }
        left.merge(&right);
        for moments in [all, left] {
            assert_eq!((moments.count(), moments.min(), moments.max()), (1000, 1.0, 1000.0));
            assert!((moments.mean() - 500.5).abs() < 1e-9);
            assert!((moments.deviation() - 288.819_436).abs() < 1e-5);
        }
        assert_eq!(Moments::default().deviation(), 0.0);
    }

    #[test]
    fn percentiles_are_within_their_digits() {
        let mut latency = Latency::new();
        (1..=100_000).for_each(|n| latency.record(n * 10));
        for percent in [1.0, 50.0, 99.0, 99.99] {
            let (found, exact) = (latency.percentile_ns(percent) as f64, percent * 10_000.0);
            assert!((found - exact).abs() / exact < 0.011, "{percent}: {found} {exact}");
        }
        assert_eq!(latency.min_ns(), 10);
        assert!((latency.mean_ns() - 500_005.0).abs() < 0.1);
        assert!((latency.deviation_ns() - 288_676.0).abs() < 1.0);
    }

    #[test]
    fn extremes_are_kept_and_nothing_is_lost() {
        let mut latency = Latency::new();
        latency.record(0);
        latency.record_n(u64::MAX, 3);
        assert_eq!(latency.count(), 4);
        let mut merged = Latency::unused();
        assert_eq!((merged.count(), merged.percentile_ns(99.0), merged.min_ns()), (0, 0, 0));
        merged.merge(&latency);
        assert_eq!(merged.count(), 4);
        assert!(merged.max_ns() >= LATENCY_NS_MAX);
    }

    #[test]
    fn confidence_is_students() {
        let (low, high) = confidence(&[9.0, 10.0, 11.0]).unwrap();
        assert!((low - 7.516).abs() < 0.001 && (high - 12.484).abs() < 0.001, "{low} {high}");
        assert_eq!((confidence(&[1.0]), confidence(&[4.0; 30])), (None, Some((4.0, 4.0))));
        assert_eq!(confidence(&[1.0, 1000.0]).unwrap().0, 0.0);
    }

    #[test]
    fn median_of_even_and_odd() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&mut []), 0.0);
    }
}
