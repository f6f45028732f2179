//! IOPS over the time of the study: drifts and disturbances of the machine are seen here.

use super::drawing::Words;
use super::plane::{Line, Plane};
use crate::report::units::{count, duration};
use crate::results::{Lane, Results, Row};

/// Charts at most: those of the first patterns.
const CHARTS_MAX: usize = 4;

/// A chart for each of the first patterns.
pub(super) fn charts(results: &Results) -> impl Iterator<Item = Plane> {
    let first = results.patterns().enumerate().take(CHARTS_MAX);
    first.filter_map(|(at, workload)| plane(results, at, workload).unless_empty())
}

fn plane(results: &Results, at: usize, workload: &crate::results::Workload) -> Plane {
    let lanes = results.lanes.iter().enumerate();
    let lines = lanes
        .filter_map(|(at, lane)| Some(line(at, lane, results.row(&lane.name, &workload.name)?)));
    Plane {
        words: Words {
            id: format!("series-{at}"),
            title: workload.title.clone(),
            desc: "Operations per second over the time of the study, a mark for each round or part of one.".to_owned(),
            ink: None,
        },
        axes: ("seconds since the start of the study".to_owned(), "operations per second (IOPS)".to_owned()),
        log: false,
        joined: false,
        lines: lines.collect(),
    }
}

/// What was seen during the rounds; for rounds that were too short for that, their means.
fn line(at: usize, lane: &Lane, row: &Row) -> Line {
    let rounds = || row.at_s.iter().copied().zip(row.iops_of_rounds.iter().copied()).collect();
    let points: Vec<(f64, f64)> =
        if row.series.len() > row.at_s.len() { row.series.clone() } else { rounds() };
    let words = |seconds: f64, iops: f64| {
        format!("{}, {}: {} IOPS", lane.name, duration(seconds), count(iops))
    };
    Line {
        lane: at,
        points: points
            .into_iter()
            .map(|(seconds, iops)| (seconds, iops, words(seconds, iops)))
            .collect(),
    }
}
