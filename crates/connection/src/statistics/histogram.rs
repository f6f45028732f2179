//! Latency histograms: how values fall into buckets, and sums of buckets that a reader has taken.
//!
//! Buckets are log-linear: each power of two of nanoseconds is divided into [`STEPS`] equal parts.
//! A value is therefore known to within an eighth, and the number of buckets is fixed.

use serde::{Deserialize, Serialize};

/// Equal parts of each power of two.
const STEPS: u32 = 1 << STEP_BITS;
const STEP_BITS: u32 = 3;

/// Shorter times share the first bucket: 1.024 µs.
const FIRST_BITS: u32 = 10;

/// Value of a percentile where the times are too short to be told apart, nanoseconds.
pub const SHORTEST_NS: u64 = 1 << FIRST_BITS;

/// Times from here on share the last bucket: 69 s.
const LAST_BITS: u32 = 36;

/// Buckets of a histogram.
pub const BUCKETS: usize = 2 + ((LAST_BITS - FIRST_BITS) * STEPS) as usize;

/// The bucket of a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket(u8);

impl Bucket {
    /// The bucket of a time in nanoseconds.
    #[inline]
    pub(super) fn of(ns: u64) -> Self {
        Self(bucket(ns) as u8)
    }

    /// Its number, below [`BUCKETS`].
    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0).min(BUCKETS - 1)
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    if ns < 1 << FIRST_BITS {
        return 0;
    }
    let bits = ns.ilog2();
    if bits >= LAST_BITS {
        return BUCKETS - 1;
    }
    let step = (ns >> (bits - STEP_BITS)) as u32 & (STEPS - 1);
    (1 + (bits - FIRST_BITS) * STEPS + step) as usize
}

/// Times in a bucket are below this, nanoseconds. Those of the last have no bound.
fn upper_ns(bucket: usize) -> u64 {
    if bucket == 0 {
        return 1 << FIRST_BITS;
    }
    let (bits, step) = ((bucket as u32 - 1) / STEPS, (bucket as u32 - 1) % STEPS);
    (u64::from(STEPS) + u64::from(step) + 1) << (FIRST_BITS + bits - STEP_BITS)
}

/// Times counted by bucket. As JSON: only buckets that are not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Sum of all times, nanoseconds.
    pub sum_ns: u64,
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { sum_ns: 0, counts: Box::new([0; BUCKETS]) }
    }
}

impl Histogram {
    /// Adds `n` times of a bucket.
    pub(super) fn add(&mut self, bucket: usize, n: u64) {
        self.counts[bucket] = self.counts[bucket].wrapping_add(n);
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        self.counts
            .iter_mut()
            .zip(other.counts.iter())
            .for_each(|(to, from)| *to = to.wrapping_add(*from));
    }

    /// The times counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since.sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
        since
            .counts
            .iter_mut()
            .zip(earlier.counts.iter())
            .for_each(|(to, from)| *to = to.saturating_sub(*from));
        since
    }

    /// Returns the number of counted times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The mean, nanoseconds; 0 without any.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count()).unwrap_or(0)
    }

    /// The time that `percent` of all times do not exceed, to within a bucket: the bucket's upper
    /// bound in nanoseconds. 0 without any.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let count = self.count();
        if count == 0 {
            return 0;
        }
        let rank = ((count as f64 * percent / 100.0).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        let reaches = |n: &u64| {
            seen += n;
            seen >= rank
        };
        upper_ns(self.counts.iter().position(reaches).unwrap_or(BUCKETS - 1))
    }

    /// Returns the number of times below 2 to the power of `bits`, nanoseconds, for a power of at
    /// least 10.
    pub fn below_power(&self, bits: u32) -> u64 {
        let end = 1 + (bits.clamp(FIRST_BITS, LAST_BITS) - FIRST_BITS) * STEPS;
        self.counts[..end as usize].iter().sum()
    }
}

/// The JSON of a [`Histogram`].
#[derive(Serialize, Deserialize)]
struct Sparse {
    sum_ns: u64,
    mean_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    /// Upper bound in nanoseconds, and number of times.
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let used = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        let sparse = Sparse {
            sum_ns: self.sum_ns,
            mean_ns: self.mean_ns(),
            p50_ns: self.percentile_ns(50.0),
            p90_ns: self.percentile_ns(90.0),
            p99_ns: self.percentile_ns(99.0),
            p999_ns: self.percentile_ns(99.9),
            buckets: used.map(|(bucket, n)| (upper_ns(bucket), *n)).collect(),
        };
        sparse.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Sparse { sum_ns, buckets, .. } = Sparse::deserialize(from)?;
        let mut histogram = Self { sum_ns, ..Self::default() };
        for (upper, n) in buckets {
            histogram.add(bucket(upper.saturating_sub(1)), n);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_bucket_whose_bounds_hold_it() {
        let times = (0..40)
            .flat_map(|bits| [1_u64 << bits, (1 << bits) + 1, (2 << bits) - 1, (3 << bits) / 2]);
        for ns in times {
            let at = bucket(ns);
            assert!(at < BUCKETS, "{ns}");
            assert!(
                at == BUCKETS - 1 || ns < upper_ns(at),
                "{ns} is below the upper bound of {at}"
            );
            assert!(at == 0 || ns >= upper_ns(at - 1), "{ns} is not below that of the one before");
        }
        let bounds: Vec<u64> = (0..BUCKETS).map(upper_ns).collect();
        assert!(bounds.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn percentiles_are_right_to_an_eighth() {
        let mut histogram = Histogram::default();
        for us in 1..=1000_u64 {
            histogram.add(bucket(us * 1000), 1);
            histogram.sum_ns += us * 1000;
        }
        assert_eq!((histogram.count(), histogram.mean_ns()), (1000, 500_500));
        for (percent, us) in [(50.0, 500), (90.0, 900), (99.0, 990), (100.0, 1000)] {
            let ns = histogram.percentile_ns(percent);
            assert!((us * 1000..=us * 1125).contains(&ns), "{percent} %: {ns}");
        }
        assert_eq!(histogram.below_power(10), 1, "one of 1 µs");
        assert_eq!(histogram.below_power(20), 1000);
        assert_eq!(Histogram::default().percentile_ns(50.0), 0);
    }

    #[test]
    fn json_holds_all_buckets_and_differences_are_those_of_the_buckets() {
        let mut before = Histogram::default();
        (0..BUCKETS).for_each(|at| before.add(at, at as u64 % 3));
        before.sum_ns = 7;
        let read: Histogram =
            serde_json::from_str(&serde_json::to_string(&before).unwrap()).unwrap();
        assert_eq!(read, before);
        let mut after = before.clone();
        after.merge(&before);
        assert_eq!(after.since(&before), before);
    }
}
