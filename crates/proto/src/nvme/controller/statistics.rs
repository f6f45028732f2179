//! What a subsystem counts for the log page SMART / Health Information. I/O queues count for
//! themselves and add up now and then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::nvme::log_page::SmartLog;

/// What one I/O queue has counted since it last added to the counters of its subsystem.
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

/// Counters of a subsystem since it was made.
#[derive(Debug, Default)]
pub(super) struct Health {
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    media_errors: AtomicU64,
    error_entries: AtomicU64,
}

impl Health {
    /// Adds what a queue counted.
    pub fn add(&self, counted: IoStatistics) {
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
    /// spare is full, and the temperature reads 0 K. One power cycle is the start of the process.
    pub(super) fn smart_log(&self, age: Duration) -> SmartLog {
        // Units of 1000 × 512 bytes, rounded up (Base §5.16.1.3).
        let units = |bytes: &AtomicU64| u128::from(bytes.load(Relaxed).div_ceil(512_000));
        let count = |counter: &AtomicU64| u128::from(counter.load(Relaxed));
        SmartLog {
            available_spare: 100,
            data_units_read: units(&self.bytes_read),
            data_units_written: units(&self.bytes_written),
            host_reads: count(&self.reads),
            host_writes: count(&self.writes),
            power_cycles: 1,
            power_on_hours: u128::from(age.as_secs() / 3600),
            media_errors: count(&self.media_errors),
            error_entries: count(&self.error_entries),
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
    }
}
