//! Converts the inventory to the terms of a controller.

use crate::inventory;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{AccessState, Presence};
use weft_connection::identity::namespace_uuid;
use weft_connection::limits::{FUSED_BYTES_MAX, POOL_PARTS, TRANSFER_BYTES_MAX};
use weft_io::limits::BUF_BYTES_MIN;
use weft_proto::limits::IO_QUEUES_MAX;
use weft_proto::nvme::controller::{
    AnaStates, ControllerKind, Namespace, Preferred, SubsystemConfig, Support,
};
use weft_proto::nvme::log_page::AnaState;
use weft_proto::nvme::types::Id128;

/// What all subsystems of a target keep to.
#[derive(Clone, Copy)]
pub(super) struct SubsystemLimits {
    /// The Command Quiesce Time that controllers report (CQT).
    pub quiesce: Duration,
    /// Controllers of a subsystem: as many as there may be connections, which are shared fairly.
    pub controllers: u16,
}

/// The maximum transfer on loops with pools of this size.
pub(super) fn transfer_bytes(pool_bytes: usize) -> u32 {
    let part = (pool_bytes / POOL_PARTS).clamp(BUF_BYTES_MIN, TRANSFER_BYTES_MAX as usize);
    1 << part.ilog2()
}

/// The subsystem, on loops with this maximum transfer, which is also limited by the present
/// devices. A device with a smaller limit that is added later refuses longer commands.
pub(super) fn subsystem(
    of: &inventory::Subsystem,
    transfer_bytes: u32,
    limits: SubsystemLimits,
    seed: u64,
) -> SubsystemConfig {
    let taken = of.namespaces().map(|namespace| namespace.device.geometry().max_transfer_bytes);
    let (serial, model, io_queues_max) = numbers(of);
    let SubsystemLimits { quiesce, controllers } = limits;
    SubsystemConfig {
        hosts: of.hosts.names(),
        serial,
        model,
        io_queues_max,
        controllers_max: controllers,
        cntlids: of.cntlids,
        quiesce_ms: u16::try_from(quiesce.as_millis()).unwrap_or(u16::MAX),
        seed,
        transfer_bytes_max: taken.fold(transfer_bytes, u32::min),
        ..SubsystemConfig::new(ControllerKind::Io, of.nqn.clone())
    }
}

/// Serial and model number, and I/O queues of a controller: those that are configured, or 16
/// hexadecimal digits derived from the name, weft, and the default.
pub(super) fn numbers(of: &inventory::Subsystem) -> (String, String, u16) {
    let given = &of.numbers;
    let derived = || namespace_uuid(&of.nqn, 0).simple().to_string()[..16].to_owned();
    let serial = given.serial.as_ref().map_or_else(derived, ToString::to_string);
    let model = given.model.as_ref().map_or_else(|| "weft".to_owned(), ToString::to_string);
    (serial, model, given.queues.map_or(IO_QUEUES_MAX, NonZeroU16::get))
}

/// The states of the groups of namespaces.
pub(super) fn states(of: &inventory::AccessStates) -> AnaStates {
    let mut states = AnaStates::default();
    of.iter().for_each(|(listener, group, state)| states.set(listener, group, ana_state(state)));
    states
}

fn ana_state(state: AccessState) -> AnaState {
    match state {
        AccessState::Optimized => AnaState::OPTIMIZED,
        AccessState::NonOptimized => AnaState::NON_OPTIMIZED,
        AccessState::Inaccessible => AnaState::INACCESSIBLE,
        AccessState::PersistentLoss => AnaState::PERSISTENT_LOSS,
        AccessState::Transition => AnaState::CHANGE,
    }
}

/// The namespace, with the features of its device.
pub(super) fn namespace(of: &inventory::Namespace) -> Namespace {
    let (geometry, features) = (of.device.geometry(), of.device.features());
    let mut namespace =
        Namespace::new(of.nsid, geometry.block_bytes, of.blocks, Id128(*of.uuid.as_bytes()));
    namespace.nguid = Id128(of.nguid);
    namespace.eui64 = of.eui64.unwrap_or_default();
    namespace.hosts = of.hosts.names().map(Into::into);
    namespace.incarnation = of.incarnation;
    namespace.reservations =
        of.reservations.as_ref().map(|reservations| Arc::clone(reservations.shared()));
    namespace.ana_group = of.group;
    namespace.transfer_bytes_max = geometry.max_transfer_bytes;
    namespace.ready = of.presence == Presence::Here;
    namespace.read_only = !features.write;
    namespace.support = Support {
        discard: features.discard,
        write_zeroes: features.write_zeroes,
        compare: features.compare,
        volatile_cache: features.volatile_cache,
        discarded_reads_zero: features.discard_zeroes,
    };
    namespace.atomic_blocks = geometry.atomic.write_blocks.max(1);
    namespace.atomic_power_fail_blocks = geometry.atomic.power_fail_blocks.max(1);
    if features.compare {
        let carried = FUSED_BYTES_MAX / geometry.block_bytes;
        namespace.compare_write_blocks =
            geometry.atomic.compare_and_write_blocks.min(carried).max(1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{InventoryBuilder, NamespaceConfig, SubsystemConfig as Subsystem};
    use weft_block::{Atomicity, BlockDevice, BlockQueue, Error, Features, Geometry};
    use weft_io::{DriverId, Handle};
    use weft_proto::nvme::types::{Nqn, Nsid};

    /// A remote device whose power fail unit is larger than what it compares and writes.
    struct Remote;

    impl BlockDevice for Remote {
        fn url(&self) -> &str {
            "remote"
        }

        fn geometry(&self) -> Geometry {
            let atomic =
                Atomicity { write_blocks: 16, power_fail_blocks: 256, compare_and_write_blocks: 2 };
            Geometry {
                block_bytes: 512,
                blocks: 1000,
                padding_bytes: 0,
                optimal_blocks: 1,
                max_transfer_bytes: 1 << 20,
                atomic,
            }
        }

        fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
            Ok(weft_block::SizeAnswer::Now)
        }

        fn features(&self) -> Features {
            Features { write: true, compare: true, ..Features::default() }
        }

        fn open_queue(&self, _: &Handle, _: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
            unreachable!("nobody reads it")
        }
    }

    #[test]
    fn a_gateway_tells_of_each_atomic_unit_what_the_device_says_of_that_one() {
        let nqn = Nqn::new("nqn.2026-01.example.weft:atomic").unwrap();
        let mut builder = InventoryBuilder::default();
        builder.add_subsystem(Subsystem::new(nqn.clone())).unwrap();
        builder.add_namespace(&nqn, Nsid(1), NamespaceConfig::new(Arc::new(Remote))).unwrap();
        let inventory = builder.build().unwrap();
        let shown = namespace(inventory.namespace(&nqn, Nsid(1)).unwrap());
        assert_eq!(
            (shown.atomic_blocks, shown.atomic_power_fail_blocks, shown.compare_write_blocks),
            (16, 256, 2)
        );
    }
}
