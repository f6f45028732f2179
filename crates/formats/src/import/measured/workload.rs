//! A tool's measurement of one workload.

use weft_bench::results::Latency;

/// A tool's measurement of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredWorkload {
    /// The tool's name for it.
    pub name: String,
    /// True if the order was random.
    pub is_random: bool,
    /// Percentage of reads.
    pub read_percent: u8,
    /// Bytes of an operation.
    pub bs_bytes: u64,
    /// Operations in flight, all jobs together.
    pub in_flight: u64,
    /// Its duration.
    pub seconds: f64,
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Latency of reads; zeroes if there were none, or where the tool does not tell.
    pub reads: Latency,
    /// Latency of writes.
    pub writes: Latency,
    /// Latency of all operations.
    pub all: Latency,
    /// CPU time per operation of the initiator, in user space and in the kernel, nanoseconds, where
    /// the tool tells.
    pub cpu_ns: Option<(f64, f64)>,
    /// Remarks about it, in whole sentences.
    pub remarks: Vec<String>,
}

/// Latencies of several jobs: the mean of all operations, and of each percentile the longest, as
/// percentiles cannot be added.
pub(super) fn slowest(parts: &[(f64, Latency)]) -> Latency {
    let all: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let mean = |of: fn(&Latency) -> f64| match all > 0.0 {
        true => parts.iter().map(|(weight, latency)| weight * of(latency)).sum::<f64>() / all,
        false => 0.0,
    };
    let parts = || parts.iter().filter(|(weight, _)| *weight > 0.0).map(|(_, latency)| latency);
    let most = |of: fn(&Latency) -> f64| parts().map(of).fold(0.0, f64::max);
    let known = |of: fn(&Latency) -> Option<f64>| {
        parts().filter_map(of).fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))))
    };
    Latency {
        mean_ns: mean(|it| it.mean_ns),
        p50_ns: most(|it| it.p50_ns),
        p90_ns: most(|it| it.p90_ns),
        p99_ns: most(|it| it.p99_ns),
        p999_ns: known(|it| it.p999_ns),
        p9999_ns: known(|it| it.p9999_ns),
        max_ns: most(|it| it.max_ns),
    }
}
