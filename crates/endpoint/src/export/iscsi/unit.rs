//! A device as a logical unit.

use crate::identity::namespace_uuid;
use weft_block::BlockDevice;
use weft_proto::nvme::types::Nqn;
use weft_proto::scsi::lun::{UnitConfig, UnitFeatures, UnitGeometry, UnitIdentity};

/// Digits of a serial number that is made from a UUID.
const SERIAL_DIGITS: usize = 16;

/// What the logical unit `number` says of itself. A device without a UUID of its own has the one that it has as a namespace of
/// `subsystem`: initiators that reach it both ways see one disk.
pub(super) fn describe(device: &dyn BlockDevice, number: usize, subsystem: &Nqn, transfer_bytes: u32) -> UnitConfig {
    let (geometry, features, identity) = (device.geometry(), device.features(), device.identity());
    let uuid = identity.uuid.unwrap_or_else(|| namespace_uuid(subsystem, number as u32 + 1));
    let serial = identity.serial.unwrap_or_else(|| uuid.simple().to_string()[..SERIAL_DIGITS].to_owned());
    UnitConfig {
        geometry: UnitGeometry {
            block_bytes: geometry.block_bytes,
            blocks: geometry.blocks,
            optimal_blocks: 1 << geometry.optimal_blocks.max(1).ilog2(),
            max_transfer_bytes: geometry.max_transfer_bytes.min(transfer_bytes).max(geometry.block_bytes),
        },
        features: UnitFeatures {
            write: features.write,
            volatile_cache: features.volatile_cache,
            discard: features.discard,
            discard_zeroes: features.discard_zeroes,
            write_zeroes: features.write_zeroes,
            compare: features.compare,
        },
        identity: UnitIdentity {
            vendor: "weft".to_owned(),
            product: identity.model.unwrap_or_else(|| "virtual disk".to_owned()),
            revision: env!("CARGO_PKG_VERSION").chars().take(4).collect(),
            serial,
            uuid: *uuid.as_bytes(),
            nguid: Some(*uuid.as_bytes()),
        },
    }
}
