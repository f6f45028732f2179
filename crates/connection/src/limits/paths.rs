//! Limits of reconnect and multipath.

/// Milliseconds before the first attempt to reconnect a path. The pause doubles with each attempt,
/// up to --reconnect-delay.
pub const RECONNECT_FIRST_MS: u64 = 100;

/// Maximum pause between attempts to reconnect, in seconds, unless --reconnect-delay sets another
/// one.
pub const RECONNECT_DELAY_S: u64 = 10;

/// Seconds between two looks at whether a device that no queue uses is still connected.
pub const PATH_LOOK_S: u64 = 1;

/// Milliseconds that no operation is sent on a path that has just refused one.
pub const PATH_PAUSE_MS: u64 = 100;

/// Seconds for which no path of a device can be used, although one is open, until the log reports
/// it...
pub const STRANDED_FIRST_S: u64 = 2;

/// ...seconds until it does so again; each further pause is twice as long...
pub const STRANDED_AGAIN_S: u64 = 60;

/// ...up to this, in seconds.
pub const STRANDED_AGAIN_S_MAX: u64 = 3600;

/// Operations of a queue of a device that wait while no path takes them. Further operations stay
/// with whoever submits them.
pub const PATH_WAITING_OPS: usize = 1024;

/// Operations that a queue of a device gives to a path at a time.
pub const PATH_BATCH_OPS: usize = 64;

/// With --iopolicy=latency, operations after which another path is measured.
pub const PATH_PROBE_OPS: u32 = 128;

/// Number of times that an operation is sent again that a device has aborted, or whose data was
/// damaged in transit. Then it fails.
pub const PATH_REPEATS_MAX: u8 = 5;

/// Number of times that an operation is sent again that was refused because of the path, although
/// the target reports that the path works. Then it fails.
pub const PATH_REFUSALS_MAX: u8 = 100;

/// Bytes of each of the samples by which weft compares the data of two targets before a path to the
/// second one is used.
pub const PATH_SAMPLE_BYTES: u32 = 4096;

/// Number of times that a sample is read that is not the same at both. Then they are different, or
/// the sample is written all the time.
pub const PATH_SAMPLE_TRIES: u32 = 3;

/// Unflushed writes that are written again at a time, after a restart of their target.
pub const REPLAY_OPS: usize = 16;

/// Bytes that are read back at a time to look whether a target that may have restarted still has
/// what was not flushed; [`REPLAY_OPS`] of them are in memory.
pub const LOOK_BYTES: usize = 64 << 10;

/// Bytes written as zeroes without a flush that are read back after a restart; of more the next
/// flush fails, so that I/O does not wait for ever.
pub const LOOK_ZEROES_BYTES_MAX: u64 = 1 << 30;

/// Attempts to write unflushed data again that a target answers with an error; then the data is
/// lost, and the next flush fails.
pub const REPLAY_ATTEMPTS: u32 = 8;

/// Maximum bytes of completed writes of a device that are kept until a flush, to write them again
/// if the target restarts (--unflushed). If there are more when it does, the next flush fails.
pub const UNFLUSHED_BYTES: usize = 64 << 20;
