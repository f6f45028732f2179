//! The workload options of `weft bench`, with fio's names.

use super::super::serve::DiskIo;
use super::buffers::BufferArgs;
use crate::exit::Failure;
use crate::help::headings::WORKLOAD;
use clap::{ArgAction, Args};
use std::time::Duration;
use weft_bench::workload::{BlockSplit, Size, duration, rates, switch};
use weft_bench::{JobSpec, Rw, Verify};
use weft_block::{ErrorKind, units};

/// The workload of the jobs; names and meanings are fio's.
#[derive(Args, Clone, Debug)]
pub struct JobArgs {
    /// Name of the job
    #[arg(help_heading = WORKLOAD, long, default_value = "weft")]
    name: String,
    /// read, write, randread, randwrite, rw, randrw, trim, randtrim
    #[arg(help_heading = WORKLOAD, long, visible_alias = "readwrite", default_value = "read")]
    rw: Rw,
    /// Bytes per operation; with commas, for reads, writes and trims
    #[arg(help_heading = WORKLOAD, long, visible_alias = "blocksize", default_value = "4k")]
    bs: String,
    /// Operation sizes with their percentages, as in 4k/70:64k/30
    #[arg(help_heading = WORKLOAD, long, conflicts_with = "bs")]
    bssplit: Option<BlockSplit>,
    /// Operations that each job keeps in flight
    #[arg(help_heading = WORKLOAD, long, default_value_t = 1)]
    iodepth: u32,
    /// Number of jobs, each with its own queue
    #[arg(help_heading = WORKLOAD, long, default_value_t = 1)]
    numjobs: u32,
    /// Number of event loops (threads) that the jobs share [default: 1]
    #[arg(help_heading = WORKLOAD, long, default_value_t = 1)]
    threads: u32,
    /// Duration. Without --size, jobs repeat the region until it is over
    #[arg(help_heading = WORKLOAD, long, value_parser = duration)]
    runtime: Option<Duration>,
    /// Repeat the region until --runtime is over; 0: at most once
    #[arg(help_heading = WORKLOAD, long = "time_based", alias = "time-based", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = switch)]
    time_based: Option<bool>,
    /// Time to run before measuring
    #[arg(help_heading = WORKLOAD, long = "ramp_time", alias = "ramp-time", default_value = "0s", value_parser = duration)]
    ramp_time: Duration,
    /// Percentage of reads in mixed patterns
    #[arg(help_heading = WORKLOAD, long, default_value_t = 50, overrides_with = "rwmixwrite", value_parser = clap::value_parser!(u8).range(0..=100))]
    rwmixread: u8,
    /// Percentage of writes in mixed patterns; if both are given, the last one applies
    #[arg(help_heading = WORKLOAD, long, overrides_with = "rwmixread", value_parser = clap::value_parser!(u8).range(0..=100))]
    rwmixwrite: Option<u8>,
    /// Start of the region
    #[arg(help_heading = WORKLOAD, long, default_value = "0", value_parser = units::parse_size)]
    offset: u64,
    /// Distance between the starts of the regions of successive jobs
    #[arg(help_heading = WORKLOAD, long = "offset_increment", alias = "offset-increment", default_value = "0", value_parser = units::parse_size)]
    offset_increment: u64,
    /// Size of the region, in bytes or as a percentage of the device [default: the whole device]
    #[arg(help_heading = WORKLOAD, long)]
    size: Option<Size>,
    /// Number of operations after which a job ends
    #[arg(help_heading = WORKLOAD, long = "number_ios", alias = "number-ios")]
    number_ios: Option<u64>,
    #[command(flatten)]
    buffers: BufferArgs,
    /// Verify the data: crc32c
    #[arg(help_heading = WORKLOAD, long, default_value = "none")]
    verify: Verify,
    /// Read back and verify what was written [default: 1]
    #[arg(help_heading = WORKLOAD, long = "do_verify", alias = "do-verify", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    do_verify: u8,
    /// End at the first bad block
    #[arg(help_heading = WORKLOAD, long = "verify_fatal", alias = "verify-fatal", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    verify_fatal: u8,
    /// Seed of the random order
    #[arg(help_heading = WORKLOAD, long)]
    randseed: Option<u64>,
    /// Use the same random order in each run; 0: a different one each time
    #[arg(help_heading = WORKLOAD, long, num_args = 0..=1, require_equals = true, default_value = "1", default_missing_value = "1", value_parser = switch)]
    randrepeat: bool,
    /// Choose each random block independently, instead of visiting each block once
    #[arg(help_heading = WORKLOAD, long, num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    norandommap: bool,
    /// Operations per second that each job starts; latency counts from the time an operation was
    /// due
    #[arg(help_heading = WORKLOAD, long = "rate_iops", alias = "rate-iops")]
    rate_iops: Option<u32>,
    /// Bytes per second that each job starts, for reads, writes and trims, as in 10m or 10m,5m
    #[arg(help_heading = WORKLOAD, long, value_parser = rates)]
    rate: Option<[Option<u64>; 3]>,
    /// With --rate_iops: time before an operation is due at which its job stops sleeping. 0 saves
    /// CPU time, but starts operations late by the time that the system takes to wake a thread;
    /// 100us starts them on time
    #[arg(help_heading = WORKLOAD, long = "rate_spin", alias = "rate-spin", default_value = "0", value_parser = duration)]
    rate_spin: Duration,
    /// Cores for the event loops, assigned in turn, as in 0,2-3
    #[arg(help_heading = WORKLOAD, long = "cpus_allowed", alias = "cpus-allowed", value_parser = weft_server::values::cores::parse)]
    cpus_allowed: Option<::std::vec::Vec<usize>>,
    /// Count failed operations and continue
    #[arg(help_heading = WORKLOAD, long = "continue_on_error", alias = "continue-on-error", num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "io", value_parser = on_error)]
    continue_on_error: bool,
    /// Report the sum of all jobs; the default for text output of more than 4 jobs
    #[arg(help_heading = WORKLOAD, long = "group_reporting", alias = "group-reporting", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = switch)]
    group_reporting: Option<bool>,
    /// Bypass the page cache for files, or use it [default: bypass it if the file system can]
    #[arg(help_heading = WORKLOAD, long, num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = switch)]
    direct: Option<bool>,
    /// The opposite of --direct
    #[arg(help_heading = WORKLOAD, long, num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = switch, conflicts_with = "direct")]
    buffered: Option<bool>,
    /// Never sleep
    #[arg(help_heading = WORKLOAD, long, action = ArgAction::SetTrue)]
    poll: bool,
    /// I/O method for files
    #[arg(help_heading = WORKLOAD, long, value_enum, default_value_t)]
    disk_io: DiskIo,
}

/// A random seed for this run.
fn any_seed() -> u64 {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40)
}

/// fio's error types to continue after; only I/O errors occur here.
fn on_error(text: &str) -> Result<bool, String> {
    match text {
        "io" | "all" | "1" => Ok(true),
        "none" | "0" => Ok(false),
        _ => Err("use none, io or all".into()),
    }
}

impl JobArgs {
    /// Whether files bypass the page cache, if an option says so.
    pub fn direct(&self) -> Option<bool> {
        self.direct.or(self.buffered.map(|buffered| !buffered))
    }

    pub fn spec(self) -> Result<JobSpec, Failure> {
        let wrong = |option, problem| Failure::of(ErrorKind::Usage, format!("{option}: {problem}"));
        let sizes =
            BlockSplit::of_directions(&self.bs).map_err(|problem| wrong("--bs", problem))?;
        let bs_bytes = sizes.sizes().first().copied().unwrap_or_default();
        let split = self.bssplit.or((sizes.sizes().len() > 1).then_some(sizes));
        let (size, size_percent) = match self.size {
            Some(Size::Bytes(bytes)) => (Some(bytes), None),
            Some(Size::Percent(percent)) => (None, Some(percent)),
            None => (None, None),
        };
        let goes_on = self.runtime.is_some()
            && self.number_ios.is_none()
            && self.size.is_none()
            && self.verify == Verify::None;
        Ok(JobSpec {
            name: self.name,
            rw: self.rw,
            bs_bytes,
            bssplit: split,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            threads: self.threads,
            time_based: self.time_based.unwrap_or(goes_on),
            runtime: self.runtime,
            ramp_time: self.ramp_time,
            rwmixread: self.rwmixwrite.map_or(self.rwmixread, |writes| 100 - writes),
            offset: self.offset,
            offset_increment: self.offset_increment,
            size,
            size_percent,
            number_ios: self.number_ios,
            buffers: self.buffers.into(),
            verify: self.verify,
            do_verify: self.do_verify != 0,
            verify_fatal: self.verify_fatal != 0,
            randseed: self
                .randseed
                .or((!self.randrepeat && self.verify == Verify::None).then(any_seed)),
            norandommap: self.norandommap,
            rate_iops: self.rate_iops,
            rate: self.rate.unwrap_or_default(),
            rate_spin: self.rate_spin,
            cpus_allowed: self.cpus_allowed.unwrap_or_default(),
            continue_on_error: self.continue_on_error,
            group_reporting: self.group_reporting,
            poll: self.poll,
            disk: self.disk_io.into(),
        })
    }
}
