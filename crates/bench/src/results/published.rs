//! Publications of others, as relations between figures of one source. **Nothing here was measured
//! by weft.**

use super::{Processors, Results, Row};
use serde::{Deserialize, Serialize};
use weft_load::stats::median;

/// Figures of one source that belong together.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Published {
    /// The publication, and what it compared.
    pub source: String,
    /// Its address.
    #[serde(default)]
    pub url: Option<String>,
    /// The measurement, in its words: `4 KiB random read on a RAM disk`.
    pub of: String,
    /// [`super::Workload::name`] of the workload to compare with; none: the source gives a summary,
    /// and the median of all workloads is compared with it.
    #[serde(default)]
    pub workload: Option<String>,
    /// The quantity.
    pub metric: Metric,
    /// The figures. The first is the reference of the others.
    pub figures: Vec<Figure>,
}

/// One figure.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figure {
    /// Its name in the source.
    pub name: String,
    /// [`super::Lane::name`] of the lane that corresponds, if one does.
    #[serde(default)]
    pub lane: Option<String>,
    /// The figure, if published: per second, or nanoseconds.
    #[serde(default)]
    pub value: Option<f64>,
    /// Lowest and highest ratio to the reference.
    pub ratio: (f64, f64),
}

/// A quantity of a row.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Operations per second.
    Iops,
    /// Reads per second.
    ReadIops,
    /// Writes per second.
    WriteIops,
    /// Mean latency.
    Mean,
    /// Mean latency of reads.
    ReadMean,
    /// Mean latency of writes.
    WriteMean,
    /// 90th percentile of reads.
    ReadP90,
    /// 90th percentile of writes.
    WriteP90,
    /// CPU time of the initiator per operation.
    CpuPerIo,
    /// Operations per second for each per cent of the processors' time in the kernel.
    IopsPerKernelPercent,
}

impl Metric {
    /// Returns its name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::ReadIops => "reads per second",
            Self::WriteIops => "writes per second",
            Self::Mean => "mean latency",
            Self::ReadMean => "mean latency of reads",
            Self::WriteMean => "mean latency of writes",
            Self::ReadP90 => "90th percentile of reads",
            Self::WriteP90 => "90th percentile of writes",
            Self::CpuPerIo => "CPU time per operation",
            Self::IopsPerKernelPercent => "IOPS per % of kernel CPU",
        }
    }

    /// Returns whether it is a time.
    pub fn is_time(self) -> bool {
        !matches!(self, Self::Iops | Self::ReadIops | Self::WriteIops | Self::IopsPerKernelPercent)
    }

    /// Its value in a row; none if it was not measured.
    pub fn of(self, row: &Row) -> Option<f64> {
        let value = match self {
            Self::Iops => row.iops,
            Self::ReadIops => row.read_iops,
            Self::WriteIops => row.write_iops,
            Self::Mean => row.latency.mean_ns,
            Self::ReadMean => row.reads.mean_ns,
            Self::WriteMean => row.writes.mean_ns,
            Self::ReadP90 => row.reads.p90_ns,
            Self::WriteP90 => row.writes.p90_ns,
            Self::CpuPerIo => row.initiator.total_ns(),
            Self::IopsPerKernelPercent => row.iops_per_percent(Processors::kernel)?,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

impl Published {
    /// The same ratio of this study; none if a lane was not measured, or for the reference itself.
    pub fn here(&self, figure: &Figure, results: &Results) -> Option<f64> {
        let reference = self.figures.first()?;
        let (lane, base) = (figure.lane.as_deref()?, reference.lane.as_deref()?);
        if lane == base {
            return None;
        }
        let of = |workload: &str| {
            let (row, base) = (results.row(lane, workload)?, results.row(base, workload)?);
            Some(self.metric.of(row)? / self.metric.of(base)?)
        };
        match &self.workload {
            Some(workload) => of(workload),
            None => {
                let all = results.workloads.iter().filter_map(|workload| of(&workload.name));
                let mut ratios: Vec<f64> = all.collect();
                (!ratios.is_empty()).then(|| median(&mut ratios))
            }
        }
    }
}
