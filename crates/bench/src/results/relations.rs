//! Relations between the lanes of a study. Each relation has an interval; the results of a lane by
//! itself depend on the machine and on its day.

use super::Results;
use crate::relation::Estimate;
use serde::{Deserialize, Serialize};

/// A relation of a lane in one workload.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Relation {
    /// [`super::Lane::name`].
    pub lane: String,
    /// [`super::Lane::name`] of the other one; none: bare TCP.
    pub to: Option<String>,
    /// [`super::Workload::name`].
    pub workload: String,
    /// The quantity that is compared.
    pub quantity: Quantity,
    /// The result. Times are in nanoseconds.
    pub estimate: Estimate,
    /// The result of each block, in the unit of `estimate`.
    #[serde(default)]
    pub of_blocks: Vec<f64>,
}

/// The quantity that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Operations per second, as a ratio.
    Rate,
    /// The median latency, as a difference.
    Latency,
    /// The processor time of both ends per operation, as a difference.
    Cpu,
    /// The same in cycles of the processors, which do not change with the clock, as a difference.
    Cycles,
    /// The processor time of the initiator per operation, as a difference.
    InitiatorCpu,
    /// The processor time of the target per operation, as a difference.
    TargetCpu,
}

impl Quantity {
    /// `rate`, `median latency`, `CPU of both ends`.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Latency => "median latency",
            Self::Cpu => "CPU of both ends",
            Self::Cycles => "cycles of both ends",
            Self::InitiatorCpu => "CPU of the initiator",
            Self::TargetCpu => "CPU of the target",
        }
    }
}

impl Results {
    /// Returns the relation of a lane to another one, or to bare TCP.
    pub fn relation(
        &self,
        lane: &str,
        to: Option<&str>,
        workload: &str,
        quantity: Quantity,
    ) -> Option<&Estimate> {
        let is = |it: &&Relation| {
            it.lane == lane
                && it.to.as_deref() == to
                && it.workload == workload
                && it.quantity == quantity
        };
        self.relations.iter().find(is).map(|it| &it.estimate)
    }
}
