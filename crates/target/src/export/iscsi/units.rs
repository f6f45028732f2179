//! The logical units of a target as the inventory has them: the namespaces of one subsystem, whose
//! numbers are one less than their identifiers.

use super::ports::Ports;
use crate::inventory::{Inventory, Namespace, Subsystem};
use crate::reservations::NamespaceReservations;
use std::sync::Arc;
use weft_block::{BlockDevice, Identity, Presence};
use weft_connection::limits::TRANSFER_BYTES_MAX;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_proto::scsi::lun::{
    LogicalUnit, UnitConfig, UnitFeatures, UnitGeometry, UnitIdentity, UnitTable,
};

/// What a session has to do with, at one moment.
#[derive(Clone)]
pub(super) struct View {
    /// The logical units that the initiator sees.
    pub units: UnitTable,
    /// The devices, by the numbers of their logical units.
    pub devices: Arc<[Option<Arc<dyn BlockDevice>>]>,
    /// Their reservations, by the same numbers.
    pub reservations: Arc<[Option<Arc<NamespaceReservations>>]>,
}

struct Unit {
    number: usize,
    namespace: Arc<Namespace>,
    unit: Arc<LogicalUnit>,
    /// As it was at first.
    config: UnitConfig,
}

/// The numbers of logical units of which initiators are to be told something.
#[derive(Default)]
pub(super) struct News {
    /// They have another size.
    pub resized: Vec<usize>,
    /// They are reached in another way.
    pub moved: Vec<usize>,
}

/// The logical units of one target.
pub(super) struct Units {
    pub nqn: Nqn,
    pub ports: Ports,
    transfer_bytes: u32,
    subsystem: Option<Arc<Subsystem>>,
    units: Vec<Unit>,
}

impl Units {
    /// Returns the logical units of the subsystem `nqn`, for loops that take transfers of at most
    /// `transfer_bytes`.
    pub(super) fn new(inventory: &Inventory, nqn: Nqn, transfer_bytes: u32) -> Self {
        let ports = Ports::new(inventory.subsystem(&nqn).map(|subsystem| &**subsystem));
        let mut units = Self { nqn, ports, transfer_bytes, subsystem: None, units: Vec::new() };
        units.refresh(inventory);
        units
    }

    /// Follows the inventory, and the ports.
    pub(super) fn refresh(&mut self, inventory: &Inventory) -> News {
        let (mut before, mut news) = (core::mem::take(&mut self.units), News::default());
        self.subsystem = inventory.subsystem(&self.nqn).cloned();
        for namespace in self.subsystem.iter().flat_map(|subsystem| subsystem.namespaces()) {
            let Some(number) = namespace.lun() else { continue };
            let config = describe(namespace, self.transfer_bytes);
            let stays = |known: &&mut Unit| {
                known.number == number
                    && known.namespace.is_same_data(namespace)
                    && is_same_but_for_size(&known.config, &config)
                    && known.namespace.reservations.is_some() == namespace.reservations.is_some()
            };
            let unit = match before.iter_mut().find(stays) {
                Some(known) => Arc::clone(&known.unit),
                None => {
                    let reservations = namespace
                        .reservations
                        .as_ref()
                        .map(|reservations| Arc::clone(reservations.shared()));
                    LogicalUnit::new(config.clone(), reservations)
                }
            };
            if unit.geometry().blocks != namespace.blocks {
                unit.resize(namespace.blocks);
                news.resized.push(number);
            }
            let access = self.ports.access(inventory.access(), namespace.group);
            if unit.set_access(&access, namespace.presence == Presence::Here) {
                news.moved.push(number);
            }
            self.units.push(Unit { number, namespace: Arc::clone(namespace), unit, config });
        }
        news
    }

    /// Initiators that may log in; `None`: all.
    pub(super) fn initiators(&self) -> Option<Vec<Name>> {
        self.subsystem.as_ref().map_or(Some(Vec::new()), |subsystem| subsystem.initiators.names())
    }

    /// Returns whether an initiator may log in.
    pub(super) fn allows(&self, initiator: &Name) -> bool {
        self.subsystem.as_ref().is_some_and(|subsystem| subsystem.initiators.allows(initiator))
    }

    /// Returns the logical units that an initiator sees, with their devices and reservations.
    pub(super) fn view(&self, initiator: &Name) -> View {
        let (mut units, mut devices, mut reservations) =
            (UnitTable::default(), Vec::new(), Vec::new());
        for known in self.units.iter().filter(|known| known.namespace.initiators.allows(initiator))
        {
            if units.insert(known.number, Arc::clone(&known.unit)).is_ok() {
                devices.resize(known.number + 1, None);
                devices[known.number] = known.namespace.served().cloned();
                reservations.resize(known.number + 1, None);
                reservations[known.number] = known.namespace.reservations.clone();
            }
        }
        View { units, devices: devices.into(), reservations: reservations.into() }
    }

    /// Returns whether an initiator sees the logical unit of a number.
    pub(super) fn sees(&self, initiator: &Name, number: usize) -> bool {
        self.units
            .iter()
            .any(|known| known.number == number && known.namespace.initiators.allows(initiator))
    }

    /// The subsystem, and the namespaces of it that an initiator sees.
    pub(super) fn seen(&self, initiator: &Name) -> (Nqn, Vec<Nsid>) {
        let seen = self.units.iter().filter(|known| known.namespace.initiators.allows(initiator));
        (self.nqn.clone(), seen.map(|known| known.namespace.nsid).collect())
    }

    /// The numbers in use.
    pub(super) fn numbers(&self) -> Vec<usize> {
        self.units.iter().map(|unit| unit.number).collect()
    }
}

fn is_same_but_for_size(one: &UnitConfig, other: &UnitConfig) -> bool {
    let geometry = UnitGeometry { blocks: other.geometry.blocks, ..one.geometry };
    (geometry, one.features, &one.identity) == (other.geometry, other.features, &other.identity)
}

/// Digits of a serial number that is made from a UUID.
const SERIAL_DIGITS: usize = 16;

/// What a namespace says of itself as a logical unit. Initiators that reach it both ways see one
/// disk.
fn describe(namespace: &Namespace, transfer_bytes: u32) -> UnitConfig {
    let device = &namespace.device;
    let (geometry, features, identity) = (device.geometry(), device.features(), device.identity());
    UnitConfig {
        geometry: UnitGeometry {
            block_bytes: geometry.block_bytes,
            blocks: namespace.blocks,
            optimal_blocks: 1 << geometry.optimal_blocks.max(1).ilog2(),
            max_transfer_bytes: transfer_bytes.max(geometry.block_bytes),
            max_operation_bytes: geometry
                .max_transfer_bytes
                .min(TRANSFER_BYTES_MAX)
                .min(transfer_bytes)
                .max(geometry.block_bytes),
            compare_and_write_blocks: geometry.atomic.compare_and_write_blocks,
        },
        features: UnitFeatures {
            write: features.write,
            volatile_cache: features.volatile_cache,
            discard: features.discard,
            discard_zeroes: features.discard_zeroes,
            write_zeroes: features.write_zeroes,
            compare: features.compare,
        },
        identity: identify(namespace, identity),
    }
}

/// Its names: those that are configured, then those of the device, then weft's own.
fn identify(namespace: &Namespace, of_device: Identity) -> UnitIdentity {
    let (uuid, given) = (namespace.uuid, &namespace.scsi);
    let serial = given.serial.as_ref().map(ToString::to_string).or(of_device.serial);
    let product = given.product.as_ref().map(ToString::to_string).or(of_device.model);
    UnitIdentity {
        vendor: given.vendor.as_ref().map_or_else(|| "weft".to_owned(), ToString::to_string),
        product: product.unwrap_or_else(|| "virtual disk".to_owned()),
        revision: env!("CARGO_PKG_VERSION").chars().take(4).collect(),
        serial: serial.unwrap_or_else(|| uuid.simple().to_string()[..SERIAL_DIGITS].to_owned()),
        uuid: *uuid.as_bytes(),
        nguid: Some(namespace.nguid),
        naa: given.naa.as_ref().map_or_else(Vec::new, |naa| naa.as_bytes().to_vec()),
        t10: given.t10_id.as_ref().map(ToString::to_string),
    }
}
