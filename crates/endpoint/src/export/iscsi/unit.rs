//! A namespace as a logical unit.

use crate::inventory::Namespace;
use crate::limits::TRANSFER_BYTES_MAX;
use weft_proto::scsi::lun::{UnitConfig, UnitFeatures, UnitGeometry, UnitIdentity};

/// Digits of a serial number that is made from a UUID.
const SERIAL_DIGITS: usize = 16;

/// What a namespace says of itself as a logical unit. Initiators that reach it both ways see one
/// disk.
pub(super) fn describe(namespace: &Namespace, transfer_bytes: u32) -> UnitConfig {
    let device = &namespace.device;
    let (geometry, features, identity) = (device.geometry(), device.features(), device.identity());
    let uuid = namespace.uuid;
    let serial =
        identity.serial.unwrap_or_else(|| uuid.simple().to_string()[..SERIAL_DIGITS].to_owned());
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
        identity: UnitIdentity {
            vendor: "weft".to_owned(),
            product: identity.model.unwrap_or_else(|| "virtual disk".to_owned()),
            revision: env!("CARGO_PKG_VERSION").chars().take(4).collect(),
            serial,
            uuid: *uuid.as_bytes(),
            nguid: Some(namespace.nguid),
        },
    }
}
