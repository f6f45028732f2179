//! Which commands of a host are kept out by the reservations of others, for one I/O queue.
//!
//! A command that nobody keeps out loads one number. Where there is a reservation, what the host
//! may do is asked for once after each change.

use std::cell::Cell;

use super::super::fault::{Fault, at};
use super::super::namespace::Namespace;
use crate::nvme::status::Status;
use crate::nvme::types::Id128;
use crate::reservation::{Effect, PermittedAccess, Registrant, Reservations};

/// Number of cached answers, each for the namespaces whose indexes end on the same bits.
const PLACES: usize = 16;

#[derive(Clone, Copy, Debug)]
struct CheckedNamespace {
    index: usize,
    epoch: u64,
    access: PermittedAccess,
}

/// The host of a queue, and what it may do with namespaces.
#[derive(Debug)]
pub(super) struct ConflictCheck {
    host: Registrant,
    seen: [Cell<Option<CheckedNamespace>>; PLACES],
}

impl ConflictCheck {
    pub fn new(host: Id128) -> Self {
        Self { host: Registrant::Host(host), seen: [const { Cell::new(None) }; PLACES] }
    }

    pub fn host(&self) -> &Registrant {
        &self.host
    }

    /// Refuses what a reservation of others forbids.
    #[inline]
    pub fn check(
        &self,
        (index, namespace): (usize, &Namespace),
        effect: Effect,
    ) -> Result<(), Fault> {
        if self.allows(index, namespace, effect) {
            Ok(())
        } else {
            Err(Fault::at(Status::RESERVATION_CONFLICT, at::NSID))
        }
    }

    /// Returns whether the host may do this with the namespace at an index of the table.
    #[inline]
    pub fn allows(&self, index: usize, namespace: &Namespace, effect: Effect) -> bool {
        let Some(reservations) = &namespace.reservations else { return true };
        let epoch = reservations.epoch();
        epoch == 0 || self.access(index, reservations, epoch).allows(effect)
    }

    fn access(&self, index: usize, reservations: &Reservations, epoch: u64) -> PermittedAccess {
        let place = &self.seen[index % PLACES];
        let is_known = |seen: &CheckedNamespace| seen.index == index && seen.epoch == epoch;
        if let Some(seen) = place.get().filter(is_known) {
            return seen.access;
        }
        let access = reservations.access(&self.host);
        place.set(Some(CheckedNamespace { index, epoch, access }));
        access
    }

    /// The namespaces are others: an epoch of one says nothing about another.
    pub fn forget(&self) {
        self.seen.iter().for_each(|place| place.set(None));
    }
}
