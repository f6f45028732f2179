//! Builds an inventory, and rejects an invalid one.

use super::configured::{NamespaceConfig, Position, SubsystemConfig, check_group, served_blocks};
use super::{
    Access, Authentication, ControllerRange, Inventory, InventoryError, Namespace, OtherGateway,
    OtherPorts, Sharing, Subsystem,
};
use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::limit::Limit;
use weft_block::{AccessState, BlockDevice, Presence};
use weft_connection::limits::HOST_LIMITS_MAX;
use weft_proto::iscsi::text::Name;
use weft_proto::limits::{NAMESPACES_MAX, NBD_STRING_BYTES_MAX};
use weft_proto::nvme::controller::{CNTLID_MAX, TransportAddress};
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

/// Builds an [`Inventory`] step by step. A call that fails changes nothing.
#[derive(Clone, Debug, Default)]
pub struct InventoryBuilder {
    before: Inventory,
    next: Inventory,
}

impl Inventory {
    /// A builder that begins with what there is here.
    pub fn edit(&self) -> InventoryBuilder {
        InventoryBuilder { before: self.clone(), next: self.clone() }
    }
}

impl InventoryBuilder {
    /// Sets what this process is among those that serve the same subsystems; before any subsystem
    /// is added.
    pub fn set_range(&mut self, range: ControllerRange) -> Result<&mut Self, InventoryError> {
        let (first, last) = range.cntlids;
        if first == 0 || first > last || last > CNTLID_MAX {
            return Err(InventoryError::ControllerIdentifiers(first, last));
        }
        self.next.range = range;
        Ok(self)
    }

    /// Adds a subsystem without namespaces.
    pub fn add_subsystem(&mut self, config: SubsystemConfig) -> Result<&mut Self, InventoryError> {
        let SubsystemConfig { nqn, hosts, initiators, numbers, authentication } = config;
        let ControllerRange { cntlids, sharing } = self.next.range;
        if nqn == Nqn::discovery() {
            return Err(InventoryError::ReservedName(nqn));
        }
        if self.next.subsystem(&nqn).is_some() {
            return Err(InventoryError::DuplicateSubsystem(nqn));
        }
        self.next.subsystems.push(Arc::new(Subsystem {
            nqn,
            hosts,
            initiators,
            numbers,
            authentication: authentication.map(Arc::new),
            cntlids,
            sharing,
            namespaces: BTreeMap::new(),
        }));
        Ok(self)
    }

    /// Removes a subsystem and its namespaces.
    pub fn remove_subsystem(&mut self, nqn: &Nqn) -> Result<&mut Self, InventoryError> {
        let at = self.next.subsystems.iter().position(|subsystem| subsystem.nqn == *nqn);
        self.next.subsystems.remove(at.ok_or_else(|| InventoryError::NoSubsystem(nqn.clone()))?);
        Ok(self)
    }

    /// Serves these subsystems with these namespaces, and no others. Those that are served already
    /// are replaced as by [`Self::replace_namespace`], or stay as they are.
    pub fn serve(
        &mut self,
        wanted: Vec<(SubsystemConfig, Vec<(Nsid, NamespaceConfig)>)>,
    ) -> Result<&mut Self, InventoryError> {
        self.next.subsystems.retain(|of| wanted.iter().any(|(is, _)| is.nqn == of.nqn));
        for (config, namespaces) in wanted {
            let nqn = config.nqn.clone();
            if self.next.subsystem(&nqn).is_none() {
                self.add_subsystem(config.clone())?;
            }
            let of = self.subsystem_mut(&nqn)?;
            (of.hosts, of.initiators, of.numbers) =
                (config.hosts, config.initiators, config.numbers);
            of.authentication = config.authentication.map(Arc::new);
            of.namespaces.retain(|known, _| namespaces.iter().any(|(nsid, _)| nsid == known));
            for (nsid, config) in namespaces {
                match self.next.namespace(&nqn, nsid) {
                    Some(_) => self.replace_namespace(&nqn, nsid, config)?,
                    None => self.add_namespace(&nqn, nsid, config)?,
                };
            }
        }
        Ok(self)
    }

    /// Access to a subsystem's settings.
    pub fn subsystem_mut(&mut self, nqn: &Nqn) -> Result<&mut Subsystem, InventoryError> {
        let found = self.next.subsystems.iter_mut().find(|subsystem| subsystem.nqn == *nqn);
        found.map(Arc::make_mut).ok_or_else(|| InventoryError::NoSubsystem(nqn.clone()))
    }

    /// Adds a namespace with a free identifier.
    pub fn add_namespace(
        &mut self,
        nqn: &Nqn,
        nsid: Nsid,
        config: NamespaceConfig,
    ) -> Result<&mut Self, InventoryError> {
        let at = self.position(nqn, nsid);
        let known = self.before.namespace(nqn, nsid).cloned();
        let subsystem = self.subsystem_mut(nqn)?;
        if subsystem.namespaces.contains_key(&nsid) {
            return Err(InventoryError::DuplicateNamespace(nqn.clone(), nsid));
        }
        if subsystem.namespaces.len() >= NAMESPACES_MAX as usize {
            return Err(InventoryError::TooManyNamespaces(nqn.clone()));
        }
        // A namespace removed earlier in the same builder is thereby replaced.
        let namespace = config.make(&at, known.as_deref())?;
        subsystem.namespaces.insert(nsid, Arc::new(namespace));
        Ok(self)
    }

    /// Replaces a namespace. It has the same data if its UUID (given, or the device's own) is the
    /// same as before; otherwise hosts see another disk, with another UUID.
    pub fn replace_namespace(
        &mut self,
        nqn: &Nqn,
        nsid: Nsid,
        config: NamespaceConfig,
    ) -> Result<&mut Self, InventoryError> {
        let at = self.position(nqn, nsid);
        let subsystem = self.subsystem_mut(nqn)?;
        let was = subsystem
            .namespaces
            .get(&nsid)
            .ok_or_else(|| InventoryError::NoNamespace(nqn.clone(), nsid))?;
        let namespace = config.make(&at, Some(&**was))?;
        if **was != namespace {
            subsystem.namespaces.insert(nsid, Arc::new(namespace));
        }
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
        self.next.access.set(listener, group, state);
        Ok(self)
    }

    /// Sets what NVMe hosts of a subsystem have to prove from now on; `None`: nothing. The
    /// discovery subsystem has its well-known name here.
    pub fn authenticate(
        &mut self,
        subsystem: &Nqn,
        demanded: Option<Authentication>,
    ) -> Result<&mut Self, InventoryError> {
        let demanded = demanded.map(Arc::new);
        match *subsystem == Nqn::discovery() {
            true => self.next.discovery.authentication = demanded,
            false => self.subsystem_mut(subsystem)?.authentication = demanded,
        }
        Ok(self)
    }

    /// Sets the limits of hosts by name: the host NQN of NVMe, the initiator name of iSCSI, the
    /// address of an NBD client without its port. The last one of a host counts; other hosts have
    /// none.
    pub fn limit_hosts(
        &mut self,
        limits: impl IntoIterator<Item = (String, Limit)>,
    ) -> Result<&mut Self, InventoryError> {
        let mut all = BTreeMap::new();
        for (host, limit) in limits.into_iter().filter(|(_, limit)| *limit != Limit::NONE) {
            if all.len() == HOST_LIMITS_MAX && !all.contains_key(&host) {
                return Err(InventoryError::HostLimits(host));
            }
            all.insert(host, limit);
        }
        self.next.host_limits = all;
        Ok(self)
    }

    /// Gives hosts their identifiers: where hosts prove their names, nobody else may use one of
    /// these, and these hosts may use no others. For hosts that connect from now on.
    pub fn identify_hosts(&mut self, given: BTreeMap<Nqn, Id128>) -> &mut Self {
        self.next.host_identifiers = given;
        self
    }

    /// Gives the discovery subsystem a name in addition to the well-known one (TP 8013). Exports
    /// that have started keep the previous one.
    pub fn name_discovery(&mut self, name: Option<Nqn>) -> &mut Self {
        self.next.discovery.name = name;
        self
    }

    /// Sets the other discovery controllers that the discovery log refers to.
    pub fn refer_to(&mut self, referrals: &[TransportAddress]) -> &mut Self {
        self.next.discovery.referrals = referrals.to_vec();
        self
    }

    /// Sets the other processes that serve the same subsystems. The discovery of each export
    /// reports up to [`OTHER_PORTS_MAX`](weft_connection::limits::OTHER_PORTS_MAX) of their ports of each
    /// protocol, also to hosts that are connected.
    pub fn set_others(&mut self, others: &[OtherGateway]) -> &mut Self {
        self.next.discovery.others = Arc::new(OtherPorts::new(others));
        self
    }

    /// Listens at these URLs, and no others.
    pub fn listen_at<'a>(&mut self, urls: impl IntoIterator<Item = &'a str>) -> &mut Self {
        let urls: Vec<&str> = urls.into_iter().collect();
        let listeners = &mut self.next.listeners;
        listeners.retain(|known| urls.contains(&known.as_str()));
        for url in urls {
            if !listeners.iter().any(|known| known == url) {
                listeners.push(url.to_owned());
            }
        }
        self
    }

    /// Reads the current sizes of the devices, and whether they can be reached. If a device has
    /// become smaller than the configured size, all of its blocks are served.
    pub(super) fn look_at_devices(&mut self) {
        for subsystem in &mut self.next.subsystems {
            for namespace in Arc::make_mut(subsystem).namespaces.values_mut() {
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
        let subsystems = self.next.subsystems.iter_mut().map(Arc::make_mut);
        let namespaces = subsystems.flat_map(|subsystem| subsystem.namespaces.values_mut());
        for namespace in namespaces.filter(|namespace| Arc::ptr_eq(&namespace.device, device)) {
            Arc::make_mut(namespace).presence = Presence::Gone;
        }
    }

    /// The inventory: with a new generation if something changed since the builder was created;
    /// otherwise the original one.
    pub fn build(self) -> Result<Inventory, InventoryError> {
        self.check()?;
        let generation = self.next_generation();
        let Self { before, mut next } = self;
        for subsystem in &mut next.subsystems {
            if let Some(was) = before.subsystem(&subsystem.nqn).filter(|was| *was == subsystem) {
                *subsystem = Arc::clone(was);
            }
        }
        if next == before {
            return Ok(before);
        }
        Ok(Inventory { generation, ..next })
    }

    /// The position of a namespace of this identifier.
    fn position<'a>(&self, nqn: &'a Nqn, nsid: Nsid) -> Position<'a> {
        let reserves = self.next.range.sharing != Sharing::Blind;
        Position { nqn, nsid, generation: self.next_generation(), reserves }
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
        let mut naas = HashSet::new();
        if let Some(name) =
            self.next.discovery.name.as_ref().filter(|name| self.next.subsystem(name).is_some())
        {
            return Err(InventoryError::DiscoveryName(name.clone()));
        }
        for namespace in self.next.namespaces() {
            if !uuids.insert(namespace.uuid) {
                return Err(InventoryError::DuplicateUuid(namespace.uuid));
            }
            if !nguids.insert(namespace.nguid) {
                return Err(InventoryError::DuplicateNguid(namespace.nguid));
            }
            if let Some(eui64) = namespace.eui64.filter(|eui64| !eui64s.insert(*eui64)) {
                return Err(InventoryError::DuplicateEui64(eui64));
            }
            if let Some(naa) = namespace.scsi.naa.as_ref().filter(|naa| !naas.insert(*naa)) {
                return Err(InventoryError::DuplicateNaa(naa.clone()));
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
