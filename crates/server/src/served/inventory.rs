//! The inventory of a state, and what belongs to hosts beside it: limits, identifiers, secrets.

use super::edit::{Devices, carry_out};
use super::state::ServedState;
use super::steps::{Step, between};
use std::sync::Arc;
use weft_block::Device;
use weft_endpoint::inventory::{ControllerRange, InventoryBuilder, InventoryError, LiveInventory};
use weft_endpoint::reservations::ReservationTable;

/// An inventory with what a state asks for.
pub fn inventory(
    state: &ServedState,
    devices: Vec<Device>,
    (range, reservations): (ControllerRange, ReservationTable),
) -> Result<Arc<LiveInventory>, InventoryError> {
    let steps = between(&ServedState::default(), state);
    let mut builder = InventoryBuilder::default();
    builder.set_range(range)?;
    let mut devices = Devices::of(&steps, devices);
    carry_out(&steps, state, &mut builder, &mut devices)?;
    let inventory = LiveInventory::with_reservations(builder.build()?, reservations)?;
    authenticate(&steps, &inventory);
    limit_hosts(&steps, &inventory);
    identify_hosts(&steps, &inventory);
    Ok(inventory)
}

/// Gives hosts the limits that steps ask for. There are never more than configurations are checked
/// for, and `--host-limit` comes later.
pub(super) fn limit_hosts(steps: &[Step], inventory: &LiveInventory) {
    let limits = steps.iter().filter_map(|step| {
        if let Step::Limit(host, limit) = step { Some((host, limit)) } else { None }
    });
    for (host, limit) in limits {
        if let Err(e) = inventory.host_limits().set(host, *limit) {
            tracing::error!("host {host} gets no limit: {e}");
        }
    }
}

/// Gives hosts the identifiers that steps ask for.
pub(super) fn identify_hosts(steps: &[Step], inventory: &LiveInventory) {
    let given = steps
        .iter()
        .filter_map(|step| if let Step::Identify(given) = step { Some(given) } else { None });
    given.for_each(|given| inventory.give_identifiers(given.clone()));
}

/// Has hosts prove what steps ask for.
pub(super) fn authenticate(steps: &[Step], inventory: &LiveInventory) {
    let demanded = steps.iter().filter_map(|step| {
        if let Step::Authenticate(nqn, demanded) = step { Some((nqn, demanded)) } else { None }
    });
    demanded.for_each(|(nqn, demanded)| inventory.authentications().set(nqn, demanded.clone()));
}

/// What subsystems demanded that are gone is not that of others which take their names.
pub(super) fn forget_demands(steps: &[Step], inventory: &LiveInventory) {
    let gone = steps
        .iter()
        .filter_map(|step| if let Step::RemoveSubsystem(of) = step { Some(&of.nqn) } else { None });
    gone.for_each(|nqn| inventory.authentications().set(nqn, None));
}
