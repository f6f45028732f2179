//! One command that changes reservations, and what follows from it.

use super::kind::Kind;
use super::state::Registrant;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRequest {
    /// Sender of the command.
    pub by: Registrant,
    /// Its action.
    pub action: Action,
    /// Registrations and reservation are to outlast a loss of power from now on, or not; `None`: as
    /// before (CPTPL, APTPL).
    pub persist: Option<bool>,
}

/// Action of a command. Reservation keys are 64 bits, zero meaning none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Registers, takes another key, or with key zero unregisters (Reservation Register; REGISTER,
    /// REGISTER AND IGNORE EXISTING KEY).
    Register {
        /// Condition for the change.
        check: KeyCheck,
        /// The new key; zero: none.
        key: u64,
        /// At all target ports.
        all_ports: bool,
    },
    /// Becomes the holder (Reservation Acquire; RESERVE).
    Acquire {
        /// The sender's key.
        key: u64,
        /// Type.
        kind: Kind,
    },
    /// Ends the reservation (Reservation Release; RELEASE).
    Release {
        /// The sender's key.
        key: u64,
        /// Type of what is held.
        kind: Kind,
    },
    /// Ends the reservation and all registrations (both CLEAR).
    Clear {
        /// The sender's key.
        key: u64,
    },
    /// Takes registrations away from others, and the reservation with them (both PREEMPT, PREEMPT
    /// AND ABORT).
    Preempt {
        /// The sender's key.
        key: u64,
        /// The key of those who lose their registrations.
        target: u64,
        /// Type of the reservation that is taken over.
        kind: Kind,
        /// Their commands are aborted.
        abort: bool,
    },
    /// Gives the reservation to somebody else (REGISTER AND MOVE, SPC-4 §5.12.8).
    Move {
        /// The sender's key.
        key: u64,
        /// The new holder.
        to: Registrant,
        /// That one's key, not zero.
        to_key: u64,
        /// The sender unregisters.
        unregister: bool,
    },
    /// Changes nothing but [`ReservationRequest::persist`] (the feature Reservation Persistence).
    Persist,
}

/// Condition for changing a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCheck {
    /// The sender is registered with this key, or is not registered and this is zero (REGISTER).
    Current(u64),
    /// Nothing (REGISTER AND IGNORE EXISTING KEY).
    Ignore,
    /// The sender is not registered, or is with the very key that it registers (RREGA 000b).
    New,
    /// The sender is registered, with this key if there is one here (RREGA 001b and 010b; without a
    /// key: IEKEY).
    Registered(Option<u64>),
}

/// Why an operation is not executed. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservationRefusal {
    /// The sender is not registered so, or another one holds the reservation.
    #[error("reservation conflict")]
    Conflict,
    /// Another type is held than the one to release.
    #[error("another type of reservation is held")]
    WrongType,
    /// Key zero names nobody here.
    #[error("key zero names nobody")]
    ZeroKey,
    /// There are as many registrations as there can be.
    #[error("there are as many registrations as there can be")]
    Full,
    /// Reservations of this namespace do not outlast a loss of power.
    #[error("reservations of this namespace do not outlast a loss of power")]
    CannotPersist,
    /// There is no reservation to move.
    #[error("there is no reservation to move")]
    NothingToMove,
    /// It would be moved to its holder.
    #[error("a reservation cannot be moved to its holder")]
    MoveToHolder,
    /// The new state could not be stored, so there is none.
    #[error("the reservations could not be stored")]
    NotStored,
}

/// Notice to a registrant (Base 2.1 §5.2.12.3, "Reservation Notification log page"; unit attention
/// conditions of SPC-4 §5.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Its registration was taken away by another's preempting.
    RegistrationPreempted,
    /// A reservation that it shared has ended, or has another type now.
    ReservationReleased,
    /// Another has cleared everything.
    ReservationPreempted,
}

/// Whom an operation affected other than its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Notices and their receivers.
    pub notices: Vec<(Registrant, Notice)>,
    /// Registrants whose commands are aborted.
    pub aborted: Vec<Registrant>,
}
