//! Latency over IOPS, as the depth grows.

use super::drawing::Words;
use super::plane::{Line, Plane};
use crate::report::units::{count, time};
use crate::results::{Curve, Point, Results, Workload};

/// A chart for each workload that has curves.
pub(super) fn charts(results: &Results) -> impl Iterator<Item = Plane> {
    results
        .workloads
        .iter()
        .enumerate()
        .filter_map(|(at, workload)| plane(results, at, workload).unless_empty())
}

fn plane(results: &Results, at: usize, workload: &Workload) -> Plane {
    let curve =
        |lane: usize| Some(line(lane, results.curve(&results.lanes[lane].name, &workload.name)?));
    Plane {
        words: Words {
            id: format!("curve-{at}"),
            title: workload.title.clone(),
            desc: "Mean latency over operations per second, a mark for each depth. The table below has the numbers.".to_owned(),
            ink: None,
        },
        axes: ("operations per second (IOPS)".to_owned(), "mean latency, µs (logarithmic)".to_owned()),
        log: true,
        joined: true,
        lines: (0..results.lanes.len()).filter_map(curve).collect(),
    }
}

fn line(lane: usize, curve: &Curve) -> Line {
    let words = |point: &Point| {
        format!(
            "{}: {} in flight, {} IOPS, {}",
            curve.lane,
            point.in_flight,
            count(point.iops),
            time(point.latency.mean_ns)
        )
    };
    let place = |point: &Point| (point.iops, point.latency.mean_ns / 1e3, words(point));
    Line { lane, points: curve.points.iter().map(place).collect() }
}
