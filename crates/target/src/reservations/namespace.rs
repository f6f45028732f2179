//! The reservations of one namespace: operations one after the other.

use super::common::Common;
use super::file::StateFile;
use super::group::{InGroup, Loaded};
use super::pending::{Answer, Done, PendingChange};
use std::sync::{Arc, mpsc};
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};
use weft_connection::refusals::Refusals;
use weft_group::reservations::ReservationStep;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::{
    Changes, ReservationRefusal, ReservationRequest, ReservationState, Reservations,
};

/// Changes that could not be stored, for the log.
static NOT_STORED: Refusals = Refusals::of_errors();

/// The reservations of one namespace.
pub struct NamespaceReservations {
    uuid: Uuid,
    shared: Arc<Reservations>,
    keeping: Keeping,
    common: Arc<Common>,
}

/// Where the state is.
pub(super) enum Keeping {
    /// In this process. Held while an operation is executed. `None`: nothing is stored.
    Here(Lock<Option<StateFile>>),
    /// In a store of several gateways.
    Group(Arc<InGroup>),
}

impl NamespaceReservations {
    pub(super) fn new(
        uuid: Uuid,
        shared: Arc<Reservations>,
        keeping: Keeping,
        common: Arc<Common>,
    ) -> Arc<Self> {
        Arc::new(Self { uuid, shared, keeping, common })
    }

    /// The namespace.
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The state that commands are checked against.
    pub fn shared(&self) -> &Arc<Reservations> {
        &self.shared
    }

    /// Executes an operation and answers, sooner or later. What may have to wait is done on another
    /// thread.
    pub(crate) fn execute(self: &Arc<Self>, operation: ReservationRequest, answer: Answer) {
        self.execute_as(operation, None, answer);
    }

    /// The same for a host that has proved this name, with which its registration is stored.
    pub(crate) fn execute_as(
        self: &Arc<Self>,
        operation: ReservationRequest,
        proven: Option<Nqn>,
        answer: Answer,
    ) {
        self.take(ReservationStep::Operation { operation, proven }, answer);
    }

    /// Forgets which name the host has proved that is registered with this identifier; answers like
    /// [`Self::execute`].
    pub(crate) fn forget(self: &Arc<Self>, id: Id128, answer: Answer) {
        self.take(ReservationStep::Forget(id), answer);
    }

    fn take(self: &Arc<Self>, step: ReservationStep, answer: Answer) {
        match &self.keeping {
            Keeping::Group(group) => group.execute(Some(step), answer),
            Keeping::Here(file) if !self.shared.can_persist() => {
                self.execute_here(file, &step, answer)
            }
            Keeping::Here(_) => {
                let this = Arc::clone(self);
                self.common.storing.run(Box::new(move || {
                    if let Keeping::Here(file) = &this.keeping {
                        this.execute_here(file, &step, answer);
                    }
                }));
            }
        }
    }

    /// Has what a group has stored put in force at all gateways, after which it is told to hosts
    /// ([`Reservations::is_ahead`]).
    pub(crate) fn confirm(&self, answer: Answer) {
        match &self.keeping {
            Keeping::Group(group) => group.execute(None, answer),
            Keeping::Here(_) => answer(Ok(())),
        }
    }

    /// Reads the state, if that is to be done first, and waits for that.
    pub(super) fn load(&self) -> Result<(), Error> {
        match &self.keeping {
            Keeping::Group(group) if !group.is_loaded() => {
                let (sender, receiver) = mpsc::channel();
                group.load(Box::new(move |outcome| _ = sender.send(outcome)));
                let gone = || Error::new(ErrorKind::Io, "the process ends");
                receiver.recv().unwrap_or_else(|_| Err(gone()))
            }
            Keeping::Group(_) | Keeping::Here(_) => Ok(()),
        }
    }

    /// The same without waiting.
    pub(super) fn begin_load(&self, loaded: Loaded) {
        match &self.keeping {
            Keeping::Group(group) => group.load(loaded),
            Keeping::Here(_) => loaded(Ok(())),
        }
    }

    /// Somebody else has changed the state: calls `done` when that is in force here.
    pub(super) fn follow(&self, done: Done) {
        match &self.keeping {
            Keeping::Group(group) => group.follow(done),
            Keeping::Here(_) => done(),
        }
    }

    fn execute_here(&self, file: &Lock<Option<StateFile>>, step: &ReservationStep, answer: Answer) {
        let mut file = file.lock();
        let (next, changes) = match prepare(step, &self.shared) {
            Ok(prepared) => prepared,
            Err(refusal) => return answer(Err(refusal)),
        };
        if let Some(file) = &mut *file
            && let Err(e) = file.store(&next)
        {
            let uuid = self.uuid;
            NOT_STORED.log_now(|| {
                format!(
                    "namespace {uuid}: cannot store its reservations, so they stay as they are: {e}"
                )
            });
            return answer(Err(ReservationRefusal::NotStored));
        }
        self.shared.install(next, &changes);
        let pending = Arc::new(PendingChange::default());
        pending.attach(Box::new(move || answer(Ok(()))));
        self.common.tell(self.uuid, &changes, &pending);
    }
}

/// The state that a step leads to, where one process keeps it.
///
/// # Errors
/// Why it is not executed.
fn prepare(
    step: &ReservationStep,
    now: &Reservations,
) -> Result<(ReservationState, Changes), ReservationRefusal> {
    if let ReservationStep::Operation {
        operation: ReservationRequest { persist: Some(true), .. },
        ..
    } = step
        && !now.can_persist()
    {
        return Err(ReservationRefusal::CannotPersist);
    }
    let mut next = now.look(ReservationState::clone);
    let changes = step.apply(&mut next)?;
    Ok((next, changes))
}

impl std::fmt::Debug for NamespaceReservations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reservations of {}", self.uuid)
    }
}
