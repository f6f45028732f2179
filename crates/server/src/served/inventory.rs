//! The inventory that a state asks for.

use super::state::ServedState;
use crate::config::desired::{DesiredLimit, DesiredNamespace, DesiredSubsystem};
use std::collections::BTreeMap;
use weft_block::Device;
use weft_endpoint::inventory::{
    ControllerRange, Inventory, InventoryBuilder, InventoryError, NamespaceConfig, SubsystemConfig,
};
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme::types::{Nqn, Nsid};

/// The devices of namespaces.
pub type Devices = BTreeMap<(Nqn, Nsid), Device>;

/// The first inventory of a server. `devices`: those of the namespaces, in their order. No state
/// changes the `lasting` limits, the `referrals` of discovery and its `name`.
pub fn first(
    state: &ServedState,
    devices: Vec<Device>,
    range: ControllerRange,
    lasting: &[DesiredLimit],
    (referrals, name): (&[TransportAddress], Option<&Nqn>),
) -> Result<Inventory, InventoryError> {
    let names = state.namespaces().map(|(nqn, of)| (nqn.clone(), of.nsid));
    let nothing = ServedState::default();
    let mut builder = InventoryBuilder::default();
    builder.set_range(range)?.refer_to(referrals).name_discovery(name.cloned());
    put((&nothing, state), lasting, &names.zip(devices).collect(), &mut builder)?;
    builder.build()
}

/// Serves a state instead of the one before. `lasting`: limits of hosts that no state changes.
pub fn put(
    (before, state): (&ServedState, &ServedState),
    lasting: &[DesiredLimit],
    devices: &Devices,
    to: &mut InventoryBuilder,
) -> Result<(), InventoryError> {
    let limits = state.limits.iter().chain(lasting).map(|of| (of.host.clone(), of.limit));
    to.serve(state.subsystems.iter().map(|of| subsystem(of, devices)).collect())?
        .authenticate(&Nqn::discovery(), state.discovery.clone())?
        .limit_hosts(limits)?
        .identify_hosts(state.identifiers.clone())
        .listen_at(state.listen.iter().map(String::as_str));
    // A group of which nothing new is said keeps its state.
    let mut states = state.states.iter().filter(|of| !before.states.contains(of));
    states.try_for_each(|of| to.set_access_state(of.group, of.listener, of.state).map(drop))
}

fn subsystem(
    of: &DesiredSubsystem,
    devices: &Devices,
) -> (SubsystemConfig, Vec<(Nsid, NamespaceConfig)>) {
    let config = SubsystemConfig {
        nqn: of.nqn.clone(),
        hosts: of.hosts.clone(),
        initiators: of.initiators.clone(),
        numbers: of.numbers.clone(),
        authentication: of.authentication.clone(),
    };
    let namespaces = of.namespaces.iter().filter_map(|namespace| {
        let device = devices.get(&(of.nqn.clone(), namespace.nsid))?;
        Some((namespace.nsid, configure(namespace, device)))
    });
    (config, namespaces.collect())
}

fn configure(of: &DesiredNamespace, device: &Device) -> NamespaceConfig {
    NamespaceConfig {
        name: of.name.clone(),
        uuid: of.uuid,
        nguid: of.nguid,
        eui64: of.eui64,
        scsi: of.scsi.clone(),
        // A part of a block does not count.
        blocks: of.bytes.map(|bytes| bytes / u64::from(device.geometry().block_bytes)),
        group: of.group,
        reservations: of.reservations,
        hosts: of.hosts.clone(),
        initiators: of.initiators.clone(),
        ..NamespaceConfig::new(device.clone())
    }
}
