//! Reservations of one namespace, or logical unit: who is registered, who holds what, and what each
//! access is allowed.
//!
//! NVMe reservations (Base 2.1 §8.1.22) and SCSI persistent reservations (SPC-4 §5.12) are one
//! mechanism with two sets of commands. There is one [`ReservationState`] for both, so that an NVMe
//! host and a SCSI initiator exclude each other:
//!
//! * [`Registrant`] names who registers: an NVMe host by its identifier, whatever controller it
//!   uses; for SCSI an I_T nexus.
//! * [`Kind`] is the table of the six types: what each allows to whom.
//! * [`ReservationRequest`] is one command; [`ReservationState::apply`] executes it, and returns in
//!   [`Changes`] the notices to registrants, and the registrants whose commands must be aborted.
//! * [`Reservations`] is what the queues and nexuses of a namespace share. A command that only
//!   reads or writes loads one number.
//!
//! # Differences of the standards
//!
//! | | NVMe | SCSI | here |
//! |---|---|---|---|
//! | registering again | with the same key it succeeds, with another it conflicts (RREGA 000b) |
//! the current key is given (REGISTER), or is not looked at | [`KeyCheck`] |
//! | unregistering without a registration | conflicts | succeeds if no current key was given, and
//! is not counted | [`KeyCheck`] |
//! | releasing another type than what is held | Invalid Field in Command | INVALID RELEASE OF
//! PERSISTENT RESERVATION | [`ReservationRefusal::WrongType`] |
//! | preempting key zero where not all registrants hold | Invalid Field in Command | INVALID FIELD
//! IN PARAMETER LIST | [`ReservationRefusal::ZeroKey`] |
//! | who stays registered on all ports | hosts, by their nature | ALL_TG_PT |
//! [`Registration::all_ports`] |
//! | moving a reservation | – | REGISTER AND MOVE | [`Action::Move`] |
//!
//! All else is the same in both: a holder that unregisters releases, unless all registrants hold
//! and one remains; the generation counts registering, clearing and preempting, not acquiring and
//! releasing; types that registrants share notify them of the release.

mod apply;
mod kind;
mod namespace;
mod operation;
mod state;
#[cfg(test)]
mod tests;

pub use kind::{Effect, Kind, PermittedAccess};
pub use namespace::{NamespaceFollower, Reservations};
pub use operation::{Action, Changes, KeyCheck, Notice, ReservationRefusal, ReservationRequest};
pub use state::{Registrant, Registration, Reservation, ReservationState, RestoreError};
