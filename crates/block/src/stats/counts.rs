//! Counters by kind of operation.

use crate::op::OpKind;
use crate::units::format_size;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

/// Bins of each power of two: a percentile is at most an eighth too high.
const BINS_PER_POWER: usize = 8;
/// Powers of two of nanoseconds: up to 2 to the 40th, 18 minutes.
const POWERS: usize = 40;
const BINS: usize = POWERS * BINS_PER_POWER;

const KINDS: [&str; 4] = ["read", "write", "flush", "other"];

const fn index(kind: OpKind) -> usize {
    match kind {
        OpKind::Read => 0,
        OpKind::Write { .. } => 1,
        OpKind::Flush => 2,
        _ => 3,
    }
}

/// The counts of one queue: only its thread writes, any thread reads.
#[derive(Default)]
pub(super) struct Counts([KindCounts; KINDS.len()]);

struct KindCounts {
    operations: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    most: AtomicU64,
    bins: [AtomicU64; BINS],
}

impl Default for KindCounts {
    fn default() -> Self {
        let zero = AtomicU64::default;
        let bins = [const { AtomicU64::new(0) }; BINS];
        Self {
            operations: zero(),
            failed: zero(),
            bytes: zero(),
            nanos: zero(),
            most: zero(),
            bins,
        }
    }
}

/// Totals of the operations of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindTotals {
    /// Operations that completed.
    pub operations: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Bytes of the blocks of those that succeeded.
    pub bytes: u64,
    /// Sum of the times, in nanoseconds.
    nanos: u64,
    most: u64,
    bins: Vec<u64>,
}

impl Default for KindTotals {
    fn default() -> Self {
        Self { operations: 0, failed: 0, bytes: 0, nanos: 0, most: 0, bins: vec![0; BINS] }
    }
}

/// Totals of the operations of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals([KindTotals; KINDS.len()]);

/// Adds to a number that no other thread writes.
fn add(to: &AtomicU64, number: u64) {
    to.store(to.load(Relaxed).wrapping_add(number), Relaxed);
}

/// The bin of a time: by its highest bit and the three bits behind it.
fn bin(nanos: u64) -> usize {
    let power = nanos.max(8).ilog2() as usize;
    let within = (nanos.max(8) >> (power - 3)) as usize - BINS_PER_POWER;
    ((power - 3) * BINS_PER_POWER + within).min(BINS - 1)
}

/// The first time that is above a bin.
fn end_of(bin: usize) -> u64 {
    ((bin % BINS_PER_POWER + BINS_PER_POWER + 1) as u64) << (bin / BINS_PER_POWER)
}

impl Counts {
    pub(super) fn count(&self, kind: OpKind, bytes: u64, took: Duration, succeeded: bool) {
        let of = &self.0[index(kind)];
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        add(&of.operations, 1);
        if succeeded {
            add(&of.bytes, bytes);
        } else {
            add(&of.failed, 1);
        }
        add(&of.nanos, nanos);
        of.most.store(of.most.load(Relaxed).max(nanos), Relaxed);
        add(&of.bins[bin(nanos)], 1);
    }

    pub(super) fn totals(&self) -> Totals {
        Totals(core::array::from_fn(|kind| {
            let of = &self.0[kind];
            KindTotals {
                operations: of.operations.load(Relaxed),
                failed: of.failed.load(Relaxed),
                bytes: of.bytes.load(Relaxed),
                nanos: of.nanos.load(Relaxed),
                most: of.most.load(Relaxed),
                bins: of.bins.iter().map(|bin| bin.load(Relaxed)).collect(),
            }
        }))
    }
}

impl KindTotals {
    /// Sum of the times.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Mean time of an operation.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.nanos.checked_div(self.operations).unwrap_or(0))
    }

    /// The longest time so far, since the device was opened.
    pub fn most(&self) -> Duration {
        Duration::from_nanos(self.most)
    }

    /// The time within which this per cent of the operations completed, up to an eighth too long.
    pub fn percentile(&self, per_cent: f64) -> Duration {
        let wanted = (self.operations as f64 * per_cent / 100.0).ceil() as u64;
        let mut seen = 0;
        let found = self.bins.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        Duration::from_nanos(found.map_or(self.most, end_of).min(self.most))
    }

    fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            operations: combine(self.operations, other.operations),
            failed: combine(self.failed, other.failed),
            bytes: combine(self.bytes, other.bytes),
            nanos: combine(self.nanos, other.nanos),
            most: self.most.max(other.most),
            bins: self.bins.iter().zip(&other.bins).map(|(a, b)| combine(*a, *b)).collect(),
        }
    }
}

impl Totals {
    /// Returns the totals of this kind; comparisons, discards and write-zeroes count together.
    pub fn of(&self, kind: OpKind) -> &KindTotals {
        &self.0[index(kind)]
    }

    /// All kinds, with their names.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &KindTotals)> {
        KINDS.into_iter().zip(&self.0)
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|kind| self.0[kind].with(&other.0[kind], u64::wrapping_add)))
    }

    /// Returns the counts since `earlier`.
    pub(super) fn minus(&self, earlier: &Self) -> Self {
        Self(core::array::from_fn(|kind| self.0[kind].with(&earlier.0[kind], u64::wrapping_sub)))
    }

    /// One line, with rates if a time is given; none if there were no operations.
    pub(super) fn text(&self, within: Duration) -> Option<String> {
        let kinds = self.kinds().filter(|(_, of)| of.operations > 0);
        let line = |(name, of): (&str, &KindTotals)| {
            let seconds = within.as_secs_f64();
            let rate = if seconds > 0.0 {
                format!(", {:.0} per second", of.operations as f64 / seconds)
            } else {
                String::new()
            };
            let failed =
                if of.failed > 0 { format!(", {} failed", of.failed) } else { String::new() };
            let bytes =
                if of.bytes > 0 { format!(", {}", format_size(of.bytes)) } else { String::new() };
            let [mean, half, most] = [of.mean(), of.percentile(50.0), of.percentile(99.0)];
            format!(
                "{name} {}{rate}{failed}{bytes}, mean {mean:.1?}, 50 % {half:.1?}, 99 % {most:.1?}, most {:.1?}",
                of.operations,
                of.most()
            )
        };
        let text = kinds.map(line).collect::<Vec<_>>().join("; ");
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bin_that_ends_above_it() {
        for nanos in (0..200).chain([1000, 4095, 4096, 80_000, 1 << 39, (1 << 40) - 1]) {
            let bin = bin(nanos);
            assert!(
                end_of(bin) > nanos && (nanos < 9 || end_of(bin) <= nanos + nanos / 8 + 1),
                "{nanos}: {bin} {}",
                end_of(bin)
            );
            assert!(bin == 0 || end_of(bin - 1) <= nanos, "{nanos}");
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_times() {
        let counts = Counts::default();
        (1..=1000).for_each(|n| counts.count(OpKind::Read, 4096, Duration::from_micros(n), n != 7));
        let totals = counts.totals();
        let read = totals.of(OpKind::Read);
        assert_eq!((read.operations, read.failed, read.bytes), (1000, 1, 999 * 4096));
        assert_eq!(
            (read.mean(), read.most()),
            (Duration::from_nanos(500_500), Duration::from_millis(1))
        );
        let half = read.percentile(50.0);
        assert!(
            half >= Duration::from_micros(500) && half < Duration::from_micros(563),
            "{half:?}"
        );
        assert_eq!(read.percentile(100.0), Duration::from_millis(1));
        let twice = totals.plus(&totals);
        assert_eq!(
            (twice.of(OpKind::Read).operations, twice.minus(&totals) == totals),
            (2000, true)
        );
        assert_eq!(Totals::default().text(Duration::ZERO), None);
    }
}
