//! The specification of a run, in fio's terms: names, defaults and meanings of options are those of
//! fio 3 unless a field says otherwise.

use super::buffers::Buffers;
use super::direction::{Direction, Rw};
use super::distribution::Distribution;
use super::extent::JobExtent;
use super::floor::RateFloor;
use super::job_report::JobReport;
use super::on_error::OnError;
use super::percentiles::Percentiles;
use super::search::LatencyTarget;
use super::split::{BlockRange, BlockSplit, gcd};
use super::steady::SteadyState;
use super::steps::Steps;
#[cfg(test)]
use super::steps::Zones;
use super::syncs::Syncs;
use super::think::Think;
use core::str::FromStr;
use core::time::Duration;
use weft_io::disk::DiskMode;

/// Verification method (`verify`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verify {
    /// No verification.
    #[default]
    None,
    /// `crc32c`: each block of the device carries a header and a checksum, see [`super::verify`].
    Crc32c,
}

impl FromStr for Verify {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" | "0" => Ok(Self::None),
            "crc32c" | "crc32c-intel" => Ok(Self::Crc32c),
            other => Err(format!("verify must be none or crc32c, not {other:?}")),
        }
    }
}

/// A rate of all directions of a job together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalRate {
    /// Operations per second.
    Iops(u32),
    /// Bytes per second.
    Bytes(u64),
}

/// Jobs that end with the first job (`exitall`, `exit_what`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitAll {
    /// Nothing else.
    #[default]
    No,
    /// The other jobs that run at the same time.
    Group,
    /// These, and those that would follow.
    All,
}

/// The specification of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// `name` of the job.
    pub name: String,
    /// `description`, only reported.
    pub description: String,
    /// `rw`.
    pub rw: Rw,
    /// The number behind `rw`, `rw_sequencer` and `percentage_random`.
    pub steps: Steps,
    /// `bs`: bytes per operation; a multiple of the device's block size.
    pub bs_bytes: u32,
    /// `bssplit`, or `bs` with a size for each direction: several sizes of operations, instead of
    /// `bs_bytes`.
    pub bssplit: Option<BlockSplit>,
    /// `bsrange`: operations of any multiple of the least size, instead of `bs_bytes`.
    pub bsrange: Option<BlockRange>,
    /// `blockalign`: random addresses are multiples of this many bytes, by [`Direction::index`];
    /// by default of the size of an operation. Blocks are then chosen independently, as with
    /// `norandommap`.
    pub blockalign: Option<[u32; 3]>,
    /// Operations whose size is not a multiple of the device's block size cover all blocks that
    /// they touch, if they read, or write one behind the other. Otherwise such a size is refused.
    pub whole_blocks: bool,
    /// `iodepth`: operations that each job keeps in flight.
    pub iodepth: u32,
    /// `iodepth_low`: once the depth is reached, operations begin again when no more than this are
    /// in flight.
    pub iodepth_low: Option<u32>,
    /// `iodepth_batch_complete_min`: take in completions when there are at least this many. The
    /// latency of an operation includes that wait.
    pub complete_min: u32,
    /// `serialize_overlap`: an operation waits for those in flight that overlap it.
    pub serialize_overlap: bool,
    /// `numjobs`: number of jobs, each with its own queue if the device grants enough; otherwise
    /// jobs of one loop share queues.
    pub numjobs: u32,
    /// Loops (threads) for the jobs. Unlike in fio a job is not a thread, so 256 jobs do not need
    /// 256 threads.
    pub threads: u32,
    /// `runtime`: time to measure, after `ramp_time`.
    pub runtime: Option<Duration>,
    /// `ramp_time`: time to run before measuring.
    pub ramp_time: Duration,
    /// `startdelay`: each job waits between the first and the second time before it starts.
    pub start_delay: [Duration; 2],
    /// `time_based`: repeat the region until `runtime` is over. Without it a job ends when it has
    /// transferred `size` bytes, or earlier after `runtime`.
    pub time_based: bool,
    /// `rwmixread`: percentage of reads, for the mixed patterns.
    pub rwmixread: u8,
    /// `offset`: start of the region, bytes.
    pub offset: u64,
    /// `offset_increment`: distance between the regions of successive jobs, bytes.
    pub offset_increment: u64,
    /// `size`: bytes of the region, and bytes to transfer; by default the whole device from
    /// `offset`.
    pub size: Option<u64>,
    /// `size=10%`: the same as a percentage of the whole device; instead of `size`.
    pub size_percent: Option<u8>,
    /// Further settings of the part of the device that a job uses, and of the repetitions.
    pub extent: JobExtent,
    /// `number_ios`: operations after which a job ends, even if it transferred fewer than `size`
    /// bytes.
    pub number_ios: Option<u64>,
    /// The payload of writes (`zero_buffers`, `buffer_pattern` and others): new bytes by default.
    pub buffers: Buffers,
    /// `create_only`: jobs do nothing; a file that does not exist has been created.
    pub create_only: bool,
    /// `fsync`, `fdatasync`, `sync` and others.
    pub syncs: Syncs,
    /// `verify`. Several jobs then share the region instead of each using all of it: the content of
    /// a block that two jobs write would be unknown.
    pub verify: Verify,
    /// `do_verify`: read and verify all written blocks after the writing; only with `verify`.
    pub do_verify: bool,
    /// `verify_fatal`: end a job at its first bad block.
    pub verify_fatal: bool,
    /// `verify_only`: write nothing; verify what an earlier run of the same workload wrote.
    pub verify_only: bool,
    /// `randseed`; a constant by default. If one is given, reads verify that the blocks were
    /// written with it.
    pub randseed: Option<u64>,
    /// `norandommap`: choose each random block independently. Without it each pass over the region
    /// visits every block once.
    pub norandommap: bool,
    /// `random_distribution`. Unless it is even, blocks are chosen independently, as with
    /// `norandommap`.
    pub distribution: Distribution,
    /// `rate_iops`: operations per second that each job starts, by [`Direction::index`]. Latency
    /// then counts from the time an operation was *due*, so a stall of the device counts for all
    /// operations that it delayed: no coordinated omission.
    pub rate_iops: [Option<u32>; 3],
    /// `rate`: bytes per second that each job starts, by [`Direction::index`]; instead of
    /// `rate_iops`, with the same meaning of latency. A direction without a rate runs as fast as it
    /// can.
    pub rate: [Option<u64>; 3],
    /// The rate of all directions of a job together, instead of `rate_iops` or `rate`: the mix
    /// stays that of `rwmixread`.
    pub rate_total: Option<TotalRate>,
    /// `rate_process=poisson`: operations are due at random times, as independent clients would
    /// send them, instead of at equal distances.
    pub poisson: bool,
    /// `rate_min`, `rate_iops_min`: a job that falls below ends with an error.
    pub rate_floor: RateFloor,
    /// Time before a paced operation is due at which its job stops sleeping. Without it, the
    /// operation starts late by the time that the system takes to wake a thread; with it, a job
    /// that keeps its depth below the rate uses a whole core.
    pub rate_spin: Duration,
    /// `thinktime`.
    pub think: Think,
    /// `max_latency`: a job ends with an error at the first operation that takes longer, by
    /// [`Direction::index`].
    pub max_latency: [Option<Duration>; 3],
    /// `latency_target`: keep as many operations in flight, up to `iodepth`, as this allows.
    pub latency_target: Option<LatencyTarget>,
    /// `steadystate`: a job also ends when its rates have settled; with `group_reporting` when the
    /// sum of all its jobs has.
    pub steady: Option<SteadyState>,
    /// `cpus_allowed`, like `cpus_allowed_policy=split`: loop *n* runs on core *n* of this list,
    /// cyclically. Empty: not pinned.
    pub cpus_allowed: Vec<usize>,
    /// `continue_on_error`: count failed operations and continue, instead of ending the job at the
    /// first.
    pub continue_on_error: OnError,
    /// `exitall`: what ends with the first job that ends.
    pub exitall: ExitAll,
    /// `exitall_on_error`: what ends with the first job that ends with an error.
    pub exitall_on_error: ExitAll,
    /// `group_reporting`: report the sum of all jobs instead of each. By default the text sums more
    /// than [`GROUPED_ABOVE`](crate::limits::GROUPED_ABOVE) jobs, and JSON lists each, as in fio.
    pub group_reporting: Option<bool>,
    /// The percentiles that are reported.
    pub percentiles: Percentiles,
    /// Options of the job that were left out, each with the reason: they change neither what is
    /// written nor what is measured. A report adds [`JobSpec::rounded`].
    pub left_out: Vec<String>,
    /// Never sleep, even when there is nothing to do.
    pub poll: bool,
    /// I/O method for devices that are files.
    pub disk: DiskMode,
}

/// Default seed: runs are repeatable by default, as with fio's `randrepeat`.
pub(crate) const SEED_DEFAULT: u64 = 0x7765_6674;

impl Default for JobSpec {
    fn default() -> Self {
        Self {
            name: "weft".into(),
            description: String::new(),
            rw: Rw::Read,
            steps: Steps::default(),
            bs_bytes: 4096,
            bssplit: None,
            bsrange: None,
            blockalign: None,
            whole_blocks: false,
            iodepth: 1,
            iodepth_low: None,
            complete_min: 1,
            serialize_overlap: false,
            numjobs: 1,
            threads: 1,
            runtime: None,
            ramp_time: Duration::ZERO,
            start_delay: [Duration::ZERO; 2],
            time_based: false,
            rwmixread: 50,
            offset: 0,
            offset_increment: 0,
            size: None,
            size_percent: None,
            extent: JobExtent::default(),
            number_ios: None,
            buffers: Buffers::default(),
            create_only: false,
            syncs: Syncs::default(),
            verify: Verify::None,
            do_verify: true,
            verify_fatal: false,
            verify_only: false,
            randseed: None,
            norandommap: false,
            distribution: Distribution::default(),
            rate_iops: [None; 3],
            rate: [None; 3],
            rate_total: None,
            poisson: false,
            rate_floor: RateFloor::default(),
            rate_spin: Duration::ZERO,
            think: Think::default(),
            max_latency: [None; 3],
            latency_target: None,
            steady: None,
            cpus_allowed: Vec::new(),
            continue_on_error: OnError::default(),
            exitall: ExitAll::No,
            exitall_on_error: ExitAll::No,
            group_reporting: None,
            percentiles: Percentiles::default(),
            left_out: Vec::new(),
            poll: false,
            disk: DiskMode::Auto,
        }
    }
}

impl JobSpec {
    /// The smallest and the largest operation of a direction, bytes.
    pub fn bs_range(&self, direction: Direction) -> (u32, u32) {
        match (&self.bssplit, &self.bsrange) {
            (Some(split), _) => split.range(direction),
            (None, Some(range)) => range.range(direction),
            (None, None) => (self.bs_bytes, self.bs_bytes),
        }
    }

    /// The mean size of the operations of a direction, bytes.
    pub fn mean_bytes(&self, direction: Direction) -> u64 {
        match &self.bssplit {
            Some(split) => split.mean_bytes(direction),
            None => {
                let (least, most) = self.bs_range(direction);
                u64::midpoint(least.into(), most.into())
            }
        }
    }

    /// Bytes of the smallest and of the largest operation of all directions.
    pub(super) fn all_sizes(&self) -> (u32, u32) {
        let all = Direction::ALL.map(|direction| self.bs_range(direction));
        let least = all.iter().map(|(least, _)| *least).min();
        (least.unwrap_or(0), all.iter().map(|(_, most)| *most).max().unwrap_or(0))
    }

    /// Bytes of which all addresses and all operations are multiples.
    pub(super) fn unit_bytes(&self) -> u32 {
        let sizes = match (&self.bssplit, &self.bsrange) {
            (Some(split), _) => split.unit_bytes(),
            (None, Some(range)) => range.unit_bytes(),
            (None, None) => self.bs_bytes,
        };
        let bytes = |bytes: u64| u32::try_from(bytes % u64::from(sizes.max(1))).unwrap_or(0);
        let zones = self.extent.zones.map_or([0; 2], |zones| [zones.range, zones.skip]);
        let align = self.blockalign.unwrap_or([0; 3]);
        let distances = [self.steps.skip.unsigned_abs()].into_iter().chain(zones).map(bytes);
        distances.chain(align).fold(sizes, gcd)
    }

    /// Returns whether all addresses are multiples of the size of an operation.
    pub(super) fn op_is_unit(&self) -> bool {
        self.all_sizes() == (self.unit_bytes(), self.unit_bytes())
    }

    /// Sizes of operations, bytes: all of a split, the ends of a range.
    pub(super) fn sizes(&self) -> Vec<u32> {
        let ends =
            |of: &BlockRange| of.0.iter().flat_map(|(least, most)| [*least, *most]).collect();
        match (&self.bssplit, &self.bsrange) {
            (Some(split), _) => split.sizes(),
            (None, Some(range)) => ends(range),
            (None, None) => vec![self.bs_bytes],
        }
    }

    /// Gives reads and writes the sizes of reads if operations are sequential, and those of writes
    /// if they are random (`bs_is_seq_rand`).
    ///
    /// # Errors
    /// Some operations of the pattern are random, and others are sequential.
    pub fn size_by_order(&mut self) -> Result<(), String> {
        let (is_random, all) =
            (self.rw.is_random(), Steps { skip: self.steps.skip, ..Steps::default() });
        if is_random && self.steps != all {
            return Err(
                "bs_is_seq_rand needs operations that are all random, or all sequential".into()
            );
        }
        let from = if is_random { Direction::Write } else { Direction::Read }.index();
        let to = [Direction::Read, Direction::Write].map(Direction::index);
        if let Some(BlockSplit(split)) = &mut self.bssplit {
            let sizes = split[from].clone();
            to.into_iter().for_each(|at| split[at].clone_from(&sizes));
        }
        if let Some(BlockRange(range)) = &mut self.bsrange {
            to.into_iter().for_each(|at| range[at] = range[from]);
        }
        Ok(())
    }

    /// Returns the jobs that end with a job that ended with this report.
    pub fn ended_by(&self, report: &JobReport) -> ExitAll {
        match report.error_number() {
            0 => self.exitall,
            _ if self.exitall == ExitAll::No => self.exitall_on_error,
            _ => self.exitall,
        }
    }

    /// Bytes of a file that has all regions, if these do not depend on its size.
    pub fn file_bytes(&self) -> Option<u64> {
        let extent = &self.extent;
        let last = self.offset_increment.saturating_mul(u64::from(self.numjobs.max(1) - 1));
        let begin = self.offset.saturating_add(last);
        match (extent.filesize, self.size) {
            (Some((_, most)), _) => Some(most),
            (None, Some(size)) if extent.offset_percent.or(extent.increment_percent).is_none() => {
                Some(begin.saturating_add(size))
            }
            _ => None,
        }
    }

    /// The size of operations, with what is done instead, if they are not whole blocks of `block`
    /// bytes.
    pub fn rounded(&self, block: u32) -> Option<String> {
        let (name, value) = self.sizes_option();
        let is_odd = !self.unit_bytes().is_multiple_of(block);
        is_odd.then(|| {
            let why = format!("operations cover whole blocks of {block} bytes");
            format!("{name}={value} ({why}; the report counts their own bytes)")
        })
    }

    /// Returns whether jobs change what the device holds.
    pub fn writes(&self) -> bool {
        let changes = self.rw.has(Direction::Write) || self.rw.has(Direction::Trim);
        changes && !self.verify_only && !self.create_only
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rw_round_trip() {
        for (name, rw) in Rw::NAMES {
            assert_eq!(name.parse::<Rw>(), Ok(rw));
            assert_eq!(rw.to_string().parse::<Rw>(), Ok(rw));
        }
        assert!("randomread".parse::<Rw>().unwrap_err().contains("randread"));
    }

    #[test]
    fn sizes_may_depend_on_the_order() {
        let sizes = |rw, change: fn(&mut JobSpec)| {
            let mut spec = JobSpec { rw, bssplit: "4k,64k,512".parse().ok(), ..JobSpec::default() };
            change(&mut spec);
            spec.size_by_order().map(|()| Direction::ALL.map(|which| spec.bs_range(which).0))
        };
        assert_eq!(sizes(Rw::ReadWrite, |_| ()), Ok([4096, 4096, 512]));
        assert_eq!(sizes(Rw::RandRw, |_| ()), Ok([65_536, 65_536, 512]));
        assert!(sizes(Rw::RandRw, |s| s.steps.random_percent = [50; 3]).is_err());
        assert!(sizes(Rw::RandRead, |s| s.steps.run = 8).is_err());
    }

    #[test]
    fn units_divide_all_that_addresses_are_made_of() {
        let unit = |change: fn(&mut JobSpec)| {
            let mut spec = JobSpec::default();
            change(&mut spec);
            spec.unit_bytes()
        };
        assert_eq!(unit(|_| ()), 4096);
        assert_eq!(unit(|s| s.bsrange = "6k-64k".parse().ok()), 6144);
        assert_eq!(unit(|s| s.steps.skip = -1024), 1024);
        assert_eq!(unit(|s| s.blockalign = Some([4096, 512, 4096])), 512);
        let zones = Zones { bytes: 100, range: 128 << 10, skip: 2048 };
        let zoned = JobSpec {
            extent: JobExtent { zones: Some(zones), ..JobExtent::default() },
            ..JobSpec::default()
        };
        assert_eq!(zoned.unit_bytes(), 2048);
    }
}
