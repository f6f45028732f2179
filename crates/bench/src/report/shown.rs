//! The relations of the first screen: at most five, those of the headline's lane first.

use super::findings::title;
use super::units::{NBSP, between, signed_time};
use super::{against, comparison};
use crate::relation::{Estimate, adds, does};
use crate::results::{Lane, Quantity, Results, Row, Workload};

/// Most relations that are shown: more cannot be read at a glance.
const MOST: usize = 5;

/// A relation that is shown.
pub(crate) struct ShownRelation<'a> {
    /// The lane, and its number.
    pub lane: &'a Lane,
    /// See `lane`.
    pub at: usize,
    /// The lane it is compared with; none: bare TCP.
    to: Option<&'a Lane>,
    workload: &'a Workload,
    /// The compared quantity.
    pub quantity: Quantity,
    /// A ratio, or a difference in ns.
    pub value: f64,
    /// The value from measurements side by side. An older study has the rows only.
    pub estimate: Option<Estimate>,
}

/// The relations to show: what is compared with the reference, else the first of each lane, then
/// the second of each.
pub(crate) fn pick(results: &Results) -> Vec<ShownRelation<'_>> {
    if let Some(subject) = against::subject(results) {
        return of_subject(results, subject);
    }
    let is_compared = comparison::compared(results).is_some();
    let lanes = lanes(results).into_iter().enumerate();
    let mut all: Vec<(usize, usize, ShownRelation<'_>)> = lanes
        .flat_map(|(at, lane)| {
            of_lane(results, lane).into_iter().enumerate().map(move |(nth, shown)| (at, nth, shown))
        })
        .collect();
    all.sort_by_key(|(at, nth, _)| if is_compared { (*at, *nth) } else { (*nth, *at) });
    all.into_iter().map(|(.., shown)| shown).take(MOST).collect()
}

/// The answers about one lane: what the network adds to a read and to the processor time, and its
/// rate against another protocol and against the best of the other projects' targets.
fn of_subject<'a>(results: &'a Results, subject: &'a Lane) -> Vec<ShownRelation<'a>> {
    let pattern = Workload::quoted(results.patterns());
    let base = results.base_of(subject);
    let wanted = [
        (base, Workload::quoted(results.latencies()), Quantity::Latency),
        (base, pattern, Quantity::Cpu),
        (against::other_protocol(results, subject), pattern, Quantity::Rate),
        (against::best_peer(results, subject), pattern, Quantity::Rate),
    ];
    let show = |(to, workload, quantity): &(Option<&'a Lane>, Option<&'a Workload>, Quantity)| {
        one(results, subject, Some((*to)?), (*workload)?, *quantity)
    };
    wanted.iter().filter_map(show).collect()
}

/// The lane that the first screen is about: the one that is compared with the reference, else one
/// to a device that answers at once.
pub(crate) fn main_lane(results: &Results) -> Option<&Lane> {
    lanes(results).into_iter().next()
}

/// The lanes over a network, the one of the headline first.
fn lanes(results: &Results) -> Vec<&Lane> {
    let compared = comparison::compared(results);
    let mut lanes: Vec<&Lane> = results.lanes.iter().filter(|lane| !lane.is_local()).collect();
    lanes.sort_by_key(|lane| (Some(lane.name.as_str()) != compared, lane.base() == Lane::FLASH));
    lanes
}

/// Answers to the usual questions about a lane, the most telling first.
fn of_lane<'a>(results: &'a Results, lane: &'a Lane) -> Vec<ShownRelation<'a>> {
    let named = |name: &String| {
        results.lanes.iter().find(|other| other.name == *name && other.name != lane.name)
    };
    let (reference, base) = (results.reference.as_ref().and_then(named), results.base_of(lane));
    let pattern = Workload::quoted(results.patterns());
    let (read, write) = (
        Workload::quoted(results.latencies()),
        results.latencies().find(|workload| workload.rw == "randwrite"),
    );
    let largest = results.largest_read();
    let rival = lane.rival.as_ref().and_then(named).map(Some);
    let (bare, reference, base) = (Some(None), reference.map(Some), base.map(Some));
    let mut wanted = vec![
        (reference, pattern, Quantity::Rate),
        (reference, read, Quantity::Latency),
        (reference, pattern, Quantity::Cpu),
        (base, read, Quantity::Latency),
        (base, pattern, Quantity::Cpu),
        (bare, pattern, Quantity::Rate),
        (bare, largest, Quantity::Rate),
        (base, write, Quantity::Latency),
    ];
    if reference == base {
        wanted.drain(3..5);
    }
    // Another project's target: what a buyer compares it with comes first.
    if rival.is_some() && rival != reference {
        wanted.insert(0, (rival, read, Quantity::Latency));
        wanted.insert(0, (rival, pattern, Quantity::Rate));
    }
    let mut shown: Vec<ShownRelation<'_>> = wanted
        .iter()
        .filter_map(|(to, workload, quantity)| one(results, lane, (*to)?, (*workload)?, *quantity))
        .collect();
    if shown.is_empty() {
        shown.extend(
            base.zip(pattern)
                .and_then(|(base, pattern)| one(results, lane, base, pattern, Quantity::Rate)),
        );
    }
    shown
}

fn one<'a>(
    results: &'a Results,
    lane: &'a Lane,
    to: Option<&'a Lane>,
    workload: &'a Workload,
    quantity: Quantity,
) -> Option<ShownRelation<'a>> {
    let estimate = against::relation(results, lane, to, workload, quantity);
    let value = match &estimate {
        Some(estimate) => estimate.value,
        None if results.relations.is_empty() => of_rows(results, lane, to, workload, quantity)?,
        None => return None,
    };
    let at = results.lanes.iter().position(|other| other.name == lane.name)?;
    let is_told = value.is_finite() && (value > 0.0 || quantity != Quantity::Rate);
    is_told.then_some(ShownRelation { lane, at, to, workload, quantity, value, estimate })
}

/// The same from two rows, without an interval: an older study has nothing else.
fn of_rows(
    results: &Results,
    lane: &Lane,
    to: Option<&Lane>,
    workload: &Workload,
    quantity: Quantity,
) -> Option<f64> {
    let row = results.row(&lane.name, &workload.name)?;
    let Some(to) = to else {
        return (quantity == Quantity::Rate).then_some(row.share_of_ceiling?);
    };
    let other = results.row(&to.name, &workload.name)?;
    // The device without a network has no other end.
    let cpu = |row: &Row, lane: &Lane| {
        if lane.is_local() { Some(row.initiator.total_ns()) } else { row.cpu_of_both_ns() }
    };
    match quantity {
        Quantity::Rate => Some(row.iops / other.iops),
        Quantity::Latency => Some(row.latency.p50_ns - other.latency.p50_ns),
        Quantity::Cpu => Some(cpu(row, lane)? - cpu(other, to)?),
        Quantity::Cycles | Quantity::InitiatorCpu | Quantity::TargetCpu => None,
    }
}

impl ShownRelation<'_> {
    /// The workload and the compared quantity: `4 KiB random read: median latency`.
    pub(crate) fn what(&self) -> String {
        let quantity = match self.quantity {
            Quantity::Rate => "operations per second",
            Quantity::Latency if self.workload.latency => "median latency at queue depth 1",
            Quantity::Latency => "median latency",
            Quantity::Cpu | Quantity::Cycles => "processor time, both ends",
            Quantity::InitiatorCpu => "processor time of the initiator",
            Quantity::TargetCpu => "processor time of the target",
        };
        format!("{}: {quantity}", title(self.workload))
    }

    /// The name of the other side.
    fn other(&self) -> &str {
        match self.to {
            None => "bare TCP",
            Some(to) if to.is_local() => "the device without a network",
            Some(to) => to.short_title(),
        }
    }

    /// The two sides of the comparison.
    pub(crate) fn who(&self) -> String {
        format!("{} against {}", self.lane.short_title(), self.other())
    }

    /// The number and its interval.
    pub(crate) fn number(&self) -> String {
        let interval = self.estimate.map(|estimate| match self.quantity {
            Quantity::Rate => format!("{} to {}", ratio(estimate.low), ratio(estimate.high)),
            _ => between(estimate.interval()).replace('-', "−"),
        });
        let value = match self.quantity {
            Quantity::Rate => format!("×{NBSP}{}", ratio(self.value)),
            _ => signed_time(self.value),
        };
        format!("{value} ({})", interval.unwrap_or_else(|| "no interval".to_owned()))
    }

    /// The relation in a sentence, without a full stop.
    pub(crate) fn sentence(&self, results: &Results) -> String {
        let lane = self.lane.short_title();
        let said = match (&self.estimate, self.quantity) {
            (Some(estimate), Quantity::Rate) => does(lane, self.other(), estimate, results.took()),
            (Some(estimate), _) => {
                format!("{lane} {}", adds(&format!("that of {}", self.other()), estimate))
            }
            (None, _) => format!("{}, {}", self.who(), self.number()),
        };
        format!("{}: {said}", self.what())
    }
}

/// A ratio with the digits that it needs.
fn ratio(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}
