//! Rates between two reports.

use super::Report;
use serde::{Deserialize, Serialize};
use weft_connection::statistics::{Counts, KindCounts};

/// Rates of commands and bytes between two times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Commands per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Failed commands per second.
    pub errors_per_second: f64,
    /// Half of the commands took no longer, nanoseconds.
    pub p50_ns: u64,
    /// 99 % of the commands took no longer, nanoseconds.
    pub p99_ns: u64,
    /// 99.9 % of the commands took no longer, nanoseconds.
    pub p999_ns: u64,
    /// Commands in flight at the end.
    pub in_flight: u64,
}

impl Rates {
    /// Returns the rates of what was counted from `earlier` to `now`, which are `seconds` apart.
    pub fn between(earlier: &Counts, now: &Counts, seconds: f64) -> Self {
        Self { in_flight: now.in_flight, ..Self::of(&now.since(earlier).total(), seconds) }
    }

    /// Returns the rates of what was counted in `seconds`.
    pub fn of(counted: &KindCounts, seconds: f64) -> Self {
        let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        Self {
            iops: per_second(counted.operations),
            bytes_per_second: per_second(counted.bytes),
            errors_per_second: per_second(counted.errors),
            p50_ns: counted.latency.percentile_ns(50.0),
            p99_ns: counted.latency.percentile_ns(99.0),
            p999_ns: counted.latency.percentile_ns(99.9),
            in_flight: 0,
        }
    }
}

impl Report {
    /// Seconds from an earlier report of the same process to this one; `None` if it is of another
    /// process.
    pub fn seconds_since(&self, earlier: &Self) -> Option<f64> {
        let same = self.pid == earlier.pid && self.uptime_ns >= earlier.uptime_ns;
        same.then(|| (self.uptime_ns - earlier.uptime_ns) as f64 / 1e9)
    }

    /// CPU time of the loops for each command since `earlier`, nanoseconds; `None` without
    /// commands.
    pub fn cpu_ns_per_operation(&self, earlier: &Self) -> Option<u64> {
        let operations = self.total().operations.saturating_sub(earlier.total().operations);
        self.loops_cpu_ns().saturating_sub(earlier.loops_cpu_ns()).checked_div(operations)
    }
}
