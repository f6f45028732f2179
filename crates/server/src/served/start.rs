//! Begins to serve what is desired: opens the sources, then listens.

use super::inventory::first;
use super::state::ServedState;
use super::turn::{KeptParts, StateInTurn};
use super::{Served, SourceOpener};
use crate::config::Desired;
use crate::group::GroupMembership;
use crate::open_released;
use crate::server::Environment;
use crate::sources::paths_end;
use std::sync::Arc;
use std::time::Instant;
use weft_block::Error;
use weft_endpoint::ConnectOptions;
use weft_endpoint::export::{self, ExportConfig};
use weft_endpoint::inventory::{ControllerClaims, LiveInventory, Sharing};
use weft_io::RemoteLoop;

impl Served {
    /// Opens the sources and listens.
    pub(crate) fn start(
        desired: &Desired,
        environment: &Environment,
        group: Option<&Arc<GroupMembership>>,
        loops: &[RemoteLoop],
    ) -> Result<Arc<Self>, Error> {
        let options = options(desired, environment, group);
        let opener = SourceOpener { options, front: environment.front.clone() };
        let (mut range, mut reservations) =
            (desired.controllers(), environment.reservations.clone());
        if let Some(group) = group {
            (range.sharing, reservations) = (Sharing::Group, group.reservations.clone());
        }
        let claims = ControllerClaims::new(range);
        let open = || {
            let names = desired.subsystems.iter().map(|of| &of.nqn);
            let claimed = names.map(|nqn| Ok((nqn.clone(), claims.claim(nqn)?)));
            let claimed = claimed.collect::<Result<_, Error>>()?;
            Ok((claimed, opener.open(desired.namespaces().map(|(_, namespace)| namespace))?))
        };
        // The sources of a server from which this one takes over, or of one that was to, may be in
        // use for a moment yet.
        let takeover = &environment.takeover;
        let released = (takeover.from.is_some() || takeover.has_failed).then(Instant::now);
        let (claimed, devices) = open_released::open(released, open)?;
        let state = ServedState::of(desired);
        state.nameless().iter().for_each(|text| tracing::warn!("{text}"));
        let inventory =
            first(&state, devices, range, &environment.host_limits, environment.discovery())?;
        let inventory = LiveInventory::with_reservations(inventory, reservations)?;
        inventory.keep_health(environment.health.clone());
        inventory.limit_connections(desired.connections);
        desired.slow.into_iter().for_each(|limit| inventory.statistics().log_slow(limit));
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
            lasting_limits: environment.host_limits.clone(),
            fixed: desired.fixed.clone(),
            group: group.cloned(),
            file: environment.file.clone(),
            source_options: Arc::clone(&environment.source_options),
            state: StateInTurn::new(state, KeptParts { claims: claimed, freed: None }),
        }))
    }
}

/// Options for opening sources.
fn options(
    desired: &Desired,
    environment: &Environment,
    group: Option<&Arc<GroupMembership>>,
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
