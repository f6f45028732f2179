//! The reservations of all namespaces, by UUID.

use super::Follower;
use super::file::{Opened, StateFile};
use super::namespace::NamespaceReservations;
use super::worker::Worker;
use crate::identity;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use uuid::Uuid;
use weft_block::Error;
use weft_proto::reservation::{Reservations, State};

/// What the reservations of all namespaces have in common.
#[derive(Default)]
pub(super) struct Common {
    followers: Mutex<Vec<Weak<dyn Follower>>>,
    pub(super) worker: Worker,
}

impl Common {
    pub(super) fn followers(&self) -> Vec<Arc<dyn Follower>> {
        let mut followers = lock(&self.followers);
        followers.retain(|follower| follower.strong_count() > 0);
        followers.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The reservations of the namespaces of this process, by UUID: a namespace that is removed and comes back finds its own, and another one
/// in its place finds none of them.
#[derive(Default)]
pub struct ReservationTable {
    known: Mutex<HashMap<Uuid, Arc<NamespaceReservations>>>,
    directory: Option<PathBuf>,
    common: Arc<Common>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReservationTable {
    /// Reservations that end with the process.
    pub fn volatile() -> Self {
        Self::default()
    }

    /// Reservations that can outlast a restart, in files in this directory, which is made when it is needed.
    pub fn stored_in(directory: PathBuf) -> Self {
        Self { directory: Some(directory), ..Self::default() }
    }

    /// The same in the state directory of this user; where there is none, reservations end with the process.
    pub fn of_this_user() -> Self {
        identity::state_dir().map_or_else(Self::volatile, |dir| Self::stored_in(dir.join("reservations")))
    }

    /// The reservations of a namespace.
    ///
    /// # Errors
    /// They were stored, and the file cannot be read.
    pub fn of(&self, uuid: Uuid) -> Result<Arc<NamespaceReservations>, Error> {
        let mut known = lock(&self.known);
        if let Some(found) = known.get(&uuid) {
            return Ok(Arc::clone(found));
        }
        // What nobody serves and nobody is registered with need not be remembered.
        let is_idle = |of: &Arc<NamespaceReservations>| of.shared().look(|state| state.registrations().is_empty());
        known.retain(|_, of| Arc::strong_count(of) > 1 || !is_idle(of));
        let opened = match &self.directory {
            Some(directory) => StateFile::open(directory, uuid)?,
            None => Opened::Nothing,
        };
        let (state, file) = match opened {
            Opened::State(state, file) => (state, Some(file)),
            Opened::Nothing => (State::default(), None),
        };
        let shared = Arc::new(Reservations::new(state, file.is_some()));
        let fresh = NamespaceReservations::new(uuid, shared, file, Arc::clone(&self.common));
        known.insert(uuid, Arc::clone(&fresh));
        Ok(fresh)
    }

    /// Adds a follower, for as long as it is there.
    pub(crate) fn join<F: Follower + 'static>(&self, follower: &Arc<F>) {
        let weak: Weak<F> = Arc::downgrade(follower);
        lock(&self.common.followers).push(weak);
    }
}
