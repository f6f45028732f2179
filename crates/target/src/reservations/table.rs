//! The reservations of all namespaces, by UUID.

use super::ReservationFollower;
use super::common::Common;
use super::file::{Opened, StateFile};
use super::group::InGroup;
use super::namespace::{Keeping, NamespaceReservations};
use super::pending::{Done, PendingChange};
use super::store::{GroupStore, OnThreads, SharedStore};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_block::Error;
use weft_connection::identity;
use weft_proto::reservation::{ReservationState, Reservations};

/// The reservations of the namespaces of this process, by UUID: a namespace that is removed and
/// comes back finds its own, and another one in its place finds none of them. A clone is the same
/// table.
#[derive(Clone)]
pub struct ReservationTable(Arc<Table>);

struct Table {
    known: Lock<HashMap<Uuid, Arc<NamespaceReservations>>>,
    place: StateStore,
    common: Arc<Common>,
}

/// Where states are kept.
enum StateStore {
    /// In this process alone.
    Nowhere,
    /// In files.
    Directory(PathBuf),
    /// In a store that other gateways use, too.
    Shared(Arc<dyn GroupStore>),
}

impl Default for ReservationTable {
    /// Reservations that end with the process.
    fn default() -> Self {
        Self::volatile()
    }
}

impl ReservationTable {
    fn at(place: StateStore) -> Self {
        Self(Arc::new(Table { known: Lock::default(), place, common: Arc::new(Common::new()) }))
    }

    /// Reservations that end with the process.
    pub fn volatile() -> Self {
        Self::at(StateStore::Nowhere)
    }

    /// Reservations that can outlast a restart, in files in this directory, which is made when it
    /// is needed.
    pub fn stored_in(directory: PathBuf) -> Self {
        Self::at(StateStore::Directory(directory))
    }

    /// The same in the state directory of this user; where there is none, reservations end with the
    /// process.
    pub fn of_this_user() -> Self {
        identity::state_dir()
            .map_or_else(Self::volatile, |dir| Self::stored_in(dir.join("reservations")))
    }

    /// Reservations that this gateway shares with the others of a group.
    ///
    /// The order of a start: follow the changes of others ([`Self::changed_elsewhere`]), as one of
    /// those for whom [`SharedStore::tell`] waits; then add the namespaces, which reads their
    /// states and waits for that; then serve.
    pub fn shared(store: Arc<dyn SharedStore>) -> Self {
        Self::over(Arc::new(OnThreads::new(store)))
    }

    /// The same with a store that waits for nothing. The states are read by [`Self::load`] before
    /// namespaces are added.
    pub fn over(store: Arc<dyn GroupStore>) -> Self {
        Self::at(StateStore::Shared(store))
    }

    /// Returns whether the table is that of a group.
    pub fn is_shared(&self) -> bool {
        matches!(self.0.place, StateStore::Shared(_))
    }

    /// The reservations of a namespace. Those of a group are read from its store; that may wait for
    /// it.
    ///
    /// # Errors
    /// They were stored, and cannot be read.
    pub fn of(&self, uuid: Uuid) -> Result<Arc<NamespaceReservations>, Error> {
        let found = self.find(uuid, true)?;
        found.load()?;
        Ok(found)
    }

    /// The same of a namespace whose UUID was drawn for this process, so that no other one can ever
    /// find them: they end with it, and nothing is stored.
    ///
    /// # Errors
    /// Those of [`Self::of`].
    pub fn of_process(&self, uuid: Uuid) -> Result<Arc<NamespaceReservations>, Error> {
        let found = self.find(uuid, false)?;
        found.load()?;
        Ok(found)
    }

    /// Reads the reservations of a namespace, which [`Self::of`] gives at once after that. Does not
    /// wait; `loaded` gets the result.
    pub fn load(&self, uuid: Uuid, loaded: impl FnOnce(Result<(), Error>) + Send + 'static) {
        match self.find(uuid, true) {
            Ok(found) => found.begin_load(Box::new(loaded)),
            Err(e) => loaded(Err(e)),
        }
    }

    fn find(&self, uuid: Uuid, lasts: bool) -> Result<Arc<NamespaceReservations>, Error> {
        let mut known = self.0.known.lock();
        if let Some(found) = known.get(&uuid) {
            return Ok(Arc::clone(found));
        }
        // What nobody serves and nobody is registered with, or is kept elsewhere, need not be
        // remembered.
        let is_idle = |of: &Arc<NamespaceReservations>| {
            of.shared().look(|state| state.registrations().is_empty())
        };
        known.retain(|_, of| Arc::strong_count(of) > 1 || !is_idle(of) && !self.is_shared());
        let fresh = self.0.make(uuid, lasts)?;
        known.insert(uuid, Arc::clone(&fresh));
        Ok(fresh)
    }

    /// Another gateway of the group has changed the reservations of a namespace, and waits
    /// ([`SharedStore::tell`]). `done` is called when the change is in force here and no device
    /// holds commands that it has aborted, or at once if the namespace is not served here. Does not
    /// wait.
    pub fn changed_elsewhere(&self, namespace: Uuid, done: Done) {
        let known = self.0.known.lock().get(&namespace).cloned();
        match known {
            Some(of) => of.follow(done),
            None => done(),
        }
    }

    /// This gateway may have missed changes of others: reads all states again. `done` is called
    /// when they are in force, as with [`Self::changed_elsewhere`].
    pub fn missed(&self, done: Done) {
        let all: Vec<_> = self.0.known.lock().values().cloned().collect();
        let last = Arc::new(PendingChange::default());
        last.attach(done);
        for of in all {
            let last = Arc::clone(&last);
            of.follow(Box::new(move || drop(last)));
        }
    }

    /// Adds a follower, for as long as it is there.
    pub(crate) fn join<F: ReservationFollower + 'static>(&self, follower: &Arc<F>) {
        self.0.common.join(follower);
    }
}

impl Table {
    fn make(&self, uuid: Uuid, lasts: bool) -> Result<Arc<NamespaceReservations>, Error> {
        let opened = match &self.place {
            StateStore::Shared(store) => return Ok(self.share(uuid, store)),
            StateStore::Directory(directory) if lasts => StateFile::open(directory, uuid)?,
            StateStore::Directory(_) | StateStore::Nowhere => Opened::Nothing,
        };
        let (state, file) = match opened {
            Opened::State(state, file) => (state, Some(file)),
            Opened::Nothing => (ReservationState::default(), None),
        };
        let shared = Arc::new(Reservations::new(state, file.is_some()));
        Ok(NamespaceReservations::new(
            uuid,
            shared,
            Keeping::Here(Lock::new(file)),
            Arc::clone(&self.common),
        ))
    }

    /// Read when it is known to all who are told of changes.
    fn share(&self, uuid: Uuid, store: &Arc<dyn GroupStore>) -> Arc<NamespaceReservations> {
        let shared = Arc::new(Reservations::of_group());
        let group =
            InGroup::new(uuid, Arc::clone(&shared), Arc::clone(store), Arc::clone(&self.common));
        NamespaceReservations::new(
            uuid,
            shared,
            Keeping::Group(Arc::new(group)),
            Arc::clone(&self.common),
        )
    }
}
