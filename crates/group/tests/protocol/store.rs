//! The store of a group, in memory.

use std::collections::{BTreeMap, BTreeSet};
use weft_group::{Beat, GatewayName, GroupAnswer, GroupRequest};

/// A process, by gateway and start.
pub type Process = (usize, u64);

pub fn name(n: usize) -> GatewayName {
    GatewayName::new(&format!("gw{n}")).unwrap()
}

pub fn client((n, start): Process) -> String {
    format!("client-{n}-{start}")
}

pub fn instance((n, start): Process) -> u64 {
    start * 100 + n as u64
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreRequest {
    Read,
    Write(u64, Vec<u8>),
    Beat(u64),
    Fence(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreAnswer {
    Record(Option<(u64, Vec<u8>)>),
    Written(u64),
    Conflict,
    Beats(u64, Vec<(GatewayName, u64, u64)>),
    Fenced,
    Failed,
    Blocklisted,
}

impl StoreRequest {
    pub fn of(request: GroupRequest) -> Self {
        match request {
            GroupRequest::Read => Self::Read,
            GroupRequest::Write { version, text } => Self::Write(version, text),
            GroupRequest::Beat(beat) => Self::Beat(beat.count),
            GroupRequest::Fence(client) => Self::Fence(client),
        }
    }
}

impl StoreAnswer {
    pub fn into_answer(self) -> GroupAnswer {
        match self {
            Self::Record(found) => GroupAnswer::Record(found),
            Self::Written(version) => GroupAnswer::Written(version),
            Self::Conflict => GroupAnswer::Conflict,
            Self::Beats(version, all) => GroupAnswer::Beats(
                version,
                all.into_iter()
                    .map(|(name, instance, count)| (name, Beat { instance, count }))
                    .collect(),
            ),
            Self::Fenced => GroupAnswer::Fenced,
            Self::Failed => GroupAnswer::Failed("lost".into()),
            Self::Blocklisted => GroupAnswer::Blocklisted,
        }
    }
}

#[derive(Default)]
pub struct Store {
    version: u64,
    pub text: Option<Vec<u8>>,
    beats: BTreeMap<GatewayName, Beat>,
    pub blocklist: BTreeSet<String>,
}

impl Store {
    pub fn execute(&mut self, process: Process, asked: &StoreRequest) -> StoreAnswer {
        if self.blocklist.contains(&client(process)) {
            return StoreAnswer::Blocklisted;
        }
        match asked {
            StoreRequest::Read => {
                StoreAnswer::Record(self.text.clone().map(|text| (self.version, text)))
            }
            StoreRequest::Write(version, text) if *version == self.version => {
                (self.version, self.text) = (version + 1, Some(text.clone()));
                StoreAnswer::Written(version + 1)
            }
            StoreRequest::Write(..) => StoreAnswer::Conflict,
            StoreRequest::Beat(count) => {
                self.beats
                    .insert(name(process.0), Beat { instance: instance(process), count: *count });
                let all =
                    self.beats.iter().map(|(name, beat)| (name.clone(), beat.instance, beat.count));
                StoreAnswer::Beats(self.version, all.collect())
            }
            StoreRequest::Fence(client) => {
                self.blocklist.insert(client.clone());
                StoreAnswer::Fenced
            }
        }
    }
}
