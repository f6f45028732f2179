//! Host identifiers (HOSTID) of NVMe hosts, and whose they are. A reservation is that of an
//! identifier, and anybody may put any identifier into a Connect; what is proved is HOSTNQN. An
//! identifier is that of the host to which a configuration gives it, or else that of the name which
//! had proved itself when it was registered: the registration tells, wherever it is stored
//! (`docs/decisions/0038-a-proven-name-belongs-to-the-identifier.md`). Here is what a configuration
//! gives, and who proved itself first with an identifier that had been registered without a proof.

use super::{Inventory, LiveInventory};
use std::sync::mpsc;
use weft_block::{Error, ErrorKind};
use weft_connection::limits::HOST_IDENTIFIERS_MAX;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::{Registrant, ReservationState};

/// An identifier that a host must not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdentifierRefusal {
    /// It is that of this host.
    Anothers(Nqn),
    /// The host has this one by the configuration.
    NotTheGiven(Id128),
}

/// Names to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// That of this identifier.
    Identifier(Id128),
    /// This one, with all its identifiers.
    Name(Nqn),
}

/// The states of all namespaces.
fn any<T>(inventory: &Inventory, look: impl Fn(&ReservationState) -> Option<T>) -> Option<T> {
    let mut kept = inventory.namespaces().filter_map(|namespace| namespace.reservations.as_ref());
    kept.find_map(|kept| kept.shared().look(&look))
}

impl LiveInventory {
    /// Checks that a host that proves this name may use this identifier.
    pub(crate) fn check_identifier(&self, id: Id128, name: &Nqn) -> Result<(), IdentifierRefusal> {
        if let Some(given) = self.now().host_identifiers.get(name).filter(|given| **given != id) {
            return Err(IdentifierRefusal::NotTheGiven(*given));
        }
        match self.owner(id).filter(|owner| owner != name) {
            Some(owner) => Err(IdentifierRefusal::Anothers(owner)),
            None => Ok(()),
        }
    }

    /// The owner of an identifier, if it has one.
    pub(crate) fn owner(&self, id: Id128) -> Option<Nqn> {
        let (inventory, registrant) = (self.now(), Registrant::Host(id));
        let mut given = inventory.host_identifiers.iter();
        if let Some((owner, _)) = given.find(|(_, given)| **given == id) {
            return Some(owner.clone());
        }
        let first = self.proved_first.lock().get(&id).cloned();
        any(&inventory, |state| state.proven(&registrant).cloned())
            .or_else(|| first.filter(|_| is_registered(&inventory, id)))
    }

    /// A host has proved its name. If its identifier was registered without a proof, it is this
    /// host's from now on.
    pub(crate) fn proved(&self, id: Id128, name: &Nqn) {
        let inventory = self.now();
        if self.owner(id).is_some() || !is_registered(&inventory, id) {
            return;
        }
        let first = &mut *self.proved_first.lock();
        if first.len() >= HOST_IDENTIFIERS_MAX {
            first.retain(|id, _| is_registered(&inventory, *id));
        }
        if first.len() < HOST_IDENTIFIERS_MAX {
            first.insert(id, name.clone());
        }
    }

    /// Forgets who has proved itself with an identifier; returns what was forgotten. Registrations
    /// stay, of the first that proves its name with their identifier from now on. Waits for what is
    /// stored.
    ///
    /// # Errors
    /// A configuration gives the identifier, or what is stored cannot be changed.
    pub fn forget_host(&self, whom: &Forgotten) -> Result<Vec<(Id128, Nqn)>, Error> {
        let is_meant = |id: Id128, name: &Nqn| match whom {
            Forgotten::Identifier(of) => id == *of,
            Forgotten::Name(of) => name == of,
        };
        let inventory = self.now();
        let mut given = inventory.host_identifiers.iter();
        if let Some((name, id)) = given.find(|(name, id)| is_meant(**id, name)) {
            let text = format!(
                "the configuration gives the identifier {id} to host {name}: change its table [[host_identifier]]"
            );
            return Err(Error::new(ErrorKind::Refused, text));
        }
        let mut forgotten: Vec<(Id128, Nqn)> =
            self.proved_first.lock().extract_if(|id, name| is_meant(*id, name)).collect();
        for kept in inventory.namespaces().filter_map(|namespace| namespace.reservations.as_ref()) {
            let of = |state: &ReservationState| {
                let hosts =
                    state.registrations().iter().filter_map(|known| match &known.registrant {
                        Registrant::Host(id) => Some((*id, known.proven.clone()?)),
                        Registrant::Nexus(_) => None,
                    });
                hosts.filter(|(id, name)| is_meant(*id, name)).collect::<Vec<_>>()
            };
            for (id, name) in kept.shared().look(of) {
                let (answer, answered) = mpsc::channel();
                kept.forget(id, Box::new(move |outcome| _ = answer.send(outcome)));
                if let Ok(Err(refusal)) = answered.recv() {
                    let text = format!(
                        "the host {name} could not be forgotten with namespace {}: {refusal}",
                        kept.uuid()
                    );
                    return Err(Error::new(ErrorKind::Io, text));
                }
                forgotten.push((id, name));
            }
        }
        forgotten.sort();
        forgotten.dedup();
        Ok(forgotten)
    }
}

fn is_registered(inventory: &Inventory, id: Id128) -> bool {
    any(inventory, |state| state.key(&Registrant::Host(id))).is_some()
}
