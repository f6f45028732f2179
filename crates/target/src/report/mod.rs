//! Report of a serving process: what it serves, to whom, and what it has done. This is the JSON of
//! `weft status`; metrics and `weft top` are made of the same values.
//!
//! Making a report waits for no I/O. The loops are asked for their CPU time and given a moment to
//! answer; a loop that does not is reported as one that did not answer.

mod difference;
#[cfg(test)]
mod tests;

use crate::inventory::LiveInventory;
pub use difference::Rates;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use weft_block::path::{PathState, PathStatus};
use weft_block::stats::{KindTotals, Totals};
use weft_block::{AccessState, Presence};
use weft_connection::limits::REPORT_LOOP_MS;
use weft_connection::statistics::{Counts, KindCounts};
use weft_io::cpu_usage::Usage;
use weft_io::{Handle, RemoteLoop, cpu_usage};

/// The state of a serving process at one time. All counters are since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The program's version.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Since the process began to serve, nanoseconds.
    pub uptime_ns: u64,
    /// The inventory's generation.
    pub generation: u64,
    /// URLs at which clients reach what is served.
    pub listeners: Vec<String>,
    /// Open connections of any kind, also those that are not admitted yet and those of admin
    /// queues.
    pub open_connections: usize,
    /// Associations of NVMe hosts that ended because the keep alive timer expired.
    #[serde(default)]
    pub keep_alives_expired: u64,
    /// CPU time of the whole process.
    pub cpu: CpuReport,
    /// The event loops.
    pub loops: Vec<LoopReport>,
    /// Subsystems.
    pub subsystems: Vec<SubsystemReport>,
    /// Hosts that were admitted, up to a limit; the rest together as `other`.
    pub hosts: Vec<HostReport>,
    /// Connections that serve commands.
    pub connections: Vec<ConnectionReport>,
}

/// CPU time, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuReport {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl CpuReport {
    /// Both.
    pub fn total_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

impl From<Usage> for CpuReport {
    fn from(usage: Usage) -> Self {
        Self { user_ns: nanos(usage.user), system_ns: nanos(usage.system) }
    }
}

/// An event loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopReport {
    /// Its number.
    pub number: usize,
    /// It answered in time. If not, the rest is zero.
    pub answered: bool,
    /// CPU time of its thread.
    pub cpu: CpuReport,
    /// Payload memory that it may use, `--pool`.
    #[serde(default)]
    pub pool_bytes: u64,
    /// Payload memory that is in use.
    #[serde(default)]
    pub pool_used_bytes: u64,
    /// Its counters by name: see [`weft_io::counters::Counters`].
    pub counters: std::collections::BTreeMap<String, u64>,
}

/// A subsystem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubsystemReport {
    /// Its name.
    pub nqn: String,
    /// The commands of its namespaces.
    pub counts: Counts,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceReport>,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamespaceReport {
    /// Its identifier.
    pub nsid: u32,
    /// Its name for NBD clients.
    pub name: Option<String>,
    /// Its UUID.
    pub uuid: String,
    /// The URL of its device, without secrets.
    pub device: String,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks that are served.
    pub blocks: u64,
    /// `here`, `away` or `gone`.
    pub presence: String,
    /// Why a part of the device cannot be used until it is opened again, if so.
    #[serde(default)]
    pub trouble: Option<String>,
    /// The paths of its device, if that is a remote one.
    pub paths: Vec<PathReport>,
    /// The counters of each `stats:` in its device.
    #[serde(default)]
    pub filters: Vec<FilterReport>,
    /// Its commands.
    pub counts: Counts,
}

impl NamespaceReport {
    /// Returns whether its commands wait, because it has paths and none of them takes commands now.
    pub fn waits(&self) -> bool {
        self.presence == presence(Presence::Here)
            && !self.paths.is_empty()
            && !self.paths.iter().any(PathReport::is_usable)
    }
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Its NQN, initiator name or address; `other`: all that have no place of their own.
    pub name: String,
    /// Open connections.
    pub connections: usize,
    /// Its commands, also of connections that have ended.
    pub counts: Counts,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// `nvme+tcp`, `nvme+rdma`, `iscsi` or `nbd`.
    pub protocol: String,
    /// The host.
    pub host: String,
    /// The host's address.
    pub peer: String,
    /// The identifier of the I/O queue, for NVMe.
    pub queue: Option<u16>,
    /// With TLS and pre-shared keys: `kernel` or `user space`, whichever has the records.
    #[serde(default)]
    pub tls: Option<String>,
    /// Its commands.
    pub counts: Counts,
}

/// Name of the host that stands for all that have no place of their own.
pub const OTHER_HOSTS: &str = "other";

impl Report {
    /// The state of what an inventory's exports do on these loops.
    pub fn of(inventory: &LiveInventory, loops: &[RemoteLoop]) -> Self {
        let now = inventory.now();
        inventory.statistics().retain(|(nqn, nsid)| now.namespace(nqn, *nsid).is_some());
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ns: nanos(inventory.statistics().age()),
            generation: now.generation(),
            keep_alives_expired: inventory.statistics().keep_alives_expired(),
            cpu: cpu_usage::process().into(),
            loops: ask_all(loops),
            subsystems: subsystems(inventory),
            hosts: hosts(inventory),
            connections: connections(inventory),
            ..Self::default()
        }
    }

    /// All commands of all hosts.
    pub fn total(&self) -> KindCounts {
        let mut all = Counts::default();
        self.hosts.iter().for_each(|host| all.merge(&host.counts));
        all.total()
    }

    /// CPU time of all loops that answered, nanoseconds.
    pub fn loops_cpu_ns(&self) -> u64 {
        self.loops.iter().map(|each| each.cpu.total_ns()).sum()
    }
}

fn subsystems(inventory: &LiveInventory) -> Vec<SubsystemReport> {
    let (now, statistics) = (inventory.now(), inventory.statistics());
    let of = |subsystem: &crate::inventory::Subsystem| {
        let namespace = |namespace: &std::sync::Arc<crate::inventory::Namespace>| NamespaceReport {
            nsid: namespace.nsid.0,
            name: namespace.name.clone(),
            uuid: namespace.uuid.to_string(),
            device: namespace.device.url().to_owned(),
            block_bytes: namespace.device.geometry().block_bytes,
            blocks: namespace.blocks,
            presence: presence(namespace.presence).to_owned(),
            trouble: namespace.device.trouble(),
            paths: namespace.device.paths().into_iter().map(PathReport::from).collect(),
            filters: namespace.device.counted().into_iter().map(FilterReport::from).collect(),
            counts: statistics.namespace(&(subsystem.nqn.clone(), namespace.nsid)),
        };
        let namespaces: Vec<_> = subsystem.namespaces().map(namespace).collect();
        let mut counts = Counts::default();
        namespaces.iter().for_each(|namespace| counts.merge(&namespace.counts));
        SubsystemReport { nqn: subsystem.nqn.to_string(), counts, namespaces }
    };
    now.subsystems().iter().map(|subsystem| of(subsystem)).collect()
}

fn presence(presence: Presence) -> &'static str {
    match presence {
        Presence::Here => "here",
        Presence::Away => "away",
        Presence::Gone => "gone",
    }
}

fn hosts(inventory: &LiveInventory) -> Vec<HostReport> {
    let of = |host: weft_connection::statistics::HostCounts| HostReport {
        name: host.name.unwrap_or_else(|| OTHER_HOSTS.to_owned()),
        connections: host.connections,
        counts: host.counts,
    };
    inventory.statistics().hosts().into_iter().map(of).collect()
}

fn connections(inventory: &LiveInventory) -> Vec<ConnectionReport> {
    let of = |connection: weft_connection::statistics::ConnectionCounts| ConnectionReport {
        protocol: connection.name.protocol.to_owned(),
        host: connection.name.host,
        peer: connection.name.peer,
        queue: connection.name.queue,
        tls: connection.name.tls.map(str::to_owned),
        counts: connection.counts,
    };
    inventory.statistics().connections().into_iter().map(of).collect()
}

/// Asks all loops at once, and waits for the answers a bounded time altogether.
fn ask_all(loops: &[RemoteLoop]) -> Vec<LoopReport> {
    let (give, take) = mpsc::channel();
    for (number, remote) in loops.iter().enumerate() {
        let give = give.clone();
        remote.post(move |on| _ = give.send(of_loop(number, on)));
    }
    drop(give);
    let silent = |number| LoopReport { number, ..LoopReport::default() };
    let mut reports: Vec<LoopReport> = (0..loops.len()).map(silent).collect();
    let deadline = Instant::now() + Duration::from_millis(REPORT_LOOP_MS);
    while let Ok(report) = take.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        let number = report.number;
        reports[number] = report;
    }
    reports
}

/// What a loop tells of itself.
fn of_loop(number: usize, on: &Handle) -> LoopReport {
    let counters = on.counters().snapshot().entries();
    let counters = counters.map(|(name, value)| (name.to_owned(), value)).collect();
    let (pool, cpu) = (on.pool(), cpu_usage::thread().into());
    let (pool_bytes, pool_used_bytes) = (pool.cap_bytes() as u64, pool.taken_bytes() as u64);
    LoopReport { number, answered: true, cpu, pool_bytes, pool_used_bytes, counters }
}

// Counters of the filter `stats:`, in a report.

/// A `stats:` in the device of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterReport {
    /// Its URL, without secrets.
    pub url: String,
    /// Its counters since it was opened, by `read`, `write`, `flush` and `other`.
    pub kinds: BTreeMap<String, FilterCounts>,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterCounts {
    /// Operations that completed.
    pub operations: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// Bytes of the blocks of those that succeeded.
    pub bytes: u64,
    /// Sum of the times from submission to completion, nanoseconds.
    pub time_ns: u64,
    /// The time within which half of them completed, up to an eighth too long.
    pub p50_ns: u64,
    /// The time within which 99 % of them completed, up to an eighth too long.
    pub p99_ns: u64,
    /// The longest time.
    pub max_ns: u64,
}

impl From<(String, Totals)> for FilterReport {
    fn from((url, totals): (String, Totals)) -> Self {
        Self { url, kinds: totals.kinds().map(|(name, of)| (name.to_owned(), of.into())).collect() }
    }
}

impl From<&KindTotals> for FilterCounts {
    fn from(of: &KindTotals) -> Self {
        Self {
            operations: of.operations,
            errors: of.failed,
            bytes: of.bytes,
            time_ns: nanos(of.time()),
            p50_ns: nanos(of.percentile(50.0)),
            p99_ns: nanos(of.percentile(99.0)),
            max_ns: nanos(of.most()),
        }
    }
}

/// A path, and what was counted on it since its device was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// The URL of the path.
    pub url: String,
    /// `connecting`, `live`, `waiting` (to be opened again), or `lost`.
    pub state: String,
    /// The access state (ANA, ALUA) that the target reports: `optimized`, `non-optimized`,
    /// `inaccessible`, `persistent-loss` or `transition`.
    pub access: String,
    /// It is open.
    pub open: bool,
    /// Operations that ended on it.
    pub operations: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Operations that it ended with an error.
    pub errors: u64,
    /// Operations that were sent again because of it.
    pub retries: u64,
    /// Number of times that it was opened again.
    pub reconnects: u64,
    /// Average latency of the last operations, nanoseconds; 0 if there were none.
    pub latency_ns: u64,
    /// Why it takes no commands: why it is not open, or refuses them.
    pub why: Option<String>,
}

impl PathReport {
    /// Returns whether it takes commands.
    pub fn is_usable(&self) -> bool {
        self.open && self.access.ends_with("optimized")
    }
}

impl From<PathStatus> for PathReport {
    fn from(path: PathStatus) -> Self {
        Self {
            state: state(path.state).to_owned(),
            access: access(path.access).to_owned(),
            open: path.state == PathState::Live,
            url: path.url,
            operations: path.operations,
            bytes: path.bytes,
            errors: path.errors,
            retries: path.retries,
            reconnects: path.reconnects,
            latency_ns: path.latency.map_or(0, nanos),
            why: path.why,
        }
    }
}

fn state(state: PathState) -> &'static str {
    match state {
        PathState::Connecting => "connecting",
        PathState::Live => "live",
        PathState::Waiting => "waiting",
        PathState::Lost => "lost",
    }
}

fn access(state: AccessState) -> &'static str {
    match state {
        AccessState::Optimized => "optimized",
        AccessState::NonOptimized => "non-optimized",
        AccessState::Inaccessible => "inaccessible",
        AccessState::PersistentLoss => "persistent-loss",
        AccessState::Transition => "transition",
    }
}

/// A time in whole nanoseconds.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
