//! The limit of a lane, from what was measured together with its rate.

use super::findings::title;
use super::units::share;
use crate::relation::Estimate;
use crate::results::{Lane, Quantity, Results, Row, Workload};

/// From this part of something on it is called used up.
const FULL: f64 = 0.9;

/// A sentence for the smallest and for the largest blocks.
pub(super) fn sentences(results: &Results, lane: &Lane) -> Vec<String> {
    let of = |workload: &Workload| {
        let row = results.row(&lane.name, &workload.name)?;
        Some(format!("{}: {}.", title(workload), limit(results, lane, row)))
    };
    let ends = Workload::quoted(results.patterns()).into_iter().chain(results.largest_read());
    ends.filter_map(of).collect()
}

/// What is used up, the nearest first.
fn limit(results: &Results, lane: &Lane, row: &Row) -> String {
    let rate =
        |to: Option<&str>| results.relation(&lane.name, to, &row.workload, Quantity::Rate).copied();
    let device =
        results.base_of(lane).and_then(|base| Part::of(rate(Some(&base.name)), row.share_of_local));
    let tcp = Part::of(rate(None), row.share_of_ceiling);
    let carries = tcp
        .as_ref()
        .map(|part| format!(" ({} of bare TCP’s rate)", part.words()))
        .unwrap_or_default();
    if row.generator_limited {
        return format!(
            "the load generator, whose core was full while the device’s was not; the lane can do more{carries}"
        );
    }
    if let Some(part) = device.as_ref().filter(|part| part.is_full()) {
        return format!(
            "the device, which does hardly more without a network ({} of that)",
            part.words()
        );
    }
    if tcp.as_ref().is_some_and(Part::is_full) {
        return format!(
            "TCP, as a connection without a protocol or a device carries hardly more{carries}"
        );
    }
    if tcp.as_ref().is_some_and(Part::may_be_full) {
        return format!(
            "TCP, or what both ends do for each operation; this study cannot tell{carries}"
        );
    }
    let busy = row.processors.filter(|all| all.busy() + all.steal >= FULL);
    let processors = busy.map(|all| match all.steal {
        steal if steal > 1.0 - FULL => {
            format!(
                "; the processors were {} busy, and the host took {}",
                share(all.busy()),
                share(steal)
            )
        }
        _ => format!("; the processors were {} busy", share(all.busy())),
    });
    let known = match (&device, &tcp) {
        (Some(_), Some(_)) => "neither the device nor TCP is used up",
        (Some(_), None) => "the device is not used up; for TCP that is not known",
        (None, Some(_)) => "TCP is not used up; for the device that is not known",
        (None, None) => {
            return format!(
                "not known, as there is nothing to compare with{}",
                processors.unwrap_or_default()
            );
        }
    };
    format!(
        "what both ends do for each operation: {known}{carries}{}",
        processors.unwrap_or_default()
    )
}

/// A rate as a part of what is there.
struct Part {
    low: f64,
    high: f64,
}

impl Part {
    /// By the relation; an older study has the ratio of two rows only.
    fn of(relation: Option<Estimate>, row: Option<f64>) -> Option<Part> {
        let (low, high) =
            relation.map(|estimate| estimate.interval()).or(row.map(|part| (part, part)))?;
        (low.is_finite() && high.is_finite()).then_some(Part { low, high })
    }

    fn is_full(&self) -> bool {
        self.low >= FULL
    }

    fn may_be_full(&self) -> bool {
        self.high >= FULL
    }

    fn words(&self) -> String {
        let (low, high) = (share(self.low), share(self.high));
        if low == high { low } else { format!("{low} to {high}") }
    }
}
