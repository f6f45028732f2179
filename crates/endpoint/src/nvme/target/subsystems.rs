//! The subsystems of a target according to the inventory, and their devices. `shared` keeps the connections.

use super::namespaces::{namespace, subsystem};
use super::ports::Ports;
use crate::inventory::{Change, Inventory};
use crate::nvme::names::remark;
use std::sync::Arc;
use std::time::Duration;
use weft_block::BlockDevice;
use weft_proto::nvme::controller::{ControllerKind, DiscoveryLog, NamespaceTable, Subsystem, SubsystemConfig};
use weft_proto::nvme::types::{Cntlid, Nqn};

/// One of a target's subsystems. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Which {
    /// One with namespaces.
    Nvm(u32),
    /// Discovery.
    Discovery,
}

/// A controller, by subsystem and identifier.
pub(crate) type ControllerId = (Which, Cntlid);

/// What a controller and its queues have to do with, at one moment.
#[derive(Clone)]
pub(crate) struct View {
    /// What the host sees.
    pub(crate) table: Arc<NamespaceTable>,
    /// The devices, by the table's indexes.
    pub(crate) devices: Arc<[Option<Arc<dyn BlockDevice>>]>,
}

/// What is to be told after the inventory has changed.
#[derive(Default)]
pub(super) struct News {
    /// Controllers that see other namespaces.
    pub views: Vec<(ControllerId, View)>,
    /// Controllers whose associations end, since their subsystem is gone or their host may not connect any more.
    pub ended: Vec<ControllerId>,
}

struct Nvm {
    which: Which,
    subsystem: Subsystem,
    devices: Arc<[Option<Arc<dyn BlockDevice>>]>,
    /// Gone from the inventory; its controllers are ending.
    retired: bool,
}

/// The subsystems of a target, and their devices.
pub(super) struct Subsystems {
    nvm: Vec<Nvm>,
    discovery: Subsystem,
    transfer_bytes: u32,
    last: u32,
}

impl Subsystems {
    /// What the inventory has, on loops that take transfers of so many bytes.
    pub fn new(inventory: &Inventory, transfer_bytes: u32) -> Self {
        let discovery = Subsystem::new(Duration::ZERO, SubsystemConfig::new(ControllerKind::Discovery, Nqn::discovery()));
        let mut subsystems = Self { nvm: Vec::new(), discovery, transfer_bytes, last: 0 };
        inventory.subsystems().iter().for_each(|subsystem| subsystems.add(inventory, &subsystem.nqn));
        subsystems
    }

    /// The subsystem that a host means.
    pub fn find(&self, name: Option<&Nqn>) -> Option<Which> {
        if name == Some(&Nqn::discovery()) {
            return Some(Which::Discovery);
        }
        self.present().find(|nvm| Some(&nvm.subsystem.config().nqn) == name).map(|nvm| nvm.which)
    }

    /// The subsystem, for as long as it has controllers.
    pub fn at(&mut self, which: Which) -> Option<&mut Subsystem> {
        match which {
            Which::Discovery => Some(&mut self.discovery),
            Which::Nvm(_) => self.nvm.iter_mut().find(|nvm| nvm.which == which).map(|nvm| &mut nvm.subsystem),
        }
    }

    /// What a controller sees.
    pub fn view(&mut self, (which, cntlid): ControllerId) -> Option<View> {
        let nvm = self.nvm.iter_mut().find(|nvm| nvm.which == which)?;
        let table = nvm.subsystem.namespaces_of(cntlid)?;
        if Arc::ptr_eq(&table, &nvm.subsystem.namespaces()) {
            return Some(View { table, devices: Arc::clone(&nvm.devices) });
        }
        let shown = (0..).zip(nvm.devices.iter()).map(|(index, device)| table.at(index).and(device.clone()));
        Some(View { devices: shown.collect(), table })
    }

    /// The association of a controller has ended.
    pub fn release(&mut self, (which, cntlid): ControllerId) {
        if let Some(subsystem) = self.at(which) {
            subsystem.release(cntlid);
        }
        self.nvm.retain(|nvm| !nvm.retired || nvm.subsystem.controllers().next().is_some());
    }

    /// Writes the discovery log anew; tells whether it has changed.
    pub fn publish(&mut self, ports: &Ports) -> Option<Arc<DiscoveryLog>> {
        let records = self.present().flat_map(|nvm| ports.records(&nvm.subsystem)).collect();
        let before = self.discovery.discovery();
        let log = self.discovery.set_discovery(records);
        (!Arc::ptr_eq(&before, &log)).then_some(log)
    }

    /// The inventory has changed.
    pub fn follow(&mut self, now: &Inventory, changes: &[Change]) -> News {
        let mut news = News::default();
        let mut touched = Vec::new();
        for change in changes {
            match change {
                Change::SubsystemRemoved(nqn) => self.retire(nqn, &mut news),
                Change::SubsystemAdded(nqn) => self.add(now, nqn),
                Change::AccessChanged(nqn) => self.set_hosts(now, nqn, &mut news),
                Change::NamespaceRemoved(nqn, nsid) => {
                    self.named(nqn).into_iter().for_each(|nvm| _ = nvm.subsystem.remove_namespace(*nsid));
                    touched.push(nqn);
                }
                Change::NamespaceAdded(nqn, _)
                | Change::NamespaceReplaced(nqn, _)
                | Change::NamespaceChanged { subsystem: nqn, .. } => touched.push(nqn),
                Change::ListenerAdded(_) | Change::ListenerRemoved(_) => {}
            }
        }
        touched.dedup();
        for nqn in touched {
            self.refresh(now, nqn);
            let Some((which, ids)) = self.named(nqn).map(|nvm| (nvm.which, ids(nvm))) else { continue };
            let ids = ids.into_iter().map(|cntlid| (which, cntlid));
            news.views.extend(ids.filter_map(|id| Some((id, self.view(id)?))).collect::<Vec<_>>());
        }
        news
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
        of.hosts.names().iter().flatten().for_each(|host| remark("the name of an allowed host", host));
        self.last += 1;
        let made = Subsystem::new(Duration::ZERO, subsystem(of, self.transfer_bytes));
        self.nvm.push(Nvm { which: Which::Nvm(self.last), subsystem: made, devices: Arc::new([]), retired: false });
        self.refresh(inventory, nqn);
    }

    /// Enters the namespaces of a subsystem as they are now, and their devices.
    fn refresh(&mut self, inventory: &Inventory, nqn: &Nqn) {
        let (Some(of), Some(nvm)) = (inventory.subsystem(nqn), self.named(nqn)) else { return };
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
        let mut devices = Vec::new();
        for of in of.namespaces() {
            let Some((index, _)) = table.find(of.nsid) else { continue };
            devices.resize(devices.len().max(index + 1), None);
            devices[index] = of.served().cloned();
        }
        nvm.devices = devices.into();
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
}

fn ids(nvm: &Nvm) -> Vec<Cntlid> {
    nvm.subsystem.controllers().map(|(cntlid, _)| cntlid).collect()
}
