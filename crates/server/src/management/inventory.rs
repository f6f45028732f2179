//! The inventory, as an answer.

use serde::Serialize;
use weft_block::Presence;
use weft_block::path::PathStatus;
use weft_endpoint::export::{ConnectedHost, Exports};
use weft_endpoint::inventory::{Inventory, Namespace, Subsystem};

/// The inventory.
#[derive(Debug, Serialize)]
pub struct ShownInventory {
    generation: u64,
    /// URLs at which hosts reach it.
    urls: Vec<String>,
    subsystems: Vec<ShownSubsystem>,
}

#[derive(Debug, Serialize)]
struct ShownSubsystem {
    nqn: String,
    /// `None`: any.
    hosts: Option<Vec<String>>,
    /// `None`: any.
    initiators: Option<Vec<String>>,
    namespaces: Vec<ShownNamespace>,
}

#[derive(Debug, Serialize)]
struct ShownNamespace {
    nsid: u32,
    name: Option<String>,
    uuid: String,
    source: String,
    bytes: u64,
    block_bytes: u32,
    presence: &'static str,
    /// Those of a remote source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<ShownPath>,
    ana_group: u32,
    hosts: Option<Vec<String>>,
    initiators: Option<Vec<String>>,
}

/// A path to a remote source.
#[derive(Debug, Serialize)]
struct ShownPath {
    url: String,
    state: String,
    access: String,
    operations: u64,
    bytes: u64,
    errors: u64,
    retries: u64,
    reconnects: u64,
    latency_us: Option<f64>,
    /// Why it takes no commands: why it is not connected, or refuses them.
    why: Option<String>,
}

impl ShownPath {
    fn of(path: PathStatus) -> Self {
        Self {
            url: path.url,
            state: format!("{:?}", path.state).to_lowercase(),
            access: format!("{:?}", path.access).to_lowercase(),
            operations: path.operations,
            bytes: path.bytes,
            errors: path.errors,
            retries: path.retries,
            reconnects: path.reconnects,
            latency_us: path.latency.map(|latency| latency.as_secs_f64() * 1e6),
            why: path.why,
        }
    }
}

/// A connected host.
#[derive(Debug, Serialize)]
pub struct ShownHost {
    protocol: String,
    host: String,
    subsystem: String,
    /// The namespaces that it sees.
    namespaces: Vec<u32>,
}

impl ShownHost {
    /// Those that are connected.
    pub fn all(exports: &Exports) -> Vec<Self> {
        let show = |ConnectedHost { protocol, name, subsystem, namespaces }: ConnectedHost| Self {
            protocol: protocol.to_string(),
            host: name,
            subsystem: subsystem.to_string(),
            namespaces: namespaces.iter().map(|nsid| nsid.0).collect(),
        };
        exports.hosts().into_iter().map(show).collect()
    }
}

fn words<T: ToString>(names: Option<Vec<T>>) -> Option<Vec<String>> {
    names.map(|names| names.iter().map(T::to_string).collect())
}

impl ShownInventory {
    /// Shows an inventory that hosts reach at these URLs.
    pub fn of(inventory: &Inventory, urls: Vec<String>) -> Self {
        let subsystems =
            inventory.subsystems().iter().map(|subsystem| ShownSubsystem::of(subsystem)).collect();
        Self { generation: inventory.generation(), urls, subsystems }
    }
}

impl ShownSubsystem {
    fn of(subsystem: &Subsystem) -> Self {
        Self {
            nqn: subsystem.nqn.to_string(),
            hosts: words(subsystem.hosts.names()),
            initiators: words(subsystem.initiators.names()),
            namespaces: subsystem
                .namespaces()
                .map(|namespace| ShownNamespace::of(namespace))
                .collect(),
        }
    }
}

impl ShownNamespace {
    fn of(namespace: &Namespace) -> Self {
        let block_bytes = namespace.device.geometry().block_bytes;
        Self {
            nsid: namespace.nsid.0,
            name: namespace.name.clone(),
            uuid: namespace.uuid.to_string(),
            source: namespace.device.url().to_owned(),
            bytes: namespace.blocks * u64::from(block_bytes),
            block_bytes,
            presence: match namespace.presence {
                Presence::Here => "here",
                Presence::Away => "away",
                Presence::Gone => "gone",
            },
            paths: namespace.device.paths().into_iter().map(ShownPath::of).collect(),
            ana_group: namespace.group,
            hosts: words(namespace.hosts.names()),
            initiators: words(namespace.initiators.names()),
        }
    }
}
