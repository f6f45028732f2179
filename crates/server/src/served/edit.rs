//! Carries out steps, as one change of the inventory.

use super::state::ServedState;
use super::steps::Step;
use crate::config::desired::{DesiredAnaState, DesiredNamespace};
use weft_block::Device;
use weft_endpoint::inventory::{
    InventoryBuilder, InventoryError, NamespaceConfig, SubsystemConfig,
};
use weft_proto::nvme::types::{Nqn, Nsid};

/// The devices of namespaces that are added or replaced.
#[derive(Clone, Default)]
pub struct Devices(Vec<((Nqn, Nsid), Device)>);

impl Devices {
    /// Devices in the order in which steps need them.
    pub fn of(steps: &[Step], devices: Vec<Device>) -> Self {
        let names = steps
            .iter()
            .filter_map(Step::opens)
            .map(|(nqn, namespace)| (nqn.clone(), namespace.nsid));
        Self(names.zip(devices).collect())
    }

    /// The device of a namespace.
    pub fn add(&mut self, nqn: &Nqn, nsid: Nsid, device: Device) {
        self.0.push(((nqn.clone(), nsid), device));
    }

    fn take(&mut self, nqn: &Nqn, nsid: Nsid) -> Option<Device> {
        let at = self.0.iter().position(|((of, number), _)| of == nqn && *number == nsid)?;
        Some(self.0.swap_remove(at).1)
    }
}

/// Carries out steps that lead to `wanted`.
pub fn carry_out(
    steps: &[Step],
    wanted: &ServedState,
    builder: &mut InventoryBuilder,
    devices: &mut Devices,
) -> Result<(), InventoryError> {
    steps.iter().try_for_each(|step| one(step, wanted, builder, devices))
}

fn one(
    step: &Step,
    wanted: &ServedState,
    to: &mut InventoryBuilder,
    devices: &mut Devices,
) -> Result<(), InventoryError> {
    let mut configured = |nqn: &Nqn, of: &DesiredNamespace| {
        devices.take(nqn, of.nsid).map(|device| configure(of, device))
    };
    match step {
        Step::Unlisten(url) => to.remove_listener(url).map(drop),
        Step::Listen(url) => to.add_listener(url).map(drop),
        Step::RemoveSubsystem(of) => to.remove_subsystem(&of.nqn).map(drop),
        Step::AddSubsystem(of) => {
            let (hosts, initiators) = (of.hosts.clone(), of.initiators.clone());
            let (nqn, numbers) = (of.nqn.clone(), of.numbers.clone());
            to.add_subsystem(SubsystemConfig { nqn, hosts, initiators, numbers }).map(drop)
        }
        Step::Number(nqn, numbers) => {
            to.subsystem_mut(nqn).map(|subsystem| subsystem.numbers = numbers.clone())
        }
        Step::Admit(nqn, hosts, initiators) => to.subsystem_mut(nqn).map(|subsystem| {
            (subsystem.hosts, subsystem.initiators) = (hosts.clone(), initiators.clone());
        }),
        Step::RemoveNamespace(nqn, was) => to.remove_namespace(nqn, was.nsid).map(drop),
        Step::AddNamespace(nqn, is) => match configured(nqn, is) {
            Some(config) => to.add_namespace(nqn, is.nsid, config).map(drop),
            None => Ok(()),
        },
        Step::Replace(nqn, _, is) => match configured(nqn, is) {
            Some(config) => to.replace_namespace(nqn, is.nsid, config).map(drop),
            None => Ok(()),
        },
        Step::Resize(nqn, nsid, bytes) => {
            let blocks = bytes.map(|bytes| blocks(bytes, to.block_bytes(nqn, *nsid).unwrap_or(1)));
            to.resize_namespace(nqn, *nsid, blocks).map(drop)
        }
        Step::Rename(nqn, nsid, name) => to.name_namespace(nqn, *nsid, name.clone()).map(drop),
        // Limits and secrets are no part of the inventory.
        Step::Limit(..) | Step::Identify(_) | Step::Authenticate(..) | Step::Keys(_) => Ok(()),
        Step::Show(nqn, nsid, shown, seen) => to
            .show_namespace(nqn, *nsid, |hosts, initiators| {
                (*hosts, *initiators) = (shown.clone(), seen.clone())
            })
            .map(drop),
        Step::Group(nqn, nsid, group) => to.group_namespace(nqn, *nsid, *group).map(drop),
        Step::SetState(DesiredAnaState { group, listener, state }) => {
            to.set_access_state(*group, *listener, *state).map(drop)
        }
    }?;
    debug_assert!(step.opens().is_none_or(|(nqn, it)| wanted.namespace(nqn, it.nsid).is_some()));
    Ok(())
}

fn configure(of: &DesiredNamespace, device: Device) -> NamespaceConfig {
    let blocks = of.bytes.map(|bytes| blocks(bytes, device.geometry().block_bytes));
    NamespaceConfig {
        name: of.name.clone(),
        uuid: of.uuid,
        nguid: of.nguid,
        eui64: of.eui64,
        scsi: of.scsi.clone(),
        blocks,
        group: of.group,
        reservations: of.reservations,
        hosts: of.hosts.clone(),
        initiators: of.initiators.clone(),
        ..NamespaceConfig::new(device)
    }
}

/// Whole blocks in so many bytes; a part of a block does not count.
fn blocks(bytes: u64, block_bytes: u32) -> u64 {
    bytes / u64::from(block_bytes)
}
