//! Relations of the same two lanes that both studies have.

use crate::relation::{Estimate, changed};
use crate::report::tables::CEILING;
use crate::report::units::Unit;
use crate::results::{Quantity, Results, Row};

/// A relation in both studies.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    /// Lane.
    pub lane: String,
    /// The other lane; none: bare TCP.
    pub to: Option<String>,
    /// Workload.
    pub workload: String,
    /// The compared quantity.
    pub quantity: Quantity,
    /// The earlier study's.
    pub before: Estimate,
    /// The later study's.
    pub after: Estimate,
    /// The ratio of these, or their difference.
    pub change: Estimate,
}

impl Related {
    /// The change, in words.
    pub fn words(&self) -> String {
        changed(&self.change, &self.before, self.unit())
    }

    /// The name of the other lane.
    pub(super) fn other(&self) -> &str {
        self.to.as_deref().unwrap_or(CEILING)
    }

    /// `rate`, `median latency`, `CPU of both ends`.
    pub(super) fn what(&self) -> &'static str {
        self.quantity.title()
    }

    /// The unit of a difference.
    pub(super) fn unit(&self) -> Unit {
        Unit::of(self.quantity)
    }
}

/// The relations of a row: one for each quantity, whatever they say.
pub(super) fn of_row(before: &Results, after: &Results, row: &Row) -> Vec<Related> {
    let of = |quantity| {
        let common = |to: &Option<String>| {
            let find = |of: &Results| {
                of.relation(&row.lane, to.as_deref(), &row.workload, quantity).copied()
            };
            let (before, after) = (find(before)?, find(after)?);
            Some((before, after, after.since(&before)?))
        };
        others(after, &row.lane, quantity).into_iter().find_map(|to| {
            let (before, after, change) = common(&to)?;
            Some(Related {
                lane: row.lane.clone(),
                to,
                workload: row.workload.clone(),
                quantity,
                before,
                after,
                change,
            })
        })
    };
    // Cycles do not change with the clock, so they say more than the time.
    let cpu = of(Quantity::Cycles).or_else(|| of(Quantity::Cpu));
    [of(Quantity::Rate), of(Quantity::Latency), cpu].into_iter().flatten().collect()
}

/// The lanes that one is compared with, the first that both studies have. They are those of the
/// headline: a rate as a share of the wire, and what the network adds to latency and processor
/// time.
fn others(results: &Results, lane: &str, quantity: Quantity) -> Vec<Option<String>> {
    let lane = results.lanes.iter().find(|it| it.name == lane);
    let local = lane.map(|lane| Some(lane.base().to_owned()));
    let reference = results.reference.clone().map(Some);
    let mut others: Vec<Option<String>> = [Some(None), local].into_iter().flatten().collect();
    if quantity != Quantity::Rate {
        others.reverse();
    }
    others.extend(reference);
    others
}
