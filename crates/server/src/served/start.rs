//! Begins to serve what is desired: opens the sources, then listens.

use super::state::ServedState;
use super::turn::StateInTurn;
use super::{Opener, Served, inventory};
use crate::config::Desired;
use crate::group::Group;
use crate::open_released;
use crate::server::Environment;
use crate::sources::paths_end;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use weft_block::{Error, ErrorKind};
use weft_endpoint::ConnectOptions;
use weft_endpoint::export::{self, ExportConfig};
use weft_endpoint::inventory::{ControllerClaims, LiveInventory, Sharing};
use weft_io::RemoteLoop;

impl Served {
    /// Opens the sources and listens.
    pub(crate) fn start(
        desired: &Desired,
        environment: &Environment,
        group: Option<&Arc<Group>>,
        loops: &[RemoteLoop],
    ) -> Result<Arc<Self>, Error> {
        let options = options(desired, environment, group);
        let opener = Opener { options, front: environment.front.clone() };
        let (mut range, mut reservations) =
            (desired.controllers(), environment.reservations.clone());
        if let Some(group) = group {
            (range.sharing, reservations) = (Sharing::Group, group.reservations.clone());
        }
        let claims = ControllerClaims::new(range);
        let open = || {
            desired.subsystems.iter().try_for_each(|subsystem| claims.claim(&subsystem.nqn))?;
            opener.open(desired.namespaces().map(|(_, namespace)| namespace))
        };
        // The sources of a server from which this one takes over, or of one that was to, may be in
        // use for a moment yet.
        let takeover = &environment.takeover;
        let released = (takeover.from.is_some() || takeover.has_failed).then(Instant::now);
        let devices = open_released::open(released, open)?;
        let inventory = inventory(&ServedState::of(desired), devices, (range, reservations))?;
        inventory.keep_health(environment.health.clone());
        inventory.limit_connections(desired.connections);
        desired.slow.into_iter().for_each(|limit| inventory.statistics().log_slow(limit));
        complete(environment, &inventory)?;
        let config = ExportConfig {
            inventory: Arc::clone(&inventory),
            iscsi: desired.iscsi.clone(),
            tls: desired.tls.clone(),
            late_writers: opener.options.control.late_writers(),
        };
        let exports = Arc::new(export::start_captured(
            &config,
            &desired.listen,
            loops,
            opener.options.control.capture(),
        )?);
        Ok(Arc::new(Self {
            inventory,
            exports,
            opener,
            claims,
            psk: desired.tls.psk.clone(),
            concat: desired.tls.concat,
            fixed: desired.fixed.clone(),
            group: group.cloned(),
            file: environment.file.clone(),
            source_options: Arc::clone(&environment.source_options),
            state: StateInTurn::new(ServedState::of(desired)),
            freed: Mutex::default(),
        }))
    }
}

/// How sources are opened.
fn options(
    desired: &Desired,
    environment: &Environment,
    group: Option<&Arc<Group>>,
) -> ConnectOptions {
    let mut options = environment.connect.clone();
    if desired.exit_on_loss {
        paths_end(&mut options);
    }
    options.disk_timeout = desired.disk_timeout;
    options.shared = desired.shared;
    options.ceph = group.map(|group| group.access.clone()).unwrap_or_default();
    options.ceph_in_group = group.is_some();
    options
}

/// Adds to an inventory what its configuration does not say.
pub(crate) fn complete(environment: &Environment, inventory: &LiveInventory) -> Result<(), Error> {
    limit_hosts(environment, inventory)?;
    refer(environment, inventory)
}

/// Limits hosts beside what the configuration says.
fn limit_hosts(environment: &Environment, inventory: &LiveInventory) -> Result<(), Error> {
    for of in &environment.host_limits {
        let wrong =
            |why| Error::new(ErrorKind::Usage, format!("the limit of the host {}: {why}", of.host));
        inventory.host_limits().set(&of.host, of.limit).map_err(wrong)?;
    }
    Ok(())
}

/// Adds the referrals to what exports will tell, and names the discovery subsystem.
fn refer(environment: &Environment, inventory: &LiveInventory) -> Result<(), Error> {
    inventory.set_referrals(&environment.referrals);
    let Some(name) = &environment.discovery_nqn else { return Ok(()) };
    if inventory.now().subsystem(name).is_some() {
        let text =
            format!("{name} is the name of a subsystem that is served: give discovery another one");
        return Err(Error::new(ErrorKind::Usage, text));
    }
    inventory.set_discovery_nqn(name.clone());
    Ok(())
}
