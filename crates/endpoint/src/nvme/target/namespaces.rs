//! What the inventory says, in the words of a controller.

use crate::identity::namespace_uuid;
use crate::inventory;
use crate::limits::{POOL_PARTS, TRANSFER_BYTES_MAX};
use weft_io::limits::BUF_BYTES_MIN;
use weft_proto::nvme::controller::{ControllerKind, Namespace, Preferred, SubsystemConfig, Support};
use weft_proto::nvme::types::{Id128, Nqn};

/// The largest transfer on loops whose pools hold so much.
pub(super) fn transfer_bytes(pool_bytes: usize) -> u32 {
    let part = (pool_bytes / POOL_PARTS).clamp(BUF_BYTES_MIN, TRANSFER_BYTES_MAX as usize);
    1 << part.ilog2()
}

/// The subsystem, on loops that take transfers of so many bytes. What its devices take at present counts too: one that takes less and comes
/// later refuses what is too long for it.
pub(super) fn subsystem(of: &inventory::Subsystem, transfer_bytes: u32) -> SubsystemConfig {
    let taken = of.namespaces().map(|namespace| namespace.device.geometry().max_transfer_bytes);
    SubsystemConfig {
        hosts: of.hosts.names(),
        serial: serial(&of.nqn),
        transfer_bytes_max: taken.fold(transfer_bytes, u32::min),
        ..SubsystemConfig::new(ControllerKind::Io, of.nqn.clone())
    }
}

/// A serial number that lasts as the name does: 16 hexadecimal digits.
fn serial(subsystem: &Nqn) -> String {
    namespace_uuid(subsystem, 0).simple().to_string()[..16].to_owned()
}

/// The namespace, with what its device can do.
pub(super) fn namespace(of: &inventory::Namespace) -> Namespace {
    let (geometry, features) = (of.device.geometry(), of.device.features());
    let mut namespace = Namespace::new(of.nsid, geometry.block_bytes, of.blocks, Id128(*of.uuid.as_bytes()));
    namespace.nguid = Id128(of.nguid);
    namespace.eui64 = of.eui64.unwrap_or_default();
    namespace.hosts = of.hosts.names().map(Into::into);
    namespace.incarnation = of.incarnation;
    namespace.transfer_bytes_max = geometry.max_transfer_bytes;
    namespace.read_only = !features.write;
    namespace.support = Support {
        discard: features.discard,
        write_zeroes: features.write_zeroes,
        compare: features.compare,
        volatile_cache: features.volatile_cache,
        discarded_reads_zero: features.discard_zeroes,
    };
    namespace.atomic_power_fail_blocks = geometry.atomic_write_blocks;
    if features.compare {
        namespace.compare_write_blocks = geometry.atomic_write_blocks.max(1);
    }
    if geometry.optimal_blocks > 1 {
        namespace.preferred = Preferred {
            write_granularity: geometry.optimal_blocks,
            write_alignment: geometry.optimal_blocks,
            ..Preferred::default()
        };
    }
    namespace
}
