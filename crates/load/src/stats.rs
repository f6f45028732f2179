//! Latency histograms and running moments.
//!
//! Percentiles come from an HDR histogram with [`LATENCY_DIGITS`] significant digits; minimum,
//! maximum, mean and deviation are exact. Recording does not allocate.

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

    /// Adds, as fio does, the values of another over the same time: rates of concurrent jobs are
    /// summed.
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
pub struct Latencies {
    histogram: Histogram<u64>,
    /// Sums are integers while recording: a division per operation would be expensive.
    sum: u128,
    squares: f64,
}

impl Latencies {
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

impl Default for Latencies {
    fn default() -> Self {
        Self::unused()
    }
}

/// Maximum probability, for each side, that the median lies outside [`median_interval`]: 95 %
/// inside.
const TAIL: f64 = 0.025;

/// The 97.5th percentile of the normal distribution, for so many values that their binomial
/// distribution underflows.
const NORMAL: f64 = 1.96;

/// Minimum number of values for a [`median_interval`].
pub const INTERVAL_VALUES_MIN: usize = 6;

/// The interval that contains the median of the sampled distribution with a probability of at least
/// 95 %, whatever the distribution. It runs between two of the sorted values, which are chosen so
/// that on each side the true median lies outside in at most 2.5 % of all samples (an inverted sign
/// test). None for fewer than [`INTERVAL_VALUES_MIN`] values: even the range of five contains the
/// median in only 93.75 %.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    let inside = if count < 1000 {
        // The number of values below the median has a binomial distribution: the probability of k,
        // and of k or fewer.
        let mut chance = 0.5f64.powi(count as i32);
        let (mut below, mut inside) = (chance, 0);
        while below <= TAIL {
            inside += 1;
            chance *= (count - inside + 1) as f64 / inside as f64;
            below += chance;
        }
        inside
    } else {
        (count as f64 / 2.0 - NORMAL / 2.0 * (count as f64).sqrt()) as usize
    };
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some((*sorted.get(inside.checked_sub(1)?)?, *sorted.get(count - inside)?))
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
        let mut latency = Latencies::new();
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
        let mut latency = Latencies::new();
        latency.record(0);
        latency.record_n(u64::MAX, 3);
        assert_eq!(latency.count(), 4);
        let mut merged = Latencies::unused();
        assert_eq!((merged.count(), merged.percentile_ns(99.0), merged.min_ns()), (0, 0, 0));
        merged.merge(&latency);
        assert_eq!(merged.count(), 4);
        assert!(merged.max_ns() >= LATENCY_NS_MAX);
    }

    /// The ranks of the published tables of the sign test's interval at 95 %.
    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        let ranks =
            |count: u32| median_interval(&(1..=count).rev().map(f64::from).collect::<Vec<_>>());
        for (count, low) in [
            (6, 1),
            (8, 1),
            (9, 2),
            (11, 2),
            (12, 3),
            (15, 4),
            (17, 5),
            (20, 6),
            (25, 8),
            (30, 10),
            (100, 40),
        ] {
            let high = f64::from(count + 1 - low);
            assert_eq!(ranks(count), Some((f64::from(low), high)), "{count} values");
        }
        assert!((0..INTERVAL_VALUES_MIN as u32).all(|count| ranks(count).is_none()));
        // Where the sum of the binomial gives way to the normal distribution, nothing jumps.
        let width = |count| ranks(count).map(|(low, high)| high - low).unwrap();
        assert!((width(999) - width(1000)).abs() <= 3.0, "{} {}", width(999), width(1000));
    }

    #[test]
    fn median_of_even_and_odd() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&mut []), 0.0);
    }
}
