//! Other differences between two studies, which may be the reason of a change.

use super::Related;
use crate::relation::Estimate;
use crate::report::units::count;
use crate::results::{Results, Workload};

/// Part by which the rates at which operations were due may differ without being reported.
const DUE: f64 = 0.05;

/// Returns whether a name means the same workload in both studies, as far as they describe it.
pub(crate) fn same_work(before: &Results, after: &Results, name: &str) -> bool {
    let find =
        |of: &'_ Results| of.workloads.iter().find(|workload| workload.name == name).map(work);
    find(before).zip(find(after)).is_none_or(|(before, after)| before == after)
}

/// A workload without its title, and without what only the study needs to know.
fn work(of: &Workload) -> Workload {
    Workload { title: String::new(), warm_up_rounds: 0, latency: false, ..of.clone() }
}

/// All of it, in whole sentences.
pub(super) fn notes(before: &Results, after: &Results, relations: &[Related]) -> Vec<String> {
    if before == after {
        return vec![SAME.into()];
    }
    let mut notes = differences(before, after);
    notes.extend(single_block(relations.iter().map(|it| &it.change)));
    notes.extend(alone(before, after, "first"));
    notes.extend(alone(after, before, "second"));
    notes
}

/// A note on relations, or their changes, if one is of a single block.
pub(crate) fn single_block<'a>(mut of: impl Iterator<Item = &'a Estimate>) -> Option<String> {
    of.any(|it| it.blocks < 2).then(|| {
        "One of the studies is of a single block: its intervals hold for its processes and connections, and those of another study may differ \
         by some per cent."
            .into()
    })
}

/// Differences other than those of the rows.
pub(crate) fn differences(before: &Results, after: &Results) -> Vec<String> {
    if before == after {
        return vec![SAME.into()];
    }
    let mut notes = facts(before, after);
    notes.extend(load(before, after));
    if before.quick || after.quick {
        notes.push("One of the studies was a quick one.".into());
    }
    notes.extend(other_work(before, after));
    notes.extend(other_rate(before, after));
    notes
}

const SAME: &str = "Both files hold the same study, so nothing has changed; the intervals are those of two studies.";

fn facts(before: &Results, after: &Results) -> Vec<String> {
    let facts = |of: &Results| {
        [
            (
                "weft",
                of.commit
                    .clone()
                    .map_or_else(|| of.weft.clone(), |commit| format!("{} ({commit})", of.weft)),
            ),
            ("suite", of.suite.clone()),
            ("machine", of.machine.name.clone()),
            ("processor", of.machine.cpu.clone()),
            ("cores", of.machine.cores.to_string()),
            ("system", of.machine.system.clone()),
            ("governor", of.machine.governors.join(", ")),
            ("mitigations", of.machine.mitigations.join("; ")),
        ]
    };
    let pairs = facts(before).into_iter().zip(facts(after));
    let differ = pairs.filter(|((_, before), (_, after))| before != after);
    differ
        .map(|((what, before), (_, after))| {
            format!("Different {what}: {before:?}, then {after:?}.")
        })
        .collect()
}

fn load(before: &Results, after: &Results) -> Option<String> {
    let steal =
        |of: &Results| of.conditions.steal.unwrap_or(0.0).max(of.conditions.others.unwrap_or(0.0));
    let busy = steal(before).max(steal(after)) > 0.05;
    busy.then(|| "The machine was not idle in one of the studies: a change of a rate by itself may be that of its load.".into())
}

/// Workloads of one name that are not the same.
fn other_work(before: &Results, after: &Results) -> Option<String> {
    let other = after
        .workloads
        .iter()
        .map(|workload| workload.name.as_str())
        .filter(|name| !same_work(before, after, name));
    let names: Vec<&str> = other.collect();
    (!names.is_empty()).then(|| {
        format!(
            "Not compared, as another workload has the name in each study: {}.",
            names.join(", ")
        )
    })
}

/// Open loops whose operations were due at another rate.
fn other_rate(before: &Results, after: &Results) -> Vec<String> {
    let due = |of: &Results, name: &str| {
        of.rows.iter().find(|row| row.workload == name).and_then(|row| row.offered_iops)
    };
    let differ = |workload: &Workload| {
        let name = &workload.name;
        let (before, after) = due(before, name).zip(due(after, name))?;
        ((after / before - 1.0).abs() > DUE).then(|| {
            let (before, after) = (count(before), count(after));
            format!("At {name} {before} operations per second were due, then {after}: a change of its latency may be that of the rate.")
        })
    };
    after.open_loops().filter_map(differ).collect()
}

/// Rows that only one of the two has.
fn alone(of: &Results, other: &Results, which: &str) -> Option<String> {
    let rows = of.rows.iter().filter(|row| other.row(&row.lane, &row.workload).is_none());
    let names: Vec<String> = rows.map(|row| format!("{} {}", row.lane, row.workload)).collect();
    (!names.is_empty()).then(|| format!("Only in the {which} study: {}.", names.join(", ")))
}
