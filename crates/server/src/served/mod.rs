//! The contents of a running server, and every change of them.
//!
//! * [`state`]: the served state, as it was asked for.
//! * `turn`: one change at a time.
//! * `difference`: what is different between two states, and the hosts that lose something.
//! * `opener`: opens the devices that are needed.
//! * `start`: begins to serve.
//! * `inventory`: the inventory that a state asks for.
//! * `following`: a gateway of a group, which serves what others have changed, too.
//! * [`orders`]: commands of tests.
//! * [`verbs`]: the methods of the control socket; [`host_verbs`]: those about hosts.
//! * [`scsi_names`]: names of a logical unit as a parameter of one.
//! * `reopened`: files that a change would open again.
//! * `size`: asks the source of a namespace for its size.

pub(crate) mod difference;
mod following;
pub mod host_verbs;
pub(crate) mod inventory;
mod opener;
pub mod orders;
mod reopened;
pub mod scsi_names;
mod size;
mod start;
pub mod state;
mod turn;
pub mod verbs;

pub use difference::ShownDifference;
pub use opener::{Front, SourceOpener};
pub use state::ServedState;
pub(crate) use turn::ChangeTiming;

use crate::config::desired::{Desired, DesiredLimit, DesiredNamespace, Fixed, concatenate};
use crate::config::{SourceOptions, load, read};
use crate::group::GroupMembership;
use crate::management::protocol::{FaultCode, RequestFault};
use crate::open_released;
use difference::between;
use inventory::{Devices, put};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use turn::{StateInTurn, StateTurn};
use weft_block::Error;
use weft_block::file::CreatedFiles;
use weft_endpoint::TlsPsk;
use weft_endpoint::export::Exports;
use weft_endpoint::inventory::{ControllerClaims, InventoryBuilder, LiveInventory};
use weft_proto::nvme::types::Nqn;

/// The served inventory, and its exports.
pub struct Served {
    /// The inventory.
    pub inventory: Arc<LiveInventory>,
    /// The exports that serve it.
    pub exports: Arc<Exports>,
    opener: SourceOpener,
    claims: ControllerClaims,
    /// The pre-shared keys of NVMe/TCP hosts, which connections use.
    psk: Option<TlsPsk>,
    /// Keys of these are made by an authentication.
    concat: bool,
    /// Limits of hosts that stay, whatever is applied.
    lasting_limits: Vec<DesiredLimit>,
    /// Settings that take effect at the start only.
    fixed: Fixed,
    /// The group of gateways that this server belongs to.
    pub group: Option<Arc<GroupMembership>>,
    /// The configuration file, if there is one.
    file: Option<PathBuf>,
    /// Options that `[connect]` of it may have.
    source_options: Arc<dyn SourceOptions>,
    /// Held during a change.
    state: StateInTurn,
}

/// The way to make a change.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeMode {
    /// Also if connected hosts use what goes.
    pub force: bool,
    /// Only report the differences.
    pub dry_run: bool,
}

/// The outcome of a change.
#[derive(Debug, Serialize, Deserialize)]
pub struct Changed {
    /// The generation of the inventory.
    pub generation: u64,
    /// The differences.
    pub changes: Vec<ShownDifference>,
    /// Parts that could not be done while the server runs, each in a sentence.
    pub notes: Vec<String>,
}

impl Served {
    /// The state that is served now, as it was asked for, without a change that is under way: that
    /// one is not reported as made yet.
    pub(crate) fn state(&self) -> ServedState {
        self.state.completed()
    }

    /// Decides when what is served is changed from now on. Changes of a group of gateways are kept
    /// by its cluster, and depend on no process.
    pub(crate) fn allow(&self, changes: ChangeTiming) {
        if self.group.is_none() {
            self.state.allow(changes);
        }
    }

    /// The turn to change the state; at a gateway of a group a change that waits for the cluster
    /// does not hold up others for ever.
    fn turn(&self) -> Result<StateTurn<'_>, RequestFault> {
        let limit = if self.group.is_some() { CHANGES_WAIT } else { Duration::MAX };
        self.state.turn(limit).ok_or_else(|| {
            if self.group.is_none() {
                let text = "the server ends: nothing was changed";
                return RequestFault::new(FaultCode::Refused, text);
            }
            let text = "another change is under way, and waits: try again; `ceph status` shows whether the cluster answers";
            RequestFault::new(FaultCode::TimedOut, text)
        })
    }

    /// Applies the configuration file again, and logs the outcome.
    pub fn reload(&self) {
        let Some(file) = &self.file else { return };
        let applied = load(file, &*self.source_options)
            .map_err(RequestFault::from)
            .and_then(|desired| self.apply(ChangeMode::default(), &desired));
        match applied {
            Ok(changed) => {
                let (file, count) = (file.display(), changed.changes.len());
                tracing::info!(
                    "{file} was applied: {count} changes, generation {}",
                    changed.generation
                );
                changed.notes.iter().for_each(|note| tracing::warn!("{note}"));
            }
            Err(e) => tracing::error!("{} was not applied: {e}", file.display()),
        }
    }

    /// Makes a change: all of it, or nothing. At a gateway of a group it is made for all gateways.
    ///
    /// # Errors
    /// `edit`'s; [`FaultCode::InUse`] if connected hosts use what goes; what opening a source or
    /// listening says; the inventory's.
    pub fn change(
        &self,
        how: ChangeMode,
        mut edit: impl FnMut(&mut ServedState) -> Result<(), RequestFault>,
    ) -> Result<Changed, RequestFault> {
        let Some(group) = &self.group else { return self.change_here(how, edit, |_, _| Ok(())) };
        group.check_lease()?;
        let configuration = &group.configuration;
        let commit = |wanted: &ServedState, is_same| {
            if is_same { configuration.confirm() } else { configuration.commit(wanted, None) }
        };
        let change = || self.change_here(how, &mut edit, commit);
        self.retried(group, change)
    }

    /// Changes the state of this process. `commit` gets the wanted state, and whether that is
    /// served already, when nothing is left that could be refused; then it may refuse.
    fn change_here(
        &self,
        how: ChangeMode,
        mut edit: impl FnMut(&mut ServedState) -> Result<(), RequestFault>,
        commit: impl FnOnce(&ServedState, bool) -> Result<(), RequestFault>,
    ) -> Result<Changed, RequestFault> {
        let mut turn = self.turn()?;
        let mut wanted = turn.clone();
        edit(&mut wanted)?;
        let now = self.inventory.now();
        let changes = between(&turn, &wanted, (&now, &self.exports.hosts()));
        reopened::check(&turn, &wanted, self.opener.options.shared)?;
        if how.dry_run || changes.is_empty() {
            if !how.dry_run {
                commit(&wanted, true)?;
            }
            return Ok(Changed { generation: now.generation(), changes, notes: Vec::new() });
        }
        if !how.force {
            if let Some(refused) = changes.iter().find(|shown| !shown.hosts.is_empty()) {
                return Err(in_use(refused));
            }
            let taking = changes.iter().find(|shown| shown.takes && self.group.is_some());
            if let Some(ShownDifference { text, .. }) = taking {
                let text = format!(
                    "cannot {text}: hosts of other gateways may use it, and are not known here; --force does it anyway"
                );
                return Err(RequestFault::new(FaultCode::InUse, text));
            }
        }
        let generation = self.make(&mut turn, wanted, commit)?;
        Ok(Changed { generation, changes, notes: Vec::new() })
    }

    /// Serves what is wanted. First everything is done that can fail, and nothing of it is left if
    /// something does: claims, sources, addresses. Then one value takes the place of the other.
    fn make(
        &self,
        turn: &mut StateTurn<'_>,
        wanted: ServedState,
        commit: impl FnOnce(&ServedState, bool) -> Result<(), RequestFault>,
    ) -> Result<u64, RequestFault> {
        let names = wanted.subsystems.iter().map(|of| &of.nqn);
        let new = names.filter(|nqn| !turn.kept.claims.contains_key(*nqn));
        let claims = new.map(|nqn| Ok((nqn.clone(), self.claims.claim(nqn)?)));
        let claims = claims.collect::<Result<Vec<_>, Error>>()?;
        // Dropped after the devices.
        let mut created = Created::default();
        let (devices, frees) = self.devices(turn, &wanted, &created)?;
        let put = |builder: &mut InventoryBuilder| {
            put((&**turn, &wanted), &self.lasting_limits, &devices, builder)
        };
        let mut is_committed = false;
        let commit = || {
            commit(&wanted, false)?;
            is_committed = true;
            Ok(())
        };
        let changed: Result<_, RequestFault> = self.exports.change_if(put, commit);
        if let (Some(group), Err(fault), true) = (&self.group, &changed, is_committed) {
            group.configuration.fell_behind(&fault.message);
        }
        let generation = changed?.generation();
        if let (Some(psk), Some(keys)) = (&self.psk, &wanted.psk) {
            psk.set_keys(Arc::clone(keys));
        }
        created.keep();
        turn.kept.claims.extend(claims);
        turn.kept.claims.retain(|nqn, _| wanted.subsystem(nqn).is_some());
        if frees {
            turn.kept.freed = Some(Instant::now());
        }
        **turn = wanted;
        Ok(generation)
    }

    /// Applies the text of a file.
    pub fn apply_text(
        &self,
        how: ChangeMode,
        (text, file): (&str, &Path),
    ) -> Result<Changed, RequestFault> {
        let name = file.display().to_string();
        let Some(group) = &self.group else {
            let directory = file.parent().unwrap_or(Path::new(""));
            let desired =
                read(text, &name, (directory, &*self.source_options)).map_err(Error::from)?;
            return self.apply(how, &desired);
        };
        let config = crate::config::group::read(text, &name).map_err(Error::from)?;
        group.check_lease()?;
        self.retried(group, || {
            let edit = |state: &mut ServedState| {
                self.put(state, &config);
                Ok(())
            };
            self.change_here(how, edit, |wanted, _| group.configuration.commit(wanted, Some(text)))
        })
    }

    /// Changes what is served into what is desired.
    pub fn apply(&self, how: ChangeMode, desired: &Desired) -> Result<Changed, RequestFault> {
        let mut changed = self.change(how, |state| {
            // That there is TLS, or none, is so until the server ends.
            let psk = state.psk.take();
            *state = ServedState::of(desired);
            state.psk = psk.map(|keys| state.psk.take().unwrap_or(keys));
            concatenate(&mut state.subsystems, &mut state.discovery, self.concat);
            Ok(())
        })?;
        let note = |table: &str| {
            format!(
                "{table} differs from what the server started with: it takes effect when the server starts again"
            )
        };
        changed.notes = desired.fixed.differences(&self.fixed).into_iter().map(note).collect();
        changed.notes.extend(ServedState::of(desired).nameless());
        Ok(changed)
    }

    /// The devices of all namespaces: those that serve the same sources now, and new ones. Returns
    /// also whether others are released.
    fn devices(
        &self,
        turn: &StateTurn<'_>,
        wanted: &ServedState,
        created: &Created,
    ) -> Result<(Devices, bool), Error> {
        let now = self.inventory.now();
        let given = |(nqn, of): (&Nqn, &DesiredNamespace)| {
            let device = Arc::clone(now.namespace(nqn, of.nsid)?.given());
            Some(((nqn.clone(), of.nsid), of.origin(), device))
        };
        let mut free: Vec<_> = turn.namespaces().filter_map(given).collect();
        let mut devices = Devices::new();
        let named = wanted.namespaces().map(|(nqn, of)| ((nqn.clone(), of.nsid), of));
        let mut missing: Vec<_> = named.collect();
        // A namespace keeps its own device rather than that of another one with such a source.
        for is_own in [true, false] {
            missing.retain(|(name, of)| {
                let fits = |(known, origin, _): &(_, _, _)| {
                    *origin == of.origin() && (known == name || !is_own)
                };
                let found = free.iter().position(fits).map(|at| free.swap_remove(at));
                found.is_none_or(|(.., device)| {
                    devices.insert(name.clone(), device);
                    false
                })
            });
        }
        let opener = self.opener.noting(&created.0);
        let open = || opener.open(missing.iter().map(|(_, of)| *of));
        let opened = open_released::open(turn.kept.freed, open)?;
        devices.extend(missing.iter().map(|(name, _)| name.clone()).zip(opened));
        Ok((devices, !free.is_empty()))
    }
}

/// The files that opening sources has created; removed with this, unless they are kept.
#[derive(Default)]
struct Created(Arc<CreatedFiles>);

impl Created {
    fn keep(&mut self) {
        self.0 = Arc::default();
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Longest wait of a change of a group for one that is under way.
const CHANGES_WAIT: Duration = Duration::from_secs(20);

/// Names of hosts in one message.
const NAMED_MAX: usize = 5;

fn in_use(refused: &ShownDifference) -> RequestFault {
    let (named, more) = refused.hosts.split_at(refused.hosts.len().min(NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let text = format!(
        "cannot {}: in use by {}{more}; --force does it anyway",
        refused.text,
        named.join(", ")
    );
    RequestFault { hosts: refused.hosts.clone(), ..RequestFault::new(FaultCode::InUse, text) }
}

#[cfg(test)]
mod tests;
