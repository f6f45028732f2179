//! What a study has found: the content of `results.json`, and what the table and the report are made from.
//!
//! Times are in nanoseconds, rates per second, sizes in bytes. The schema has a version; a field is never given another meaning.

use serde::{Deserialize, Serialize};

/// Version of the schema.
pub const SCHEMA: u32 = 1;

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
    /// What was measured, side by side. The first lane is the local device, the one that others are a share of, if it is there.
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
    /// Latency.
    pub latency: Latency,
    /// Processor time of the initiator, per operation.
    pub initiator: CpuPerIo,
    /// Processor time of the target process, per operation; none for a lane without one, or when it cannot be known.
    pub target: Option<CpuPerIo>,
    /// IOPS as a share of the local lane's.
    pub share_of_local: Option<f64>,
    /// IOPS as a share of the ceiling's.
    pub share_of_ceiling: Option<f64>,
    /// Lowest and highest IOPS of the rounds.
    pub spread: (f64, f64),
    /// Rounds.
    pub rounds: u32,
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
    /// Mean latency, nanoseconds.
    pub mean_ns: f64,
    /// Who published them.
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
    /// 999 of 1,000.
    pub p999_ns: f64,
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
}

impl Lane {
    /// Name of the lane that others are a share of.
    pub const LOCAL: &str = "local";

    /// Name of the lane over NVMe/TCP.
    pub const NVME_TCP: &str = "nvme+tcp";

    /// Name of the lane over iSCSI.
    pub const ISCSI: &str = "iscsi";

    /// Name of the lane over NBD.
    pub const NBD: &str = "nbd";

    /// Whether it is that one.
    pub fn is_local(&self) -> bool {
        self.name == Self::LOCAL
    }
}

impl Counts {
    /// A number of both ends together; none when the target's is not known.
    pub fn both(&self, of: fn(&EndCounts) -> f64) -> Option<f64> {
        Some(of(&self.initiator) + of(self.target.as_ref()?))
    }
}

impl Row {
    /// Processor time of both ends together; none when the target's is not known.
    pub fn cpu_of_both_ns(&self) -> Option<f64> {
        Some(self.initiator.total_ns() + self.target?.total_ns())
    }
}

impl Results {
    /// The lane that others are a share of, if it was measured.
    pub fn local(&self) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.is_local())
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
