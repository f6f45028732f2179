//! More of fio's options for a workload: those that few need.

use crate::help::headings::FIO;
use clap::Args;
use std::time::Duration;
use weft_bench::JobSpec;
use weft_bench::workload::values::{
    delay, iops, latencies, micros, percentages, percentile, percentile_list, size_range, sizes,
};
use weft_bench::workload::{
    BlockRange, Criterion, Distribution, ExitAll, LatencyTarget, Size, SteadyState, TotalRate,
    Zones, duration, rates, switch,
};
use weft_block::units::parse_size;

/// The options; names and meanings are fio's.
#[derive(Args, Clone, Debug)]
pub struct MoreArgs {
    /// Description of the job, for the report
    #[arg(help_heading = FIO, long, default_value = "")]
    description: String,
    /// Least and most bytes of an operation, as in 4k-64k; with commas, for reads, writes and trims
    #[arg(help_heading = FIO, long, alias = "blocksize_range", conflicts_with_all = ["bs", "bssplit"])]
    bsrange: Option<BlockRange>,
    /// Give sequential operations the sizes of reads, and random ones those of writes
    #[arg(help_heading = FIO, long = "bs_is_seq_rand", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    bs_is_seq_rand: bool,
    /// Boundary of random addresses [default: the size of an operation]
    #[arg(help_heading = FIO, long, alias = "ba", value_parser = sizes)]
    blockalign: Option<[u32; 3]>,
    /// With --rw=randread:8: sequential or identical addresses behind the random one
    #[arg(help_heading = FIO, long = "rw_sequencer", default_value = "sequential", value_parser = ["sequential", "identical"])]
    rw_sequencer: String,
    /// Percentage of operations of a random pattern that have a random address
    #[arg(help_heading = FIO, long = "percentage_random", default_value = "100", value_parser = percentages)]
    percentage_random: [u8; 3],
    /// random, zipf:THETA, pareto:POWER, normal:DEVIATION, zoned:IO/PART:…, zoned_abs:IO/SIZE:…
    #[arg(help_heading = FIO, long = "random_distribution", default_value = "random")]
    random_distribution: Distribution,
    /// Operations in flight at which operations begin again, once the depth was reached
    #[arg(help_heading = FIO, long = "iodepth_low", default_value_t = 0)]
    iodepth_low: u32,
    /// Completions that are taken in together, at least
    #[arg(help_heading = FIO, long = "iodepth_batch_complete_min", alias = "iodepth_batch_complete", default_value_t = 1)]
    iodepth_batch_complete_min: u32,
    /// Make an operation wait for those in flight that overlap it
    #[arg(help_heading = FIO, long = "serialize_overlap", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    serialize_overlap: bool,
    /// Bytes to transfer, or a percentage of the region [default: the region]
    #[arg(help_heading = FIO, long = "io_size", alias = "io_limit")]
    io_size: Option<Size>,
    /// Bytes of the device that are used, or the least and the most; --size is then what is
    /// transferred
    #[arg(help_heading = FIO, long, value_parser = size_range)]
    filesize: Option<(u64, u64)>,
    /// Boundary of a start that is given as a percentage [default: the size of an operation]
    #[arg(help_heading = FIO, long = "offset_align", default_value = "0", value_parser = parse_size)]
    offset_align: u64,
    /// End of the region as a percentage of the device, instead of --size (not an option of fio)
    #[arg(help_heading = FIO, long = "offset_end", conflicts_with = "size", value_parser = part)]
    offset_end: Option<u8>,
    /// Number of iterations of the job
    #[arg(help_heading = FIO, long, default_value_t = 1)]
    loops: u32,
    /// Time before the jobs start, or the least and the most
    #[arg(help_heading = FIO, long, default_value = "0", value_parser = delay)]
    startdelay: [Duration; 2],
    /// Write nothing: verify what an earlier run of this workload wrote
    #[arg(help_heading = FIO, long = "verify_only", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    verify_only: bool,
    /// Number of writes after which the device is flushed; 0: never
    #[arg(help_heading = FIO, long, default_value_t = 0)]
    fsync: u32,
    /// Number of writes after which the device is flushed; 0: never
    #[arg(help_heading = FIO, long, default_value_t = 0)]
    fdatasync: u32,
    /// sync or dsync: each write is durable when it completes; none
    #[arg(help_heading = FIO, long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "sync", value_parser = sync)]
    sync: bool,
    /// Flush the device after the last write
    #[arg(help_heading = FIO, long = "end_fsync", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    end_fsync: bool,
    /// strided: go on to another zone after --zonesize bytes; none
    #[arg(help_heading = FIO, long, value_parser = zonemode)]
    zonemode: Option<bool>,
    /// Bytes to transfer in a zone
    #[arg(help_heading = FIO, long, default_value = "0", value_parser = parse_size)]
    zonesize: u64,
    /// Bytes of a zone [default: --zonesize]
    #[arg(help_heading = FIO, long, default_value = "0", value_parser = parse_size)]
    zonerange: u64,
    /// Bytes between two zones
    #[arg(help_heading = FIO, long, default_value = "0", value_parser = parse_size)]
    zoneskip: u64,
    /// Length of a pause between operations, in microseconds or with a unit
    #[arg(help_heading = FIO, long, default_value = "0", value_parser = micros)]
    thinktime: Duration,
    /// Part of a pause that uses the processor
    #[arg(help_heading = FIO, long = "thinktime_spin", default_value = "0", value_parser = micros)]
    thinktime_spin: Duration,
    /// Operations between two pauses [default: 1]
    #[arg(help_heading = FIO, long = "thinktime_blocks", value_parser = clap::value_parser!(u32).range(1..))]
    thinktime_blocks: Option<u32>,
    /// Operations that count for a pause: those that completed, or those that began
    #[arg(help_heading = FIO, long = "thinktime_blocks_type", default_value = "complete", value_parser = ["complete", "issue"])]
    thinktime_blocks_type: String,
    /// Time between two pauses
    #[arg(help_heading = FIO, long = "thinktime_iotime", default_value = "0", value_parser = duration)]
    thinktime_iotime: Duration,
    /// Do not make up for operations that were due in a pause
    #[arg(help_heading = FIO, long = "rate_ignore_thinktime", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    rate_ignore_thinktime: bool,
    /// linear: operations are due at equal distances; poisson: at random ones
    #[arg(help_heading = FIO, long = "rate_process", default_value = "linear", value_parser = ["linear", "poisson"])]
    rate_process: String,
    /// End a job that transfers fewer bytes per second
    #[arg(help_heading = FIO, long = "rate_min", alias = "ratemin", value_parser = rates)]
    rate_min: Option<[Option<u64>; 3]>,
    /// End a job that does fewer operations per second
    #[arg(help_heading = FIO, long = "rate_iops_min", value_parser = iops)]
    rate_iops_min: Option<[Option<u32>; 3]>,
    /// Milliseconds over which --rate_min is averaged
    #[arg(help_heading = FIO, long = "rate_cycle", alias = "ratecycle", default_value_t = 1000)]
    rate_cycle: u64,
    /// Bytes per second that each job starts, reads and writes together (not an option of fio)
    #[arg(help_heading = FIO, long = "rate_total", value_parser = parse_size)]
    rate_total: Option<u64>,
    /// Operations per second that each job starts, reads and writes together (not an option of fio)
    #[arg(help_heading = FIO, long = "rate_total_iops", conflicts_with = "rate_total")]
    rate_total_iops: Option<u32>,
    /// End a job at an operation that takes longer, in microseconds or with a unit
    #[arg(help_heading = FIO, long = "max_latency", value_parser = latencies)]
    max_latency: Option<[Option<Duration>; 3]>,
    /// Keep as many operations in flight, up to --iodepth, as keep this latency, in microseconds or
    /// with a unit
    #[arg(help_heading = FIO, long = "latency_target", default_value = "0", value_parser = micros)]
    latency_target: Duration,
    /// With --latency_target: how long a depth is tried
    #[arg(help_heading = FIO, long = "latency_window", default_value = "0", value_parser = micros)]
    latency_window: Duration,
    /// With --latency_target: percentage of operations that keep it
    #[arg(help_heading = FIO, long = "latency_percentile", default_value = "100", value_parser = percentile)]
    latency_percentile: f64,
    /// With --latency_target: go on when the depth is found, instead of ending the job
    #[arg(help_heading = FIO, long = "latency_run", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    latency_run: bool,
    /// End a job whose rate has settled: iops, iops_slope, bw or bw_slope with a limit, as in
    /// iops:2%
    #[arg(help_heading = FIO, long, alias = "ss")]
    steadystate: Option<Criterion>,
    /// With --steadystate: the time that is judged; none if 0
    #[arg(help_heading = FIO, long = "steadystate_duration", alias = "ss_dur", default_value = "0", value_parser = duration)]
    steadystate_duration: Duration,
    /// With --steadystate: time before that
    #[arg(help_heading = FIO, long = "steadystate_ramp_time", alias = "ss_ramp", default_value = "0", value_parser = duration)]
    steadystate_ramp_time: Duration,
    /// Create the files of the jobs, and do nothing else
    #[arg(help_heading = FIO, long = "create_only", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    create_only: bool,
    /// Create files that do not exist
    #[arg(help_heading = FIO, long = "allow_file_create", num_args = 0..=1, require_equals = true, default_value = "1", default_missing_value = "1", value_parser = switch)]
    allow_file_create: bool,
    /// End all jobs with the first that ends
    #[arg(help_heading = FIO, long, num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    exitall: bool,
    /// Jobs that --exitall ends: group or stonewall for those that run at the same time, all
    #[arg(help_heading = FIO, long = "exit_what", default_value = "group", value_parser = ["group", "stonewall", "all"])]
    exit_what: String,
    /// End all jobs with the first that ends with an error
    #[arg(help_heading = FIO, long = "exitall_on_error", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    exitall_on_error: bool,
    /// Errors of reads and of writes to count and go on after, as in EIO,ENOSPC:EIO
    #[arg(help_heading = FIO, long = "ignore_error")]
    ignore_error: Option<String>,
    /// Report percentiles of completion latency
    #[arg(help_heading = FIO, long = "clat_percentiles", num_args = 0..=1, require_equals = true, default_value = "1", default_missing_value = "1", value_parser = switch)]
    clat_percentiles: bool,
    /// Report percentiles of total latency
    #[arg(help_heading = FIO, long = "lat_percentiles", num_args = 0..=1, require_equals = true, default_value = "1", default_missing_value = "1", value_parser = switch)]
    lat_percentiles: bool,
    /// Report percentiles of submission latency
    #[arg(help_heading = FIO, long = "slat_percentiles", num_args = 0..=1, require_equals = true, default_value = "0", default_missing_value = "1", value_parser = switch)]
    slat_percentiles: bool,
    /// The percentiles, as in 50:99:99.9
    #[arg(help_heading = FIO, long = "percentile_list", value_parser = percentile_list)]
    percentile_list: Option<::std::vec::Vec<f64>>,
}

/// `sync`.
fn sync(text: &str) -> Result<bool, String> {
    match text {
        "none" | "0" => Ok(false),
        "sync" | "dsync" | "1" => Ok(true),
        _ => Err("use none, sync or dsync".into()),
    }
}

/// A part of the device.
fn part(text: &str) -> Result<u8, String> {
    match text.parse::<Size>()? {
        Size::Percent(percent) => Ok(percent),
        Size::Bytes(_) => Err("use 1% to 100%".into()),
    }
}

/// `zonemode`.
fn zonemode(text: &str) -> Result<bool, String> {
    match text {
        "none" => Ok(false),
        "strided" => Ok(true),
        "zbd" => Err("zoned devices are not supported".into()),
        _ => Err("use none or strided".into()),
    }
}

impl MoreArgs {
    /// Returns whether a file that does not exist is created.
    pub fn creates_file(&self) -> bool {
        self.allow_file_create
    }

    /// Returns whether an option ends a job that has a time as well.
    pub fn ends_by_itself(&self) -> bool {
        let has_size = self.io_size.is_some() || self.filesize.is_some();
        has_size || self.offset_end.is_some() || self.loops > 1
    }

    /// Takes the options that fio does not have from `own`.
    pub fn keep_own(&mut self, own: &Self) {
        (self.rate_total, self.rate_total_iops) = (own.rate_total, own.rate_total_iops);
        self.offset_end = own.offset_end;
    }

    /// Sets all of it in a job.
    pub fn apply(self, spec: &mut JobSpec) -> Result<(), String> {
        spec.extent.zones = self.zones()?;
        self.place(spec);
        self.pace(spec);
        self.ends(spec);
        spec.syncs.fsync = self.fsync;
        spec.syncs.fdatasync = self.fdatasync;
        (spec.syncs.each_write, spec.syncs.at_end) = (self.sync, self.end_fsync);
        (spec.verify_only, spec.create_only) = (self.verify_only, self.create_only);
        if let Some(text) = &self.ignore_error {
            spec.continue_on_error
                .ignore(text)
                .map_err(|problem| format!("ignore_error: {problem}"))?;
        }
        let what = if self.exit_what == "all" { ExitAll::All } else { ExitAll::Group };
        let of = |ends: bool| if ends { what } else { ExitAll::No };
        (spec.exitall, spec.exitall_on_error) = (of(self.exitall), of(self.exitall_on_error));
        let shown = &mut spec.percentiles;
        (shown.completion, shown.total) = (self.clat_percentiles, self.lat_percentiles);
        shown.submission = self.slat_percentiles;
        if let Some(list) = self.percentile_list {
            shown.list = list;
        }
        spec.description = self.description;
        if self.bs_is_seq_rand { spec.size_by_order() } else { Ok(()) }
    }

    fn zones(&self) -> Result<Option<Zones>, String> {
        let (bytes, range, skip) = (self.zonesize, self.zonerange, self.zoneskip);
        match self.zonemode {
            Some(true) if bytes == 0 => Err("zonemode=strided needs zonesize".into()),
            Some(false) if bytes > 0 => Err("zonesize needs zonemode=strided".into()),
            Some(true) | None if bytes > 0 => {
                Ok(Some(Zones { bytes, range: if range > 0 { range } else { bytes }, skip }))
            }
            _ => Ok(None),
        }
    }

    /// Addresses, sizes and the extent.
    fn place(&self, spec: &mut JobSpec) {
        spec.steps.identical = self.rw_sequencer == "identical";
        spec.steps.random_percent = self.percentage_random;
        spec.distribution = self.random_distribution.clone();
        (spec.bsrange, spec.blockalign) = (self.bsrange, self.blockalign);
        spec.iodepth_low = Some(self.iodepth_low).filter(|low| *low > 0);
        spec.complete_min = self.iodepth_batch_complete_min.max(1);
        spec.serialize_overlap = self.serialize_overlap;
        let extent = &mut spec.extent;
        extent.io_size = self.io_size.filter(|size| *size != Size::Bytes(0));
        extent.filesize = self.filesize;
        extent.offset_align = Some(self.offset_align).filter(|align| *align > 0);
        extent.end_percent = self.offset_end;
        extent.loops = self.loops.max(1);
    }

    /// What ends a job by itself.
    fn ends(&self, spec: &mut JobSpec) {
        let target = LatencyTarget {
            most: self.latency_target,
            window: self.latency_window,
            percent: self.latency_percentile,
            runs_on: self.latency_run,
        };
        spec.latency_target = Some(target).filter(|target| !target.most.is_zero());
        let (window, ramp) = (self.steadystate_duration, self.steadystate_ramp_time);
        let criterion = self.steadystate.filter(|_| !window.is_zero());
        spec.steady = criterion.map(|criterion| SteadyState { criterion, window, ramp });
    }

    /// Rates, pauses and limits of time.
    fn pace(&self, spec: &mut JobSpec) {
        spec.start_delay = self.startdelay;
        let think = &mut spec.think;
        (think.time, think.spin) = (self.thinktime, self.thinktime_spin);
        (think.blocks, think.io_time) = (self.thinktime_blocks, self.thinktime_iotime);
        think.on_issue = self.thinktime_blocks_type == "issue";
        think.outside_rate = self.rate_ignore_thinktime;
        spec.poisson = self.rate_process == "poisson";
        let floor = &mut spec.rate_floor;
        floor.bytes = self.rate_min.unwrap_or_default();
        floor.iops = self.rate_iops_min.unwrap_or_default();
        floor.cycle = Duration::from_millis(self.rate_cycle.max(1));
        spec.rate_total = self
            .rate_total
            .map(TotalRate::Bytes)
            .or(self.rate_total_iops.map(TotalRate::Iops))
            .filter(|rate| !matches!(rate, TotalRate::Bytes(0) | TotalRate::Iops(0)));
        spec.max_latency = self.max_latency.unwrap_or_default();
    }
}
