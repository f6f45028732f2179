//! IOPS of every pattern and lane, with the ceiling as a mark.

use super::bars::{Bar, Bars, Cluster};
use super::canvas::Paint;
use super::drawing::Words;
use super::groups::{Group, groups};
use crate::report::tables::marks;
use crate::report::units::{count, tick};
use crate::results::{Results, Workload};

/// A chart for each group of block sizes.
pub(super) fn charts(results: &Results) -> impl Iterator<Item = Bars> {
    groups(results).into_iter().map(|group| bars(results, &group))
}

fn bars(results: &Results, group: &Group<'_>) -> Bars {
    Bars {
        words: Words {
            id: format!("iops-{}", group.id),
            title: group.title.clone(),
            desc: format!(
                "Operations per second of each pattern and lane, {} blocks. The table below has the numbers.",
                group.title
            ),
            ink: (!results.ceiling.is_empty())
                .then_some("mark: bare TCP; thin line: lowest to highest round"),
        },
        axis: "operations per second (IOPS)".to_owned(),
        write: tick,
        reach: 0.0,
        reference: None,
        groups: group.patterns.iter().map(|pattern| cluster(results, pattern)).collect(),
    }
}

fn cluster(results: &Results, pattern: &Workload) -> Cluster {
    let lanes = results.lanes.iter().enumerate();
    let bar = |(at, lane): (usize, &crate::results::Lane)| {
        let row = results.row(&lane.name, &pattern.name)?;
        let mark = marks(row);
        Some(Bar {
            parts: vec![(row.iops, 1.0)],
            paint: Paint::lane(at),
            whisker: Some(row.spread),
            text: format!("{}{mark}", count(row.iops)),
        })
    };
    let mark = results.ceiling(&pattern.name).map(|ceiling| ceiling.iops);
    Cluster { name: pattern.title.clone(), mark, bars: lanes.filter_map(bar).collect() }
}
