//! Reservations for hosts that speak of them as [`weft_block`] does, and what reservations allow a
//! host.

use crate::inventory::Namespace;
use weft_block::{ReserveAction, Status, StatusKind};
use weft_connection::reservation_kind::kind_of;
use weft_proto::reservation::{
    Action, Effect, KeyCheck, PermittedAccess, Registrant, ReservationRefusal,
};

/// What reservations allow a host, as long as they are the same.
pub(crate) struct Allowed {
    epoch: u64,
    access: PermittedAccess,
}

impl Default for Allowed {
    fn default() -> Self {
        Self { epoch: 0, access: PermittedAccess::FULL }
    }
}

impl Allowed {
    /// Whether a host may do this to the blocks of a namespace now.
    #[inline]
    pub(crate) fn allows(
        &mut self,
        namespace: &Namespace,
        effect: Effect,
        host: impl FnOnce() -> Registrant,
    ) -> bool {
        let Some(of) = namespace.reservations.as_ref().map(|of| of.shared()) else { return true };
        let epoch = of.epoch();
        if epoch != self.epoch {
            let access = if epoch == 0 { PermittedAccess::FULL } else { of.access(&host()) };
            *self = Self { epoch, access };
        }
        self.access.allows(effect)
    }
}

/// An action as reservations have it.
pub(crate) fn action_of(action: ReserveAction) -> Action {
    let register = |check, key| Action::Register { check, key, all_ports: false };
    match action {
        ReserveAction::Register { key } => register(KeyCheck::Ignore, key),
        ReserveAction::Unregister { key } => register(KeyCheck::Registered(Some(key)), 0),
        ReserveAction::Acquire { key, kind } => Action::Acquire { key, kind: kind_of(kind) },
        ReserveAction::Preempt { key, of, kind } => {
            Action::Preempt { key, target: of, kind: kind_of(kind), abort: false }
        }
        ReserveAction::Release { key, kind } => Action::Release { key, kind: kind_of(kind) },
    }
}

/// Why an action was not executed, as the status of an operation.
pub(crate) fn status_of(refusal: ReservationRefusal) -> Status {
    Status::new(match refusal {
        ReservationRefusal::Conflict | ReservationRefusal::Full => StatusKind::ReservationConflict,
        ReservationRefusal::NotStored => StatusKind::Internal,
        ReservationRefusal::WrongType
        | ReservationRefusal::ZeroKey
        | ReservationRefusal::CannotPersist
        | ReservationRefusal::NothingToMove
        | ReservationRefusal::MoveToHolder => StatusKind::Invalid,
    })
}
