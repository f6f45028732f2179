//! Compares lanes to a target of another project with that target's own load generators.

use super::units::NBSP;
use crate::relation::Estimate;
use crate::results::{Cell, Lane, Quantity, Results};

/// The part of its own benchmark's rate that a target must reach.
const REACHED: f64 = 0.95;

/// The mark of a lane that does not.
pub(crate) const MARK: &str = "^";

/// A lane that reaches too little.
pub(crate) struct Poor<'a> {
    target: &'a str,
    by: &'a str,
    low: f64,
    high: f64,
}

/// Returns what a lane with weft's initiator reaches of the rate that another initiator has on the
/// same target, if all of the interval lies below [`REACHED`]. The other initiator that has the
/// most counts.
pub(crate) fn poor<'a>(results: &'a Results, lane: &'a Lane, workload: &str) -> Option<Poor<'a>> {
    let cell = lane.cell.as_ref().filter(|cell| cell.initiator.as_deref() == Some(Cell::OWN))?;
    let target = cell.target.as_deref().filter(|target| *target != Cell::OWN)?;
    let others = results.lanes.iter().filter_map(|other| {
        let of = other.cell.as_ref()?;
        let is_beside = of.protocol == cell.protocol && of.target == cell.target;
        let by = of.initiator.as_deref().filter(|by| is_beside && *by != Cell::OWN)?;
        let ratio = results.relation(&other.name, Some(&lane.name), workload, Quantity::Rate)?;
        Some((by, ratio))
    });
    let is_less = |ratio: &Estimate| ratio.low * REACHED > 1.0;
    let (by, ratio) = others
        .filter(|(_, ratio)| is_less(ratio))
        .max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))?;
    Some(Poor { target, by, low: 1.0 / ratio.high, high: 1.0 / ratio.low })
}

impl Poor<'_> {
    /// In a sentence.
    pub(crate) fn sentence(&self) -> String {
        let Self { target, by, low, high } = self;
        format!(
            "Not configured well: weft’s initiator does {low:.2}{NBSP}to{NBSP}{high:.2} of the rate that {by} has on the same target, so this understates {target}."
        )
    }
}
