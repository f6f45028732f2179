//! A namespace as a logical unit.

use crate::inventory::Namespace;
use weft_block::Identity;
use weft_connection::limits::TRANSFER_BYTES_MAX;
use weft_proto::scsi::lun::{UnitConfig, UnitFeatures, UnitGeometry, UnitIdentity};

/// Digits of a serial number that is made from a UUID.
const SERIAL_DIGITS: usize = 16;

/// What a namespace says of itself as a logical unit. Initiators that reach it both ways see one
/// disk.
pub(super) fn describe(namespace: &Namespace, transfer_bytes: u32) -> UnitConfig {
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
