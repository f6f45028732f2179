//! Options of reconnect and multipath, with nvme-cli's names where it has one.

use crate::help::headings::PATHS;
use crate::process::exit::Failure;
use clap::{Args, ValueEnum};
use std::time::Duration;
use weft_block::{ErrorKind, units};
use weft_endpoint::PathOptions;
use weft_endpoint::limits::{RECONNECT_DELAY_S, UNFLUSHED_BYTES};
use weft_endpoint::paths::{Failover, IoPolicy};

/// Options of the paths to a device.
#[derive(Args, Clone, Debug)]
pub struct PathArgs {
    /// URL of a further path to the same data; "discover": all that the target's discovery service
    /// tells; may be repeated
    #[arg(help_heading = PATHS, long, value_name = "URL|discover[=HOST[:PORT]]")]
    path: Vec<String>,
    /// All paths lead to the same data: use one to another target also while its data cannot be
    /// compared with that of the others
    #[arg(help_heading = PATHS, long)]
    same_data: bool,
    /// Seconds after which a lost path is given up; -1 never, 0 does not reconnect
    #[arg(help_heading = PATHS, short = 'l', long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    ctrl_loss_tmo: i64,
    /// Maximum seconds between attempts to reconnect; the first pauses are shorter
    #[arg(help_heading = PATHS, short = 'c', long, value_name = "SECONDS", default_value_t = RECONNECT_DELAY_S, value_parser = clap::value_parser!(u64).range(1..=3600))]
    reconnect_delay: u64,
    /// Seconds without a usable path after which I/O fails instead of waiting; -1 never
    #[arg(help_heading = PATHS, long = "fast_io_fail_tmo", alias = "fast-io-fail-tmo", value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    fast_io_fail_tmo: i64,
    /// The path that I/O takes: the first that works, each in turn, the one with the fewest
    /// operations, or the fastest
    #[arg(help_heading = PATHS, long, value_enum, default_value_t = Policy::Numa)]
    iopolicy: Policy,
    /// When to repeat a write whose connection was lost. fast: at once; the old controller may
    /// still execute the lost write and overwrite newer data
    #[arg(help_heading = PATHS, long, value_enum, default_value_t = Repeat::Safe)]
    failover: Repeat,
    /// Maximum size of the writes that are kept until a flush, to repeat them if the target
    /// restarts
    #[arg(help_heading = PATHS, long, value_name = "SIZE", default_value_t = format!("{}MiB", UNFLUSHED_BYTES >> 20))]
    unflushed: String,
    /// Nobody else writes to the data: write unflushed data again if the target restarts and has
    /// lost it, instead of only looking for it
    #[arg(help_heading = PATHS, long)]
    only_writer: bool,
    /// Reserve the namespace (Write Exclusive) while it is open, so that nobody else writes to it;
    /// fails if another host has reserved it
    #[arg(help_heading = PATHS, long, conflicts_with = "only_writer")]
    reserve: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    Numa,
    RoundRobin,
    QueueDepth,
    Latency,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Repeat {
    Safe,
    Fast,
}

/// Seconds, or for ever.
fn limit(seconds: i64) -> Option<Duration> {
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

impl PathArgs {
    /// The options.
    pub fn options(&self) -> Result<PathOptions, Failure> {
        let unflushed = units::parse_size(&self.unflushed).map_err(|e| {
            Failure::of(ErrorKind::Usage, format!("--unflushed \"{}\": {e}", self.unflushed))
        })?;
        Ok(PathOptions {
            further: self.path.clone(),
            same_data: self.same_data,
            ctrl_loss_timeout: limit(self.ctrl_loss_tmo),
            reconnect_delay: Duration::from_secs(self.reconnect_delay),
            fast_io_fail_timeout: limit(self.fast_io_fail_tmo),
            io_policy: match self.iopolicy {
                Policy::Numa => IoPolicy::Numa,
                Policy::RoundRobin => IoPolicy::RoundRobin,
                Policy::QueueDepth => IoPolicy::QueueDepth,
                Policy::Latency => IoPolicy::Latency,
            },
            failover: match self.failover {
                Repeat::Safe => Failover::Safe,
                Repeat::Fast => Failover::Fast,
            },
            unflushed_bytes: usize::try_from(unflushed).unwrap_or(usize::MAX),
            only_writer: self.only_writer,
            only_writer_if_alone: false,
            reserve: self.reserve,
        })
    }
}
