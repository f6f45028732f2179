//! Results of the open loop, in words. A percentile is shown with its 95 % interval, or not at all.

use super::units::{between, count, time};
use crate::results::{Lane, Results, Row, Workload};

/// A sentence for each workload at a fixed rate.
pub(crate) fn sentences(results: &Results) -> Vec<String> {
    results.open_loops().filter_map(|workload| sentence(results, workload)).collect()
}

fn sentence(results: &Results, workload: &Workload) -> Option<String> {
    let rows: Vec<(&Lane, &Row)> = results
        .lanes
        .iter()
        .filter_map(|lane| Some((lane, results.row(&lane.name, &workload.name)?)))
        .collect();
    let offered = rows.iter().find_map(|(_, row)| row.offered_iops)?;
    let each: Vec<String> = rows
        .iter()
        .filter_map(|(lane, row)| {
            let interval = between(row.p99_interval?);
            Some(format!("{} over {} ({interval})", time(row.latency.p99_ns), lane.name))
        })
        .collect();
    if each.is_empty() {
        return None;
    }
    let of = workload.open.as_ref().map_or(0, |open| open.percent);
    Some(format!(
        "{} ({} operations per second, {of} % of what the slowest lane does): 99 % end within {} after they were due.",
        workload.title,
        count(offered),
        each.join(", ")
    ))
}
