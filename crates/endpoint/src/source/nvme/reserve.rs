//! Changes of reservations as commands of NVMe.

use weft_block::{ReservationKind, ReserveAction};
use weft_proto::nvme::host::command::ReservationChange;
use weft_proto::reservation::Kind;

/// The command for an action. `replaces`: the controller has refused to register the host because
/// it is registered already, with another key.
pub(super) fn change(action: ReserveAction, replaces: bool) -> ReservationChange {
    match action {
        ReserveAction::Register { key } if replaces => ReservationChange::Replace { key },
        ReserveAction::Register { key } => ReservationChange::Register { key },
        ReserveAction::Unregister { key } => ReservationChange::Unregister { key },
        ReserveAction::Acquire { key, kind } => {
            ReservationChange::Acquire { key, kind: kind_of(kind) }
        }
        ReserveAction::Preempt { key, of, kind } => {
            ReservationChange::Preempt { key, of, kind: kind_of(kind) }
        }
        ReserveAction::Release { key, kind } => {
            ReservationChange::Release { key, kind: kind_of(kind) }
        }
    }
}

fn kind_of(kind: ReservationKind) -> Kind {
    match kind {
        ReservationKind::WriteExclusive => Kind::WriteExclusive,
        ReservationKind::ExclusiveAccess => Kind::ExclusiveAccess,
        ReservationKind::WriteExclusiveRegistrantsOnly => Kind::WriteExclusiveRegistrantsOnly,
        ReservationKind::ExclusiveAccessRegistrantsOnly => Kind::ExclusiveAccessRegistrantsOnly,
        ReservationKind::WriteExclusiveAllRegistrants => Kind::WriteExclusiveAllRegistrants,
        ReservationKind::ExclusiveAccessAllRegistrants => Kind::ExclusiveAccessAllRegistrants,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_keep_their_codes() {
        for kind in ReservationKind::ALL {
            assert_eq!(kind_of(kind).nvme(), kind.nvme());
        }
    }
}
