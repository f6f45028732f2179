//! The reservations of one namespace: operations one after the other.

use super::file::StateFile;
use super::pending::{Answer, Pending};
use super::table::Common;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;
use weft_proto::reservation::{Operation, Refusal, Reservations};

/// The reservations of one namespace.
pub struct NamespaceReservations {
    uuid: Uuid,
    shared: Arc<Reservations>,
    /// Held while an operation is executed. `None`: nothing is stored.
    file: Mutex<Option<StateFile>>,
    common: Arc<Common>,
}

impl NamespaceReservations {
    pub(super) fn new(uuid: Uuid, shared: Arc<Reservations>, file: Option<StateFile>, common: Arc<Common>) -> Arc<Self> {
        Arc::new(Self { uuid, shared, file: Mutex::new(file), common })
    }

    /// The state that commands are checked against.
    pub fn shared(&self) -> &Arc<Reservations> {
        &self.shared
    }

    /// Executes an operation and answers, sooner or later. What may have to be stored is stored on another thread.
    pub(crate) fn execute(self: &Arc<Self>, operation: Operation, answer: Answer) {
        if !self.shared.can_persist() {
            return self.execute_here(&operation, answer);
        }
        let this = Arc::clone(self);
        self.common.worker.run(Box::new(move || this.execute_here(&operation, answer)));
    }

    fn execute_here(&self, operation: &Operation, answer: Answer) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, changes) = match self.shared.prepare(operation) {
            Ok(prepared) => prepared,
            Err(refusal) => return answer(Err(refusal)),
        };
        if let Some(file) = &mut *file
            && let Err(e) = file.store(&next)
        {
            tracing::error!("namespace {}: cannot store its reservations, so they stay as they are: {e}", self.uuid);
            return answer(Err(Refusal::NotStored));
        }
        self.shared.install(next, &changes);
        let pending = Arc::new(Pending::new(answer));
        self.common.followers().iter().for_each(|follower| follower.reservations_changed(self.uuid, &changes, &pending));
    }
}

impl std::fmt::Debug for NamespaceReservations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reservations of {}", self.uuid)
    }
}
