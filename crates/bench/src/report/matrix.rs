//! Targets and initiators of each protocol: a line for each pair, in relation to the reference of
//! the suite, and the reasons for pairs that were not measured.

use super::own_benchmark::{MARK, poor};
use super::units::{NONE, brief, count, micros};
use crate::results::{Cell, Lane, Quantity, Results, Skipped, Workload};

/// Heads of the columns.
pub(crate) const HEADS: [&str; 6] =
    ["target", "initiator", "rate ×", "latency µs", "init. CPU µs", "target CPU µs"];

/// The lines of a protocol.
pub(crate) struct MatrixSection<'a> {
    /// Its name, for people.
    pub name: &'a str,
    /// A line for each pair, by target.
    pub lines: Vec<MatrixRow<'a>>,
}

/// A target with an initiator.
pub(crate) struct MatrixRow<'a> {
    /// The number of the lane; none if it was not measured.
    pub at: Option<usize>,
    /// The target.
    pub target: &'a str,
    /// The initiator.
    pub initiator: &'a str,
    /// Cells of the other columns.
    pub cells: [String; 4],
}

/// All protocols, in the order of their lanes.
pub(crate) fn protocols(results: &Results) -> Vec<MatrixSection<'_>> {
    let known = places(results);
    let names = unique(known.iter().map(|cell| cell.protocol.as_str()));
    let lines = |name: &str| -> Vec<MatrixRow<'_>> {
        let of_it = || known.iter().filter(|cell| cell.protocol == name);
        let targets = unique(of_it().filter_map(|cell| cell.target.as_deref()));
        let initiators = unique(of_it().filter_map(|cell| cell.initiator.as_deref()));
        let pairs =
            targets.iter().flat_map(|target| initiators.iter().map(move |by| (*target, *by)));
        pairs.map(|(target, by)| line(results, name, target, by)).collect()
    };
    names.iter().map(|name| MatrixSection { name, lines: lines(name) }).collect()
}

/// The places of all lanes, and those of what was skipped.
fn places(results: &Results) -> Vec<&Cell> {
    let lanes = results.lanes.iter().filter_map(|lane| lane.cell.as_ref());
    lanes.chain(results.skipped.iter().filter_map(|skipped| skipped.cell.as_ref())).collect()
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn line<'a>(results: &'a Results, protocol: &str, target: &'a str, by: &'a str) -> MatrixRow<'a> {
    let is_it = |cell: &Cell| {
        cell.protocol == protocol
            && cell.target.as_deref() == Some(target)
            && cell.initiator.as_deref() == Some(by)
    };
    let at = results.lanes.iter().position(|lane| lane.cell.as_ref().is_some_and(is_it));
    let cells =
        at.map_or_else(|| [NONE; 4].map(str::to_owned), |at| cells(results, &results.lanes[at]));
    MatrixRow { at, target, initiator: by, cells }
}

/// A comparison: a workload and a quantity.
fn compared(results: &Results) -> [(Option<&Workload>, Quantity); 4] {
    let pattern = Workload::quoted(results.patterns());
    let single = Workload::quoted(results.latencies());
    [
        (pattern, Quantity::Rate),
        (single, Quantity::Latency),
        (pattern, Quantity::InitiatorCpu),
        (pattern, Quantity::TargetCpu),
    ]
}

fn cells(results: &Results, lane: &Lane) -> [String; 4] {
    if Some(&lane.name) == results.reference.as_ref() {
        return ["1", "0", "0", "0"].map(str::to_owned);
    }
    compared(results).map(|(workload, quantity)| {
        let Some(workload) = workload else { return NONE.to_owned() };
        let mark = match quantity {
            Quantity::Rate if poor(results, lane, &workload.name).is_some() => MARK,
            _ => "",
        };
        let to = results.reference.as_deref();
        let estimate = results.relation(&lane.name, to, &workload.name, quantity);
        estimate.map_or_else(|| NONE.to_owned(), |estimate| brief(estimate) + mark)
    })
}

/// The lane that the numbers are relative to, with its own figures.
pub(crate) fn basis(results: &Results) -> Option<String> {
    let lane = results.reference_lane()?;
    let [(pattern, _), (single, _), ..] = compared(results);
    let row = results.row(&lane.name, &pattern?.name)?;
    let at_one = single.and_then(|single| results.row(&lane.name, &single.name));
    let latency = at_one.map_or(NONE.to_owned(), |row| micros(row.latency.p50_ns));
    let target = row.target.map_or(NONE.to_owned(), |cpu| micros(cpu.total_ns()));
    Some(format!(
        "Relations to weft’s target and initiator over {} with 95 % intervals: the rate of {} ({} a second), the median latency at depth 1 ({latency} µs), \
         and the processor time of each end per operation ({} and {target} µs).",
        lane.short_title(),
        pattern?.title,
        count(row.iops),
        micros(row.initiator.total_ns()),
    ))
}

/// The fastest pair, in one line without a full stop.
pub(crate) fn headline(results: &Results) -> String {
    let Some((workload, to)) = Workload::quoted(results.patterns()).zip(results.reference_lane())
    else {
        return results.title.clone();
    };
    let rate = |lane: &Lane| {
        results.relation(&lane.name, Some(&to.name), &workload.name, Quantity::Rate).copied()
    };
    let compared = results.lanes.iter().filter_map(|lane| Some((lane.cell.as_ref()?, rate(lane)?)));
    let fastest = compared.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    match fastest.filter(|(_, rate)| rate.low > 1.0) {
        Some((cell, rate)) => format!(
            "{} does {:.2} to {:.2} times the {} of weft over {}, the most of all",
            pair(cell),
            rate.low,
            rate.high,
            operations(workload),
            to.short_title()
        ),
        None => format!(
            "No pair clearly does more {} than weft over {}",
            operations(workload),
            to.short_title()
        ),
    }
}

fn operations(workload: &Workload) -> String {
    format!("{}s", workload.title)
}

fn pair(cell: &Cell) -> String {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    format!("{} with {}, {},", name(&cell.target), name(&cell.initiator), cell.protocol)
}

/// Why pairs are empty, and which lanes are not configured well.
pub(crate) fn sentences(results: &Results) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for Skipped { cell, why, .. } in &results.skipped {
        let Some(cell) = cell else { continue };
        let who = match (&cell.target, &cell.initiator) {
            (Some(target), Some(initiator)) => format!("{target} with {initiator}"),
            (one, other) => one.as_ref().or(other.as_ref()).cloned().unwrap_or_default(),
        };
        match reasons.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, all)) if all.contains(&who) => {}
            Some((_, all)) => all.push(who),
            None => reasons.push((why, vec![who])),
        }
    }
    let empty = reasons.into_iter().map(|(why, who)| format!("{NONE} {}: {why}", who.join(", ")));
    let [(pattern, _), ..] = compared(results);
    let poor = results.lanes.iter().filter_map(|lane| {
        let found = poor(results, lane, &pattern?.name)?;
        Some(format!("{MARK} {}: {}", lane.name, found.sentence()))
    });
    empty.chain(poor).collect()
}
