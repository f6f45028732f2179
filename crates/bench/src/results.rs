//! What a study has found: the content of `results.json`, and what the table and the report are made from.
//!
//! Times are in nanoseconds, rates per second, sizes in bytes. The schema has a version; a field is never given another meaning.

use serde::{Deserialize, Serialize};

/// Version of the schema.
pub const SCHEMA: u32 = 3;

/// A row is steady where [`Row::interval`] reaches no further than this part of the median to either side.
pub const STEADY_WITHIN: f64 = 0.05;

/// A whole study.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of weft that measured.
    pub weft: String,
    /// When it started: seconds since 1970 (UTC).
    pub started_s: u64,
    /// How long it took, seconds.
    pub took_s: f64,
    /// Whether it was the quick one.
    pub quick: bool,
    /// Which workloads it has.
    #[serde(default)]
    pub suite: Suite,
    /// Where it ran.
    pub machine: Machine,
    /// What else the machine did meanwhile.
    #[serde(default)]
    pub conditions: Conditions,
    /// What was measured, side by side. Local devices come first.
    pub lanes: Vec<Lane>,
    /// The thirteen patterns and the latency table, in order.
    pub workloads: Vec<Workload>,
    /// A row per lane and workload.
    pub rows: Vec<Row>,
    /// The bare TCP ceiling, per workload.
    pub ceiling: Vec<Ceiling>,
    /// What others have published of the same workload, to be shown beside the rows and never among them.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What a reader should know, in whole sentences: limits that were met, points that were repeated, what could not be measured.
    pub notes: Vec<String>,
}

/// Which workloads a study has.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// The thirteen patterns and the latency table.
    #[default]
    Patterns,
    /// Many jobs at depth 1 on a device that does nothing: what is left is the price of the protocols.
    Null,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Machine {
    /// Host name.
    pub name: String,
    /// Processor, as it names itself.
    pub cpu: String,
    /// Cores that the study could use.
    pub cores: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Operating system and version.
    pub system: String,
}

/// What else the machine did during a study; each as far as the system tells.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Conditions {
    /// Load of the last minute, before the study: what ran beside it, in processors.
    pub load_before: Option<f64>,
    /// The same at its end, the study's own load included.
    pub load_after: Option<f64>,
    /// Part of the time of the processors that the study could use, 0 to 1, that the host gave to others although this machine wanted it.
    pub steal: Option<f64>,
    /// The same, of what other programs of this machine took meanwhile: all but the load generator, the targets and bare TCP.
    #[serde(default)]
    pub others: Option<f64>,
}

/// A way to the device.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Lane {
    /// Short name: `local`, `nvme+tcp`.
    pub name: String,
    /// For people: `RAM disk, same process`, `NVMe/TCP over loopback`.
    pub title: String,
    /// What was opened.
    pub url: String,
    /// Core that the load generator was pinned to, and that of the target.
    pub initiator_cpu: Option<u32>,
    /// See `initiator_cpu`.
    pub target_cpu: Option<u32>,
    /// [`Lane::name`] of the same device without a network, of which this lane is a share; [`Lane::LOCAL`] where none is named.
    #[serde(default)]
    pub base: Option<String>,
}

/// What was run.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Workload {
    /// Short name: `4k-randread`, `8k-randrw30`, `qd1-4k-randread`.
    pub name: String,
    /// For people: `4 KiB random read`.
    pub title: String,
    /// fio's `rw`.
    pub rw: String,
    /// Bytes of each operation.
    pub bs_bytes: u32,
    /// Operations that each job keeps in flight.
    pub iodepth: u32,
    /// Jobs.
    #[serde(default = "one")]
    pub jobs: u32,
    /// Reads in 100 operations.
    pub read_percent: u8,
    /// Part of the latency table (queue depth 1) rather than of the thirteen patterns.
    pub latency: bool,
}

fn one() -> u32 {
    1
}

/// One workload on one lane: the medians of the rounds.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Row {
    /// [`Lane::name`].
    pub lane: String,
    /// [`Workload::name`].
    pub workload: String,
    /// Operations per second.
    pub iops: f64,
    /// Those of them that read.
    #[serde(default)]
    pub read_iops: f64,
    /// Those of them that write.
    #[serde(default)]
    pub write_iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Latency of all operations.
    pub latency: Latency,
    /// Mean latency of those that read, nanoseconds.
    #[serde(default)]
    pub read_mean_ns: f64,
    /// Mean latency of those that write, nanoseconds.
    #[serde(default)]
    pub write_mean_ns: f64,
    /// Processor time of the initiator, per operation.
    pub initiator: CpuPerIo,
    /// Processor time of the target process, per operation; none for a lane without one, or when it cannot be known.
    pub target: Option<CpuPerIo>,
    /// IOPS as a share of those of [`Lane::base`].
    pub share_of_local: Option<f64>,
    /// IOPS as a share of the ceiling's; none where the ceiling is unstable, or the machine has one core.
    pub share_of_ceiling: Option<f64>,
    /// Lowest and highest IOPS of the rounds.
    pub spread: (f64, f64),
    /// Rounds.
    pub rounds: u32,
    /// Seconds that a round measured, the median of the rounds.
    #[serde(default)]
    pub seconds: f64,
    /// Where the median of the rounds' IOPS lies with a probability of 95 % or more, whatever their distribution; none below
    /// [`crate::stats::INTERVAL_VALUES_MIN`] rounds.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// The IOPS of every round, in the order in which they were measured. None is left out, neither here nor from the medians.
    #[serde(default)]
    pub iops_of_rounds: Vec<f64>,
    /// The most that the host took from this machine during a round, as [`Conditions::steal`].
    #[serde(default)]
    pub steal: Option<f64>,
    /// Productive system calls of the initiator per operation, empty polls apart.
    pub system_calls_per_io: f64,
    /// The generator's core was full while the device's was not: the device could do more.
    pub generator_limited: bool,
    /// Operations that failed.
    pub failed: u64,
    /// What was counted, where the suite counts and the lane has connections.
    #[serde(default)]
    pub counts: Option<Counts>,
}

/// What a run of so many operations took, counted at both ends; each number but the first is per operation. Unlike times they do not
/// depend on how busy the machine is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Counts {
    /// Operations.
    pub ios: u64,
    /// Bytes that the initiator sent and received on its connections: commands, data and answers, without what TCP adds.
    pub wire_bytes: f64,
    /// At the initiator.
    pub initiator: EndCounts,
    /// At the target; none when it cannot be asked.
    pub target: Option<EndCounts>,
}

/// What was counted at one end, per operation.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct EndCounts {
    /// Productive system calls, empty polls apart.
    pub system_calls: f64,
    /// Bytes of payload copied in user space.
    pub copied_bytes: f64,
}

/// Figures that somebody else has published. **They were not measured here.**
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Published {
    /// [`Lane::name`] of the protocol.
    pub lane: String,
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
    /// Mean latency of reads, nanoseconds.
    pub read_mean_ns: f64,
    /// Mean latency of writes, nanoseconds.
    pub write_mean_ns: f64,
    /// Where they were published.
    pub source: String,
}

/// Latency, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 99 of 100 were at most this.
    pub p99_ns: f64,
    /// 999 of 1,000; none where fewer than [`crate::limits::P999_IOS_MIN`] operations were measured in a round.
    pub p999_ns: Option<f64>,
}

/// Processor time per operation, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct CpuPerIo {
    /// In user space.
    pub user_ns: f64,
    /// In the kernel.
    pub system_ns: f64,
}

impl CpuPerIo {
    /// Both.
    pub fn total_ns(&self) -> f64 {
        self.user_ns + self.system_ns
    }
}

/// The bare TCP ceiling of a workload: the same bytes back and forth, no protocol.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Ceiling {
    /// [`Workload::name`].
    pub workload: String,
    /// Exchanges per second.
    pub iops: f64,
    /// Bytes of payload per second.
    pub bytes_per_second: f64,
    /// Latency.
    pub latency: Latency,
    /// Lowest and highest of the rounds.
    pub spread: (f64, f64),
    /// Rounds.
    #[serde(default)]
    pub rounds: u32,
    /// As [`Row::interval`].
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// As [`Row::iops_of_rounds`].
    #[serde(default)]
    pub iops_of_rounds: Vec<f64>,
}

/// How far the true median may lie from the one that was found, as a part of it: to the end of its interval that is further away.
pub(crate) fn uncertainty((low, high): (f64, f64), median: f64) -> f64 {
    (high - median).max(median - low) / median
}

/// Whether a median with such an interval is good for a statement.
fn is_steady(interval: Option<(f64, f64)>, median: f64) -> bool {
    interval.is_some_and(|interval| uncertainty(interval, median) <= STEADY_WITHIN)
}

impl Lane {
    /// Name of the lane that others are a share of.
    pub const LOCAL: &str = "local";

    /// Name of the lane to a modelled flash device, without a network.
    pub const FLASH: &str = "flash";

    /// Name of the lane over NVMe/TCP.
    pub const NVME_TCP: &str = "nvme+tcp";

    /// Name of the lane over iSCSI.
    pub const ISCSI: &str = "iscsi";

    /// Name of the lane over NBD.
    pub const NBD: &str = "nbd";

    /// Whether it leads to its device without a network.
    pub fn is_local(&self) -> bool {
        [Self::LOCAL, Self::FLASH].contains(&self.name.as_str())
    }

    /// Name of the lane that this one is a share of.
    pub fn base(&self) -> &str {
        self.base.as_deref().unwrap_or(Self::LOCAL)
    }
}

impl Counts {
    /// A number of both ends together; none when the target's is not known.
    pub fn both(&self, of: fn(&EndCounts) -> f64) -> Option<f64> {
        Some(of(&self.initiator) + of(self.target.as_ref()?))
    }
}

impl Ceiling {
    /// Whether the rounds were too few, or lie too far apart, for the median to mean much ([`STEADY_WITHIN`]).
    pub fn is_unstable(&self) -> bool {
        !is_steady(self.interval, self.iops)
    }
}

impl Row {
    /// Whether the rounds were too few, or lie too far apart, for the median to mean much ([`STEADY_WITHIN`]).
    pub fn is_unstable(&self) -> bool {
        !is_steady(self.interval, self.iops)
    }

    /// Processor time of both ends together; none when the target's is not known.
    pub fn cpu_of_both_ns(&self) -> Option<f64> {
        Some(self.initiator.total_ns() + self.target?.total_ns())
    }
}

impl Results {
    /// The lane that `lane` is a share of, if it was measured.
    pub fn base_of(&self, lane: &Lane) -> Option<&Lane> {
        let base = self.lanes.iter().find(|other| other.name == lane.base());
        base.filter(|base| base.name != lane.name)
    }

    /// Rows over a network that are unstable, and all of them; of all lanes where none has a network.
    pub fn unstable(&self) -> (usize, usize) {
        let local = |row: &Row| self.lanes.iter().any(|lane| lane.name == row.lane && lane.is_local());
        let remote: Vec<&Row> = self.rows.iter().filter(|row| !local(row)).collect();
        let rows = if remote.is_empty() { self.rows.iter().collect() } else { remote };
        (rows.iter().filter(|row| row.is_unstable()).count(), rows.len())
    }

    /// Whether at least half of the rows are stable: what is not is no ground for a headline.
    pub fn is_steady(&self) -> bool {
        let (unstable, all) = self.unstable();
        unstable * 2 <= all
    }

    /// The thirteen patterns, in order.
    pub fn patterns(&self) -> impl Iterator<Item = &Workload> {
        self.workloads.iter().filter(|workload| !workload.latency)
    }

    /// The latency table, in order.
    pub fn latencies(&self) -> impl Iterator<Item = &Workload> {
        self.workloads.iter().filter(|workload| workload.latency)
    }

    /// The row of a lane and workload.
    pub fn row(&self, lane: &str, workload: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.lane == lane && row.workload == workload)
    }

    /// The ceiling of a workload.
    pub fn ceiling(&self, workload: &str) -> Option<&Ceiling> {
        self.ceiling.iter().find(|ceiling| ceiling.workload == workload)
    }
}
