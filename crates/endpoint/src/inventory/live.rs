//! The inventory that is served at present, and its followers.

use super::host_identifiers::HostIdentifiers;
use super::{
    Authentications, Change, HostLimits, Inventory, InventoryBuilder, InventoryError, Namespace,
    NamespaceConfig, OtherGateway, Others, Sharing, Subsystem, SubsystemConfig,
};
use crate::health::HealthStore;
use crate::limits::CONNECTIONS_MAX;
use crate::reservations::ReservationTable;
use crate::statistics::Statistics;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weft_block::sharing::share;
use weft_block::{AccessState, BlockDevice};
use weft_io::RemoteLoop;
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme::types::{Nqn, Nsid};

/// A follower of an inventory: an export.
pub trait Follower: Send + Sync {
    /// The inventory is now `now`, with these `changes` (at least one) since the last call. Called
    /// on the thread that makes the change, one change at a time; must not wait for a loop or
    /// change the inventory.
    fn follow(&self, now: &Arc<Inventory>, changes: &[Change]);

    /// Other processes serve the same subsystems than before. Called like [`Self::follow`].
    fn others_changed(&self) {}
}

/// The inventory that exports serve now. Any thread may change it, including loops.
pub struct LiveInventory {
    now: Mutex<Arc<Inventory>>,
    /// Held during a change, so that all followers are notified in the same order. Followers never
    /// take it.
    followers: Mutex<Vec<Weak<dyn Follower>>>,
    sharing: Mutex<Sharers>,
    reservations: ReservationTable,
    health: Mutex<HealthStore>,
    statistics: Arc<Statistics>,
    host_limits: HostLimits,
    authentications: Authentications,
    pub(super) identifiers: HostIdentifiers,
    referrals: Mutex<Vec<TransportAddress>>,
    others: Mutex<Arc<Others>>,
    discovery_nqn: Mutex<Option<Nqn>>,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let now = Mutex::new(Arc::new(inventory));
        Ok(Arc::new(Self {
            now,
            followers: Mutex::default(),
            sharing: Mutex::default(),
            reservations,
            health: Mutex::default(),
            statistics: Arc::default(),
            host_limits: HostLimits::default(),
            authentications: Authentications::default(),
            identifiers: HostIdentifiers::default(),
            referrals: Mutex::default(),
            others: Mutex::default(),
            discovery_nqn: Mutex::default(),
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
        *lock(&self.health) = store;
    }

    /// See [`LiveInventory::keep_health`].
    pub fn health(&self) -> HealthStore {
        lock(&self.health).clone()
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
        Arc::clone(&lock(&self.now))
    }

    /// Sets the other discovery controllers that the discovery log refers to. Before exports start:
    /// they do not follow a change.
    pub fn set_referrals(&self, to: &[TransportAddress]) {
        *lock(&self.referrals) = to.to_vec();
    }

    /// Sets which other processes serve the same subsystems: the discovery of each export tells of
    /// their ports from now on, also to hosts that are connected. Of
    /// [`OTHER_PORTS_MAX`](crate::limits::OTHER_PORTS_MAX) of each protocol. Any thread may call
    /// this at any time.
    pub fn set_others(&self, others: &[OtherGateway]) {
        let mut followers = lock(&self.followers);
        if self.others().is(others) {
            return;
        }
        *lock(&self.others) = Arc::new(Others::new(others));
        tracing::info!("other gateways: {others:?}");
        followers.retain(|follower| {
            follower.upgrade().map(|follower| follower.others_changed()).is_some()
        });
    }

    /// See [`LiveInventory::set_others`].
    pub(crate) fn others(&self) -> Arc<Others> {
        Arc::clone(&lock(&self.others))
    }

    /// Gives the discovery subsystem a name of its own beside the well-known one (TP 8013). Before
    /// exports start: they do not follow a change.
    pub fn set_discovery_nqn(&self, name: Nqn) {
        *lock(&self.discovery_nqn) = Some(name);
    }

    /// Sets how many connections each export accepts, up to
    /// [`CONNECTIONS_CONFIGURED_MAX`](crate::limits::CONNECTIONS_CONFIGURED_MAX). Before exports
    /// start: they do not follow a change.
    pub fn limit_connections(&self, max: usize) {
        self.connections_max.store(max, Ordering::Relaxed);
    }

    /// See [`LiveInventory::limit_connections`].
    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// See [`LiveInventory::set_discovery_nqn`].
    pub(crate) fn discovery_nqn(&self) -> Nqn {
        lock(&self.discovery_nqn).clone().unwrap_or_else(Nqn::discovery)
    }

    /// See [`LiveInventory::set_referrals`].
    pub(crate) fn referrals(&self) -> Vec<TransportAddress> {
        lock(&self.referrals).clone()
    }

    /// What the exports of the inventory have counted.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// The limits of hosts.
    pub fn host_limits(&self) -> &HostLimits {
        &self.host_limits
    }

    /// Which hosts have to authenticate.
    pub fn authentications(&self) -> &Authentications {
        &self.authentications
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
        let mut followers = lock(&self.followers);
        let before = self.now();
        let mut builder = before.edit();
        edit(&mut builder)?;
        let mut now = builder.build()?;
        lock(&self.sharing).share(&mut now);
        find_reservations(&mut now, &self.reservations)?;
        let now = Arc::new(now);
        let changes = now.changes_since(&before);
        if changes.is_empty() {
            return Ok(before);
        }
        *lock(&self.now) = Arc::clone(&now);
        for change in &changes {
            tracing::info!("inventory, generation {}: {change:?}", now.generation());
        }
        followers.retain(|follower| {
            follower.upgrade().is_some_and(|follower| {
                follower.follow(&now, &changes);
                true
            })
        });
        Ok(now)
    }

    /// An inventory that is about to be served, with the reservations of its namespaces. Reading
    /// those may wait for the store of a group; a change that follows while this one is kept finds
    /// them read.
    ///
    /// # Errors
    /// Those of a namespace cannot be read.
    pub fn prepared(&self, mut inventory: Inventory) -> Result<Inventory, InventoryError> {
        find_reservations(&mut inventory, &self.reservations)?;
        Ok(inventory)
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
        let _no_change_meanwhile = lock(&self.followers);
        let mut sharing = lock(&self.sharing);
        if sharing.loops.is_empty() {
            sharing.loops = loops.to_vec();
            let mut now = Inventory::clone(&self.now());
            sharing.share(&mut now);
            *lock(&self.now) = Arc::new(now);
        }
    }

    /// Adds a follower, until it is dropped. `start` creates it from the current inventory, before
    /// any change is reported.
    pub(crate) fn join<F: Follower + 'static>(
        &self,
        start: impl FnOnce(&Arc<Inventory>) -> Arc<F>,
    ) -> Arc<F> {
        let mut followers = lock(&self.followers);
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
    pub(crate) fn device_changed(&self, device: &Arc<dyn BlockDevice>, change: weft_block::Change) {
        use weft_block::Change::{Access, Away, Back, Gone, Resized};
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
