//! The inventory that is served at present, and its followers.

use super::{
    Change, Inventory, InventoryBuilder, InventoryError, Namespace, NamespaceConfig, Sharing,
    Subsystem, SubsystemConfig,
};
use crate::health::HealthStore;
use crate::reservations::{ReservationTable, Threads, system};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use weft_base::lock::Lock;
use weft_block::limit::{Limit, Rate};
use weft_block::sharing::share;
use weft_block::{AccessState, BlockDevice};
use weft_connection::limits::CONNECTIONS_MAX;
use weft_connection::statistics::Statistics;
use weft_io::RemoteLoop;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

/// A follower of an inventory: an export.
pub trait Follower: Send + Sync {
    /// The inventory is now `now`, with these `changes` (at least one) since the last call. Called
    /// on the thread that makes the change, one change at a time; must not wait for a loop or
    /// change the inventory.
    fn follow(&self, now: &Arc<Inventory>, changes: &[Change]);
}

/// The inventory that exports serve now, and what hosts and exports have made of it. Any thread may
/// change it, including loops.
pub struct LiveInventory {
    now: Lock<Arc<Inventory>>,
    /// Held during a change, so that all followers are notified in the same order. Followers never
    /// take it.
    followers: Lock<Vec<Weak<dyn Follower>>>,
    sharing: Lock<Sharers>,
    reservations: ReservationTable,
    health: Lock<HealthStore>,
    statistics: Arc<Statistics>,
    rates: HostRates,
    /// Hosts that proved themselves first with an identifier that was registered without a proof.
    pub(super) proved_first: Lock<HashMap<Id128, Nqn>>,
    /// Threads for the arithmetic of authentications.
    threads: Lock<Arc<dyn Threads>>,
    connections_max: AtomicUsize,
}

/// Shares devices that grant few queues.
#[derive(Default)]
struct Sharers {
    /// The loops that share them; none: devices are used directly.
    loops: Vec<RemoteLoop>,
    /// Number of devices so far, to distribute them over the loops.
    count: usize,
}

impl LiveInventory {
    /// Begins with `inventory`. Reservations end with the process.
    ///
    /// # Panics
    /// Never: such reservations are read from nowhere.
    pub fn new(inventory: Inventory) -> Arc<Self> {
        Self::with_reservations(inventory, ReservationTable::volatile())
            .expect("nothing is stored that could be damaged")
    }

    /// Begins with `inventory`, whose namespaces have their reservations in `reservations`.
    ///
    /// # Errors
    /// Those of a namespace were stored, and cannot be read.
    pub fn with_reservations(
        mut inventory: Inventory,
        reservations: ReservationTable,
    ) -> Result<Arc<Self>, InventoryError> {
        find_reservations(&mut inventory, &reservations)?;
        let now = Lock::new(Arc::new(inventory));
        Ok(Arc::new(Self {
            now,
            followers: Lock::default(),
            sharing: Lock::default(),
            reservations,
            health: Lock::default(),
            statistics: Arc::default(),
            rates: HostRates::default(),
            proved_first: Lock::default(),
            threads: Lock::new(system()),
            connections_max: AtomicUsize::new(CONNECTIONS_MAX),
        }))
    }

    /// The reservations of all namespaces.
    pub(crate) fn reservations(&self) -> &ReservationTable {
        &self.reservations
    }

    /// Keeps the counters of SMART logs in this store. Before exports start: they do not follow a
    /// change.
    pub fn keep_health(&self, store: HealthStore) {
        *self.health.lock() = store;
    }

    /// See [`LiveInventory::keep_health`].
    pub fn health(&self) -> HealthStore {
        self.health.lock().clone()
    }

    /// Starts with one subsystem whose namespaces 1, 2, … are these devices, named by their
    /// identifiers.
    pub fn of_devices(
        subsystem: SubsystemConfig,
        devices: Vec<Arc<dyn BlockDevice>>,
    ) -> Result<Arc<Self>, InventoryError> {
        let nqn = subsystem.nqn.clone();
        let mut builder = InventoryBuilder::default();
        builder.add_subsystem(subsystem)?;
        for (nsid, device) in (1..).zip(devices) {
            builder.add_namespace(
                &nqn,
                Nsid(nsid),
                NamespaceConfig::named(device, &nsid.to_string()),
            )?;
        }
        Ok(Self::new(builder.build()?))
    }

    /// The current inventory.
    pub fn now(&self) -> Arc<Inventory> {
        Arc::clone(&self.now.lock())
    }

    /// Sets how many connections each export accepts, up to
    /// [`CONNECTIONS_CONFIGURED_MAX`](weft_connection::limits::CONNECTIONS_CONFIGURED_MAX). Before exports
    /// start: they do not follow a change.
    pub fn limit_connections(&self, max: usize) {
        self.connections_max.store(max, Ordering::Relaxed);
    }

    /// See [`LiveInventory::limit_connections`].
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// Statistics of the exports of the inventory.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// The rate that a host may use; `None`: without limit. A limit that changes applies to it at
    /// once; a first one applies to connections that it makes from then on.
    pub(crate) fn rate_of(&self, host: &str) -> Option<Arc<Rate>> {
        self.rates.of(host, || self.now())
    }

    /// Has the arithmetic of authentications run on other threads than the system's.
    pub fn compute_on(&self, threads: Arc<dyn Threads>) {
        *self.threads.lock() = threads;
    }

    /// See [`LiveInventory::compute_on`].
    pub(crate) fn threads(&self) -> Arc<dyn Threads> {
        Arc::clone(&self.threads.lock())
    }

    /// Changes the inventory, and returns the new one. On return all followers have been notified;
    /// their loops apply the change asynchronously.
    ///
    /// # Errors
    /// The builder's error. Nothing has changed then.
    pub fn change(
        &self,
        edit: impl FnOnce(&mut InventoryBuilder) -> Result<(), InventoryError>,
    ) -> Result<Arc<Inventory>, InventoryError> {
        let mut followers = self.followers.lock();
        let before = self.now();
        let next = self.prepare(&before, edit)?;
        Ok(self.serve(&mut followers, &before, next))
    }

    /// Makes the value to serve after `before`. Reading the reservations of its namespaces may wait
    /// for the store of a group.
    ///
    /// # Errors
    /// The builder's error; reservations cannot be read.
    pub(crate) fn prepare(
        &self,
        before: &Inventory,
        edit: impl FnOnce(&mut InventoryBuilder) -> Result<(), InventoryError>,
    ) -> Result<Inventory, InventoryError> {
        let mut builder = before.edit();
        edit(&mut builder)?;
        let mut next = builder.build()?;
        find_reservations(&mut next, &self.reservations)?;
        Ok(next)
    }

    /// Serves a value that was prepared from `before`, and notifies the followers. `None`: `before`
    /// is no longer what is served.
    pub(crate) fn swap(&self, before: &Arc<Inventory>, next: Inventory) -> Option<Arc<Inventory>> {
        let mut followers = self.followers.lock();
        let is_served = Arc::ptr_eq(&self.now(), before);
        is_served.then(|| self.serve(&mut followers, before, next))
    }

    fn serve(
        &self,
        followers: &mut Vec<Weak<dyn Follower>>,
        before: &Arc<Inventory>,
        mut next: Inventory,
    ) -> Arc<Inventory> {
        self.sharing.lock().share(&mut next);
        let now = Arc::new(next);
        let changes = now.changes_since(before);
        if changes.is_empty() {
            return Arc::clone(before);
        }
        *self.now.lock() = Arc::clone(&now);
        self.rates.follow(&now.host_limits);
        for change in &changes {
            tracing::info!("inventory, generation {}: {change:?}", now.generation());
        }
        followers.retain(|follower| {
            follower.upgrade().is_some_and(|follower| {
                follower.follow(&now, &changes);
                true
            })
        });
        now
    }

    /// Sets how well hosts reach the namespaces of a group, while they use them: those that came by
    /// this listener, or all.
    ///
    /// # Errors
    /// There can be no such group.
    pub fn set_access_state(
        &self,
        group: u32,
        listener: Option<SocketAddr>,
        state: AccessState,
    ) -> Result<Arc<Inventory>, InventoryError> {
        self.change(|builder| builder.set_access_state(group, listener, state).map(drop))
    }

    /// Shares devices with a limited number of queues among all users on these loops
    /// ([`weft_block::sharing`]), also devices that are added later. For the first export; later
    /// calls change nothing.
    pub(crate) fn share_on(&self, loops: &[RemoteLoop]) {
        let _no_change_meanwhile = self.followers.lock();
        let mut sharing = self.sharing.lock();
        if sharing.loops.is_empty() {
            sharing.loops = loops.to_vec();
            let mut now = Inventory::clone(&self.now());
            sharing.share(&mut now);
            *self.now.lock() = Arc::new(now);
        }
    }

    /// Adds a follower, until it is dropped. `start` creates it from the current inventory, before
    /// any change is reported.
    pub(crate) fn join<F: Follower + 'static>(
        &self,
        start: impl FnOnce(&Arc<Inventory>) -> Arc<F>,
    ) -> Arc<F> {
        let mut followers = self.followers.lock();
        let follower = start(&self.now());
        let weak: Weak<F> = Arc::downgrade(&follower);
        followers.push(weak);
        follower
    }

    /// Reads the sizes of the devices again, and whether they can be reached. For users that learnt
    /// of a change, or may have missed one.
    pub fn look_at_devices(&self) {
        let is_right = |namespace: &Arc<Namespace>| {
            let blocks = namespace.device.geometry().blocks;
            let size_is =
                namespace.blocks == namespace.limit.map_or(blocks, |limit| limit.min(blocks));
            size_is && namespace.presence == namespace.presence_now()
        };
        if !self.now().namespaces().all(is_right) {
            self.log(self.change(|builder| {
                builder.look_at_devices();
                Ok(())
            }));
        }
    }

    /// A queue of a device reported a change: updates the inventory, and notifies all exports that
    /// serve it.
    pub(crate) fn device_changed(
        &self,
        device: &Arc<dyn BlockDevice>,
        change: weft_block::DeviceChange,
    ) {
        use weft_block::DeviceChange::{Access, Away, Back, Gone, Resized};
        match change {
            Resized { .. } | Away | Back | Access(_) => self.look_at_devices(),
            Gone => self.log(self.change(|builder| {
                builder.lose(device);
                Ok(())
            })),
        }
    }

    fn log(&self, outcome: Result<Arc<Inventory>, InventoryError>) {
        if let Err(e) = outcome {
            tracing::error!("cannot apply a change of a device: {e}");
        }
    }
}

/// Gives the namespaces that are new their reservations. What a group serves has none where they
/// are not the group's.
fn find_reservations(
    inventory: &mut Inventory,
    table: &ReservationTable,
) -> Result<(), InventoryError> {
    let lacks = |namespace: &Namespace| namespace.reserves && namespace.reservations.is_none();
    let can = |of: &Subsystem| of.sharing != Sharing::Group || table.is_shared();
    let is_meant =
        |of: &&mut Arc<Subsystem>| can(of) && of.namespaces().any(|namespace| lacks(namespace));
    for subsystem in inventory.subsystems.iter_mut().filter(is_meant) {
        for namespace in
            Arc::make_mut(subsystem).namespaces.values_mut().filter(|namespace| lacks(namespace))
        {
            let found = match namespace.is_of_process() {
                true => table.of_process(namespace.uuid),
                false => table.of(namespace.uuid),
            };
            let found = found.map_err(|e| InventoryError::Reservations(e.to_string()))?;
            Arc::make_mut(namespace).reservations = Some(found);
        }
    }
    Ok(())
}

impl Sharers {
    /// Replaces devices that need sharing by shared ones.
    fn share(&mut self, inventory: &mut Inventory) {
        let needs = |namespace: &Namespace| namespace.device.max_queues() != usize::MAX;
        if self.loops.is_empty() || !inventory.namespaces().any(|namespace| needs(namespace)) {
            return;
        }
        // One device may be several namespaces.
        let pair = |namespace: &Arc<Namespace>| {
            (Arc::clone(&namespace.given), Arc::clone(&namespace.device))
        };
        let mut known: Vec<_> =
            inventory.namespaces().filter(|namespace| !needs(namespace)).map(pair).collect();
        for subsystem in &mut inventory.subsystems {
            for namespace in Arc::make_mut(subsystem)
                .namespaces
                .values_mut()
                .filter(|namespace| needs(namespace))
            {
                let found = known
                    .iter()
                    .find(|(given, _)| Arc::ptr_eq(given, &namespace.given))
                    .map(|(_, shared)| Arc::clone(shared));
                let shared = found.unwrap_or_else(|| self.share_one(&namespace.given));
                known.push((Arc::clone(&namespace.given), Arc::clone(&shared)));
                Arc::make_mut(namespace).device = shared;
            }
        }
    }

    fn share_one(&mut self, device: &Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        let (before, from) = self.loops.split_at(self.count % self.loops.len());
        self.count += 1;
        share(Arc::clone(device), &[from, before].concat())
    }
}

// Present use of the limits of hosts, over all devices together.

/// The rates of hosts that have connected since they have a limit. One that lost its limit stays
/// while connections use it, and applies to them again with the next limit of the host.
#[derive(Debug, Default)]
struct HostRates(Lock<HashMap<String, Arc<Rate>>>);

impl HostRates {
    /// Hosts have these limits from now on.
    fn follow(&self, limits: &BTreeMap<String, Limit>) {
        self.0.lock().retain(|host, rate| {
            rate.set(limits.get(host).copied().unwrap_or(Limit::NONE));
            limits.contains_key(host) || Arc::strong_count(rate) > 1
        });
    }

    /// The rate that a host may use; `None`: without limit. `now` returns the served inventory;
    /// [`Self::follow`] comes after any change of it.
    fn of(&self, host: &str, now: impl FnOnce() -> Arc<Inventory>) -> Option<Arc<Rate>> {
        let mut rates = self.0.lock();
        if let Some(rate) = rates.get(host) {
            return Some(Arc::clone(rate));
        }
        let rate = Arc::new(Rate::new(*now().host_limits.get(host)?));
        rates.insert(host.to_owned(), Arc::clone(&rate));
        Some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::super::InventoryBuilder;
    use super::*;

    fn served(operations: u64) -> Arc<Inventory> {
        let mut builder = InventoryBuilder::default();
        builder.limit_hosts([("host".to_owned(), Limit { operations, bytes: 0 })]).unwrap();
        Arc::new(builder.build().unwrap())
    }

    #[test]
    fn connections_that_stay_have_the_next_limit_of_their_host() {
        let (rates, free) = (HostRates::default(), served(0));
        assert!(rates.of("host", || served(0)).is_none());
        let rate = rates.of("host", || served(5)).unwrap();
        assert_eq!(rate.limit().operations, 5);
        rates.follow(&free.host_limits);
        assert_eq!(rate.limit(), Limit::NONE);
        rates.follow(&served(7).host_limits);
        assert_eq!(rate.limit().operations, 7);
        drop(rate);
        rates.follow(&free.host_limits);
        assert!(rates.of("host", || free).is_none(), "nobody uses it");
    }
}
