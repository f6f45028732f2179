//! The specification of a run, in fio's terms: names, defaults and meanings of options are those of
//! fio 3 unless a field says otherwise.

use super::buffers::Buffers;
use super::direction::{Direction, Rw};
use super::split::BlockSplit;
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

/// The specification of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// `name` of the job.
    pub name: String,
    /// `rw`.
    pub rw: Rw,
    /// `bs`: bytes per operation; a multiple of the device's block size.
    pub bs_bytes: u32,
    /// `bssplit`, or `bs` with a size for each direction: several sizes of operations, instead of
    /// `bs_bytes`.
    pub bssplit: Option<BlockSplit>,
    /// `iodepth`: operations that each job keeps in flight.
    pub iodepth: u32,
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
    /// `number_ios`: operations after which a job ends, even if it transferred fewer than `size`
    /// bytes.
    pub number_ios: Option<u64>,
    /// The payload of writes (`zero_buffers`, `buffer_pattern` and others): new bytes by default.
    pub buffers: Buffers,
    /// `verify`. Several jobs then share the region instead of each using all of it: the content of
    /// a block that two jobs write would be unknown.
    pub verify: Verify,
    /// `do_verify`: read and verify all written blocks after the writing; only with `verify`.
    pub do_verify: bool,
    /// `verify_fatal`: end a job at its first bad block.
    pub verify_fatal: bool,
    /// `randseed`; a constant by default. If one is given, reads verify that the blocks were
    /// written with it.
    pub randseed: Option<u64>,
    /// `norandommap`: choose each random block independently. Without it each pass over the region
    /// visits every block once.
    pub norandommap: bool,
    /// `rate_iops`: operations per second that each job starts, in each direction. Latency then
    /// counts from the time an operation was *due*, so a stall of the device counts for all
    /// operations that it delayed: no coordinated omission.
    pub rate_iops: Option<u32>,
    /// `rate`: bytes per second that each job starts, by [`Direction::index`]; instead of
    /// `rate_iops`, with the same meaning of latency. A direction without a rate runs as fast as it
    /// can.
    pub rate: [Option<u64>; 3],
    /// Time before a paced operation is due at which its job stops sleeping. Without it, the
    /// operation starts late by the time that the system takes to wake a thread; with it, a job
    /// that keeps its depth below the rate uses a whole core.
    pub rate_spin: Duration,
    /// `cpus_allowed`, like `cpus_allowed_policy=split`: loop *n* runs on core *n* of this list,
    /// cyclically. Empty: not pinned.
    pub cpus_allowed: Vec<usize>,
    /// `continue_on_error`: count failed operations and continue, instead of ending the job at the
    /// first.
    pub continue_on_error: bool,
    /// `group_reporting`: report the sum of all jobs instead of each. By default the text sums more
    /// than [`GROUPED_ABOVE`](crate::limits::GROUPED_ABOVE) jobs, and JSON lists each, as in fio.
    pub group_reporting: Option<bool>,
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
            rw: Rw::Read,
            bs_bytes: 4096,
            bssplit: None,
            iodepth: 1,
            numjobs: 1,
            threads: 1,
            runtime: None,
            ramp_time: Duration::ZERO,
            time_based: false,
            rwmixread: 50,
            offset: 0,
            offset_increment: 0,
            size: None,
            size_percent: None,
            number_ios: None,
            buffers: Buffers::default(),
            verify: Verify::None,
            do_verify: true,
            verify_fatal: false,
            randseed: None,
            norandommap: false,
            rate_iops: None,
            rate: [None; 3],
            rate_spin: Duration::ZERO,
            cpus_allowed: Vec::new(),
            continue_on_error: false,
            group_reporting: None,
            poll: false,
            disk: DiskMode::Auto,
        }
    }
}

impl JobSpec {
    /// The smallest and the largest operation of a direction, bytes.
    pub fn bs_range(&self, direction: Direction) -> (u32, u32) {
        self.bssplit.as_ref().map_or((self.bs_bytes, self.bs_bytes), |split| split.range(direction))
    }

    /// The mean size of the operations of a direction, bytes.
    pub fn mean_bytes(&self, direction: Direction) -> u64 {
        self.bssplit.as_ref().map_or(u64::from(self.bs_bytes), |split| split.mean_bytes(direction))
    }

    /// Bytes of which all operations are multiples.
    pub(super) fn unit_bytes(&self) -> u32 {
        self.bssplit.as_ref().map_or(self.bs_bytes, BlockSplit::unit_bytes)
    }

    /// All sizes of operations, bytes.
    pub(super) fn sizes(&self) -> Vec<u32> {
        self.bssplit.as_ref().map_or_else(|| vec![self.bs_bytes], BlockSplit::sizes)
    }

    /// fio's names and values of the options that differ from their defaults, and of those that
    /// always interest.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let default = Self::default();
        let mut options = vec![
            ("name", self.name.clone()),
            ("rw", self.rw.to_string()),
            match &self.bssplit {
                Some(split) => ("bssplit", split.to_string()),
                None => ("bs", self.bs_bytes.to_string()),
            },
            ("iodepth", self.iodepth.to_string()),
            ("numjobs", self.numjobs.to_string()),
        ];
        let mut more =
            |name, set: bool, value: String| options.extend(set.then_some((name, value)));
        more("threads", self.threads != default.threads, self.threads.to_string());
        more("runtime", self.runtime.is_some(), seconds(self.runtime.unwrap_or_default()));
        more("ramp_time", !self.ramp_time.is_zero(), seconds(self.ramp_time));
        more("time_based", self.time_based, "1".into());
        more("rwmixread", self.rw.is_mixed(), self.rwmixread.to_string());
        more("offset", self.offset != 0, self.offset.to_string());
        more("offset_increment", self.offset_increment != 0, self.offset_increment.to_string());
        more("size", self.size.is_some(), self.size.unwrap_or(0).to_string());
        more("size", self.size_percent.is_some(), format!("{}%", self.size_percent.unwrap_or(0)));
        more("number_ios", self.number_ios.is_some(), self.number_ios.unwrap_or(0).to_string());
        more("verify", self.verify == Verify::Crc32c, "crc32c".into());
        more("do_verify", !self.do_verify, "0".into());
        more("verify_fatal", self.verify_fatal, "1".into());
        more("randseed", self.randseed.is_some(), self.randseed.unwrap_or(0).to_string());
        more("norandommap", self.norandommap, "1".into());
        more("rate_iops", self.rate_iops.is_some(), self.rate_iops.unwrap_or(0).to_string());
        let rates = self.rate.map(|rate| rate.map_or_else(String::new, |rate| rate.to_string()));
        more("rate", self.rate.iter().any(Option::is_some), rates.join(","));
        more("cpus_allowed", !self.cpus_allowed.is_empty(), list(&self.cpus_allowed));
        more("continue_on_error", self.continue_on_error, "io".into());
        more("group_reporting", self.group_reporting == Some(true), "1".into());
        options.extend(self.buffers.options());
        options
    }
}

fn seconds(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        duration.as_secs().to_string()
    } else {
        format!("{}us", duration.as_micros())
    }
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
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
    fn options_name_what_was_set() {
        let spec = JobSpec {
            runtime: Some(Duration::from_millis(1500)),
            rate_iops: Some(7),
            ..JobSpec::default()
        };
        let options = spec.options();
        assert!(options.contains(&("runtime", "1500000us".into())));
        assert!(options.contains(&("rate_iops", "7".into())));
        assert!(!options.iter().any(|(name, _)| *name == "verify"));
    }
}
