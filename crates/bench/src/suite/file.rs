//! The form of a suite's file.

use super::lane::LaneTemplate;
use super::published::PublishedEntry;
use super::times::TimesEntry;
use super::workload::WorkloadEntry;
use super::{LaneOrder, Machines, Saturation, Suite, SuitePeers};
use crate::error::Error;
use crate::results::Drawing;
use serde::Deserialize;

/// As it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    name: String,
    title: String,
    #[serde(default)]
    about: String,
    source: String,
    #[serde(default = "yes")]
    fill: bool,
    #[serde(default)]
    count: bool,
    #[serde(default = "one")]
    threads: u32,
    queues: Option<u16>,
    queue_size: Option<u16>,
    #[serde(default)]
    order: LaneOrder,
    draw: Vec<Drawing>,
    reference: Option<String>,
    quick: TimesEntry,
    usual: TimesEntry,
    full: TimesEntry,
    lanes: Vec<LaneTemplate>,
    workloads: Vec<WorkloadEntry>,
    saturation: Option<Saturation>,
    #[serde(default)]
    agents: Machines,
    #[serde(default)]
    peers: SuitePeers,
    #[serde(default)]
    published: Vec<PublishedEntry>,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

impl File {
    pub(super) fn into_suite(self, text: &str) -> Result<Suite, String> {
        let numbered =
            |what: &str, at: usize, problem: String| format!("{what} {}: {problem}", at + 1);
        let workloads = self.workloads.into_iter().enumerate();
        let published = self.published.into_iter().enumerate();
        Ok(Suite {
            times: [self.quick.read("quick")?, self.usual.read("usual")?, self.full.read("full")?],
            workloads: workloads
                .map(|(at, entry)| {
                    entry.read().map_err(|problem| numbered("workload", at, problem))
                })
                .collect::<Result<_, _>>()?,
            published: published
                .map(|(at, entry)| {
                    entry.read().map_err(|problem| numbered("[[published]]", at, problem))
                })
                .collect::<Result<Vec<_>, _>>()?
                .concat(),
            name: self.name,
            title: self.title,
            about: self.about.split_whitespace().collect::<Vec<_>>().join(" "),
            source: self.source,
            fill: self.fill,
            count: self.count,
            threads: self.threads.max(1),
            queues: self.queues,
            queue_size: self.queue_size,
            order: self.order,
            draw: self.draw,
            reference: self.reference,
            lanes: self.lanes,
            saturation: self.saturation,
            agents: self.agents,
            peers: self.peers,
            text: text.to_owned(),
        })
    }
}

/// A mistake of form, with its line and column.
pub(super) fn mistake(place: &str, text: &str, error: &toml::de::Error) -> Error {
    let problem = error.message().trim().to_owned();
    let place = error.span().and_then(|span| text.get(..span.start)).map_or_else(
        || place.to_owned(),
        |before| {
            let (line, column) = (
                before.matches('\n').count() + 1,
                before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1,
            );
            format!("{place}:{line}:{column}")
        },
    );
    Error::Suite { place, problem }
}
