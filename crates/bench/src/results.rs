//! The results of a study: the content of `results.json`, and the source of the table and the report.
//!
//! Times are in nanoseconds, rates per second, sizes in bytes. The schema has a version; the meaning of a field never changes.

use serde::{Deserialize, Serialize};

/// Version of the schema.
pub const SCHEMA: u32 = 3;

/// A row is steady if neither end of [`Row::interval`] differs from the median by more than this fraction of the median.
pub const STEADY_WITHIN: f64 = 0.05;

/// A whole study.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of weft.
    pub weft: String,
    /// Start time: seconds since 1970 (UTC).
    pub started_s: u64,
    /// Duration, seconds.
    pub took_s: f64,
    /// Whether `--quick` was given.
    pub quick: bool,
    /// The suite.
    #[serde(default)]
    pub suite: Suite,
    /// The machine.
    pub machine: Machine,
    /// The load of the machine during the study.
    #[serde(default)]
    pub conditions: Conditions,
    /// The lanes. Local devices come first.
    pub lanes: Vec<Lane>,
    /// The thirteen patterns and the latency table, in order.
    pub workloads: Vec<Workload>,
    /// A row per lane and workload.
    pub rows: Vec<Row>,
    /// The bare TCP ceiling, per workload.
    pub ceiling: Vec<Ceiling>,
    /// Published figures of the same workload, shown next to the rows but separate from them.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Notes for the reader, in whole sentences: limits that were reached, repeated points, what could not be measured.
    pub notes: Vec<String>,
}

/// The workloads of a study.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// The thirteen patterns and the latency table.
    #[default]
    Patterns,
    /// Many jobs at depth 1 on a null device: the cost of the protocols.
    Null,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Machine {
    /// Host name.
    pub name: String,
    /// CPU model.
    pub cpu: String,
    /// Cores available to the study.
    pub cores: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Operating system and version.
    pub system: String,
}

/// The load of the machine during a study, as far as the system reports it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Conditions {
    /// Load average of the last minute before the study, in CPUs.
    pub load_before: Option<f64>,
    /// The same at the end, including the load of the study.
    pub load_after: Option<f64>,
    /// Fraction of the time of the CPUs that the study could use, 0 to 1, that the hypervisor gave to others although this machine needed it (steal).
    pub steal: Option<f64>,
    /// The same, of what other programs of this machine took meanwhile: all but the load generator, the targets and bare TCP.
    #[serde(default)]
    pub others: Option<f64>,
}

/// A path to the device.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Lane {
    /// Short name: `local`, `nvme+tcp`.
    pub name: String,
    /// Title: `RAM disk, same process`, `NVMe/TCP over loopback`.
    pub title: String,
    /// The URL.
    pub url: String,
    /// Core of the load generator; `target_cpu` is that of the target.
    pub initiator_cpu: Option<u32>,
    /// See `initiator_cpu`.
    pub target_cpu: Option<u32>,
    /// [`Lane::name`] of the same device without a network, the reference of this lane; [`Lane::LOCAL`] if none is named.
    #[serde(default)]
    pub base: Option<String>,
}

/// A workload.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Workload {
    /// Short name: `4k-randread`, `8k-randrw30`, `qd1-4k-randread`.
    pub name: String,
    /// Title: `4 KiB random read`.
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
    /// Percentage of reads.
    pub read_percent: u8,
    /// Part of the latency table (queue depth 1), not of the thirteen patterns.
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
    /// Reads per second.
    #[serde(default)]
    pub read_iops: f64,
    /// Writes per second.
    #[serde(default)]
    pub write_iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Latency of all operations.
    pub latency: Latency,
    /// Mean latency of reads, nanoseconds.
    #[serde(default)]
    pub read_mean_ns: f64,
    /// Mean latency of writes, nanoseconds.
    #[serde(default)]
    pub write_mean_ns: f64,
    /// CPU time of the initiator, per operation.
    pub initiator: CpuPerIo,
    /// CPU time of the target process, per operation; none for a lane without a target, or if unknown.
    pub target: Option<CpuPerIo>,
    /// IOPS as a fraction of those of [`Lane::base`].
    pub share_of_local: Option<f64>,
    /// IOPS as a fraction of the ceiling's; none if the ceiling is unstable, or the machine has one core.
    pub share_of_ceiling: Option<f64>,
    /// Lowest and highest IOPS of the rounds.
    pub spread: (f64, f64),
    /// Number of rounds.
    pub rounds: u32,
    /// Duration of a round in seconds, the median of the rounds.
    #[serde(default)]
    pub seconds: f64,
    /// The interval that contains the median of the rounds' IOPS with a probability of at least 95 %, for any distribution; none for fewer
    /// than [`crate::stats::INTERVAL_VALUES_MIN`] rounds.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// The IOPS of every round, in the order of measurement. No round is left out, neither here nor from the medians.
    #[serde(default)]
    pub iops_of_rounds: Vec<f64>,
    /// The highest steal during a round, as in [`Conditions::steal`].
    #[serde(default)]
    pub steal: Option<f64>,
    /// Productive system calls of the initiator per operation, without empty polls.
    pub system_calls_per_io: f64,
    /// The generator's core was fully used while the device's was not: the device can do more.
    pub generator_limited: bool,
    /// Operations that failed.
    pub failed: u64,
    /// Counts, if the suite counts and the lane has connections.
    #[serde(default)]
    pub counts: Option<Counts>,
}

/// Counts of a run with a fixed number of operations, at both ends; each number except the first is per operation. Unlike times,
/// they do not depend on the load of the machine.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Counts {
    /// Operations.
    pub ios: u64,
    /// Bytes that the initiator sent and received on its connections: commands, data and responses, without the overhead of TCP.
    pub wire_bytes: f64,
    /// At the initiator.
    pub initiator: EndCounts,
    /// At the target; none if the target does not report it.
    pub target: Option<EndCounts>,
}

/// Counts of one end, per operation.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct EndCounts {
    /// Productive system calls, without empty polls.
    pub system_calls: f64,
    /// Bytes of payload copied in user space.
    pub copied_bytes: f64,
}

/// Published figures. **They were not measured here.**
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
    /// The 99th percentile.
    pub p99_ns: f64,
    /// The 99.9th percentile; none if a round had fewer than [`crate::limits::P999_IOS_MIN`] operations.
    pub p999_ns: Option<f64>,
}

/// CPU time per operation, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct CpuPerIo {
    /// In user space.
    pub user_ns: f64,
    /// In the kernel.
    pub system_ns: f64,
}

impl CpuPerIo {
    /// The sum of both.
    pub fn total_ns(&self) -> f64 {
        self.user_ns + self.system_ns
    }
}

/// The bare TCP ceiling of a workload: the same number of bytes, without a protocol.
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
    /// Lowest and highest rate of the rounds.
    pub spread: (f64, f64),
    /// Number of rounds.
    #[serde(default)]
    pub rounds: u32,
    /// Like [`Row::interval`].
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// As [`Row::iops_of_rounds`].
    #[serde(default)]
    pub iops_of_rounds: Vec<f64>,
}

/// The uncertainty of a median, as a fraction of it: the distance to the end of its interval that is further away.
pub(crate) fn uncertainty((low, high): (f64, f64), median: f64) -> f64 {
    (high - median).max(median - low) / median
}

/// Whether a median with such an interval is reliable enough for a statement.
fn is_steady(interval: Option<(f64, f64)>, median: f64) -> bool {
    interval.is_some_and(|interval| uncertainty(interval, median) <= STEADY_WITHIN)
}

impl Lane {
    /// Name of the reference lane.
    pub const LOCAL: &str = "local";

    /// Name of the lane to a modelled flash device, without a network.
    pub const FLASH: &str = "flash";

    /// Name of the lane over NVMe/TCP.
    pub const NVME_TCP: &str = "nvme+tcp";

    /// Name of the lane over NVMe over RDMA.
    pub const NVME_RDMA: &str = "nvme+rdma";

    /// Name of the lane over iSCSI.
    pub const ISCSI: &str = "iscsi";

    /// Name of the lane over NBD.
    pub const NBD: &str = "nbd";

    /// Whether it reaches its device without a network.
    pub fn is_local(&self) -> bool {
        [Self::LOCAL, Self::FLASH].contains(&self.name.as_str())
    }

    /// Name of this lane's reference lane.
    pub fn base(&self) -> &str {
        self.base.as_deref().unwrap_or(Self::LOCAL)
    }
}

impl Counts {
    /// The sum of both ends; none if the target's value is unknown.
    pub fn both(&self, of: fn(&EndCounts) -> f64) -> Option<f64> {
        Some(of(&self.initiator) + of(self.target.as_ref()?))
    }
}

impl Ceiling {
    /// Whether there are too few rounds, or their spread is too large, for a meaningful median ([`STEADY_WITHIN`]).
    pub fn is_unstable(&self) -> bool {
        !is_steady(self.interval, self.iops)
    }
}

impl Row {
    /// Whether there are too few rounds, or their spread is too large, for a meaningful median ([`STEADY_WITHIN`]).
    pub fn is_unstable(&self) -> bool {
        !is_steady(self.interval, self.iops)
    }

    /// CPU time of both ends; none if the target's is unknown.
    pub fn cpu_of_both_ns(&self) -> Option<f64> {
        Some(self.initiator.total_ns() + self.target?.total_ns())
    }
}

impl Results {
    /// The reference lane of `lane`, if it was measured.
    pub fn base_of(&self, lane: &Lane) -> Option<&Lane> {
        let base = self.lanes.iter().find(|other| other.name == lane.base());
        base.filter(|base| base.name != lane.name)
    }

    /// The number of unstable rows over a network, and of all such rows; of all lanes if none has a network.
    pub fn unstable(&self) -> (usize, usize) {
        let local = |row: &Row| self.lanes.iter().any(|lane| lane.name == row.lane && lane.is_local());
        let remote: Vec<&Row> = self.rows.iter().filter(|row| !local(row)).collect();
        let rows = if remote.is_empty() { self.rows.iter().collect() } else { remote };
        (rows.iter().filter(|row| row.is_unstable()).count(), rows.len())
    }

    /// Whether at least half of the rows are stable; otherwise there is no headline.
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
