//! All limits of copies.

use core::time::Duration;

/// Step in which zeroes are found, in bytes: shorter runs are copied like data.
pub const GRAIN_BYTES: usize = 64 << 10;

/// Size of a chunk that is read at once, until another is found to be better, bytes.
pub const CHUNK_BYTES: u32 = 512 << 10;

/// Largest chunk, bytes.
pub const CHUNK_BYTES_MAX: u32 = 1 << 20;

/// Smallest chunk that is tried, bytes.
pub const CHUNK_BYTES_MIN: u32 = 128 << 10;

/// Chunks in flight on each loop, until another number is found to be better.
pub const DEPTH: u32 = 8;

/// Most chunks in flight on each loop.
pub const DEPTH_MAX: u32 = 64;

/// Most event loops.
pub const THREADS_MAX: usize = 16;

/// Concurrent copy requests to the server of both devices, a thread each.
pub const OFFLOAD_CALLS_MAX: usize = 8;

/// Bytes of a hole that are dealt with at once.
pub const HOLE_BYTES: u64 = 32 << 20;

/// Parts of a chunk that are written by operations of their own: a run of data or zeroes each.
pub const PARTS_MAX: u64 = 64;

/// Places of FROM that cannot be read, after which a copy that goes on behind them gives up.
pub const UNREADABLE_MAX: usize = 10_000;

/// Interval of progress reports.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Interval of flushes, after which the journal advances.
pub const JOURNAL_EVERY: Duration = Duration::from_secs(5);

/// Longest journal that is read, bytes.
pub const JOURNAL_BYTES_MAX: u64 = 1 << 20;

/// Shortest time over which a size and number of chunks is judged.
pub const TRIAL: Duration = Duration::from_millis(300);

/// Fewest bytes over which it is judged.
pub const TRIAL_BYTES: u64 = 64 << 20;
