//! Measurements: a row for each lane and workload, and the ceiling of each workload.

use super::is_steady;
use serde::{Deserialize, Serialize};

/// One workload on one lane: the medians of the rounds.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// [`super::Lane::name`].
    pub lane: String,
    /// [`super::Workload::name`].
    pub workload: String,
    /// Operations per second.
    pub iops: f64,
    /// Operations per second that were due, in the open loop.
    #[serde(default)]
    pub offered_iops: Option<f64>,
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
    /// Latency of reads; zeroes if there are none.
    #[serde(default)]
    pub reads: Latency,
    /// Latency of writes; zeroes if there are none.
    #[serde(default)]
    pub writes: Latency,
    /// CPU time of the initiator, per operation.
    pub initiator: CpuPerIo,
    /// CPU time of the target process, per operation; none for a lane without a target, or if
    /// unknown.
    pub target: Option<CpuPerIo>,
    /// IOPS as a fraction of those of [`super::Lane::base`].
    pub share_of_local: Option<f64>,
    /// IOPS as a fraction of the ceiling's; none if the ceiling is unstable, or the machine has one
    /// core.
    pub share_of_ceiling: Option<f64>,
    /// Lowest and highest IOPS of the rounds.
    pub spread: (f64, f64),
    /// Number of rounds.
    pub rounds: u32,
    /// Duration of a round in seconds, the median of the rounds.
    #[serde(default)]
    pub seconds: f64,
    /// The interval that contains the median of the rounds' IOPS with a probability of at least 95
    /// %, for any distribution; none for fewer than [`crate::stats::INTERVAL_VALUES_MIN`] rounds.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
    /// The IOPS of every round, in the order of measurement. No round is left out, neither here nor
    /// from the medians, but for those of [`Row::left_out`].
    #[serde(default)]
    pub iops_of_rounds: Vec<f64>,
    /// When each of these rounds began: seconds since the start of the study.
    #[serde(default)]
    pub at_s: Vec<f64>,
    /// IOPS over time: seconds since the start of the study, and the rate there. Each round has at
    /// most [`crate::limits::SERIES_POINTS_MAX`].
    #[serde(default)]
    pub series: Vec<(f64, f64)>,
    /// The highest steal during a round, as in [`super::Conditions::steal`].
    #[serde(default)]
    pub steal: Option<f64>,
    /// Use of all processors that the study could use, during these rounds.
    #[serde(default)]
    pub processors: Option<Processors>,
    /// Context switches of the initiator's process per operation; 0 if the system does not count
    /// them.
    #[serde(default)]
    pub context_switches_per_io: f64,
    /// Productive system calls of the initiator per operation, without empty polls.
    pub system_calls_per_io: f64,
    /// The generator hardly ever waited for the device, which may do more.
    pub generator_limited: bool,
    /// The 95 % interval of the median of the rounds' 99th percentiles, nanoseconds; none with
    /// fewer than six rounds.
    #[serde(default)]
    pub p99_interval: Option<(f64, f64)>,
    /// The same for the median latency, nanoseconds.
    #[serde(default)]
    pub p50_interval: Option<(f64, f64)>,
    /// The same for the processor time of both ends per operation, nanoseconds.
    #[serde(default)]
    pub cpu_interval: Option<(f64, f64)>,
    /// Operations that failed.
    pub failed: u64,
    /// The command that measures the same.
    #[serde(default)]
    pub command: String,
    /// Remarks about this row, in whole sentences.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Counts, if the suite counts and the lane has connections.
    #[serde(default)]
    pub counts: Option<MeasuredCounts>,
    /// Results of each of several machines, if agents put the load on.
    #[serde(default)]
    pub machines: Vec<MachineShare>,
    /// Rounds that do not count, as another number of machines took part in them: one was lost.
    #[serde(default)]
    pub left_out: u32,
    /// Machines that were to take part and did not: they were lost.
    #[serde(default)]
    pub missing: u32,
}

/// Results of one of several machines: the medians of the rounds.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineShare {
    /// [`super::Agent::name`].
    pub agent: String,
    /// Operations per second.
    pub iops: f64,
    /// Latency, arithmetic mean, nanoseconds.
    pub mean_ns: f64,
    /// Latency, the 99th percentile, nanoseconds.
    pub p99_ns: f64,
    /// CPU time of its process, per operation.
    pub cpu: CpuPerIo,
    /// Use of all its processors during these rounds; none where its system does not count that.
    #[serde(default)]
    pub processors: Option<Processors>,
}

/// Counts of a run with a fixed number of operations, at both ends; each number except the first is
/// per operation. Unlike times, they do not depend on the load of the machine.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Counts"))]
pub struct MeasuredCounts {
    /// Operations.
    pub ios: u64,
    /// Bytes that the initiator sent and received on its connections: commands, data and responses,
    /// without the overhead of TCP.
    pub wire_bytes: f64,
    /// At the initiator.
    pub initiator: EndCounts,
    /// At the target; none if the target does not report it.
    pub target: Option<EndCounts>,
}

/// Counts of one end, per operation.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EndCounts {
    /// Productive system calls, without empty polls.
    pub system_calls: f64,
    /// Bytes of payload copied in user space.
    pub copied_bytes: f64,
}

/// Latency, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// The 90th percentile.
    #[serde(default)]
    pub p90_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
    /// The 99.9th percentile; none if there were fewer than [`crate::limits::P999_IOS_MIN`]
    /// operations.
    pub p999_ns: Option<f64>,
    /// The 99.99th percentile; none if there were fewer than [`crate::limits::P9999_IOS_MIN`]
    /// operations.
    #[serde(default)]
    pub p9999_ns: Option<f64>,
    /// The longest of all rounds.
    #[serde(default)]
    pub max_ns: f64,
}

/// CPU time per operation, nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// Use of the processors, as fractions of their time, 0 to 1; the rest they were idle.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Processors {
    /// In programs.
    pub user: f64,
    /// In the kernel, without interrupts.
    pub system: f64,
    /// In interrupts.
    pub interrupts: f64,
    /// In soft interrupts, where the kernel receives from the network.
    pub soft_interrupts: f64,
    /// Taken by the host (steal).
    pub steal: f64,
}

impl From<crate::workload::ProcessorTimes> for Processors {
    fn from(of: crate::workload::ProcessorTimes) -> Self {
        let crate::workload::ProcessorTimes { user, system, interrupts, soft_interrupts, steal } =
            of;
        Self { user, system, interrupts, soft_interrupts, steal }
    }
}

impl Processors {
    /// All but idle and stolen time.
    pub fn busy(&self) -> f64 {
        self.user + self.kernel()
    }

    /// The kernel's part, with interrupts.
    pub fn kernel(&self) -> f64 {
        self.system + self.interrupts + self.soft_interrupts
    }
}

/// The bare TCP ceiling of a workload: the same number of bytes, without a protocol.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ceiling {
    /// [`super::Workload::name`].
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

impl MeasuredCounts {
    /// The sum of both ends; none if the target's value is unknown.
    pub fn both(&self, of: fn(&EndCounts) -> f64) -> Option<f64> {
        Some(of(&self.initiator) + of(self.target.as_ref()?))
    }
}

impl Ceiling {
    /// Returns whether there are too few rounds, or their spread is too large, for a meaningful
    /// median ([`super::STEADY_WITHIN`]).
    pub fn is_unstable(&self) -> bool {
        !is_steady(self.interval, self.iops)
    }
}

impl Row {
    /// Returns whether a machine was lost that should have put load on.
    pub fn lacks_machines(&self) -> bool {
        self.left_out > 0 || self.missing > 0
    }

    /// Returns whether there are too few rounds, or their spread is too large, for a meaningful
    /// median ([`super::STEADY_WITHIN`]).
    pub fn is_unstable(&self) -> bool {
        !is_steady(self.interval, self.iops)
    }

    /// Operations per second for each per cent of all processors' time; `of` says which time
    /// counts.
    pub fn iops_per_percent(&self, of: fn(&Processors) -> f64) -> Option<f64> {
        let percent = of(self.processors.as_ref()?) * 100.0;
        (percent > 0.0).then(|| self.iops / percent)
    }

    /// CPU time of both ends; none if the target's is unknown.
    pub fn cpu_of_both_ns(&self) -> Option<f64> {
        Some(self.initiator.total_ns() + self.target?.total_ns())
    }
}
