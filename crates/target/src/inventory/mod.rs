//! The inventory: one value with what is served, to which hosts and at which addresses; every
//! export follows it.
//!
//! * [`Inventory`] is the value: [`Subsystem`]s with their [`Namespace`]s and visibility, what
//!   hosts have to prove and may use, what discovery tells, and listen addresses. It never changes,
//!   and has a generation number.
//! * [`InventoryBuilder`] builds one, from nothing or from another one, and rejects an invalid one.
//! * [`Inventory::changes_since`] lists the differences to another one.
//! * [`LiveInventory`] is the one that is served at present. Its followers are notified of each
//!   change once, in order, on the thread that makes it, and send messages to the loops. No command
//!   takes a lock for it.
//!
//! A namespace is a namespace of NVMe, a logical unit of iSCSI, and an export of NBD.

mod access;
mod authentication;
mod builder;
mod change;
mod claims;
mod configured;
mod disk_names;
mod error;
mod identifier_owners;
mod live;
mod others;
mod states;
#[cfg(test)]
mod tests;

pub use access::Access;
pub use authentication::Authentication;
pub use builder::InventoryBuilder;
pub use change::Change;
pub use claims::{ControllerClaim, ControllerClaims};
pub use configured::{NamespaceConfig, SubsystemConfig};
pub use disk_names::{Naa, PrintableName, ScsiIdentity, SubsystemNumbers};
pub use error::InventoryError;
pub use identifier_owners::Forgotten;
pub(crate) use identifier_owners::IdentifierRefusal;
pub use live::{Follower, LiveInventory};
pub use others::OtherGateway;
pub(crate) use others::{OtherPorts, port_number};
pub use states::{AccessStates, DEFAULT_GROUP};

use crate::reservations::NamespaceReservations;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::limit::Limit;
use weft_block::{BlockDevice, Presence, grammar};
use weft_proto::iscsi::text::Name;
use weft_proto::limits::SCSI_UNITS_MAX;
use weft_proto::nvme::controller::{CNTLID_MAX, TransportAddress};
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

/// The subsystems and namespaces that are served, and their access.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    generation: u64,
    subsystems: Vec<Arc<Subsystem>>,
    listeners: Vec<String>,
    access: AccessStates,
    range: ControllerRange,
    discovery: Discovery,
    host_limits: BTreeMap<String, Limit>,
    host_identifiers: BTreeMap<Nqn, Id128>,
}

/// Contents of discovery, and the hosts that get them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Discovery {
    /// Name of the discovery subsystem in addition to the well-known one (TP 8013).
    pub name: Option<Nqn>,
    /// Proofs demanded of hosts; `None`: nothing.
    pub authentication: Option<Arc<Authentication>>,
    /// Other discovery controllers that the log refers to.
    pub referrals: Vec<TransportAddress>,
    /// The other processes that serve the same subsystems.
    pub others: Arc<OtherPorts>,
}

/// The part of this process among those that serve the same subsystems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerRange {
    /// Identifiers that it gives to controllers, the lowest and the highest: ranges of processes
    /// that serve one subsystem do not overlap.
    pub cntlids: (u16, u16),
    /// Sharing with others that serve the same namespaces as controllers of the same subsystems.
    pub sharing: Sharing,
}

/// Relation of a process to others that serve the same namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// There are none.
    #[default]
    Alone,
    /// They know nothing of each other: reservations are not offered.
    Blind,
    /// They are a group and share their reservations
    /// ([`ReservationTable::shared`](crate::reservations::ReservationTable::shared)). Compare, and
    /// compare and write, are what the device makes of them.
    Group,
}

impl Default for ControllerRange {
    /// The only process.
    fn default() -> Self {
        Self { cntlids: (1, CNTLID_MAX), sharing: Sharing::Alone }
    }
}

/// Namespaces that are served together: an NVMe subsystem, and an iSCSI target.
#[derive(Clone, Debug, PartialEq)]
pub struct Subsystem {
    /// Name of the NVMe subsystem.
    pub nqn: Nqn,
    /// NVMe hosts that may connect.
    pub hosts: Access<Nqn>,
    /// iSCSI initiators that may log in.
    pub initiators: Access<Name>,
    /// Serial and model number, and I/O queues. Existing controllers keep the previous ones.
    pub numbers: SubsystemNumbers,
    /// Proofs demanded of NVMe hosts; `None`: nothing. Existing associations stay.
    pub authentication: Option<Arc<Authentication>>,
    /// Identifiers that controllers get: the lowest and the highest.
    pub cntlids: (u16, u16),
    /// Sharing with others that serve the same namespaces.
    pub sharing: Sharing,
    namespaces: BTreeMap<Nsid, Arc<Namespace>>,
}

/// A device and its properties as a namespace.
#[derive(Clone)]
pub struct Namespace {
    /// Identifier, 1 to FFFFFFFEh.
    pub nsid: Nsid,
    /// Name for NBD clients; `None`: they do not get it.
    pub name: Option<String>,
    /// UUID: what hosts know the data by.
    pub uuid: Uuid,
    /// NGUID.
    pub nguid: [u8; 16],
    /// EUI-64, where there is one.
    pub eui64: Option<[u8; 8]>,
    /// Names by which iSCSI initiators know it.
    pub scsi: ScsiIdentity,
    /// The device with the blocks: the given one, or one that shares its queues among all loops
    /// that serve it.
    pub device: Arc<dyn BlockDevice>,
    given: Arc<dyn BlockDevice>,
    /// Blocks that are served: those of the device, or fewer.
    pub blocks: u64,
    /// Presence of the device. If it cannot be reached, the namespace stays, and commands fail in a
    /// way that lets hosts try another path.
    pub presence: Presence,
    /// The group that it shares its access state with (ANAGRPID).
    pub group: u32,
    /// NVMe hosts that see it, of those that may connect to its subsystem.
    pub hosts: Access<Nqn>,
    /// iSCSI initiators that see it, of those that may log in.
    pub initiators: Access<Name>,
    /// The generation in which other data than before came behind the identifier. What was meant
    /// for the data of before must not reach this device.
    pub incarnation: u64,
    /// Its reservations, which all exports keep; `None`: no export has any.
    pub(crate) reservations: Option<Arc<NamespaceReservations>>,
    /// Blocks that are served at most; `None`: all that the device has.
    limit: Option<u64>,
    /// Reservations are kept.
    reserves: bool,
}

impl Inventory {
    /// Counts changes: of two inventories of which one was made from the other, the one with the
    /// higher generation is the newer one.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The subsystems, in the order in which they were added.
    pub fn subsystems(&self) -> &[Arc<Subsystem>] {
        &self.subsystems
    }

    /// The subsystem of a name.
    pub fn subsystem(&self, nqn: &Nqn) -> Option<&Arc<Subsystem>> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn == *nqn)
    }

    /// A namespace of a subsystem.
    pub fn namespace(&self, nqn: &Nqn, nsid: Nsid) -> Option<&Arc<Namespace>> {
        self.subsystem(nqn)?.namespace(nsid)
    }

    /// All namespaces: by subsystem, then by identifier.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.subsystems.iter().flat_map(|subsystem| subsystem.namespaces())
    }

    /// The namespace that NBD clients call so.
    pub fn named(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespaces().find(|namespace| namespace.name.as_deref() == Some(name))
    }

    /// Each device once.
    pub fn devices(&self) -> Vec<Arc<dyn BlockDevice>> {
        let mut devices: Vec<Arc<dyn BlockDevice>> = Vec::new();
        for namespace in self.namespaces() {
            if !devices.iter().any(|device| Arc::ptr_eq(device, &namespace.device)) {
                devices.push(Arc::clone(&namespace.device));
            }
        }
        devices
    }

    /// URLs to listen at.
    pub fn listeners(&self) -> &[String] {
        &self.listeners
    }

    /// The number of the first port of each export.
    pub(crate) fn first_port(&self) -> u16 {
        if self.range.sharing != Sharing::Alone { self.range.cntlids.0 } else { 1 }
    }

    /// Access states of the groups of namespaces.
    pub fn access(&self) -> &AccessStates {
        &self.access
    }

    /// Demands of a subsystem on its hosts; `None`: nothing. The discovery subsystem has its
    /// well-known name here.
    pub fn authentication(&self, subsystem: &Nqn) -> Option<&Arc<Authentication>> {
        match *subsystem == Nqn::discovery() {
            true => self.discovery.authentication.as_ref(),
            false => self.subsystem(subsystem)?.authentication.as_ref(),
        }
    }

    /// Contents of discovery.
    pub(crate) fn discovery(&self) -> &Discovery {
        &self.discovery
    }
}

impl Subsystem {
    /// The namespaces, by their identifiers.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.namespaces.values()
    }

    /// The namespace of an identifier.
    pub fn namespace(&self, nsid: Nsid) -> Option<&Arc<Namespace>> {
        self.namespaces.get(&nsid)
    }
}

impl Namespace {
    /// The number of the logical unit: one less than the identifier. Namespaces with high
    /// identifiers have none.
    pub fn lun(&self) -> Option<usize> {
        Some(self.nsid.0 as usize - 1).filter(|&number| number < SCSI_UNITS_MAX)
    }

    /// Returns whether its UUID was drawn for this process, as that of a RAM disk is, and that of a
    /// file whose name cannot be kept.
    pub(crate) fn is_of_process(&self) -> bool {
        let identity = self.given.identity();
        let is_drawn = identity.passing.is_some() || grammar::draws_uuid(self.given.url());
        identity.uuid == Some(self.uuid) && is_drawn
    }

    /// The device that it was configured with.
    pub fn given(&self) -> &Arc<dyn BlockDevice> {
        &self.given
    }

    /// Returns whether it is the same data as in `other`, so that commands that were meant for one
    /// may reach the other.
    pub fn is_same_data(&self, other: &Self) -> bool {
        self.incarnation == other.incarnation
    }

    /// The device, unless that is gone.
    pub(crate) fn served(&self) -> Option<&Arc<dyn BlockDevice>> {
        Some(&self.device).filter(|_| self.presence != Presence::Gone)
    }

    /// Presence of the device now. One that is gone does not come back.
    fn presence_now(&self) -> Presence {
        if self.presence == Presence::Gone { Presence::Gone } else { self.device.presence() }
    }
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        let value = |it: &Self| {
            let access = (it.hosts.clone(), it.initiators.clone());
            let size = (it.blocks, it.limit, it.presence);
            (
                it.nsid,
                it.name.clone(),
                it.uuid,
                it.nguid,
                (it.eui64, it.scsi.clone()),
                size,
                access,
                (it.incarnation, it.group, it.reserves),
            )
        };
        Arc::ptr_eq(&self.device, &other.device)
            && Arc::ptr_eq(&self.given, &other.given)
            && value(self) == value(other)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "namespace {} ({}, {} blocks, {})",
            self.nsid,
            self.device.url(),
            self.blocks,
            self.uuid
        )
    }
}
