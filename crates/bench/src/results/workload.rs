//! Workloads that are measured on each lane.

use serde::{Deserialize, Serialize};

/// A workload.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// Part of the latency table (queue depth 1), not of the patterns.
    pub latency: bool,
    /// Bytes that each job has for itself, one after the other; none: all jobs use the whole
    /// device.
    #[serde(default)]
    pub job_bytes: Option<u64>,
    /// Rounds before the first that counts: writes change how a device answers.
    #[serde(default)]
    pub warm_up_rounds: u32,
    /// At a fixed rate; none: each job keeps its depth.
    #[serde(default)]
    pub open: Option<OpenLoop>,
}

/// The open loop: operations are due at fixed times, however fast the lane answers. Latency counts
/// from when an operation was due, so what waits behind a stall counts too (no coordinated
/// omission).
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenLoop {
    /// [`Workload::name`] of the closed loop from which the rate is taken.
    pub of: String,
    /// The rate, the same for all lanes, as a percentage of what the slowest lane does there.
    pub percent: u8,
}

fn one() -> u32 {
    1
}

impl Workload {
    /// The one that is quoted: the smallest random read, else the first.
    pub(crate) fn quoted<'a>(workloads: impl Iterator<Item = &'a Self>) -> Option<&'a Self> {
        workloads.min_by_key(|workload| (workload.rw != "randread", workload.bs_bytes))
    }

    /// Operations in flight, all jobs together.
    pub fn in_flight(&self) -> u32 {
        self.jobs.saturating_mul(self.iodepth)
    }
}
