//! Persistent reservations (SPC-4 §5.12): the registrations on a logical unit, the reservation holder, and the conflicts.
//!
//! They exist as long as the logical unit, and survive nexuses, resets and sessions. They are kept only in memory: REPORT
//! CAPABILITIES reports PTPL_C zero, and a registration that is to survive a power loss (APTPL) is refused.

mod command;
mod out;
mod report;

use super::attention::Attention;
use super::name::NexusName;
use crate::scsi::opcode::ReservationType;

pub(super) use command::{Effect, effect, is_exempt};
pub(super) use out::{Out, Refusal};
pub(super) use report::{report, response_bytes};

/// One registration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Registration {
    nexus: NexusName,
    key: u64,
    /// It was made with ALL_TG_PT.
    all_ports: bool,
}

/// The reservation: its type and, but for the types that all registrants hold, its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reservation {
    kind: ReservationType,
    holder: NexusName,
}

/// What a nexus may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Read.
    pub read: bool,
    /// Write.
    pub write: bool,
}

impl Access {
    /// Everything.
    pub const FULL: Self = Self { read: true, write: true };
    /// Nothing.
    pub const NONE: Self = Self { read: false, write: false };
}

/// Whom a command affected other than its sender.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Who has to be told what.
    pub attentions: Vec<(NexusName, Attention)>,
    /// Whose commands are aborted.
    pub aborted: Vec<NexusName>,
}

/// Registrations and the reservation of one logical unit.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    generation: u32,
    registrations: Vec<Registration>,
    reservation: Option<Reservation>,
}

impl Reservations {
    /// Whether there are registrations.
    pub fn is_empty(&self) -> bool {
        self.registrations.is_empty()
    }

    /// What this nexus may do.
    pub fn access(&self, nexus: &NexusName) -> Access {
        let Some(reservation) = &self.reservation else { return Access::FULL };
        let shares = is_shared(reservation.kind) && self.key(nexus).is_some();
        match reservation.kind {
            _ if shares || reservation.holder == *nexus => Access::FULL,
            ReservationType::WRITE_EXCLUSIVE
            | ReservationType::WRITE_EXCLUSIVE_REGISTRANTS_ONLY
            | ReservationType::WRITE_EXCLUSIVE_ALL_REGISTRANTS => Access { read: true, write: false },
            _ => Access::NONE,
        }
    }

    /// The key that a nexus is registered with.
    fn key(&self, nexus: &NexusName) -> Option<u64> {
        self.registrations.iter().find(|registration| registration.nexus == *nexus).map(|registration| registration.key)
    }

    /// Whether a nexus holds the reservation.
    fn is_holder(&self, nexus: &NexusName) -> bool {
        let holds = |reservation: &Reservation| {
            reservation.holder == *nexus || is_all_registrants(reservation.kind) && self.key(nexus).is_some()
        };
        self.reservation.as_ref().is_some_and(holds)
    }
}

/// Whether all who are registered have access: the types "registrants only" and "all registrants".
fn is_shared(kind: ReservationType) -> bool {
    kind.0 >= ReservationType::WRITE_EXCLUSIVE_REGISTRANTS_ONLY.0
}

/// Whether all who are registered are holders.
fn is_all_registrants(kind: ReservationType) -> bool {
    kind.0 >= ReservationType::WRITE_EXCLUSIVE_ALL_REGISTRANTS.0
}
