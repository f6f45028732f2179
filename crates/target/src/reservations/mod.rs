//! The reservations of each namespace: one state, for hosts of all protocols, which is known by the
//! namespace's UUID.
//!
//! * [`ReservationTable`] finds the [`NamespaceReservations`] of a UUID. It belongs to the
//!   inventory, so all exports use the same.
//! * [`NamespaceReservations`] executes operations, one after the other: the new state is stored if
//!   it has to outlast a restart, put in force, and reported to all exports
//!   (`ReservationFollower`). The operation is answered when no device holds any command that it
//!   aborts (`PendingChange`).
//! * `file` is the state file. It is written on a thread of its own, never on a loop.
//! * [`GroupStore`] is what a group of gateways has in its place, or [`SharedStore`] if its calls
//!   wait: all gateways keep each other's hosts out. `group` does that with the engine of
//!   [`weft_group::reservations`].

mod common;
mod file;
mod group;
mod namespace;
mod pending;
mod pool;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod threads;

pub use file::{decode, encode};
pub use namespace::NamespaceReservations;
pub use pending::Done;
pub(crate) use pending::PendingChange;
pub use store::{Answered, Asked, Got, GroupStore, Object, SharedStore};
pub use table::ReservationTable;
pub use threads::Threads;
pub(crate) use threads::system;

use std::sync::Arc;
use uuid::Uuid;
use weft_proto::reservation::Changes;

/// An export, which has hosts to tell of changes.
pub(crate) trait ReservationFollower: Send + Sync {
    /// The reservations of a namespace have changed. Who has commands to abort keeps `pending`
    /// until no device holds any of them.
    fn reservations_changed(
        &self,
        namespace: Uuid,
        changes: &Changes,
        pending: &Arc<PendingChange>,
    );
}
