//! Counts what exports do: operations, bytes, errors, latency and queue depth, by namespace, host
//! and connection.
//!
//! A connection counts with its [`Meter`] into two cells that only its own thread writes: its own,
//! and that of the namespace on this thread. A reader adds the cells up. The locks here are taken
//! when a connection begins or ends, when its namespaces change, and by readers; never for a
//! command.

mod cell;
mod histogram;
mod meter;
mod names;
mod slow;

pub use cell::{Counts, KindCounts, OperationKind};
pub use histogram::{BUCKETS, Histogram, SHORTEST_NS};
pub use meter::Meter;
pub use names::{ConnectionName, NamespaceName};
pub use slow::CommandName;

use crate::limits::HOSTS_COUNTED_MAX;
use cell::Cell;
use slow::SlowLog;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use weft_base::lock::Lock;

/// A connection, and what it has counted.
#[derive(Clone, Debug)]
pub struct ConnectionCounts {
    /// Its name.
    pub name: ConnectionName,
    /// Commands since it began.
    pub counts: Counts,
}

/// A host, and what all of its connections have counted, also those that have ended.
#[derive(Clone, Debug)]
pub struct HostCounts {
    /// Its name; `None`: all hosts together that have no place of their own.
    pub name: Option<String>,
    /// Open connections.
    pub connections: usize,
    /// Commands.
    pub counts: Counts,
}

/// The counters of all exports of an inventory.
pub struct Statistics {
    started: Instant,
    state: Lock<Counters>,
    slow: OnceLock<Arc<SlowLog>>,
    keep_alives_expired: AtomicU64,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            state: Lock::default(),
            slow: OnceLock::new(),
            keep_alives_expired: AtomicU64::new(0),
        }
    }
}

#[derive(Default)]
struct Counters {
    last: u64,
    connections: BTreeMap<u64, Connection>,
    hosts: BTreeMap<String, Host>,
    /// Hosts without a place of their own.
    others: Host,
    /// Of each namespace, one cell for each thread.
    namespaces: HashMap<NamespaceName, Vec<(ThreadId, Arc<Cell>)>>,
}

struct Connection {
    name: ConnectionName,
    cell: Arc<Cell>,
    /// Its host has a place of its own.
    named: bool,
}

#[derive(Default)]
struct Host {
    connections: usize,
    /// Of connections that have ended.
    past: Counts,
}

impl Statistics {
    /// Logs commands from now on that take this long, with their stages and at a limited rate. Only
    /// connections that begin later do; the first call counts.
    pub fn log_slow(&self, limit: Duration) {
        let _ = self.slow.set(Arc::new(SlowLog::new(limit)));
    }

    /// The association of an NVMe host has ended because its keep alive timer expired.
    pub fn keep_alive_expired(&self) {
        self.keep_alives_expired.fetch_add(1, Relaxed);
    }

    /// Returns the number of associations that have ended in this way.
    pub fn keep_alives_expired(&self) -> u64 {
        self.keep_alives_expired.load(Relaxed)
    }

    /// Time since counting began.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The cell of a namespace for this thread.
    fn cell(&self, namespace: NamespaceName) -> Arc<Cell> {
        let (mut state, thread) = (self.state.lock(), std::thread::current().id());
        let cells = state.namespaces.entry(namespace).or_default();
        if let Some((_, cell)) = cells.iter().find(|(of, _)| *of == thread) {
            return Arc::clone(cell);
        }
        let cell = Arc::<Cell>::default();
        cells.push((thread, Arc::clone(&cell)));
        cell
    }

    fn leave(&self, id: u64) {
        let state = &mut *self.state.lock();
        let Some(Connection { name, cell, named }) = state.connections.remove(&id) else { return };
        let host = if named { state.hosts.get_mut(&name.host) } else { Some(&mut state.others) };
        if let Some(host) = host {
            host.connections -= 1;
            cell.add_to(&mut host.past);
        }
    }

    /// The open connections that serve commands.
    pub fn connections(&self) -> Vec<ConnectionCounts> {
        let state = self.state.lock();
        let of = |connection: &Connection| {
            let mut counts = Counts::default();
            connection.cell.add_to(&mut counts);
            ConnectionCounts { name: connection.name.clone(), counts }
        };
        state.connections.values().map(of).collect()
    }

    /// All hosts that were admitted, by name, at most [`HOSTS_COUNTED_MAX`]; then the others
    /// together, if there were any.
    pub fn hosts(&self) -> Vec<HostCounts> {
        let state = self.state.lock();
        let of = |name: &str, host: &Host| HostCounts {
            name: Some(name.to_owned()),
            connections: host.connections,
            counts: host.past.clone(),
        };
        let mut hosts: BTreeMap<&str, HostCounts> =
            state.hosts.iter().map(|(name, host)| (name.as_str(), of(name, host))).collect();
        let mut others = HostCounts {
            name: None,
            connections: state.others.connections,
            counts: state.others.past.clone(),
        };
        for Connection { name, cell, named } in state.connections.values() {
            let host = if *named { hosts.get_mut(name.host.as_str()) } else { Some(&mut others) };
            host.into_iter().for_each(|host| cell.add_to(&mut host.counts));
        }
        let has_others = others.connections > 0 || others.counts != Counts::default();
        hosts.into_values().chain(has_others.then_some(others)).collect()
    }

    /// The commands of a namespace, on all threads.
    pub fn namespace(&self, name: &NamespaceName) -> Counts {
        let (state, mut counts) = (self.state.lock(), Counts::default());
        state
            .namespaces
            .get(name)
            .into_iter()
            .flatten()
            .for_each(|(_, cell)| cell.add_to(&mut counts));
        counts
    }

    /// Forgets namespaces for which `exists` is false and that no connection uses.
    pub fn retain(&self, exists: impl Fn(&NamespaceName) -> bool) {
        let in_use = |cells: &[(ThreadId, Arc<Cell>)]| {
            cells.iter().any(|(_, cell)| Arc::strong_count(cell) > 1)
        };
        self.state.lock().namespaces.retain(|name, cells| exists(name) || in_use(cells));
    }
}

impl Counters {
    /// Counts a connection of a host. Returns whether the host has a place of its own. If all
    /// places are taken, a host without connections gives up its place: what it has counted goes to
    /// the others.
    fn seat(&mut self, name: &str) -> bool {
        if !self.hosts.contains_key(name) && self.hosts.len() >= HOSTS_COUNTED_MAX {
            let idle = self
                .hosts
                .iter()
                .find(|(_, host)| host.connections == 0)
                .map(|(name, _)| name.clone());
            let Some(gone) = idle.and_then(|idle| self.hosts.remove(&idle)) else {
                self.others.connections += 1;
                return false;
            };
            self.others.past.merge(&gone.past);
        }
        self.hosts.entry(name.to_owned()).or_default().connections += 1;
        true
    }
}

#[cfg(test)]
mod tests;
