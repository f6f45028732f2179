//! The subsystems of a target according to the inventory, and their devices. `shared` keeps the
//! connections.

use super::namespaces::{SubsystemLimits, namespace, numbers, states, subsystem};
use super::ports::Ports;
use super::start::{is_alone, start_number};
use crate::export::hosts::{ConnectedHost, HostProtocol};
use crate::health::HealthStore;
use crate::inventory::{Access, Authentication, Change, Inventory, Sharing};
use crate::reservations::NamespaceReservations;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use weft_block::BlockDevice;
use weft_connection::nvme::names::remark;
use weft_proto::nvme::controller::{
    ControllerKind, DiscoveryLog, DiscoveryRecord, NamespaceMap, Subsystem, SubsystemConfig,
    TransportAddress,
};
use weft_proto::nvme::log_page::SubsystemType;
use weft_proto::nvme::types::{Cntlid, Id128, Nqn, Nsid};

/// One of a target's subsystems. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Which {
    /// One with namespaces.
    Nvm(u32),
    /// Discovery.
    Discovery,
}

/// The reservations of the namespaces, by the indexes of the table.
pub(crate) type OfNamespaces = Arc<[Option<Arc<NamespaceReservations>>]>;

/// A controller, by subsystem and identifier.
pub(crate) type ControllerId = (Which, Cntlid);

/// What a controller and its queues have to do with, at one moment.
#[derive(Clone)]
pub(crate) struct ControllerView {
    /// What the host sees.
    pub(crate) table: Arc<NamespaceMap>,
    /// The devices, by the table's indexes.
    pub(crate) devices: Arc<[Option<Arc<dyn BlockDevice>>]>,
    /// The reservations, likewise.
    pub(crate) reservations: OfNamespaces,
}

impl ControllerView {
    /// The reservations of a namespace.
    pub(super) fn reservations_of(&self, nsid: Nsid) -> Option<&Arc<NamespaceReservations>> {
        let (index, _) = self.table.find(nsid)?;
        self.reservations.get(index)?.as_ref()
    }
}

/// What is to be told after the inventory has changed.
#[derive(Default)]
pub(super) struct News {
    /// Controllers that see other namespaces.
    pub views: Vec<(ControllerId, ControllerView)>,
    /// Controllers whose associations end, since their subsystem is gone or their host may no
    /// longer connect.
    pub ended: Vec<ControllerId>,
}

struct Nvm {
    which: Which,
    subsystem: Subsystem,
    devices: Arc<[Option<Arc<dyn BlockDevice>>]>,
    reservations: OfNamespaces,
    /// Others could write to a namespace that it has, or had.
    has_company: bool,
    /// Gone from the inventory; its controllers are ending.
    retired: bool,
}

/// The subsystems of a target, and their devices.
pub(super) struct Subsystems {
    /// The inventory that they follow: an admitted host is served by all of this value.
    inventory: Arc<Inventory>,
    nvm: Vec<Nvm>,
    discovery: Subsystem,
    transfer_bytes: u32,
    limits: SubsystemLimits,
    /// A random number of this process.
    seed: u64,
    health: HealthStore,
    last: u32,
}

impl Subsystems {
    /// Makes those of the inventory, on loops that take transfers of `transfer_bytes`.
    pub(super) fn new(
        inventory: &Arc<Inventory>,
        transfer_bytes: u32,
        limits: SubsystemLimits,
        (seed, health): (u64, HealthStore),
    ) -> Self {
        let name = inventory.discovery().name.clone().unwrap_or_else(Nqn::discovery);
        let discovery = SubsystemConfig {
            controllers_max: limits.controllers,
            ..SubsystemConfig::new(ControllerKind::Discovery, name)
        };
        let discovery = Subsystem::new(Duration::ZERO, discovery);
        let (followed, nvm) = (Arc::clone(inventory), Vec::new());
        let mut subsystems = Self {
            inventory: followed,
            nvm,
            discovery,
            transfer_bytes,
            limits,
            seed,
            health,
            last: 0,
        };
        inventory
            .subsystems()
            .iter()
            .for_each(|subsystem| subsystems.add(inventory, &subsystem.nqn));
        subsystems
    }

    /// Returns the authentication that a subsystem demands, and its name; `None`: none.
    pub(super) fn demanded(&self, which: Which) -> Option<(Nqn, Arc<Authentication>)> {
        let name = match which {
            Which::Discovery => Nqn::discovery(),
            Which::Nvm(_) => {
                self.nvm.iter().find(|nvm| nvm.which == which)?.subsystem.config().nqn.clone()
            }
        };
        let demanded = Arc::clone(self.inventory.authentication(&name)?);
        Some((name, demanded))
    }

    /// The subsystem that a host means.
    pub(super) fn find(&self, name: Option<&Nqn>) -> Option<Which> {
        if name.is_some_and(|name| self.discovery.config().is_called(name)) {
            return Some(Which::Discovery);
        }
        self.present().find(|nvm| Some(&nvm.subsystem.config().nqn) == name).map(|nvm| nvm.which)
    }

    /// The subsystem, for as long as it has controllers.
    pub(super) fn at(&mut self, which: Which) -> Option<&mut Subsystem> {
        match which {
            Which::Discovery => Some(&mut self.discovery),
            Which::Nvm(_) => {
                self.nvm.iter_mut().find(|nvm| nvm.which == which).map(|nvm| &mut nvm.subsystem)
            }
        }
    }

    /// Returns what a controller sees: its namespaces, their devices and reservations.
    pub(super) fn view(&mut self, (which, cntlid): ControllerId) -> Option<ControllerView> {
        let nvm = self.nvm.iter_mut().find(|nvm| nvm.which == which)?;
        let table = nvm.subsystem.namespaces_of(cntlid)?;
        let reservations = Arc::clone(&nvm.reservations);
        if Arc::ptr_eq(&table, &nvm.subsystem.namespaces()) {
            return Some(ControllerView { table, devices: Arc::clone(&nvm.devices), reservations });
        }
        let shown = (0..)
            .zip(nvm.devices.iter())
            .map(|(index, device)| table.at(index).and(device.clone()));
        Some(ControllerView { devices: shown.collect(), table, reservations })
    }

    /// All controllers, with the identifiers of their hosts and that of a namespace, if they have
    /// it.
    pub(super) fn using(&self, namespace: Uuid) -> Vec<(ControllerId, Id128, Option<Nsid>)> {
        let mut found = Vec::new();
        for nvm in &self.nvm {
            let table = nvm.subsystem.namespaces();
            let nsid = table.iter().find(|of| of.uuid.0 == *namespace.as_bytes()).map(|of| of.nsid);
            found.extend(
                nvm.subsystem
                    .controllers()
                    .map(|(cntlid, host)| ((nvm.which, cntlid), host.id, nsid)),
            );
        }
        found
    }

    /// The association of a controller has ended.
    pub(super) fn release(&mut self, (which, cntlid): ControllerId) {
        if let Some(subsystem) = self.at(which) {
            subsystem.release(cntlid);
        }
        self.nvm.retain(|nvm| !nvm.retired || nvm.subsystem.controllers().next().is_some());
    }

    /// Rebuilds the discovery log, and returns it if it has changed.
    pub(super) fn publish(&mut self, ports: &Ports) -> Option<Arc<DiscoveryLog>> {
        let of_subsystems = self.present().flat_map(|nvm| ports.records(&nvm.subsystem));
        let others =
            self.inventory.discovery().referrals.iter().map(|to| referral(&self.discovery, to));
        let records =
            of_subsystems.chain(others).chain(ports.own_records(&self.discovery)).collect();
        let before = self.discovery.discovery();
        let log = self.discovery.set_discovery(records);
        (!Arc::ptr_eq(&before, &log)).then_some(log)
    }

    /// The inventory has changed.
    pub(super) fn follow(&mut self, now: &Arc<Inventory>, changes: &[Change]) -> News {
        self.inventory = Arc::clone(now);
        let mut news = News::default();
        let mut touched = Vec::new();
        for change in changes {
            match change {
                Change::SubsystemRemoved(nqn) => self.retire(nqn, &mut news),
                Change::SubsystemAdded(nqn) => self.add(now, nqn),
                Change::AccessChanged(nqn) => self.set_hosts(now, nqn, &mut news),
                Change::NumbersChanged(nqn) => self.set_numbers(now, nqn),
                Change::NamespaceRemoved(nqn, nsid) => {
                    self.named(nqn)
                        .into_iter()
                        .for_each(|nvm| _ = nvm.subsystem.remove_namespace(*nsid));
                    touched.push(nqn);
                }
                Change::NamespaceAdded(nqn, _)
                | Change::NamespaceReplaced(nqn, _)
                | Change::NamespaceChanged { subsystem: nqn, .. } => touched.push(nqn),
                Change::AccessStatesChanged => {
                    touched.extend(now.subsystems().iter().map(|subsystem| &subsystem.nqn))
                }
                Change::ListenerAdded(_)
                | Change::ListenerRemoved(_)
                | Change::AuthenticationChanged(_)
                | Change::HostsChanged
                | Change::DiscoveryChanged
                | Change::OthersChanged(_) => {}
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for nqn in &touched {
            self.refresh(now, nqn);
            let Some((which, ids)) = self.named(nqn).map(|nvm| (nvm.which, ids(nvm))) else {
                continue;
            };
            let ids = ids.into_iter().map(|cntlid| (which, cntlid));
            news.views.extend(ids.filter_map(|id| Some((id, self.view(id)?))).collect::<Vec<_>>());
        }
        news
    }

    /// The hosts that have controllers, once for each subsystem, and what they see.
    pub(super) fn hosts(&self) -> Vec<ConnectedHost> {
        let mut hosts = Vec::new();
        for nvm in self.present() {
            let nqn = &nvm.subsystem.config().nqn;
            for (_, host) in nvm.subsystem.controllers() {
                let sees = |access: &Access<Nqn>| {
                    host.nqn.as_ref().map_or(*access == Access::Any, |name| access.allows(name))
                };
                let all = self
                    .inventory
                    .subsystem(nqn)
                    .into_iter()
                    .flat_map(|subsystem| subsystem.namespaces());
                let namespaces = all
                    .filter(|namespace| sees(&namespace.hosts))
                    .map(|namespace| namespace.nsid)
                    .collect();
                let (name, subsystem) = (host.to_string(), nqn.clone());
                hosts.push(ConnectedHost {
                    protocol: HostProtocol::Nvme,
                    name,
                    subsystem,
                    namespaces,
                });
            }
        }
        hosts.sort();
        hosts.dedup();
        hosts
    }

    fn present(&self) -> impl Iterator<Item = &Nvm> {
        self.nvm.iter().filter(|nvm| !nvm.retired)
    }

    fn named(&mut self, nqn: &Nqn) -> Option<&mut Nvm> {
        self.nvm.iter_mut().find(|nvm| !nvm.retired && nvm.subsystem.config().nqn == *nqn)
    }

    fn add(&mut self, inventory: &Inventory, nqn: &Nqn) {
        let Some(of) = inventory.subsystem(nqn) else { return };
        remark("the subsystem's name", nqn);
        of.hosts
            .names()
            .iter()
            .flatten()
            .for_each(|host| remark("the name of an allowed host", host));
        self.last += 1;
        let mut made = Subsystem::new(
            Duration::ZERO,
            subsystem(of, self.transfer_bytes, self.limits, self.seed),
        );
        made.count_in(self.health.of(nqn));
        self.nvm.push(Nvm {
            which: Which::Nvm(self.last),
            subsystem: made,
            devices: Arc::new([]),
            reservations: Arc::new([]),
            has_company: false,
            retired: false,
        });
        self.refresh(inventory, nqn);
    }

    /// Enters the namespaces of a subsystem as they are now, and their devices.
    fn refresh(&mut self, inventory: &Inventory, nqn: &Nqn) {
        let of_process = self.seed;
        let (Some(of), Some(nvm)) = (inventory.subsystem(nqn), self.named(nqn)) else { return };
        nvm.subsystem.set_start_number(start_number(
            of.namespaces().map(|namespace| &namespace.device),
            of_process,
        ));
        nvm.subsystem.set_ana_states(states(inventory.access()));
        nvm.has_company |= of.sharing != Sharing::Alone
            || of.namespaces().any(|namespace| !is_alone(namespace.device.as_ref()));
        // Without namespaces nothing is known of those that come.
        nvm.subsystem.set_alone(!nvm.has_company && of.namespaces().next().is_some());
        for wanted in of.namespaces().map(|wanted| namespace(wanted)) {
            let table = nvm.subsystem.namespaces();
            if table.find(wanted.nsid).map(|(_, namespace)| namespace) == Some(&wanted) {
                continue;
            }
            if let Err(e) = nvm.subsystem.set_namespace(wanted) {
                tracing::error!("{nqn}: {e}");
            }
        }
        let table = nvm.subsystem.namespaces();
        let (mut devices, mut reservations) = (Vec::new(), Vec::new());
        for of in of.namespaces() {
            let Some((index, _)) = table.find(of.nsid) else { continue };
            devices.resize(devices.len().max(index + 1), None);
            devices[index] = of.served().cloned();
            reservations.resize(devices.len(), None);
            reservations[index] = of.reservations.clone();
        }
        nvm.devices = devices.into();
        nvm.reservations = reservations.into();
    }

    fn retire(&mut self, nqn: &Nqn, news: &mut News) {
        let Some(nvm) = self.named(nqn) else { return };
        nvm.retired = true;
        let (which, ids) = (nvm.which, ids(nvm));
        self.nvm.retain(|nvm| nvm.which != which || !ids.is_empty());
        news.ended.extend(ids.into_iter().map(|cntlid| (which, cntlid)));
    }

    fn set_hosts(&mut self, inventory: &Inventory, nqn: &Nqn, news: &mut News) {
        let (Some(of), Some(nvm)) = (inventory.subsystem(nqn), self.named(nqn)) else { return };
        nvm.subsystem.set_hosts(of.hosts.names());
        news.ended.extend(nvm.subsystem.denied().map(|cntlid| (nvm.which, cntlid)));
    }

    fn set_numbers(&mut self, inventory: &Inventory, nqn: &Nqn) {
        let (Some(of), Some(nvm)) = (inventory.subsystem(nqn), self.named(nqn)) else { return };
        let (serial, model, queues) = numbers(of);
        nvm.subsystem.set_numbers(serial, model, queues);
    }
}

/// The record of another discovery controller (Base §5.16.1.23, SUBTYPE 1).
fn referral(own: &Subsystem, to: &TransportAddress) -> DiscoveryRecord {
    let (kind, entries) = (SubsystemType::REFERRAL, own.config().admin_queue_entries);
    DiscoveryRecord::new(&Nqn::discovery(), kind, to, 0, entries, Cntlid::DYNAMIC)
}

fn ids(nvm: &Nvm) -> Vec<Cntlid> {
    nvm.subsystem.controllers().map(|(cntlid, _)| cntlid).collect()
}
