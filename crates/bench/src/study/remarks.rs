//! Remarks on single rows, shown next to their figures.

use crate::report::own_benchmark;
use crate::report::units::count;
use crate::results::{Curve, CurveEnd, Point, Results, Row};

/// Gain that a greater depth must bring before a row is called not saturated, as a part of its
/// IOPS.
const MORE: f64 = 0.10;

/// Adds the remarks of all rows.
pub(super) fn add(results: &mut Results) {
    let remarks: Vec<Vec<String>> = results.rows.iter().map(|row| of(results, row)).collect();
    for (row, remarks) in results.rows.iter_mut().zip(remarks) {
        row.remarks = remarks;
    }
}

fn of(results: &Results, row: &Row) -> Vec<String> {
    let curve = results.curve(&row.lane, &row.workload);
    let in_flight = results
        .workloads
        .iter()
        .find(|workload| workload.name == row.workload)
        .map(|workload| workload.in_flight());
    let unsaturated =
        curve.zip(in_flight).and_then(|(curve, in_flight)| unsaturated(curve, row, in_flight));
    let limited = row
        .generator_limited
        .then(|| "The load generator ran out of CPU: the lane may do more.".to_owned());
    let faster = row.share_of_local.filter(|share| *share > 1.0 && !row.is_unstable());
    let faster = faster.map(|share| {
        format!("It does {share:.2} times what the device does without a network: that lane was not driven to saturation.")
    });
    let fewer = fewer(results, row).into_iter().chain(left_out(row)).chain(behind(row));
    let lane = results.lanes.iter().find(|lane| lane.name == row.lane);
    let poor = lane.and_then(|lane| own_benchmark::poor(results, lane, &row.workload));
    let fewer = fewer.chain(poor.map(|poor| poor.sentence()));
    fewer.chain(unsaturated).chain(limited).chain(faster).collect()
}

/// Part of the operations that are due which may be missing at the end of a measurement: what is
/// still under way.
const UNDER_WAY: f64 = 0.02;

/// A row in the open loop whose lane did not keep up.
fn behind(row: &Row) -> Option<String> {
    let offered = row.offered_iops.filter(|offered| row.iops < offered * (1.0 - UNDER_WAY))?;
    let (iops, offered) = (count(row.iops), count(offered));
    Some(format!(
        "It did {iops} of the {offered} operations per second that were due: the latency grew for as long as was measured."
    ))
}

/// A row without some of the machines that were to put the load on.
fn fewer(results: &Results, row: &Row) -> Option<String> {
    let all = &results.lanes.iter().find(|lane| lane.name == row.lane)?.agents;
    let took_part = |name: &&String| row.machines.iter().any(|share| share.agent == **name);
    let lost: Vec<&str> = all.iter().filter(|name| !took_part(name)).map(String::as_str).collect();
    let (with, of) = (all.len() - lost.len(), all.len());
    (!lost.is_empty())
        .then(|| format!("With {with} of {of} machines: {} was lost.", lost.join(", ")))
}

/// A row some of whose rounds do not count.
fn left_out(row: &Row) -> Option<String> {
    let rounds =
        if row.left_out == 1 { "One round".to_owned() } else { format!("{} rounds", row.left_out) };
    let with = row.machines.len();
    (row.left_out > 0)
        .then(|| format!("{rounds} with another number of machines than {with} did not count, as a machine was lost."))
}

/// A row that a greater depth would have made faster.
fn unsaturated(curve: &Curve, row: &Row, in_flight: u32) -> Option<String> {
    let best = curve
        .best()
        .filter(|best| best.in_flight > in_flight && best.iops > row.iops * (1.0 + MORE))?;
    let Point { in_flight: deeper, iops, .. } = *best;
    let end = if curve.end == CurveEnd::Growing { ", and was still growing" } else { "" };
    let iops = count(iops);
    Some(format!(
        "Not saturated with {in_flight} operations in flight: with {deeper} it did {iops} operations per second{end}."
    ))
}
