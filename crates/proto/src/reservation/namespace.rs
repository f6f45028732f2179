//! The reservations of a namespace as those share them who serve it, on any loop.

use super::kind::{Effect, PermittedAccess};
use super::operation::{Changes, ReservationRefusal, ReservationRequest};
use super::state::{Registrant, ReservationState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use weft_base::lock::Lock;

/// Something of the namespace that has to follow the changes of its reservations.
pub trait NamespaceFollower: Send + Sync {
    /// The state has changed already: whoever looks sees the new one. Called on the thread of who
    /// changed it, one change after the other.
    fn reservations_changed(&self, changes: &Changes);
}

/// The reservations of one namespace.
///
/// Reads and writes look at the [epoch](Self::epoch) alone: it is zero where nobody is kept out of
/// anything, and another number after each change otherwise. Who sees a new one asks
/// [`Self::access`] again.
pub struct Reservations {
    /// In bits 1:0 what those may not do who are not registered, above them a count of changes;
    /// zero where there is no reservation.
    epoch: AtomicU64,
    state: Lock<ReservationState>,
    changes: AtomicU64,
    followers: Lock<Vec<Weak<dyn NamespaceFollower>>>,
    /// The owner stores what is to outlast a loss of power.
    stored: bool,
    of_group: bool,
    /// See [`Reservations::is_ahead`].
    ahead: AtomicBool,
}

const NO_WRITING: u64 = 1;
const NO_READING: u64 = 2;

impl Reservations {
    /// Begins with `state`. `stored`: the owner stores what has to outlast a loss of power;
    /// otherwise registrations that ask for it are refused.
    pub fn new(state: ReservationState, stored: bool) -> Self {
        let epoch = AtomicU64::new(epoch_of(&state, 1));
        Self {
            epoch,
            state: Lock::new(state),
            changes: AtomicU64::new(1),
            followers: Lock::default(),
            stored,
            of_group: false,
            ahead: AtomicBool::new(false),
        }
    }

    /// Nobody is registered, and nothing outlasts a loss of power.
    pub fn volatile() -> Arc<Self> {
        Arc::new(Self::new(ReservationState::default(), false))
    }

    /// Those that several gateways keep together, which store them. Nobody is registered yet.
    pub fn of_group() -> Self {
        Self { of_group: true, ..Self::new(ReservationState::default(), true) }
    }

    /// Returns whether several gateways keep them together.
    pub fn is_of_group(&self) -> bool {
        self.of_group
    }

    /// Returns whether what is registered can outlast a loss of power.
    pub fn can_persist(&self) -> bool {
        self.stored
    }

    /// Returns whether other gateways may still act by an older state. The state is reported to
    /// nobody until its owner has ruled that out: a host that learns of a fence relies on it.
    pub fn is_ahead(&self) -> bool {
        self.ahead.load(Ordering::Acquire)
    }

    /// Returns whether a report has to wait until the owner has seen to what it says: what is known
    /// here may be older than what a group has stored, or newer than what other gateways act by.
    pub fn has_to_confirm(&self) -> bool {
        self.of_group
    }

    /// Sets [`Self::is_ahead`]: before a state is put in force that others do not have, and after
    /// they have it.
    pub fn set_ahead(&self, is_ahead: bool) {
        self.ahead.store(is_ahead, Ordering::Release);
    }

    /// Zero where nobody is kept out; otherwise another number after each change.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns whether those who can register nowhere may do this.
    #[inline]
    pub fn allows_strangers(&self, effect: Effect) -> bool {
        let forbidden = match effect {
            Effect::Reads => NO_READING,
            Effect::Writes => NO_WRITING,
        };
        self.epoch() & forbidden == 0
    }

    /// Returns the present rights of a registrant.
    pub fn access(&self, registrant: &Registrant) -> PermittedAccess {
        self.state.lock().access(registrant)
    }

    /// The state, to look at.
    pub fn look<T>(&self, how: impl FnOnce(&ReservationState) -> T) -> T {
        how(&self.state.lock())
    }

    /// The state, to report it; `None`: others may still act by an older one.
    pub fn look_settled<T>(&self, how: impl FnOnce(&ReservationState) -> T) -> Option<T> {
        self.look(|state| (!self.is_ahead()).then(|| how(state)))
    }

    /// The state that an operation leads to, which [`Self::install`] puts in force. Operations of
    /// one namespace are executed one after the other, by their owner.
    ///
    /// # Errors
    /// Why the operation is not executed.
    pub fn prepare(
        &self,
        operation: &ReservationRequest,
    ) -> Result<(ReservationState, Changes), ReservationRefusal> {
        if operation.persist == Some(true) && !self.stored {
            return Err(ReservationRefusal::CannotPersist);
        }
        let mut next = self.state.lock().clone();
        let changes = next.apply(operation)?;
        Ok((next, changes))
    }

    /// Puts a state in force and tells the followers. On return every command that starts is
    /// checked against it.
    pub fn install(&self, next: ReservationState, changes: &Changes) {
        let count = self.changes.fetch_add(1, Ordering::Relaxed) + 1;
        {
            let mut state = self.state.lock();
            self.epoch.store(epoch_of(&next, count), Ordering::Release);
            *state = next;
        }
        let followers: Vec<_> = {
            let mut followers = self.followers.lock();
            followers.retain(|follower| follower.strong_count() > 0);
            followers.iter().filter_map(Weak::upgrade).collect()
        };
        followers.iter().for_each(|follower| follower.reservations_changed(changes));
    }

    /// Executes an operation where nothing has to be stored.
    ///
    /// # Errors
    /// Why it is not executed.
    pub fn execute(&self, operation: &ReservationRequest) -> Result<Changes, ReservationRefusal> {
        let (next, changes) = self.prepare(operation)?;
        self.install(next, &changes);
        Ok(changes)
    }

    /// Adds a follower, for as long as it is there.
    pub fn join(&self, follower: Weak<dyn NamespaceFollower>) {
        self.followers.lock().push(follower);
    }
}

fn epoch_of(state: &ReservationState, count: u64) -> u64 {
    if state.reservation().is_none() {
        return 0;
    }
    let others = state.access_of_others();
    let forbidden = if others.read { NO_WRITING } else { NO_WRITING | NO_READING };
    count << 2 | forbidden
}

/// One is equal to itself alone.
impl PartialEq for Reservations {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Reservations {}

impl core::fmt::Debug for Reservations {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.look(|state| write!(f, "{state:?}"))
    }
}
