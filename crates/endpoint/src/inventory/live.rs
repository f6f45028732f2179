//! The inventory that is served at present, and those who serve it.

use super::{Change, Inventory, InventoryBuilder, InventoryError, Namespace, NamespaceConfig, SubsystemConfig};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weft_block::BlockDevice;
use weft_block::sharing::share;
use weft_io::Remote;
use weft_proto::nvme::types::Nsid;

/// Whoever serves an inventory.
pub trait Follower: Send + Sync {
    /// The inventory is `now` from now on, which differs from the last one that was told by `changes`, at least one. It is called on the
    /// thread that makes the change, one change at a time, and must neither wait for a loop nor change the inventory.
    fn follow(&self, now: &Arc<Inventory>, changes: &[Change]);
}

/// The inventory that exports serve now. Changes may be made on any thread, loops included.
pub struct LiveInventory {
    now: Mutex<Arc<Inventory>>,
    /// Held while a change is made, so that all followers are told in the same order. Never taken by a follower.
    followers: Mutex<Vec<Weak<dyn Follower>>>,
    sharing: Mutex<Sharing>,
}

/// What shares devices that grant few queues.
#[derive(Default)]
struct Sharing {
    /// The loops that they are shared by; none: devices are used as they are.
    loops: Vec<Remote>,
    /// Devices so far: not all burden the same loops.
    count: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveInventory {
    /// Begins with `inventory`.
    pub fn new(inventory: Inventory) -> Arc<Self> {
        Arc::new(Self { now: Mutex::new(Arc::new(inventory)), followers: Mutex::default(), sharing: Mutex::default() })
    }

    /// Begins with one subsystem, whose namespaces 1, 2, … are these devices, named by their identifiers.
    pub fn of_devices(subsystem: SubsystemConfig, devices: Vec<Arc<dyn BlockDevice>>) -> Result<Arc<Self>, InventoryError> {
        let nqn = subsystem.nqn.clone();
        let mut builder = InventoryBuilder::default();
        builder.add_subsystem(subsystem)?;
        for (nsid, device) in (1..).zip(devices) {
            builder.add_namespace(&nqn, Nsid(nsid), NamespaceConfig::named(device, &nsid.to_string()))?;
        }
        Ok(Self::new(builder.build()?))
    }

    /// What is served now.
    pub fn now(&self) -> Arc<Inventory> {
        Arc::clone(&lock(&self.now))
    }

    /// Changes what is served; gives the inventory of after the change. When this returns, all who serve it have been told; their loops
    /// carry it out on their own.
    ///
    /// # Errors
    /// What the builder says. Then nothing has changed.
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

    /// Devices that grant only so many queues are shared by all users on these loops ([`weft_block::sharing`]), those that come later too. For
    /// the first who serves the inventory; later calls change nothing.
    pub(crate) fn share_on(&self, loops: &[Remote]) {
        let _no_change_meanwhile = lock(&self.followers);
        let mut sharing = lock(&self.sharing);
        if sharing.loops.is_empty() {
            sharing.loops = loops.to_vec();
            let mut now = Inventory::clone(&self.now());
            sharing.share(&mut now);
            *lock(&self.now) = Arc::new(now);
        }
    }

    /// Has somebody told of each change from now on, until it is dropped. `start` makes it from what is served now, before any change is told.
    pub(crate) fn join<F: Follower + 'static>(&self, start: impl FnOnce(&Arc<Inventory>) -> Arc<F>) -> Arc<F> {
        let mut followers = lock(&self.followers);
        let follower = start(&self.now());
        let weak: Weak<F> = Arc::downgrade(&follower);
        followers.push(weak);
        follower
    }

    /// Looks at how large the devices are. For whoever has heard that one has another size, or could not hear of it.
    pub fn look_at_sizes(&self) {
        let is_right = |namespace: &Arc<Namespace>| {
            let blocks = namespace.device.geometry().blocks;
            namespace.blocks == namespace.limit.map_or(blocks, |limit| limit.min(blocks))
        };
        if !self.now().namespaces().all(is_right) {
            self.log(self.change(|builder| {
                builder.look_at_sizes();
                Ok(())
            }));
        }
    }

    /// A device is gone for good: so are its namespaces.
    pub(crate) fn device_gone(&self, device: &Arc<dyn BlockDevice>) {
        self.log(self.change(|builder| {
            builder.forget(device);
            Ok(())
        }));
    }

    fn log(&self, outcome: Result<Arc<Inventory>, InventoryError>) {
        if let Err(e) = outcome {
            tracing::error!("cannot apply a change of a device: {e}");
        }
    }
}

impl Sharing {
    /// Puts what shares its queues in the place of each device that needs it.
    fn share(&mut self, inventory: &mut Inventory) {
        let needs = |namespace: &Namespace| namespace.device.max_queues() != usize::MAX;
        if self.loops.is_empty() || !inventory.namespaces().any(|namespace| needs(namespace)) {
            return;
        }
        // One device may be several namespaces.
        let pair = |namespace: &Arc<Namespace>| (Arc::clone(&namespace.given), Arc::clone(&namespace.device));
        let mut known: Vec<_> = inventory.namespaces().filter(|namespace| !needs(namespace)).map(pair).collect();
        for subsystem in &mut inventory.subsystems {
            for namespace in Arc::make_mut(subsystem).namespaces.values_mut().filter(|namespace| needs(namespace)) {
                let found =
                    known.iter().find(|(given, _)| Arc::ptr_eq(given, &namespace.given)).map(|(_, shared)| Arc::clone(shared));
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
