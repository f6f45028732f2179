//! The part of the bare TCP ceiling that each pattern reaches.

use super::bars::{Bar, Bars, Cluster};
use super::canvas::Paint;
use super::drawing::Words;
use super::groups::{Group, groups};
use crate::report::tables::marks;
use crate::report::units::percent;
use crate::results::{Results, Workload};

/// A chart for each group of block sizes; nothing where no lane has a ceiling.
pub(super) fn charts(results: &Results) -> impl Iterator<Item = Bars> {
    groups(results)
        .into_iter()
        .map(|group| bars(results, &group))
        .filter(|bars| !bars.groups.is_empty())
}

fn bars(results: &Results, group: &Group<'_>) -> Bars {
    let clusters = group.patterns.iter().map(|pattern| cluster(results, pattern));
    Bars {
        words: Words {
            id: format!("share-{}", group.id),
            title: group.title.clone(),
            desc: format!(
                "IOPS as a share of the bare TCP ceiling, {} blocks. The table below has the numbers.",
                group.title
            ),
            ink: Some("line: bare TCP, 100 %"),
        },
        axis: "share of the bare TCP ceiling, %".to_owned(),
        write: |value| format!("{value:.0}"),
        reach: 100.0,
        reference: Some(100.0),
        groups: clusters.filter(|cluster| !cluster.bars.is_empty()).collect(),
    }
}

fn cluster(results: &Results, pattern: &Workload) -> Cluster {
    let lanes = results.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_local());
    let bar = |(at, lane): (usize, &crate::results::Lane)| {
        let row = results.row(&lane.name, &pattern.name)?;
        let share = row.share_of_ceiling?;
        let mark = marks(row);
        Some(Bar {
            parts: vec![(share * 100.0, 1.0)],
            paint: Paint::lane(at),
            whisker: None,
            text: format!("{} %{mark}", percent(share)),
        })
    };
    Cluster { name: pattern.title.clone(), mark: None, bars: lanes.filter_map(bar).collect() }
}
