//! Configuration of subsystems and namespaces, and the namespace that is made from it.

use super::states::is_group;
use super::{
    Access, Authentication, DEFAULT_GROUP, InventoryError, Namespace, ScsiIdentity,
    SubsystemNumbers,
};
use std::sync::Arc;
use uuid::Uuid;
use weft_block::BlockDevice;
use weft_connection::identity::namespace_uuid;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::controller;
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
    /// Serial and model number, and I/O queues of a controller.
    pub numbers: SubsystemNumbers,
    /// Proofs demanded of NVMe hosts; `None`: nothing.
    pub authentication: Option<Authentication>,
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
    /// Names by which iSCSI initiators know it.
    pub scsi: ScsiIdentity,
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
        let numbers = SubsystemNumbers::default();
        let (hosts, initiators, authentication) = (Access::Any, Access::Any, None);
        Self { nqn, hosts, initiators, numbers, authentication }
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
            scsi: ScsiIdentity::default(),
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

/// The position of a namespace.
pub(super) struct Position<'a> {
    pub nqn: &'a Nqn,
    pub nsid: Nsid,
    /// The generation of the inventory that it becomes a part of.
    pub generation: u64,
    /// Hosts can reserve namespaces here.
    pub reserves: bool,
}

impl NamespaceConfig {
    /// The namespace; `was`: the previous one with its identifier.
    pub(super) fn make(
        self,
        at: &Position<'_>,
        was: Option<&Namespace>,
    ) -> Result<Namespace, InventoryError> {
        let Self { device: given, name, eui64, blocks: limit, group, hosts, initiators, .. } = self;
        let nsid = at.nsid;
        check_group(group)?;
        let is_zero = self.uuid.is_some_and(|uuid| uuid.is_nil())
            || self.nguid == Some([0; 16])
            || eui64 == Some([0; 8]);
        if is_zero {
            return Err(InventoryError::ZeroIdentity(nsid));
        }
        let same_device = was.filter(|was| Arc::ptr_eq(&was.given, &given));
        let device = same_device.map_or_else(|| Arc::clone(&given), |was| Arc::clone(&was.device));
        let identity = given.identity();
        let uuid = uuid_of(at, self.uuid.or(identity.uuid), same_device, was);
        if let (None, None, Some(passing)) = (self.uuid, same_device, &identity.passing) {
            tell_of_passing(given.url(), uuid, &passing.why);
        }
        // A device that has shrunk since stays as it is.
        let blocks = match same_device.filter(|was| was.limit == limit) {
            Some(was) => was.blocks,
            None => served_blocks(device.as_ref(), nsid, limit)?,
        };
        check_shown(device.as_ref(), nsid, blocks, uuid)?;
        let block_bytes = device.geometry().block_bytes;
        let is_same =
            |was: &&Namespace| was.uuid == uuid && was.device.geometry().block_bytes == block_bytes;
        let reserves = self.reservations && at.reserves;
        let kept = same_device.filter(|was| was.uuid == uuid && was.reserves == reserves);
        Ok(Namespace {
            nsid,
            name,
            uuid,
            nguid: self.nguid.unwrap_or(*uuid.as_bytes()),
            eui64,
            scsi: self.scsi,
            presence: same_device.map_or_else(|| device.presence(), Namespace::presence_now),
            device,
            given,
            blocks,
            group,
            hosts,
            initiators,
            incarnation: was.filter(is_same).map_or(at.generation, |was| was.incarnation),
            reservations: kept.and_then(|was| was.reservations.clone()),
            limit,
            reserves,
        })
    }
}

/// Warns that hosts will no longer recognize the data after a restart.
fn tell_of_passing(url: &str, uuid: Uuid, why: &str) {
    tracing::warn!(
        "{url}: its UUID {uuid} is new at each start, because {why}; hosts then take it for another disk. Give uuid=UUID with the source (--uuid with weft namespace add), or set WEFT_STATE_DIR to a directory that lasts"
    );
}

/// The UUID by which hosts know the data of a namespace; `own`: that of itself or its device.
fn uuid_of(
    at: &Position<'_>,
    own: Option<Uuid>,
    same_device: Option<&Namespace>,
    was: Option<&Namespace>,
) -> Uuid {
    match (own, same_device, was) {
        (Some(own), ..) => own,
        (None, Some(same), _) => same.uuid,
        (None, None, None) => namespace_uuid(at.nqn, at.nsid.0),
        // Hosts must not mistake it for the previous one.
        (None, None, Some(was)) => Uuid::new_v5(&was.uuid, &at.generation.to_le_bytes()),
    }
}

/// Checks that hosts can be shown such a namespace.
fn check_shown(
    device: &dyn BlockDevice,
    nsid: Nsid,
    blocks: u64,
    uuid: Uuid,
) -> Result<(), InventoryError> {
    let block_bytes = device.geometry().block_bytes;
    let shown = controller::Namespace::new(nsid, block_bytes, blocks, Id128(*uuid.as_bytes()));
    shown.check().map_err(|e| match e {
        controller::NamespaceError::Identifier => InventoryError::Identifier(nsid),
        e => {
            let (url, reason) = (device.url().to_owned(), e.to_string());
            InventoryError::Device { url, nsid, reason }
        }
    })
}

/// Checks that there can be such a group.
pub(super) fn check_group(group: u32) -> Result<(), InventoryError> {
    if is_group(group) { Ok(()) } else { Err(InventoryError::Group(group)) }
}

/// Blocks of a device to serve.
pub(super) fn served_blocks(
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
