//! Registrations and the reservation, as a value.

use super::kind::{Kind, PermittedAccess};
use crate::limits::REGISTRANTS_MAX;
use crate::nvme::types::{Id128, Nqn};
use crate::scsi::lun::NexusName;

/// Identity of a registrant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Registrant {
    /// An NVMe host, by its identifier: on several controllers it is one registrant (Base 2.1
    /// §8.1.22).
    Host(Id128),
    /// An I_T nexus: initiator port and target port (SPC-4 §5.12.1).
    Nexus(NexusName),
}

impl Registrant {
    /// Returns whether a registration of this registrant is that of `who`: it is the same, or the
    /// same initiator port at all target ports.
    pub fn covers(&self, who: &Self) -> bool {
        match (self, who) {
            (Self::Nexus(all), Self::Nexus(nexus)) => all.covers(nexus),
            _ => self == who,
        }
    }

    /// The same initiator port at all target ports.
    pub(super) fn at_all_ports(&self) -> Self {
        match self {
            Self::Nexus(nexus) => {
                Self::Nexus(NexusName { target_port: NexusName::ALL_PORTS, ..nexus.clone() })
            }
            Self::Host(_) => self.clone(),
        }
    }
}

/// One registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The registrant.
    pub registrant: Registrant,
    /// Its key.
    pub key: u64,
    /// It was made for all target ports (ALL_TG_PT), and any of them can change it. No NVMe host
    /// has it.
    pub all_ports: bool,
    /// The name of the NVMe host that has proved it and registered. Nobody else has this identifier
    /// then.
    pub proven: Option<Nqn>,
}

/// The reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Type.
    pub kind: Kind,
    /// Its holder. Where all registrants are holders, one of them.
    pub holder: Registrant,
}

/// Registrations and the reservation of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationState {
    pub(super) generation: u32,
    pub(super) persistent: bool,
    pub(super) registrations: Vec<Registration>,
    pub(super) reservation: Option<Reservation>,
}

/// Reason why stored data is not a valid state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// There are too many registrations.
    #[error("it has more than {REGISTRANTS_MAX} registrations")]
    TooMany,
    /// Somebody is registered twice, or with key zero.
    #[error("somebody is registered twice or without a key")]
    Registration,
    /// The reservation's holder is not registered.
    #[error("the reservation's holder is not registered")]
    Holder,
}

impl ReservationState {
    /// Restores the state that was stored before a loss of power. The generation begins again
    /// (SPC-4 §6.15.2).
    pub fn restore(
        registrations: Vec<Registration>,
        reservation: Option<Reservation>,
    ) -> Result<Self, RestoreError> {
        if registrations.len() > REGISTRANTS_MAX {
            return Err(RestoreError::TooMany);
        }
        for (at, registration) in registrations.iter().enumerate() {
            let before = &registrations[..at];
            if registration.key == 0
                || before.iter().any(|other| other.registrant == registration.registrant)
            {
                return Err(RestoreError::Registration);
            }
        }
        let state = Self { generation: 0, persistent: true, registrations, reservation };
        match &state.reservation {
            Some(reservation) if state.key(&reservation.holder).is_none() => {
                Err(RestoreError::Holder)
            }
            _ => Ok(state),
        }
    }

    /// Restores a state that was stored without a loss of power since: it counts on from this
    /// generation, and outlasts the next loss or not.
    #[must_use]
    pub fn continued(self, generation: u32, persistent: bool) -> Self {
        Self { generation, persistent, ..self }
    }

    /// Counts what registers, clears and preempts; wraps.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns whether registrations and reservation outlast a loss of power.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// The registrations, in the order in which they were made.
    pub fn registrations(&self) -> &[Registration] {
        &self.registrations
    }

    /// The reservation.
    pub fn reservation(&self) -> Option<&Reservation> {
        self.reservation.as_ref()
    }

    /// The key that somebody is registered with.
    pub fn key(&self, registrant: &Registrant) -> Option<u64> {
        self.registrations
            .iter()
            .find(|known| known.registrant.covers(registrant))
            .map(|known| known.key)
    }

    /// The name that the host has proved that is registered so.
    pub fn proven(&self, registrant: &Registrant) -> Option<&Nqn> {
        self.registrations.iter().find(|known| known.registrant == *registrant)?.proven.as_ref()
    }

    /// The registration of this registrant, if there is one, is that of a host with this name, or
    /// of nobody who has proved one.
    pub fn set_proven(&mut self, registrant: &Registrant, name: Option<&Nqn>) {
        let found = self.registrations.iter_mut().find(|known| known.registrant == *registrant);
        found.into_iter().for_each(|known| known.proven = name.cloned());
    }

    /// The name under which somebody is registered, or would be.
    pub(super) fn registered_as(&self, who: &Registrant) -> Registrant {
        let known = self.registrations.iter().find(|known| known.registrant.covers(who));
        known.map_or(who, |known| &known.registrant).clone()
    }

    /// Returns whether somebody holds the reservation.
    pub fn is_holder(&self, registrant: &Registrant) -> bool {
        let holds = |reservation: &Reservation| {
            reservation.holder.covers(registrant)
                || reservation.kind.all_hold() && self.key(registrant).is_some()
        };
        self.reservation.as_ref().is_some_and(holds)
    }

    /// Returns the rights of a registrant.
    pub fn access(&self, registrant: &Registrant) -> PermittedAccess {
        match &self.reservation {
            Some(reservation)
                if self.is_holder(registrant)
                    || reservation.kind.is_shared() && self.key(registrant).is_some() =>
            {
                PermittedAccess::FULL
            }
            _ => self.access_of_others(),
        }
    }

    /// Returns the rights of hosts that are not registered.
    pub fn access_of_others(&self) -> PermittedAccess {
        self.reservation
            .as_ref()
            .map_or(PermittedAccess::FULL, |reservation| reservation.kind.others())
    }
}
