//! Every limit of workloads and of the ceiling, with its unit and the effect of reaching it.

use core::time::Duration;

/// Maximum queue depth of a job, in operations. A greater `iodepth` is refused.
pub const IODEPTH_MAX: u32 = 65_536;

/// Maximum number of jobs of a run. A greater `numjobs` is refused.
pub const JOBS_MAX: u32 = 4096;

/// Maximum number of loops (threads) of a run. A greater `threads` is refused.
pub const THREADS_MAX: u32 = 1024;

/// Maximum block size of a job, bytes. A greater `bs` is refused. A block above the device's
/// maximum transfer is split.
pub const BLOCK_BYTES_MAX: u32 = 64 << 20;

/// Maximum payload memory of a run, bytes: jobs × depth × block size. More is refused.
pub const PAYLOAD_BYTES_MAX: u64 = 64 << 30;

/// Maximum units (of `bs` bytes) of a verified region; the ledger needs 4 bytes for each. More is
/// refused: reduce `size`.
pub const VERIFIED_UNITS_MAX: u64 = 1 << 30;

/// Bad blocks that are described individually, per job; others are only counted.
pub const FINDINGS_MAX: usize = 64;

/// Shortest and longest latency that a histogram distinguishes, ns; values outside are clamped.
pub const LATENCY_NS_MIN: u64 = 1;
/// See [`LATENCY_NS_MIN`].
pub const LATENCY_NS_MAX: u64 = 1_000_000_000_000;

/// Significant decimal digits of a histogram: values within 1 % count as one.
pub const LATENCY_DIGITS: u8 = 2;

/// Time after the end of a run in which operations in flight may still complete; the rest is
/// reported as unfinished.
pub const DRAIN_MAX: Duration = Duration::from_secs(60);

/// Like [`DRAIN_MAX`], after the user asked to stop: a command ends within a second of a signal.
pub const STOP_MAX: Duration = Duration::from_millis(700);

/// Interval of the samples for the spread of bandwidth and IOPS.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// Maximum jobs for which the text report shows each job, unless `group_reporting` says otherwise;
/// for more jobs it shows the sum.
pub const GROUPED_ABOVE: u32 = 4;

/// Interval of progress reports.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Interval at which a run whose jobs are connected asks whether it may start, until it knows when.
pub const GATE_EVERY: Duration = Duration::from_millis(2);
