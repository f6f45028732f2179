//! What a running server serves, and every change of it.
//!
//! * [`state`]: what is served, as it was asked for.
//! * `turn`: one change at a time.
//! * [`steps`], `step_text`: the differences between two states.
//! * `users`: the hosts that use what a step takes away.
//! * `opener`: opens the devices that are needed.
//! * `start`: begins to serve.
//! * [`inventory`]: the inventory of a state at the start.
//! * `edit`: carries out steps, as one change of the inventory.
//! * `following`: a gateway of a group, which serves what others have changed, too.
//! * [`orders`]: commands of tests.
//! * [`verbs`]: the methods of the control socket; [`host_verbs`]: those about hosts.
//! * [`scsi_names`]: names of a logical unit as a parameter of one.
//! * `size`: asks the source of a namespace for its size.

mod edit;
mod following;
pub mod host_verbs;
mod inventory;
mod opener;
pub mod orders;
pub mod scsi_names;
mod size;
mod start;
pub mod state;
mod step_text;
pub mod steps;
mod turn;
mod users;
pub mod verbs;

pub use inventory::inventory;
pub use opener::{Front, Opener};
pub(crate) use start::complete;
pub use state::ServedState;
pub(crate) use turn::Changes;

use crate::config::desired::{Desired, DesiredNamespace, Fixed, concatenate};
use crate::config::{SourceOptions, load, read};
use crate::group::Group;
use crate::management::protocol::{Code, Fault};
use crate::open_released;
use edit::{Devices, carry_out};
use inventory::{authenticate, forget_demands, identify_hosts, limit_hosts};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use steps::{Step, between};
use turn::{StateInTurn, Turn};
use weft_block::file::CreatedFiles;
use weft_block::{Device, Error};
use weft_endpoint::TlsPsk;
use weft_endpoint::export::Exports;
use weft_endpoint::inventory::{ControllerClaims, Inventory, InventoryBuilder, LiveInventory};

/// What is served, and by what.
pub struct Served {
    /// The inventory.
    pub inventory: Arc<LiveInventory>,
    /// What serves it.
    pub exports: Arc<Exports>,
    opener: Opener,
    claims: ControllerClaims,
    /// The pre-shared keys of NVMe/TCP hosts, which connections use.
    psk: Option<TlsPsk>,
    /// Whether these make their keys by an authentication.
    concat: bool,
    /// What takes effect at the start only.
    fixed: Fixed,
    /// The group of gateways that this server belongs to.
    pub group: Option<Arc<Group>>,
    /// The configuration file, if there is one.
    file: Option<PathBuf>,
    /// What `[connect]` of it may have.
    source_options: Arc<dyn SourceOptions>,
    /// Held during a change.
    state: StateInTurn,
    /// When a namespace went last.
    freed: Mutex<Option<Instant>>,
}

/// How a change is to be made.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct How {
    /// Also if connected hosts use what goes.
    pub force: bool,
    /// Only tell what would change.
    pub dry_run: bool,
}

/// What a change has done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Changed {
    /// The generation of the inventory.
    pub generation: u64,
    /// What differs.
    pub changes: Vec<Shown>,
    /// What could not be done while the server runs, each in a sentence.
    pub notes: Vec<String>,
}

/// A difference.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shown {
    /// `add`, `remove` or `change`.
    pub kind: String,
    /// What it is, in a line.
    pub text: String,
    /// Connected hosts that use what goes.
    pub hosts: Vec<String>,
}

impl Served {
    /// What is served now, as it was asked for, without a change that is under way: nobody has
    /// been told yet that it is made.
    pub(crate) fn state(&self) -> ServedState {
        self.state.completed()
    }

    /// Decides when what is served is changed from now on. Changes of a group of gateways are kept
    /// by its cluster, and depend on no process.
    pub(crate) fn allow(&self, changes: Changes) {
        if self.group.is_none() {
            self.state.allow(changes);
        }
    }

    fn freed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn to change the state; at a gateway of a group a change that waits for the cluster
    /// does not hold up others for ever.
    fn turn(&self) -> Result<Turn<'_>, Fault> {
        let limit = if self.group.is_some() { CHANGES_WAIT } else { Duration::MAX };
        self.state.turn(limit).ok_or_else(|| {
            if self.group.is_none() {
                return Fault::new(Code::Refused, "the server ends: nothing was changed");
            }
            let text = "another change is under way, and waits: try again; `ceph status` shows whether the cluster answers";
            Fault::new(Code::TimedOut, text)
        })
    }

    /// Applies the configuration file again, and logs what became of it.
    pub fn reload(&self) {
        let Some(file) = &self.file else { return };
        let applied = load(file, &*self.source_options)
            .map_err(Fault::from)
            .and_then(|desired| self.apply(How::default(), &desired));
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
    /// `edit`'s; [`Code::InUse`] if connected hosts use what goes; what opening a source or
    /// listening says; the inventory's.
    pub fn change(
        &self,
        how: How,
        mut edit: impl FnMut(&mut ServedState) -> Result<(), Fault>,
    ) -> Result<Changed, Fault> {
        let Some(group) = &self.group else { return self.change_here(how, edit, |_, _| Ok(())) };
        group.check_lease()?;
        let configuration = &group.configuration;
        let commit = |wanted: &ServedState, is_same| {
            if is_same { configuration.confirm() } else { configuration.commit(wanted, None) }
        };
        let change = || self.change_here(how, &mut edit, commit);
        self.retried(group, change)
    }

    /// Changes what this process serves. `commit` is told what is wanted, and whether that is what
    /// is served already, when nothing is left that could be refused; then it may refuse.
    fn change_here(
        &self,
        how: How,
        mut edit: impl FnMut(&mut ServedState) -> Result<(), Fault>,
        commit: impl FnOnce(&ServedState, bool) -> Result<(), Fault>,
    ) -> Result<Changed, Fault> {
        let mut state = self.turn()?;
        let mut wanted = state.clone();
        edit(&mut wanted)?;
        let steps = between(&state, &wanted);
        let (now, hosts) = (self.inventory.now(), self.exports.hosts());
        let shown = |step: &Step| Shown {
            kind: step.kind().to_owned(),
            text: step.to_string(),
            hosts: users::of(step, &now, &hosts),
        };
        let changes: Vec<Shown> = steps.iter().map(shown).collect();
        if how.dry_run || steps.is_empty() {
            if !how.dry_run {
                commit(&wanted, true)?;
            }
            return Ok(Changed { generation: now.generation(), changes, notes: Vec::new() });
        }
        if let Some(refused) = changes.iter().find(|shown| !shown.hosts.is_empty() && !how.force) {
            return Err(in_use(refused));
        }
        if self.group.is_some()
            && !how.force
            && let Some(taking) = steps.iter().find(|step| users::takes(step, &now))
        {
            return Err(unknown_users(taking));
        }
        let claimed =
            wanted.subsystems.iter().try_for_each(|subsystem| self.claims.claim(&subsystem.nqn));
        let created = Arc::<CreatedFiles>::default();
        let devices = claimed.and_then(|()| self.devices(&steps, &self.opener.noting(&created)));
        let carried = devices
            .map_err(Fault::from)
            .and_then(|devices| self.carry_out((&steps, &wanted), &devices, commit));
        if carried.is_err() {
            created.remove();
            authenticate(&between(&wanted, &state), &self.inventory);
        }
        let served = if carried.is_ok() { &wanted } else { &*state };
        self.claims.retain(|nqn| served.subsystems.iter().any(|subsystem| subsystem.nqn == *nqn));
        let generation = carried?.generation();
        self.finish(&steps);
        *state = wanted;
        Ok(Changed { generation, changes, notes: Vec::new() })
    }

    /// What belongs to steps beside the inventory.
    fn finish(&self, steps: &[Step]) {
        if steps.iter().any(|step| step.frees().is_some()) {
            *self.freed() = Some(Instant::now());
        }
        limit_hosts(steps, &self.inventory);
        identify_hosts(steps, &self.inventory);
        forget_demands(steps, &self.inventory);
        let keys = steps
            .iter()
            .filter_map(|step| if let Step::Keys(keys) = step { Some(keys) } else { None });
        self.psk.iter().zip(keys).for_each(|(psk, keys)| psk.set_keys(Arc::clone(keys)));
    }

    fn carry_out(
        &self,
        (steps, wanted): (&[Step], &ServedState),
        devices: &Devices,
        commit: impl FnOnce(&ServedState, bool) -> Result<(), Fault>,
    ) -> Result<Arc<Inventory>, Fault> {
        let carried = |builder: &mut InventoryBuilder| {
            carry_out(steps, wanted, builder, &mut devices.clone())
        };
        let mut kept = None;
        if self.group.is_some() {
            // What is committed is not to be refused here.
            let mut trial = self.inventory.now().edit();
            carried(&mut trial)?;
            // A change of the inventory holds up event loops, so nothing is read from the cluster
            // in it.
            kept = Some(self.inventory.prepared(trial.build()?)?);
        }
        commit(wanted, false)?;
        // What comes is never there for hosts that have proved nothing.
        authenticate(steps, &self.inventory);
        let changed = self.exports.change(carried).map_err(Fault::from);
        drop(kept);
        if let (Some(group), Err(fault)) = (&self.group, &changed) {
            group.configuration.fell_behind(&fault.message);
        }
        changed
    }

    /// Applies the text of a file.
    pub fn apply_text(&self, how: How, (text, file): (&str, &Path)) -> Result<Changed, Fault> {
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
    pub fn apply(&self, how: How, desired: &Desired) -> Result<Changed, Fault> {
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
        Ok(changed)
    }

    /// The devices of the namespaces that steps add or replace: those of namespaces that go, if
    /// they have the same source, and new ones.
    fn devices(&self, steps: &[Step], opener: &Opener) -> Result<Devices, Error> {
        let now = self.inventory.now();
        let given = |(nqn, was): (_, &DesiredNamespace)| {
            let device = Arc::clone(now.namespace(nqn, was.nsid)?.given());
            Some((was.origin(), device))
        };
        let mut free: Vec<((String, Vec<String>), Device)> =
            steps.iter().filter_map(Step::frees).filter_map(given).collect();
        let mut devices = Devices::default();
        let mut missing = Vec::new();
        for (nqn, namespace) in steps.iter().filter_map(Step::opens) {
            match free.iter().position(|(of, _)| *of == namespace.origin()) {
                Some(at) => devices.add(nqn, namespace.nsid, free.swap_remove(at).1),
                None => missing.push((nqn, namespace)),
            }
        }
        let namespaces: Vec<&DesiredNamespace> =
            missing.iter().map(|(_, namespace)| *namespace).collect();
        let open = || opener.open(namespaces.iter().copied());
        let freed = *self.freed();
        let opened = open_released::open(freed, open)?;
        missing
            .iter()
            .zip(opened)
            .for_each(|((nqn, namespace), device)| devices.add(nqn, namespace.nsid, device));
        Ok(devices)
    }
}

/// How long a change of a group waits for one that is under way.
const CHANGES_WAIT: Duration = Duration::from_secs(20);

fn unknown_users(step: &Step) -> Fault {
    let text = format!(
        "cannot {step}: hosts of other gateways may use it, and are not known here; --force does it anyway"
    );
    Fault::new(Code::InUse, text)
}

/// Names of hosts in one message.
const NAMED_MAX: usize = 5;

fn in_use(refused: &Shown) -> Fault {
    let (named, more) = refused.hosts.split_at(refused.hosts.len().min(NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let text = format!(
        "cannot {}: in use by {}{more}; --force does it anyway",
        refused.text,
        named.join(", ")
    );
    Fault { hosts: refused.hosts.clone(), ..Fault::new(Code::InUse, text) }
}

#[cfg(test)]
mod tests;
