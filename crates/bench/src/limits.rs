//! Every limit of the bench, with its unit and what happens when it is reached.

use core::time::Duration;

/// Deepest queue of a job, operations. A greater `iodepth` is refused.
pub const IODEPTH_MAX: u32 = 65_536;

/// Most jobs of a run. A greater `numjobs` is refused.
pub const JOBS_MAX: u32 = 4096;

/// Most loops (threads) of a run. A greater `threads` is refused.
pub const THREADS_MAX: u32 = 1024;

/// Largest block of a job, bytes. A greater `bs` is refused; one above what the device takes at once goes in parts.
pub const BLOCK_BYTES_MAX: u32 = 64 << 20;

/// Memory for payload that a run may take, bytes: jobs × depth × block size. More is refused.
pub const PAYLOAD_BYTES_MAX: u64 = 64 << 30;

/// Units (of `bs` bytes) of a region that is verified; the ledger takes 4 bytes for each. More is refused: lower `size`.
pub const VERIFIED_UNITS_MAX: u64 = 1 << 30;

/// Bad blocks that are described one by one, for each job; the rest is counted.
pub const FINDINGS_MAX: usize = 64;

/// Shortest and longest latency that a histogram tells apart, ns; what lies outside counts as the nearest.
pub const LATENCY_NS_MIN: u64 = 1;
/// See [`LATENCY_NS_MIN`].
pub const LATENCY_NS_MAX: u64 = 1_000_000_000_000;

/// Significant decimal digits of a histogram: values within 1 % count as one.
pub const LATENCY_DIGITS: u8 = 2;

/// Time after the end of a run in which operations under way may still complete; what is left then is reported as unfinished.
pub const DRAIN_MAX: Duration = Duration::from_secs(60);

/// As [`DRAIN_MAX`], after the user asked to stop.
pub const STOP_MAX: Duration = Duration::from_secs(2);

/// Spacing of the samples from which the spread of bandwidth and IOPS comes.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// Operations of a round from which on its 99.9th percentile is told: ten of them lie above it.
pub const P999_IOS_MIN: u64 = 10_000;

/// Jobs up to which the text of a report shows each, unless `group_reporting` says otherwise; of more it shows the sum.
pub const GROUPED_ABOVE: u32 = 4;

/// Spacing of progress reports.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(250);
