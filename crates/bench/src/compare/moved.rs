//! How a relation of lanes differs between two studies.
//!
//! Machines and days differ, and with them all rates. What a lane is beside another one of the same study differs less: both were measured on the same
//! machine at the same time. So that is what is compared, and its interval comes from those of both studies.

use crate::relation::{Estimate, Scale, moved};
use crate::report::units::{signed_time, time};
use crate::results::{Quantity, Relation, Results};
use core::cmp::Ordering;

/// A relation that both studies have.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Lane.
    pub lane: String,
    /// The lane beside which it stands; none: bare TCP.
    pub to: Option<String>,
    /// Workload.
    pub workload: String,
    /// What is compared.
    pub quantity: Quantity,
    /// The relation before and after.
    pub estimates: [Estimate; 2],
    /// How the second differs from the first: by which factor, or by how much.
    pub change: Estimate,
}

/// What both studies have, in the order of the later one.
pub(super) fn all(before: &Results, after: &Results) -> Vec<Moved> {
    let of = |relation: &Relation| {
        let then = before.relation(&relation.lane, relation.to.as_deref(), &relation.workload, relation.quantity)?;
        let estimates = [*then, relation.estimate];
        Some(Moved {
            lane: relation.lane.clone(),
            to: relation.to.clone(),
            workload: relation.workload.clone(),
            quantity: relation.quantity,
            change: estimates[1].since(&estimates[0])?,
            estimates,
        })
    };
    after.relations.iter().filter_map(of).collect()
}

impl Moved {
    /// What is compared, in words.
    pub(super) fn what(&self) -> &'static str {
        match self.quantity {
            Quantity::Rate => "rate",
            Quantity::Latency => "latency",
            Quantity::Cpu => "CPU/op",
        }
    }

    /// The relations, as a table has them.
    pub(super) fn shown(&self) -> [String; 2] {
        self.estimates.map(|estimate| match estimate.scale {
            Scale::Ratio => format!("{:.3} ({:.3} to {:.3})", estimate.value, estimate.low, estimate.high),
            Scale::Difference => {
                let [value, low, high] = [estimate.value, estimate.low, estimate.high].map(signed_time);
                format!("{value} ({low} to {high})")
            }
        })
    }

    /// Whether it differs, and by how much.
    pub(super) fn verdict(&self) -> String {
        let change = &self.change;
        match (change.scale, change.direction()) {
            (Scale::Ratio, _) => moved(change),
            (_, Some(Ordering::Greater)) => format!("more, by {} to {}", time(change.low), time(change.high)),
            (_, Some(_)) => format!("less, by {} to {}", time(-change.high), time(-change.low)),
            (_, None) => format!("cannot be told apart: {} to {}", signed_time(change.low), signed_time(change.high)),
        }
    }
}
