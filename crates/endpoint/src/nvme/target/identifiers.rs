//! Host identifiers (HOSTID) of hosts that have proved their names. A reservation is that of an identifier, and anybody may put any identifier into a
//! Connect; what is proved is HOSTNQN. So an identifier is that of the name that proved itself with it first, as long as this host is connected or
//! has a registration. For the cold path only.

use super::shared::{Shared, lock};
use crate::limits::HOST_IDENTIFIERS_MAX;
use std::collections::HashMap;
use std::sync::Mutex;
use weft_proto::nvme::controller::{CONNECT_BYTES, ConnectError, subsystem_name};
use weft_proto::nvme::fabrics::ConnectData;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::Registrant;

/// Who has proved itself with which identifier.
#[derive(Default)]
pub(super) struct HostIdentifiers(Mutex<HashMap<Id128, Nqn>>);

/// HOSTID and HOSTNQN of a Connect, if it has both.
fn names(data: &[u8; CONNECT_BYTES]) -> Option<(Id128, Nqn)> {
    let data = ConnectData::decode(data).ok()?;
    Some((data.host_id, data.hostnqn.nqn().ok()?)).filter(|(id, _)| !id.is_zero())
}

impl Shared {
    /// Whether the identifier of a Connect is that of another host. Asked where hosts prove their names: `is_proven` has done so by TLS.
    ///
    /// # Errors
    /// [`ConnectError::OtherIdentifier`].
    pub(super) fn check_identifier(&self, data: &[u8; CONNECT_BYTES], is_proven: bool) -> Result<(), ConnectError> {
        let Some((id, name)) = names(data) else { return Ok(()) };
        let is_demanded =
            || subsystem_name(data).is_some_and(|subsystem| self.inventory.authentications().of(&subsystem).is_some());
        if !is_proven && !is_demanded() {
            return Ok(());
        }
        let owner = lock(&self.identifiers.0).get(&id).filter(|owner| **owner != name).cloned();
        match owner.filter(|owner| self.uses_identifier(id, owner)) {
            Some(owner) => Err(ConnectError::OtherIdentifier(owner)),
            None => Ok(()),
        }
    }

    /// The host of a Connect has proved its name.
    ///
    /// # Errors
    /// [`ConnectError::OtherIdentifier`].
    pub(super) fn proved_identifier(&self, data: &[u8; CONNECT_BYTES]) -> Result<(), ConnectError> {
        self.check_identifier(data, true)?;
        let Some((id, name)) = names(data) else { return Ok(()) };
        let mut all = lock(&self.identifiers.0);
        if all.len() >= HOST_IDENTIFIERS_MAX && !all.contains_key(&id) {
            all.retain(|id, owner| self.uses_identifier(*id, owner));
        }
        if all.len() < HOST_IDENTIFIERS_MAX || all.contains_key(&id) {
            all.insert(id, name);
        }
        Ok(())
    }

    /// Whether a host with this identifier and name is connected, or has registered with the identifier.
    fn uses_identifier(&self, id: Id128, name: &Nqn) -> bool {
        let registrant = Registrant::Host(id);
        let has_key = || {
            let inventory = self.inventory.now();
            let kept = inventory.namespaces().filter_map(|namespace| namespace.reservations.as_ref());
            kept.into_iter().any(|kept| kept.shared().look(|state| state.key(&registrant).is_some()))
        };
        self.has_controller(id, name) || has_key()
    }
}
