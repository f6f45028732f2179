//! The results of a study: the content of `results.json`, and the source of the table and the
//! report.
//!
//! Times are in nanoseconds, rates per second, sizes in bytes. The schema has a version; the
//! meaning of a field never changes.

mod agents;
mod measured;
mod published;
mod relations;
mod surroundings;
#[cfg(test)]
mod tests;
mod workload;

pub use agents::Agent;
pub use measured::{
    Ceiling, CpuPerIo, EndCounts, Latency, MachineShare, MeasuredCounts, Processors, Row,
};
pub use published::{Figure, Metric, Published};
pub use relations::{Quantity, Relation};
pub use surroundings::{Conditions, Machine, Nic};
pub use workload::{OpenLoop, Workload};

use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Version of the schema.
pub const SCHEMA: u32 = 7;

/// The oldest version that is still read; what it lacks counts as not measured.
pub const SCHEMA_OLDEST: u32 = 4;

/// The first version with true cycles: programs that wrote older ones took the clock to be slower
/// by a factor that depended on how they were built.
pub(crate) const SCHEMA_OF_CYCLES: u32 = 7;

/// The JSON schema of `results.json`, as text.
pub const JSON_SCHEMA: &str = include_str!("../../../../docs/study/results.schema.json");

/// A row is steady if neither end of [`Row::interval`] differs from the median by more than this
/// fraction of the median.
pub const STEADY_WITHIN: f64 = 0.05;

/// A whole study.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of weft.
    pub weft: String,
    /// Commit that it was built from, if the program knows it.
    #[serde(default)]
    pub commit: Option<String>,
    /// The command line of the study: the name of the program, and its arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// Start time: seconds since 1970 (UTC).
    pub started_s: u64,
    /// Duration, seconds.
    pub took_s: f64,
    /// `--quick` was given.
    pub quick: bool,
    /// Name of the suite.
    pub suite: String,
    /// Its title.
    #[serde(default)]
    pub title: String,
    /// The parts of the report that are drawn.
    #[serde(default)]
    pub draw: Vec<Drawing>,
    /// The lane that others are a multiple of, side by side.
    #[serde(default)]
    pub reference: Option<String>,
    /// The seed of the order of the lanes.
    #[serde(default)]
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// The load of the machine during the study.
    #[serde(default)]
    pub conditions: Conditions,
    /// The lanes. Local devices come first.
    pub lanes: Vec<Lane>,
    /// Lanes of the suite that were not measured.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// The patterns and the latency table, in order.
    pub workloads: Vec<Workload>,
    /// A row per lane and workload.
    pub rows: Vec<Row>,
    /// The bare TCP ceiling, per workload.
    pub ceiling: Vec<Ceiling>,
    /// Relations of the lanes to the device without a network, to the suite's reference, and to
    /// bare TCP.
    #[serde(default)]
    pub relations: Vec<Relation>,
    /// IOPS and latency over the depth.
    #[serde(default)]
    pub curves: Vec<Curve>,
    /// The writes that brought real devices to their steady state.
    #[serde(default)]
    pub preconditioned: Vec<Preconditioned>,
    /// Published figures, shown next to the rows but separate from them.
    #[serde(default)]
    pub published: Vec<Published>,
    /// The machines that put the load on, if that was not [`Results::machine`].
    #[serde(default)]
    pub agents: Vec<Agent>,
    /// Notes for the reader, in whole sentences: limits that were reached, repeated points, what
    /// could not be measured.
    pub notes: Vec<String>,
}

/// A part of the report.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Drawing {
    /// IOPS of each pattern and lane.
    Iops,
    /// Shares of bare TCP.
    Shares,
    /// Latency at queue depth 1.
    Latency,
    /// CPU time per operation.
    Cpu,
    /// Latency over IOPS, as the depth grows.
    Curves,
    /// IOPS over time.
    Series,
    /// One workload, a column for each lane, with all counts.
    SideBySide,
    /// What was published, as relations.
    Published,
    /// Targets and initiators of each protocol, in relation to the reference.
    Matrix,
    /// The reference against each other lane.
    Against,
}

/// A lane that was not measured.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Skipped {
    /// Its name.
    pub lane: String,
    /// Why, in a whole sentence.
    pub why: String,
    /// The cells that are empty for this reason, if targets and initiators are compared.
    #[serde(default)]
    pub cell: Option<Cell>,
}

/// A place among targets and initiators that are compared.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    /// The protocol: `NVMe/TCP`.
    pub protocol: String,
    /// The target; none: each of the protocol.
    pub target: Option<String>,
    /// The initiator that puts the load on; none: each of the protocol.
    pub initiator: Option<String>,
}

/// A path to the device.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lane {
    /// Short name: `local`, `nvme+tcp`.
    pub name: String,
    /// Title: `RAM disk, same process`, `NVMe/TCP over loopback`.
    pub title: String,
    /// The URL.
    pub url: String,
    /// Cores of the load generator.
    #[serde(default)]
    pub initiator_cpus: Vec<usize>,
    /// Cores of the target.
    #[serde(default)]
    pub target_cpus: Vec<usize>,
    /// [`Lane::name`] of the same device without a network, the reference of this lane;
    /// [`Lane::LOCAL`] if none is named.
    #[serde(default)]
    pub base: Option<String>,
    /// Its device is a disk, a file or another machine's, rather than memory or a model.
    #[serde(default)]
    pub real: bool,
    /// [`Agent::name`] of the machines that put the load on; empty: [`Results::machine`] does.
    #[serde(default)]
    pub agents: Vec<String>,
    /// [`Lane::name`] of the lane to weft's target that this one is compared with, if its target is
    /// another project's.
    #[serde(default)]
    pub rival: Option<String>,
    /// Commands and configuration of the target, in order. `DIRECTORY` is its directory and
    /// `MEMORY` a file in memory.
    #[serde(default)]
    pub setup: Vec<String>,
    /// Its place among targets and initiators, if those are compared.
    #[serde(default)]
    pub cell: Option<Cell>,
}

impl Cell {
    /// Name of weft's target and initiator.
    pub const OWN: &str = "weft";

    /// A place.
    pub fn new(protocol: &str, target: Option<&str>, initiator: Option<&str>) -> Self {
        let owned = |name: &str| name.to_owned();
        Self {
            protocol: protocol.to_owned(),
            target: target.map(owned),
            initiator: initiator.map(owned),
        }
    }
}

/// The uncertainty of a median, as a fraction of it: the distance to the end of its interval that
/// is further away.
pub(crate) fn uncertainty((low, high): (f64, f64), median: f64) -> f64 {
    (high - median).max(median - low) / median
}

/// Whether a median with such an interval is reliable enough for a statement.
fn is_steady(interval: Option<(f64, f64)>, median: f64) -> bool {
    interval.is_some_and(|interval| uncertainty(interval, median) <= STEADY_WITHIN)
}

/// A workload at growing depths.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Curve {
    /// [`Lane::name`].
    pub lane: String,
    /// [`Workload::name`]; its own depth is one of several here.
    pub workload: String,
    /// One for each depth.
    pub points: Vec<Point>,
    /// The reason why the growth ended.
    pub end: CurveEnd,
}

/// A depth.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point {
    /// Operations in flight: jobs times queue depth.
    pub in_flight: u32,
    /// Operations per second.
    pub iops: f64,
    /// Latency.
    pub latency: Latency,
    /// Part of the generator's turns in which it found something to do, 0 to 1.
    pub generator: f64,
    /// Cores that the target used.
    pub target_cores: Option<f64>,
}

/// The reason why the growth of a curve ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, schemars(rename = "End"))]
pub enum CurveEnd {
    /// More depth brought no more, although the generator waited: the lane is saturated.
    Saturated,
    /// The generator never waited: its cores were the limit, and what the lane could do is unknown.
    Generator,
    /// It was still growing at the greatest depth.
    Growing,
    /// The time was over.
    Time,
    /// More depth brought much less: the machine was disturbed, or the lane does not bear more.
    /// What it can do is unknown.
    Fell,
}

/// The writes to a real device until its rate no longer changed.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Preconditioned {
    /// [`Lane::name`].
    pub lane: String,
    /// Number of times that all of it was written from front to back.
    pub passes: u32,
    /// IOPS of the rounds of random writes that followed.
    pub rounds: Vec<f64>,
    /// The last of them are steady by SNIA's rule.
    pub steady: bool,
}

impl Curve {
    /// By how much the rate may fall with more depth, as a part of the most, before that is no
    /// saturation.
    const FALL: f64 = 0.2;

    /// Returns the reason why the growth ended, by the points.
    pub fn verdict(&self) -> CurveEnd {
        let most = self.best().map_or(0.0, |best| best.iops);
        let fell = self.points.last().is_some_and(|last| last.iops < most * (1.0 - Self::FALL));
        if fell && self.end == CurveEnd::Saturated { CurveEnd::Fell } else { self.end }
    }

    /// The depth with the most operations per second; of equals the smallest.
    pub fn best(&self) -> Option<&Point> {
        self.points.iter().rev().max_by(|a, b| a.iops.total_cmp(&b.iops))
    }
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

    /// Returns whether it reaches its device without a network.
    pub fn is_local(&self) -> bool {
        [Self::LOCAL, Self::FLASH].contains(&self.name.as_str())
    }

    /// Its title without what all lanes have in common.
    pub fn short_title(&self) -> &str {
        self.title.strip_suffix(" over the loopback").unwrap_or(&self.title)
    }

    /// Name of this lane's reference lane.
    pub fn base(&self) -> &str {
        self.base.as_deref().unwrap_or(Self::LOCAL)
    }
}

impl Results {
    /// The reference lane of `lane`, if it was measured.
    pub fn base_of(&self, lane: &Lane) -> Option<&Lane> {
        let base = self.lanes.iter().find(|other| other.name == lane.base());
        base.filter(|base| base.name != lane.name)
    }

    /// The lane that others are compared with, if it was measured.
    pub(crate) fn reference_lane(&self) -> Option<&Lane> {
        let name = self.reference.as_ref()?;
        self.lanes.iter().find(|lane| lane.name == *name)
    }

    /// The text of `results.json`.
    ///
    /// # Errors
    /// A number or text cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, crate::Error> {
        serde_json::to_string_pretty(self).map_err(|error| crate::Error::Results {
            place: self.suite.clone(),
            problem: error.to_string(),
        })
    }

    /// How long the study took.
    pub(crate) fn took(&self) -> Duration {
        Duration::try_from_secs_f64(self.took_s).unwrap_or_default()
    }

    /// Returns whether a part of the report is drawn.
    pub fn draws(&self, drawing: Drawing) -> bool {
        self.draw.contains(&drawing)
    }

    /// The curve of a lane and workload.
    pub fn curve(&self, lane: &str, workload: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.lane == lane && curve.workload == workload)
    }

    /// The patterns, in order.
    pub fn patterns(&self) -> impl Iterator<Item = &Workload> {
        self.workloads.iter().filter(|workload| !workload.latency && workload.open.is_none())
    }

    /// The read of the largest blocks, a sequential one rather than another, if its blocks are
    /// larger than those of the quoted pattern.
    pub(crate) fn largest_read(&self) -> Option<&Workload> {
        let reads = self.patterns().filter(|pattern| pattern.rw.ends_with("read"));
        let largest = reads.max_by_key(|pattern| (pattern.bs_bytes, pattern.rw == "read"));
        largest.filter(|largest| {
            Workload::quoted(self.patterns())
                .is_none_or(|quoted| quoted.bs_bytes < largest.bs_bytes)
        })
    }

    /// The workloads at a fixed rate, in order.
    pub fn open_loops(&self) -> impl Iterator<Item = &Workload> {
        self.workloads.iter().filter(|workload| workload.open.is_some())
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
