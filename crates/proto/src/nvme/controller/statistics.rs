//! Counters of a subsystem for the log page SMART / Health Information. I/O queues count for
//! themselves and add up now and then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::nvme::log_page::SmartLog;

/// Counts of one I/O queue since it last added to the counters of its subsystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStatistics {
    /// Read, Compare and Copy commands that succeeded.
    pub reads: u64,
    /// Write and Copy commands that succeeded.
    pub writes: u64,
    /// Bytes of user data read.
    pub bytes_read: u64,
    /// Bytes of user data written.
    pub bytes_written: u64,
    /// Commands that failed for their media (status code type 2, Compare Failure excepted).
    pub media_errors: u64,
}

/// Counts over the life of a subsystem, which may be longer than that of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCounts {
    /// Counts of its I/O queues.
    pub io: IoStatistics,
    /// Entries of its Error Information log pages.
    pub error_entries: u64,
    /// Seconds for which it was served.
    pub power_on_s: u64,
    /// Processes that have served it.
    pub power_cycles: u64,
    /// Those that ended without being asked to.
    pub unsafe_shutdowns: u64,
}

impl Default for HealthCounts {
    /// One power cycle is the start of this process.
    fn default() -> Self {
        let io = IoStatistics::default();
        Self { io, error_entries: 0, power_on_s: 0, power_cycles: 1, unsafe_shutdowns: 0 }
    }
}

/// Counters of a subsystem.
#[derive(Debug, Default)]
pub struct Health {
    /// Counts from before this process began, and its start.
    before: HealthCounts,
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    media_errors: AtomicU64,
    error_entries: AtomicU64,
}

impl Health {
    /// Goes on counting where a process before has ended.
    pub fn continuing(before: HealthCounts) -> Self {
        Self { before, ..Self::default() }
    }

    /// All that was counted, in a process that is `age` old.
    pub fn counts(&self, age: Duration) -> HealthCounts {
        let HealthCounts { io, error_entries, power_on_s, .. } = self.before;
        let sum = |before: u64, counter: &AtomicU64| before.saturating_add(counter.load(Relaxed));
        HealthCounts {
            io: IoStatistics {
                reads: sum(io.reads, &self.reads),
                writes: sum(io.writes, &self.writes),
                bytes_read: sum(io.bytes_read, &self.bytes_read),
                bytes_written: sum(io.bytes_written, &self.bytes_written),
                media_errors: sum(io.media_errors, &self.media_errors),
            },
            error_entries: sum(error_entries, &self.error_entries),
            power_on_s: power_on_s.saturating_add(age.as_secs()),
            ..self.before
        }
    }

    /// Adds what a queue counted.
    pub(super) fn add(&self, counted: IoStatistics) {
        self.reads.fetch_add(counted.reads, Relaxed);
        self.writes.fetch_add(counted.writes, Relaxed);
        self.bytes_read.fetch_add(counted.bytes_read, Relaxed);
        self.bytes_written.fetch_add(counted.bytes_written, Relaxed);
        self.media_errors.fetch_add(counted.media_errors, Relaxed);
    }

    /// Counts an entry of an Error Information log page.
    pub(super) fn count_error(&self) {
        self.error_entries.fetch_add(1, Relaxed);
    }

    /// The log page of a subsystem that is `age` old. There is no medium that wears and no sensor:
    /// spare is full, and the temperature reads 0 K.
    pub(super) fn smart_log(&self, age: Duration) -> SmartLog {
        // Units of 1000 × 512 bytes, rounded up (Base §5.16.1.3).
        let units = |bytes: u64| u128::from(bytes.div_ceil(512_000));
        let counts = self.counts(age);
        SmartLog {
            available_spare: 100,
            data_units_read: units(counts.io.bytes_read),
            data_units_written: units(counts.io.bytes_written),
            host_reads: counts.io.reads.into(),
            host_writes: counts.io.writes.into(),
            power_cycles: counts.power_cycles.into(),
            power_on_hours: (counts.power_on_s / 3600).into(),
            unsafe_shutdowns: counts.unsafe_shutdowns.into(),
            media_errors: counts.io.media_errors.into(),
            error_entries: counts.error_entries.into(),
            ..SmartLog::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_units_are_rounded_up() {
        let health = Health::default();
        let counted = IoStatistics {
            reads: 2,
            writes: 1,
            bytes_read: 512_001,
            bytes_written: 512_000,
            media_errors: 1,
        };
        health.add(counted);
        health.add(IoStatistics { reads: 1, ..IoStatistics::default() });
        health.count_error();
        let log = health.smart_log(Duration::from_secs(7_300));
        assert_eq!(
            (log.host_reads, log.host_writes, log.data_units_read, log.data_units_written),
            (3, 1, 2, 1)
        );
        assert_eq!((log.media_errors, log.error_entries, log.power_on_hours), (1, 1, 2));
        assert_eq!((log.power_cycles, log.unsafe_shutdowns), (1, 0));
    }

    #[test]
    fn counting_goes_on_where_a_process_before_ended() {
        let counted = IoStatistics { reads: 2, bytes_read: 512_000, ..IoStatistics::default() };
        let health = Health::default();
        health.add(counted);
        let before = health.counts(Duration::from_secs(3_000));
        assert_eq!((before.io, before.power_on_s, before.power_cycles), (counted, 3_000, 1));
        let health = Health::continuing(HealthCounts {
            power_cycles: 2,
            unsafe_shutdowns: 1,
            error_entries: u64::MAX,
            ..before
        });
        health.add(counted);
        health.count_error();
        let log = health.smart_log(Duration::from_secs(600));
        assert_eq!((log.host_reads, log.data_units_read, log.power_on_hours), (4, 2, 1));
        assert_eq!((log.power_cycles, log.unsafe_shutdowns), (2, 1));
        assert_eq!(log.error_entries, u64::MAX.into());
    }
}
