//! Every limit of studies, suites and agents, with its unit and the effect of reaching it.

use core::time::Duration;
pub use weft_load::limits::{GROUPED_ABOVE, JOBS_MAX, PROGRESS_EVERY, THREADS_MAX};

/// Minimum operations of a round for which the 99.9th percentile is reported: ten of them lie above
/// it.
pub const P999_IOS_MIN: u64 = 10_000;

/// Like [`P999_IOS_MIN`], of the 99.99th percentile.
pub const P9999_IOS_MIN: u64 = 100_000;

/// Maximum points over time that a round of a study keeps; more are averaged.
pub const SERIES_POINTS_MAX: usize = 30;

/// Maximum bytes of the file of a suite. A longer one is refused.
pub const SUITE_BYTES_MAX: u64 = 1 << 20;

/// Maximum lanes, and maximum workloads, of a suite. More are refused.
pub const SUITE_ENTRIES_MAX: usize = 256;

/// Maximum jobs or depth of a workload of a suite, so that neither is beyond [`weft_load::limits::JOBS_MAX`] or
/// [`weft_load::limits::IODEPTH_MAX`].
pub const SUITE_IN_FLIGHT_MAX: u32 = 4096;

/// Maximum bytes of a message between a study and an agent, after both have proved that they have
/// the key. A longer one ends the connection.
pub const AGENT_MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Like [`AGENT_MESSAGE_BYTES_MAX`], before the proof.
pub const AGENT_FIRST_BYTES_MAX: usize = 4 << 10;

/// Maximum length of a URL that a study names to an agent, bytes. A longer one is refused.
pub const AGENT_URL_BYTES_MAX: usize = 2048;

/// Maximum memory for payload of a run that an agent does for a study, bytes: jobs × depth × block
/// size. More is refused.
pub const AGENT_PAYLOAD_BYTES_MAX: u64 = 4 << 30;

/// Maximum time of a run that an agent does for a study, warm-up included. A longer one is refused.
pub const AGENT_RUN_MAX: Duration = Duration::from_secs(4 * 3600);

/// Maximum agents of a study. More are refused.
pub const AGENTS_MAX: usize = 64;

/// Round trips with which a study compares its clock with that of an agent when it connects; before
/// each run it is an eighth of them.
pub const AGENT_CLOCK_TRIPS: u32 = 32;
