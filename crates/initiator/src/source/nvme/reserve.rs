//! Changes of reservations as commands of NVMe.

use weft_block::ReserveAction;
use weft_connection::reservation_kind::kind_of;
use weft_proto::nvme::host::command::ReservationChange;

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
