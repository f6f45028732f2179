//! Published ratios, each with that of the study beneath it.

use super::bars::{Bar, Bars, Cluster};
use super::canvas::Paint;
use super::drawing::{Chart, Words};
use crate::report::published::{PUBLISHED, PublishedRow};
use crate::report::units::tick;

/// The chart of a source.
pub(crate) fn chart(at: usize, lines: &[PublishedRow<'_>]) -> impl Chart + use<> {
    Bars {
        words: Words {
            id: format!("published-{at}"),
            title: format!("Ratios: published {PUBLISHED}, and here"),
            desc: "For each pair the ratio that was published, in grey, and that of this study, if it has one. The table below has the numbers."
                .to_owned(),
            ink: None,
        },
        axis: "ratio".to_owned(),
        write: tick,
        reach: 1.0,
        reference: Some(1.0),
        groups: lines.iter().map(cluster).collect(),
    }
}

fn cluster(line: &PublishedRow<'_>) -> Cluster {
    let (low, high) = line.published;
    let published = Bar {
        parts: vec![(f64::midpoint(low, high), 1.0)],
        paint: Paint::Muted,
        whisker: (low < high).then_some(line.published),
        text: format!("{}{PUBLISHED}", line.published_text()),
    };
    let here = line.here.zip(line.lane).map(|(ratio, at)| Bar {
        parts: vec![(ratio, 1.0)],
        paint: Paint::lane(at),
        whisker: None,
        text: line.here_text(),
    });
    Cluster {
        name: format!("{}: {}", line.metric.title(), line.names),
        mark: None,
        bars: core::iter::once(published).chain(here).collect(),
    }
}
