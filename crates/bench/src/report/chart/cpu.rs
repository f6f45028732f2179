//! Processor time per operation of each end, user and system apart.

use super::bars::{Bar, Bars, Cluster};
use super::canvas::Paint;
use super::drawing::Words;
use super::groups::{Group, groups};
use crate::report::units::{micros, tick};
use crate::results::{CpuPerIo, Results, Workload};

/// How strong the colour of system time is; user time has it whole.
const SYSTEM_ALPHA: f64 = 0.45;

/// A chart for each group of block sizes.
pub(super) fn charts(results: &Results) -> impl Iterator<Item = Bars> {
    groups(results).into_iter().map(|group| bars(results, &group))
}

fn bars(results: &Results, group: &Group<'_>) -> Bars {
    Bars {
        words: Words {
            id: format!("cpu-{}", group.id),
            title: group.title.clone(),
            desc: format!(
                "Processor time per operation of initiator and target, user and system, {} blocks. The table below has the numbers.",
                group.title
            ),
            ink: Some("strong part: user time; pale part: system time"),
        },
        axis: "processor time per operation, µs".to_owned(),
        write: tick,
        reach: 0.0,
        reference: None,
        groups: group.patterns.iter().map(|pattern| cluster(results, pattern)).collect(),
    }
}

fn cluster(results: &Results, pattern: &Workload) -> Cluster {
    let mut bars = Vec::new();
    for (at, lane) in results.lanes.iter().enumerate() {
        let Some(row) = results.row(&lane.name, &pattern.name) else { continue };
        bars.push(bar(&row.initiator, at, "initiator"));
        bars.extend(row.target.as_ref().map(|cpu| bar(cpu, at, "target")));
    }
    Cluster { name: pattern.title.clone(), mark: None, bars }
}

fn bar(cpu: &CpuPerIo, lane: usize, end: &str) -> Bar {
    Bar {
        parts: vec![(cpu.user_ns / 1e3, 1.0), (cpu.system_ns / 1e3, SYSTEM_ALPHA)],
        paint: Paint::lane(lane),
        whisker: None,
        text: format!("{} {end}", micros(cpu.total_ns())),
    }
}
