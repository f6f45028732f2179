//! Counters of a path.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters of one path. Each queue has its own, which only its loop writes; so counting needs no
/// synchronisation.
#[derive(Debug, Default)]
pub(super) struct Counters {
    operations: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    retries: AtomicU64,
    latency_ns: AtomicU64,
}

/// Values of [`Counters`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) operations: u64,
    pub(super) bytes: u64,
    pub(super) errors: u64,
    pub(super) retries: u64,
    /// Average of the last operations.
    pub(super) latency_ns: u64,
}

fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(value), Relaxed);
}

impl Counters {
    /// An operation has ended.
    #[inline]
    pub(super) fn ended(&self, bytes: u64, is_error: bool, took: Duration) {
        add(&self.operations, 1);
        add(&self.bytes, bytes);
        add(&self.errors, is_error.into());
        let (average, sample) = (self.latency_ns.load(Relaxed), took.as_nanos() as u64);
        // At least 1, so that 0 means that nothing was measured.
        let next = if average == 0 { sample } else { average - average / 8 + sample / 8 };
        self.latency_ns.store(next.max(1), Relaxed);
    }

    /// An operation is sent again.
    pub(super) fn retried(&self) {
        add(&self.retries, 1);
    }

    /// The average latency; 0 if nothing was measured.
    #[inline]
    pub(super) fn latency_ns(&self) -> u64 {
        self.latency_ns.load(Relaxed)
    }

    pub(super) fn read(&self) -> Counted {
        Counted {
            operations: self.operations.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            retries: self.retries.load(Relaxed),
            latency_ns: self.latency_ns(),
        }
    }
}

impl Counted {
    /// Both together; the latency is the greater one.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            bytes: self.bytes + other.bytes,
            errors: self.errors + other.errors,
            retries: self.retries + other.retries,
            latency_ns: self.latency_ns.max(other.latency_ns),
        }
    }
}
