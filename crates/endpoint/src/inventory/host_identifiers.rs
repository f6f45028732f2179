//! What is known of host identifiers (HOSTID) beside registrations: what a configuration gives, and
//! who proved itself first with an identifier that had been registered without a proof.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_proto::nvme::types::{Id128, Nqn};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HostIdentifiers(Mutex<KnownIdentifiers>);

#[derive(Debug, Default)]
pub(super) struct KnownIdentifiers {
    /// By configuration.
    pub given: BTreeMap<Nqn, Id128>,
    /// Registered without a proof.
    pub first: HashMap<Id128, Nqn>,
}

impl HostIdentifiers {
    pub fn lock(&self) -> MutexGuard<'_, KnownIdentifiers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
