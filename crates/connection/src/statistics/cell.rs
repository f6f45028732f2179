//! Counters that one thread writes and any thread reads.

use super::histogram::{BUCKETS, Bucket, Histogram};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use serde::{Deserialize, Serialize};

/// Kind of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperationKind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Everything else: flush, deallocate, write zeroes, compare, commands that a target answers
    /// itself.
    #[default]
    Other,
}

impl OperationKind {
    /// All kinds, in order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Other];
}

/// A counter. Writing is a load and a store, without a lock prefix: only one thread writes.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    #[inline]
    fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of one kind. The number of operations is the sum of the buckets.
#[derive(Debug)]
struct OfKind {
    bytes: Count,
    errors: Count,
    sum_ns: Count,
    buckets: [Count; BUCKETS],
}

/// Counters that one thread writes. Aligned so that two of them never share a cache line (or a pair
/// of lines that is fetched together).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Cell {
    kinds: [OfKind; 3],
    in_flight: Count,
}

impl Default for OfKind {
    fn default() -> Self {
        let buckets = core::array::from_fn(|_| Count::default());
        Self {
            bytes: Count::default(),
            errors: Count::default(),
            sum_ns: Count::default(),
            buckets,
        }
    }
}

impl Cell {
    /// A command begins.
    #[inline]
    pub(super) fn begin(&self) {
        self.in_flight.add(1);
    }

    /// A command that began ends without being counted.
    pub(super) fn forget(&self) {
        self.in_flight.add(u64::MAX);
    }

    /// A command that began ends after `ns` nanoseconds, which belong to the bucket `at`.
    #[inline]
    pub(super) fn end(&self, kind: OperationKind, ns: u64, at: Bucket, bytes: u64) {
        self.in_flight.add(u64::MAX);
        let of = &self.kinds[kind as usize];
        of.bytes.add(bytes);
        of.sum_ns.add(ns);
        of.buckets[at.index()].add(1);
    }

    /// The command that just ended has failed.
    #[cold]
    pub(super) fn failed(&self, kind: OperationKind) {
        self.kinds[kind as usize].errors.add(1);
    }

    /// Adds the present values to `sum`.
    pub(super) fn add_to(&self, sum: &mut Counts) {
        sum.in_flight = sum.in_flight.wrapping_add(self.in_flight.value());
        for (of, kind) in self.kinds.iter().zip(OperationKind::ALL) {
            let to = sum.of_mut(kind);
            let mut times = Histogram::default();
            times.sum_ns = of.sum_ns.value();
            of.buckets.iter().enumerate().for_each(|(at, n)| times.add(at, n.value()));
            to.operations += times.count();
            to.bytes += of.bytes.value();
            to.errors += of.errors.value();
            to.latency.merge(&times);
        }
    }
}

/// Commands of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCounts {
    /// Commands that were answered.
    pub operations: u64,
    /// Bytes of data of those that succeeded.
    pub bytes: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// From the turn of the loop that received the command to the turn that answered it.
    pub latency: Histogram,
}

impl KindCounts {
    fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
    }

    /// Returns the counts since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            operations: self.operations.saturating_sub(earlier.operations),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            latency: self.latency.since(&earlier.latency),
        }
    }
}

/// Commands of all kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Reads.
    pub read: KindCounts,
    /// Writes.
    pub write: KindCounts,
    /// The rest.
    pub other: KindCounts,
    /// Commands that are not answered yet: the queue depth at present.
    pub in_flight: u64,
}

impl Counts {
    /// The commands of one kind.
    pub fn of(&self, kind: OperationKind) -> &KindCounts {
        match kind {
            OperationKind::Read => &self.read,
            OperationKind::Write => &self.write,
            OperationKind::Other => &self.other,
        }
    }

    fn of_mut(&mut self, kind: OperationKind) -> &mut KindCounts {
        match kind {
            OperationKind::Read => &mut self.read,
            OperationKind::Write => &mut self.write,
            OperationKind::Other => &mut self.other,
        }
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        OperationKind::ALL.into_iter().for_each(|kind| self.of_mut(kind).merge(other.of(kind)));
        self.in_flight = self.in_flight.wrapping_add(other.in_flight);
    }

    /// Returns the counts since `earlier`. Commands in flight are those of now.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            read: self.read.since(&earlier.read),
            write: self.write.since(&earlier.write),
            other: self.other.since(&earlier.other),
            in_flight: self.in_flight,
        }
    }

    /// All kinds together.
    pub fn total(&self) -> KindCounts {
        let mut total = self.read.clone();
        total.merge(&self.write);
        total.merge(&self.other);
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_thread_counts_another_reads() {
        let cell = Cell::default();
        for (kind, bytes) in [
            (OperationKind::Read, 4096),
            (OperationKind::Read, 4096),
            (OperationKind::Write, 512),
            (OperationKind::Other, 0),
        ] {
            cell.begin();
            cell.end(kind, 5000, Bucket::of(5000), bytes);
        }
        cell.failed(OperationKind::Write);
        cell.begin();
        let mut sum = Counts::default();
        std::thread::scope(|scope| scope.spawn(|| cell.add_to(&mut sum)).join().unwrap());
        assert_eq!((sum.read.operations, sum.read.bytes, sum.read.errors), (2, 8192, 0));
        assert_eq!((sum.write.operations, sum.write.bytes, sum.write.errors), (1, 512, 1));
        assert_eq!((sum.other.operations, sum.in_flight), (1, 1));
        assert_eq!((sum.total().operations, sum.total().latency.sum_ns), (4, 20_000));
        cell.forget();
        let mut twice = sum.clone();
        cell.add_to(&mut twice);
        assert_eq!((twice.since(&sum).read.operations, twice.in_flight), (2, 1));
    }
}
