//! The workload options of `weft bench`, with fio's names.

use super::super::serve::DiskIo;
use super::more::MoreArgs;
use crate::help::headings::WORKLOAD;
use crate::process::exit::Failure;
use clap::{ArgAction, Args, ValueEnum};
use std::time::Duration;
use weft_bench::workload::values::{iops, place};
use weft_bench::workload::{
    BlockSplit, BufferPattern, Buffers, OnError, Size, Steps, duration, rates, switch,
};
use weft_bench::{JobSpec, Rw, Verify};
use weft_block::ErrorKind;
use weft_block::units::parse_size;

/// The workload of the jobs; names and meanings are fio's.
#[derive(Args, Clone, Debug)]
pub struct JobArgs {
    /// Name of the job
    #[arg(help_heading = WORKLOAD, long, default_value = "weft")]
    name: String,
    /// read, write, randread, randwrite, rw, randrw, trim, randtrim; with a number behind a colon,
    /// bytes between sequential operations, or operations for each random address
    #[arg(help_heading = WORKLOAD, long, visible_alias = "readwrite", default_value = "read", value_parser = Steps::of_rw)]
    rw: (Rw, Steps),
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
    #[arg(help_heading = WORKLOAD, long, alias = "timeout", value_parser = duration)]
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
    /// Start of the region, in bytes or as a percentage of the device
    #[arg(help_heading = WORKLOAD, long, alias = "fileoffset", default_value = "0", value_parser = place)]
    offset: Size,
    /// Distance between the starts of the regions of successive jobs, in bytes or as a percentage
    /// of the device
    #[arg(help_heading = WORKLOAD, long = "offset_increment", alias = "offset-increment", default_value = "0", value_parser = place)]
    offset_increment: Size,
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
    /// Operations per second that each job starts, for reads, writes and trims; latency counts from
    /// the time an operation was due
    #[arg(help_heading = WORKLOAD, long = "rate_iops", alias = "rate-iops", value_parser = iops)]
    rate_iops: Option<[Option<u32>; 3]>,
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
    /// Count failed operations and continue: read, write, io or all, none
    #[arg(help_heading = WORKLOAD, long = "continue_on_error", alias = "continue-on-error", num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "io")]
    continue_on_error: OnError,
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
    #[command(flatten)]
    more: MoreArgs,
}

/// A random seed for this run.
fn any_seed() -> u64 {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40)
}

/// Bytes, or a percentage.
fn bytes_or_part(size: Option<Size>) -> (Option<u64>, Option<u8>) {
    match size {
        Some(Size::Bytes(bytes)) => (Some(bytes), None),
        Some(Size::Percent(percent)) => (None, Some(percent)),
        None => (None, None),
    }
}

impl JobArgs {
    /// Returns whether files bypass the page cache, if an option says so.
    pub fn direct(&self) -> Option<bool> {
        self.direct.or(self.buffered.map(|buffered| !buffered))
    }

    /// Returns whether a file that does not exist is created.
    pub fn creates_file(&self) -> bool {
        self.more.creates_file()
    }

    /// Takes the options that fio does not have from `own`.
    pub fn keep_own(&mut self, own: &Self) {
        (self.threads, self.poll, self.disk_io) = (own.threads, own.poll, own.disk_io);
        self.rate_spin = own.rate_spin;
        self.more.keep_own(&own.more);
    }

    pub fn spec(self) -> Result<JobSpec, Failure> {
        let wrong = |option, problem| Failure::of(ErrorKind::Usage, format!("{option}: {problem}"));
        let sizes =
            BlockSplit::of_directions(&self.bs).map_err(|problem| wrong("--bs", problem))?;
        let bs_bytes = sizes.sizes().first().copied().unwrap_or_default();
        let split = self.bssplit.or((sizes.sizes().len() > 1).then_some(sizes));
        let runtime = self.runtime.filter(|runtime| !runtime.is_zero());
        // As in fio, no bytes and no operations are those of the device.
        let size = self.size.filter(|size| *size != Size::Bytes(0));
        let number_ios = self.number_ios.filter(|ios| *ios > 0);
        let goes_on = runtime.is_some()
            && number_ios.is_none()
            && size.is_none()
            && self.verify == Verify::None
            && !self.more.ends_by_itself();
        let ((size, size_percent), (rw, steps)) = (bytes_or_part(size), self.rw);
        let (offset, offset_percent) = bytes_or_part(Some(self.offset));
        let (increment, increment_percent) = bytes_or_part(Some(self.offset_increment));
        let mut spec = JobSpec {
            name: self.name,
            rw,
            steps,
            bs_bytes,
            bssplit: split,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            threads: self.threads,
            time_based: self.time_based.unwrap_or(goes_on),
            runtime,
            ramp_time: self.ramp_time,
            rwmixread: self.rwmixwrite.map_or(self.rwmixread, |writes| 100 - writes),
            offset: offset.unwrap_or(0),
            offset_increment: increment.unwrap_or(0),
            size,
            size_percent,
            number_ios,
            buffers: self.buffers.into(),
            verify: self.verify,
            do_verify: self.do_verify != 0,
            verify_fatal: self.verify_fatal != 0,
            randseed: self
                .randseed
                .or((!self.randrepeat && self.verify == Verify::None).then(any_seed)),
            norandommap: self.norandommap,
            rate_iops: self.rate_iops.unwrap_or_default(),
            rate: self.rate.unwrap_or_default(),
            rate_spin: self.rate_spin,
            cpus_allowed: self.cpus_allowed.unwrap_or_default(),
            continue_on_error: self.continue_on_error,
            group_reporting: self.group_reporting,
            poll: self.poll,
            disk: self.disk_io.into(),
            ..JobSpec::default()
        };
        (spec.extent.offset_percent, spec.extent.increment_percent) =
            (offset_percent, increment_percent);
        self.more.apply(&mut spec).map_err(|problem| Failure::of(ErrorKind::Usage, problem))?;
        Ok(spec)
    }
}

// The options for the payload of writes, with fio's names.

/// The payload of writes; names and meanings are fio's.
#[derive(Args, Clone, Debug)]
pub struct BufferArgs {
    /// Write zeroes, instead of new random data
    #[arg(help_heading = WORKLOAD, long = "zero_buffers", alias = "zero-buffers", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    zero_buffers: bool,
    /// Write new data each time, as without this option; 0: keep the data of each buffer, and
    /// scramble it
    #[arg(help_heading = WORKLOAD, long = "refill_buffers", alias = "refill-buffers", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = switch)]
    refill_buffers: Option<bool>,
    /// Keep the data of each buffer, and change 24 bytes in each 512 before a write, as fio does by
    /// default; 0: change nothing
    #[arg(help_heading = WORKLOAD, long = "scramble_buffers", alias = "scramble-buffers", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = switch)]
    scramble_buffers: Option<bool>,
    /// Write this repeatedly: 0xHEX, a decimal number, "TEXT", 'FILE', or several in a row
    #[arg(help_heading = WORKLOAD, long = "buffer_pattern", alias = "buffer-pattern", value_name = "PATTERN", allow_hyphen_values = true)]
    buffer_pattern: Option<BufferPattern>,
    /// Percentage of each chunk that is zeroes or --buffer_pattern; the rest is random
    #[arg(help_heading = WORKLOAD, long = "buffer_compress_percentage", alias = "buffer-compress-percentage", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    buffer_compress_percentage: u8,
    /// Size of the chunks for --buffer_compress_percentage; 0: the size of an operation
    #[arg(help_heading = WORKLOAD, long = "buffer_compress_chunk", alias = "buffer-compress-chunk", default_value = "512", value_parser = chunk)]
    buffer_compress_chunk: u32,
    /// Percentage of writes that repeat the data of an earlier write
    #[arg(help_heading = WORKLOAD, long = "dedupe_percentage", alias = "dedupe-percentage", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    dedupe_percentage: u8,
    /// Data that --dedupe_percentage repeats: the last new data, or any of a working set
    #[arg(help_heading = WORKLOAD, long = "dedupe_mode", alias = "dedupe-mode", value_enum, default_value_t)]
    dedupe_mode: DedupeMode,
    /// Size of the working set, as a percentage of the region
    #[arg(help_heading = WORKLOAD, long = "dedupe_working_set_percentage", alias = "dedupe-working-set-percentage", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=100))]
    dedupe_working_set_percentage: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum DedupeMode {
    /// The last new data.
    #[default]
    Repeat,
    /// Any of the first new data.
    #[value(name = "working_set")]
    WorkingSet,
}

/// A size that fits into an operation.
fn chunk(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|e| e.to_string())?;
    u32::try_from(bytes).map_err(|_| format!("{text} is more than any operation has"))
}

impl From<BufferArgs> for Buffers {
    fn from(args: BufferArgs) -> Self {
        let has_set = args.dedupe_mode == DedupeMode::WorkingSet;
        Self {
            zero: args.zero_buffers,
            refill: args.refill_buffers,
            scramble: args.scramble_buffers,
            pattern: args.buffer_pattern,
            compress_percent: args.buffer_compress_percentage,
            compress_chunk: args.buffer_compress_chunk,
            dedupe_percent: args.dedupe_percentage,
            working_set_percent: has_set.then_some(args.dedupe_working_set_percentage),
        }
    }
}
