//! The specification of a run, in fio's terms: names, defaults and meanings of options are those of
//! fio 3 unless a field says otherwise.

use super::split::BlockSplit;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use weft_io::disk::DiskMode;

/// The pattern of a job (`rw`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rw {
    /// `read`: sequential reads.
    Read,
    /// `write`: sequential writes.
    Write,
    /// `trim`: sequential discards.
    Trim,
    /// `randread`: random reads.
    RandRead,
    /// `randwrite`: random writes.
    RandWrite,
    /// `randtrim`: random discards.
    RandTrim,
    /// `rw`, `readwrite`: sequential reads and writes mixed by `rwmixread`, each with its own
    /// position.
    ReadWrite,
    /// `randrw`: random reads and writes mixed by `rwmixread`.
    RandRw,
}

impl Rw {
    const NAMES: [(&'static str, Self); 9] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("trim", Self::Trim),
        ("randread", Self::RandRead),
        ("randwrite", Self::RandWrite),
        ("randtrim", Self::RandTrim),
        ("rw", Self::ReadWrite),
        ("readwrite", Self::ReadWrite),
        ("randrw", Self::RandRw),
    ];

    /// Whether the order is random.
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandTrim | Self::RandRw)
    }

    /// Whether the job mixes reads and writes.
    pub const fn is_mixed(self) -> bool {
        matches!(self, Self::ReadWrite | Self::RandRw)
    }

    /// Whether the job has operations of this direction.
    pub const fn has(self, direction: Direction) -> bool {
        match direction {
            Direction::Read => matches!(self, Self::Read | Self::RandRead) || self.is_mixed(),
            Direction::Write => matches!(self, Self::Write | Self::RandWrite) || self.is_mixed(),
            Direction::Trim => matches!(self, Self::Trim | Self::RandTrim),
        }
    }

    /// The direction of a job that is not mixed; reads for one that is.
    pub(crate) const fn first_direction(self) -> Direction {
        match self {
            Self::Write | Self::RandWrite => Direction::Write,
            Self::Trim | Self::RandTrim => Direction::Trim,
            _ => Direction::Read,
        }
    }
}

impl fmt::Display for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, rw)| rw == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

impl FromStr for Rw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, rw)| *rw).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("rw must be one of {}, not {text:?}", names.join(", "))
        })
    }
}

/// Direction of an operation's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
    /// No data: blocks are discarded.
    Trim,
}

impl Direction {
    /// All, in fio's order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];

    /// As an index into an array over [`Direction::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// fio's name.
    pub const fn name(self) -> &'static str {
        ["read", "write", "trim"][self as usize]
    }
}

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
