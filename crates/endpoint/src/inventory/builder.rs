//! Builds an inventory, and rejects an invalid one.

use super::states::is_group;
use super::{
    Access, AccessStates, ControllerRange, DEFAULT_GROUP, Inventory, InventoryError, Namespace,
    Sharing, Subsystem,
};
use crate::identity::namespace_uuid;
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::{AccessState, BlockDevice, Presence};
use weft_proto::iscsi::text::Name;
use weft_proto::limits::{NAMESPACES_MAX, NBD_STRING_BYTES_MAX};
use weft_proto::nvme::controller::{self, CNTLID_MAX};
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

/// Configuration of a subsystem.
#[derive(Clone, Debug)]
pub struct SubsystemConfig {
    /// Name.
    pub nqn: Nqn,
    /// NVMe hosts that may connect.
    pub hosts: Access<Nqn>,
    /// iSCSI initiators that may log in.
    pub initiators: Access<Name>,
}

/// Configuration of a namespace.
#[derive(Clone)]
pub struct NamespaceConfig {
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// Export name for NBD clients; `None`: not exported over NBD.
    pub name: Option<String>,
    /// UUID; `None`: that of the device or, if it has none, one derived from subsystem and
    /// identifier.
    pub uuid: Option<Uuid>,
    /// NGUID; `None`: the UUID.
    pub nguid: Option<[u8; 16]>,
    /// EUI-64; `None`: none.
    pub eui64: Option<[u8; 8]>,
    /// Maximum blocks to serve; `None`: all blocks of the device, as it grows and shrinks.
    pub blocks: Option<u64>,
    /// The group that it shares its access state with (ANAGRPID), 1 to
    /// [`weft_proto::limits::ANA_GROUPS_MAX`].
    pub group: u32,
    /// NVMe hosts that see it.
    pub hosts: Access<Nqn>,
    /// iSCSI initiators that see it.
    pub initiators: Access<Name>,
    /// Hosts can reserve it. Switch it off where others serve the same data, whose hosts would not
    /// be kept out.
    pub reservations: bool,
}

impl SubsystemConfig {
    /// A subsystem with access for all.
    pub fn new(nqn: Nqn) -> Self {
        Self { nqn, hosts: Access::Any, initiators: Access::Any }
    }
}

impl NamespaceConfig {
    /// A whole device, with its own identity, visible to all hosts except NBD clients.
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        let (hosts, initiators) = (Access::Any, Access::Any);
        let (name, uuid, nguid, eui64, blocks) = (None, None, None, None, None);
        Self {
            device,
            name,
            uuid,
            nguid,
            eui64,
            blocks,
            group: DEFAULT_GROUP,
            hosts,
            initiators,
            reservations: true,
        }
    }

    /// The same, also for NBD clients.
    pub fn named(device: Arc<dyn BlockDevice>, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::new(device) }
    }
}

/// Builds an [`Inventory`] step by step. A call that fails changes nothing.
#[derive(Clone, Debug, Default)]
pub struct InventoryBuilder {
    before: Inventory,
    subsystems: Vec<Subsystem>,
    listeners: Vec<String>,
    access: AccessStates,
    range: ControllerRange,
}

impl InventoryBuilder {
    pub(super) fn of(before: &Inventory) -> Self {
        let subsystems =
            before.subsystems.iter().map(|subsystem| Subsystem::clone(subsystem)).collect();
        Self {
            before: before.clone(),
            subsystems,
            listeners: before.listeners.clone(),
            access: before.access.clone(),
            range: before.range,
        }
    }

    /// Sets what this process is among those that serve the same subsystems; before any subsystem
    /// is added.
    pub fn set_range(&mut self, range: ControllerRange) -> Result<&mut Self, InventoryError> {
        let (first, last) = range.cntlids;
        if first == 0 || first > last || last > CNTLID_MAX {
            return Err(InventoryError::ControllerIdentifiers(first, last));
        }
        self.range = range;
        Ok(self)
    }

    /// Adds a subsystem without namespaces.
    pub fn add_subsystem(&mut self, config: SubsystemConfig) -> Result<&mut Self, InventoryError> {
        let SubsystemConfig { nqn, hosts, initiators } = config;
        let ControllerRange { cntlids, sharing } = self.range;
        if nqn == Nqn::discovery() {
            return Err(InventoryError::ReservedName(nqn));
        }
        if self.subsystems.iter().any(|subsystem| subsystem.nqn == nqn) {
            return Err(InventoryError::DuplicateSubsystem(nqn));
        }
        self.subsystems.push(Subsystem {
            nqn,
            hosts,
            initiators,
            cntlids,
            sharing,
            namespaces: BTreeMap::new(),
        });
        Ok(self)
    }

    /// Removes a subsystem and its namespaces.
    pub fn remove_subsystem(&mut self, nqn: &Nqn) -> Result<&mut Self, InventoryError> {
        let at = self.subsystems.iter().position(|subsystem| subsystem.nqn == *nqn);
        self.subsystems.remove(at.ok_or_else(|| InventoryError::NoSubsystem(nqn.clone()))?);
        Ok(self)
    }

    /// Access to a subsystem's settings.
    pub fn subsystem_mut(&mut self, nqn: &Nqn) -> Result<&mut Subsystem, InventoryError> {
        let found = self.subsystems.iter_mut().find(|subsystem| subsystem.nqn == *nqn);
        found.ok_or_else(|| InventoryError::NoSubsystem(nqn.clone()))
    }

    /// Adds a namespace with a free identifier.
    pub fn add_namespace(
        &mut self,
        nqn: &Nqn,
        nsid: Nsid,
        config: NamespaceConfig,
    ) -> Result<&mut Self, InventoryError> {
        let (generation, range) = (self.next_generation(), self.range);
        let known = self.before.namespace(nqn, nsid).cloned();
        let subsystem = self.subsystem_mut(nqn)?;
        if subsystem.namespaces.contains_key(&nsid) {
            return Err(InventoryError::DuplicateNamespace(nqn.clone(), nsid));
        }
        if subsystem.namespaces.len() >= NAMESPACES_MAX as usize {
            return Err(InventoryError::TooManyNamespaces(nqn.clone()));
        }
        // A namespace removed earlier in the same builder is thereby replaced.
        let namespace = make(nqn, nsid, config, known.as_deref(), generation, range)?;
        subsystem.namespaces.insert(nsid, Arc::new(namespace));
        Ok(self)
    }

    /// Adds a namespace with the lowest free identifier, and returns the identifier.
    pub fn add_next(&mut self, nqn: &Nqn, config: NamespaceConfig) -> Result<Nsid, InventoryError> {
        let subsystem = self.subsystem_mut(nqn)?;
        let free = (1..)
            .map(Nsid)
            .find(|nsid| !subsystem.namespaces.contains_key(nsid))
            .unwrap_or(Nsid(1));
        self.add_namespace(nqn, free, config)?;
        Ok(free)
    }

    /// Replaces a namespace. It has the same data if its UUID (given, or the device's own) is the
    /// same as before; otherwise hosts see another disk, with another UUID.
    pub fn replace_namespace(
        &mut self,
        nqn: &Nqn,
        nsid: Nsid,
        config: NamespaceConfig,
    ) -> Result<&mut Self, InventoryError> {
        let (generation, range) = (self.next_generation(), self.range);
        let subsystem = self.subsystem_mut(nqn)?;
        let was = subsystem
            .namespaces
            .get(&nsid)
            .ok_or_else(|| InventoryError::NoNamespace(nqn.clone(), nsid))?;
        let namespace = make(nqn, nsid, config, Some(&**was), generation, range)?;
        subsystem.namespaces.insert(nsid, Arc::new(namespace));
        Ok(self)
    }

    /// Removes a namespace.
    pub fn remove_namespace(&mut self, nqn: &Nqn, nsid: Nsid) -> Result<&mut Self, InventoryError> {
        let gone = self.subsystem_mut(nqn)?.namespaces.remove(&nsid);
        gone.map(|_| self).ok_or_else(|| InventoryError::NoNamespace(nqn.clone(), nsid))
    }

    /// Sets the number of blocks to serve; `None`: all blocks of the device.
    pub fn resize_namespace(
        &mut self,
        nqn: &Nqn,
        nsid: Nsid,
        blocks: Option<u64>,
    ) -> Result<&mut Self, InventoryError> {
        let namespace = self.namespace_mut(nqn, nsid)?;
        let size = served_blocks(namespace.device.as_ref(), nsid, blocks)?;
        (namespace.limit, namespace.blocks) = (blocks, size);
        Ok(self)
    }

    /// Bytes of a block of a namespace, if there is one.
    pub fn block_bytes(&self, nqn: &Nqn, nsid: Nsid) -> Option<u32> {
        let subsystem = self.subsystems.iter().find(|subsystem| subsystem.nqn == *nqn)?;
        Some(subsystem.namespace(nsid)?.device.geometry().block_bytes)
    }

    /// Sets which hosts and initiators see a namespace.
    pub fn show_namespace(
        &mut self,
        nqn: &Nqn,
        nsid: Nsid,
        change: impl FnOnce(&mut Access<Nqn>, &mut Access<Name>),
    ) -> Result<&mut Self, InventoryError> {
        let namespace = self.namespace_mut(nqn, nsid)?;
        change(&mut namespace.hosts, &mut namespace.initiators);
        Ok(self)
    }

    /// Sets or removes the export name for NBD clients.
    pub fn name_namespace(
        &mut self,
        nqn: &Nqn,
        nsid: Nsid,
        name: Option<String>,
    ) -> Result<&mut Self, InventoryError> {
        self.namespace_mut(nqn, nsid)?.name = name;
        Ok(self)
    }

    /// Moves a namespace to another group.
    pub fn group_namespace(
        &mut self,
        nqn: &Nqn,
        nsid: Nsid,
        group: u32,
    ) -> Result<&mut Self, InventoryError> {
        check_group(group)?;
        self.namespace_mut(nqn, nsid)?.group = group;
        Ok(self)
    }

    /// Sets how well hosts reach the namespaces of a group: those that came by this listener, or
    /// all. In [`AccessState::Transition`] a group must not stay longer than
    /// [`weft_proto::limits::ANA_TRANSITION_S`].
    pub fn set_access_state(
        &mut self,
        group: u32,
        listener: Option<SocketAddr>,
        state: AccessState,
    ) -> Result<&mut Self, InventoryError> {
        check_group(group)?;
        self.access.set(listener, group, state);
        Ok(self)
    }

    /// Adds a listen URL.
    pub fn add_listener(&mut self, url: &str) -> Result<&mut Self, InventoryError> {
        if self.listeners.iter().any(|known| known == url) {
            return Err(InventoryError::DuplicateListener(url.to_owned()));
        }
        self.listeners.push(url.to_owned());
        Ok(self)
    }

    /// Removes a listen URL.
    pub fn remove_listener(&mut self, url: &str) -> Result<&mut Self, InventoryError> {
        let at = self.listeners.iter().position(|known| known == url);
        self.listeners.remove(at.ok_or_else(|| InventoryError::NoListener(url.to_owned()))?);
        Ok(self)
    }

    /// Reads the current sizes of the devices, and whether they can be reached. If a device has
    /// become smaller than the configured size, all of its blocks are served.
    pub(super) fn look_at_devices(&mut self) {
        for subsystem in &mut self.subsystems {
            for namespace in subsystem.namespaces.values_mut() {
                let blocks = namespace.device.geometry().blocks;
                let size = namespace.limit.map_or(blocks, |limit| limit.min(blocks));
                if size != namespace.blocks && size > 0 {
                    Arc::make_mut(namespace).blocks = size;
                }
                let presence = namespace.presence_now();
                if presence != namespace.presence {
                    Arc::make_mut(namespace).presence = presence;
                }
            }
        }
    }

    /// Marks the namespaces of a permanently lost device as gone. They stay in the list, so that
    /// hosts use another path to the data if there is one: a host does not do so if the namespace
    /// no longer exists.
    pub(super) fn lose(&mut self, device: &Arc<dyn BlockDevice>) {
        let namespaces =
            self.subsystems.iter_mut().flat_map(|subsystem| subsystem.namespaces.values_mut());
        for namespace in namespaces.filter(|namespace| Arc::ptr_eq(&namespace.device, device)) {
            Arc::make_mut(namespace).presence = Presence::Gone;
        }
    }

    /// The inventory: with a new generation if something changed since the builder was created;
    /// otherwise the original one.
    pub fn build(self) -> Result<Inventory, InventoryError> {
        self.check()?;
        let generation = self.next_generation();
        let Self { before, subsystems, listeners, access, range } = self;
        let kept = |subsystem: Subsystem| match before.subsystem(&subsystem.nqn) {
            Some(was) if **was == subsystem => Arc::clone(was),
            _ => Arc::new(subsystem),
        };
        let next = Inventory {
            generation,
            subsystems: subsystems.into_iter().map(kept).collect(),
            listeners,
            access,
            range,
        };
        let rest = |inventory: &Inventory| (inventory.listeners.clone(), inventory.access.clone());
        let is_same = next.subsystems == before.subsystems && rest(&next) == rest(&before);
        Ok(if is_same { before } else { next })
    }

    fn next_generation(&self) -> u64 {
        self.before.generation + 1
    }

    fn namespace_mut(&mut self, nqn: &Nqn, nsid: Nsid) -> Result<&mut Namespace, InventoryError> {
        let found = self.subsystem_mut(nqn)?.namespaces.get_mut(&nsid);
        found.map(Arc::make_mut).ok_or_else(|| InventoryError::NoNamespace(nqn.clone(), nsid))
    }

    /// The check that no single call can make: whether all names differ.
    fn check(&self) -> Result<(), InventoryError> {
        let (mut uuids, mut nguids, mut eui64s, mut names) =
            (HashSet::new(), HashSet::new(), HashSet::new(), HashSet::new());
        for namespace in self.subsystems.iter().flat_map(Subsystem::namespaces) {
            if !uuids.insert(namespace.uuid) {
                return Err(InventoryError::DuplicateUuid(namespace.uuid));
            }
            if !nguids.insert(namespace.nguid) {
                return Err(InventoryError::DuplicateNguid(namespace.nguid));
            }
            if let Some(eui64) = namespace.eui64.filter(|eui64| !eui64s.insert(*eui64)) {
                return Err(InventoryError::DuplicateEui64(eui64));
            }
            if let Some(name) = namespace.name.as_deref() {
                if name.is_empty() || name.len() > NBD_STRING_BYTES_MAX {
                    return Err(InventoryError::Name(name.to_owned()));
                }
                if !names.insert(name) {
                    return Err(InventoryError::DuplicateName(name.to_owned()));
                }
            }
        }
        Ok(())
    }
}

fn check_group(group: u32) -> Result<(), InventoryError> {
    if is_group(group) { Ok(()) } else { Err(InventoryError::Group(group)) }
}

/// Blocks of a device to serve.
fn served_blocks(
    device: &dyn BlockDevice,
    nsid: Nsid,
    wanted: Option<u64>,
) -> Result<u64, InventoryError> {
    let (geometry, url) = (device.geometry(), || device.url().to_owned());
    let (blocks, block_bytes) = (geometry.blocks, geometry.block_bytes);
    match wanted {
        Some(wanted) if wanted > blocks || wanted == 0 => {
            Err(InventoryError::Size { url: url(), nsid, blocks, block_bytes, wanted })
        }
        _ => Ok(wanted.unwrap_or(blocks)),
    }
}

/// A namespace as configured; `was`: the previous one with its identifier.
fn make(
    nqn: &Nqn,
    nsid: Nsid,
    config: NamespaceConfig,
    was: Option<&Namespace>,
    generation: u64,
    range: ControllerRange,
) -> Result<Namespace, InventoryError> {
    let NamespaceConfig {
        device: given,
        name,
        uuid,
        nguid,
        eui64,
        blocks: limit,
        group,
        hosts,
        initiators,
        reservations,
    } = config;
    check_group(group)?;
    let is_zero =
        uuid.is_some_and(|uuid| uuid.is_nil()) || nguid == Some([0; 16]) || eui64 == Some([0; 8]);
    if is_zero {
        return Err(InventoryError::ZeroIdentity(nsid));
    }
    let own = uuid.or_else(|| given.identity().uuid);
    let same_device = was.filter(|was| Arc::ptr_eq(&was.given, &given));
    let device = same_device.map_or_else(|| Arc::clone(&given), |was| Arc::clone(&was.device));
    let uuid = match (own, same_device, was) {
        (Some(own), ..) => own,
        (None, Some(same), _) => same.uuid,
        (None, None, None) => namespace_uuid(nqn, nsid.0),
        // Hosts must not mistake it for the previous one.
        (None, None, Some(was)) => Uuid::new_v5(&was.uuid, &generation.to_le_bytes()),
    };
    let geometry = device.geometry();
    let blocks = served_blocks(device.as_ref(), nsid, limit)?;
    let is_same = |was: &&Namespace| {
        was.uuid == uuid && was.device.geometry().block_bytes == geometry.block_bytes
    };
    let incarnation = was.filter(is_same).map_or(generation, |was| was.incarnation);
    let shown =
        controller::Namespace::new(nsid, geometry.block_bytes, blocks, Id128(*uuid.as_bytes()));
    match shown.check() {
        Ok(()) => {}
        Err(controller::NamespaceError::Identifier) => {
            return Err(InventoryError::Identifier(nsid));
        }
        Err(e) => {
            return Err(InventoryError::Device {
                url: device.url().to_owned(),
                nsid,
                reason: e.to_string(),
            });
        }
    }
    let nguid = nguid.unwrap_or(*uuid.as_bytes());
    let presence = device.presence();
    Ok(Namespace {
        nsid,
        name,
        uuid,
        nguid,
        eui64,
        device,
        given,
        blocks,
        presence,
        group,
        hosts,
        initiators,
        incarnation,
        reservations: None,
        limit,
        reserves: reservations && range.sharing != Sharing::Blind,
    })
}
