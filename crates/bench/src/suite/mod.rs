//! Suites: which lanes and workloads a study has, for how long, what is drawn, and what was
//! published elsewhere. Each is a TOML file.
//!
//! Those that ship with weft are in `suites/` of this crate. `weft study --suite NAME --print`
//! prints one, and a changed copy runs by its path. Unknown keys are refused.

mod file;
mod lane;
mod published;
mod times;
mod workload;

pub use lane::{LaneTemplate, Policy, Through};
pub use times::{SuiteMode, Times};

use crate::error::Error;
use crate::limits::{SUITE_BYTES_MAX, SUITE_ENTRIES_MAX};
use crate::results::{Drawing, Published, Workload};
use serde::Deserialize;
use std::io::Read;
use std::path::Path;

/// A suite.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// Short name.
    pub name: String,
    /// One line.
    pub title: String,
    /// Description of what it reproduces and how to read it, in whole sentences.
    pub about: String,
    /// The device that weft's own targets serve, without a modelled one.
    pub source: String,
    /// Devices are written from front to back first: blocks that were never written may cost
    /// nothing to read.
    pub fill: bool,
    /// A run of a fixed number of operations is counted at both ends.
    pub count: bool,
    /// Loops (threads) at each end, as far as the machine has cores for them.
    pub threads: u32,
    /// Connections of each lane; none: one for each loop.
    pub queues: Option<u16>,
    /// Least number of entries of their queues.
    pub queue_size: Option<u16>,
    /// The order of the lanes within a round.
    pub order: LaneOrder,
    /// The drawings of the report.
    pub draw: Vec<Drawing>,
    /// The lane that others are a multiple of, side by side.
    pub reference: Option<String>,
    /// Its times, by [`SuiteMode`].
    pub times: [Times; 3],
    /// The lanes.
    pub lanes: Vec<LaneTemplate>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Workloads that are driven until they no longer grow.
    pub saturation: Option<Saturation>,
    /// The lanes that several machines make.
    pub agents: Machines,
    /// Targets of other projects that are measured, too, if the user does not say which.
    pub peers: SuitePeers,
    /// Figures that others have published.
    pub published: Vec<Published>,
    /// The file.
    pub text: String,
}

/// The order of the lanes within a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaneOrder {
    /// Another one in each round, from the seed of the study.
    #[default]
    Random,
    /// Each lane is the first in turn.
    InTurn,
}

/// Targets and load generators of other projects that a suite measures together with weft's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuitePeers {
    /// None.
    #[default]
    None,
    /// One target, if one is installed.
    Auto,
    /// All that are installed.
    All,
}

/// The lanes of a study with agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Machines {
    /// One: all agents together.
    #[default]
    All,
    /// One for each number of agents, from the first alone to all of them.
    OneToAll,
}

/// Depths that are tried one after the other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    /// Names of the workloads.
    pub workloads: Vec<String>,
    /// Most operations in flight, all jobs together.
    #[serde(default = "Saturation::most")]
    pub most: u32,
    /// Gain in per cent that twice the depth must bring, or the growth has ended.
    #[serde(default = "Saturation::growth")]
    pub growth_percent: f64,
    /// Part of the time of the study, in per cent.
    #[serde(default = "Saturation::time")]
    pub time_percent: f64,
}

impl Saturation {
    fn most() -> u32 {
        512
    }

    fn growth() -> f64 {
        5.0
    }

    fn time() -> f64 {
        15.0
    }
}

/// The suites that ship with weft; the first is run if none is named.
const SHIPPED: [(&str, &str); 9] = [
    ("network", include_str!("../../suites/network.toml")),
    ("matrix", include_str!("../../suites/matrix.toml")),
    ("patterns", include_str!("../../suites/patterns.toml")),
    ("distance", include_str!("../../suites/distance.toml")),
    ("initiators", include_str!("../../suites/initiators.toml")),
    ("clients", include_str!("../../suites/clients.toml")),
    ("mirror", include_str!("../../suites/mirror.toml")),
    ("protocols", include_str!("../../suites/protocols.toml")),
    ("null", include_str!("../../suites/null.toml")),
];

impl Suite {
    /// Name of the suite that is run if none is named.
    pub const USUAL: &str = SHIPPED[0].0;

    /// All suites that ship with weft.
    ///
    /// # Panics
    /// Never: a test reads each of them.
    pub fn shipped() -> Vec<Self> {
        SHIPPED
            .iter()
            .map(|(name, text)| Self::parse(name, text).expect("a shipped suite is correct"))
            .collect()
    }

    /// A suite that ships with weft, or that of a file: what has a slash or ends with `.toml` is a
    /// path.
    ///
    /// # Errors
    /// Neither, with the names of those that ship; a file that cannot be read, is too long, or has
    /// a mistake, with its line.
    pub fn named(name: &str) -> Result<Self, Error> {
        let is_path = name.contains(['/', '\\'])
            || Path::new(name).extension().is_some_and(|extension| extension == "toml");
        if is_path {
            return Self::parse(name, &read(name)?);
        }
        match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            Some((_, text)) => Self::parse(name, text),
            None => {
                let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
                let problem = format!(
                    "there is no suite {name:?}: use {}, or the path of a file (./mine.toml)",
                    names.join(", ")
                );
                Err(Error::option("suite", problem))
            }
        }
    }

    /// Reads a suite; `place` names it in messages about mistakes.
    ///
    /// # Errors
    /// A mistake, with line and column.
    pub fn parse(place: &str, text: &str) -> Result<Self, Error> {
        let wrong = |problem: String| Error::Suite { place: place.to_owned(), problem };
        let file: file::File =
            toml::from_str(text).map_err(|error| file::mistake(place, text, &error))?;
        let suite = file.into_suite(text).map_err(wrong)?;
        suite.check().map_err(wrong)?;
        Ok(suite)
    }

    /// Its times in a mode.
    pub fn times(&self, mode: SuiteMode) -> &Times {
        &self.times[mode as usize]
    }

    /// Mistakes that are not of form.
    fn check(&self) -> Result<(), String> {
        for (what, count) in [("lanes", self.lanes.len()), ("workloads", self.workloads.len())] {
            if count == 0 || count > SUITE_ENTRIES_MAX {
                return Err(format!(
                    "there are {count} {what}; a suite has 1 to {SUITE_ENTRIES_MAX}"
                ));
            }
        }
        let lanes: Vec<&str> = self.lanes.iter().map(|lane| lane.name.as_str()).collect();
        let workloads: Vec<&str> =
            self.workloads.iter().map(|workload| workload.name.as_str()).collect();
        unique("lane", &lanes)?;
        unique("workload", &workloads)?;
        self.lanes.iter().try_for_each(LaneTemplate::check)?;
        let known = |what: &str, name: &str, names: &[&str]| {
            let list = names.join(", ");
            if names.contains(&name) {
                Ok(())
            } else {
                Err(format!("there is no {what} {name:?}: the suite has {list}"))
            }
        };
        let closed = |all: &[Workload]| -> Vec<String> {
            all.iter().filter(|it| it.open.is_none()).map(|it| it.name.clone()).collect()
        };
        for name in self.saturation.iter().flat_map(|saturation| &saturation.workloads) {
            known("workload", name, &workloads)?;
            if !closed(&self.workloads).contains(name) {
                return Err(format!(
                    "saturation: the workload {name:?} has a fixed rate, so depth does not change it"
                ));
            }
        }
        for (at, workload) in self.workloads.iter().enumerate() {
            let Some(open) = &workload.open else { continue };
            known("workload", &open.of, &workloads)?;
            if !closed(&self.workloads[..at]).contains(&open.of) {
                return Err(format!(
                    "{}: `of` names a workload without `load` that stands before it",
                    workload.name
                ));
            }
        }
        for name in self.published.iter().filter_map(|published| published.workload.as_ref()) {
            known("workload", name, &workloads)?;
        }
        self.reference.as_ref().map_or(Ok(()), |name| known("lane", name, &lanes))
    }
}

fn unique(what: &str, names: &[&str]) -> Result<(), String> {
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    twice.map_or(Ok(()), |(_, name)| {
        Err(format!(
            "there are two {what}s with the name {name:?}: give one of them another `name`"
        ))
    })
}

fn read(path: &str) -> Result<String, Error> {
    let wrong = |cause| Error::io(format!("cannot read the suite {path}"), cause);
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    file.take(SUITE_BYTES_MAX + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > SUITE_BYTES_MAX {
        let problem = format!("it is longer than {SUITE_BYTES_MAX} bytes");
        return Err(Error::Suite { place: path.to_owned(), problem });
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
