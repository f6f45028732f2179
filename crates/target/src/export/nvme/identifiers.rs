//! Host identifiers (HOSTID) of hosts that have proved their names: who may use which, and as whom
//! a host changes reservations. For the cold path only.

use super::associations::Association;
use super::mailbox::NvmeMessage;
use super::subsystems::ControllerId;
use super::target_state::TargetState;
use crate::export::members::Message;
use crate::inventory::IdentifierRefusal;
use crate::reservations::PendingChange;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use uuid::Uuid;
use weft_connection::refusals::Refusals;
use weft_proto::nvme::controller::{CONNECT_BYTES, ConnectError, subsystem_name};
use weft_proto::nvme::fabrics::ConnectData;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::{Action, Registrant, ReservationRefusal, ReservationRequest};

/// Hosts with the identifier of another one, for the log.
static SHARED: Refusals = Refusals::new();

/// HOSTID and HOSTNQN of a Connect, if it has both.
fn names(data: &[u8; CONNECT_BYTES]) -> Option<(Id128, Nqn)> {
    let data = ConnectData::decode(data).ok()?;
    Some((data.host_id, data.hostnqn.nqn().ok()?)).filter(|(id, _)| !id.is_zero())
}

impl From<IdentifierRefusal> for ConnectError {
    fn from(refusal: IdentifierRefusal) -> Self {
        match refusal {
            IdentifierRefusal::Anothers(owner) => Self::OtherIdentifier(owner),
            IdentifierRefusal::NotTheGiven(given) => Self::NotTheGivenIdentifier(given),
        }
    }
}

impl TargetState {
    /// Whether the host of a Connect may use its identifier. Asked where hosts prove their names:
    /// `is_proven` has done so by TLS.
    ///
    /// # Errors
    /// [`ConnectError::OtherIdentifier`], [`ConnectError::NotTheGivenIdentifier`].
    pub(super) fn check_identifier(
        &self,
        data: &[u8; CONNECT_BYTES],
        is_proven: bool,
    ) -> Result<(), ConnectError> {
        let Some((id, name)) = names(data) else { return Ok(()) };
        let is_demanded = || {
            subsystem_name(data)
                .is_some_and(|subsystem| self.inventory.now().authentication(&subsystem).is_some())
        };
        if !is_proven && !is_demanded() {
            return Ok(());
        }
        Ok(self.inventory.check_identifier(id, &name)?)
    }

    /// The host of this controller, which is admitted, has proved the names in its Connect.
    ///
    /// # Errors
    /// Those of [`Self::check_identifier`].
    pub(super) fn proved_identifier(
        &self,
        data: &[u8; CONNECT_BYTES],
        controller: ControllerId,
    ) -> Result<(), ConnectError> {
        let Some((id, name)) = names(data) else { return Ok(()) };
        // Noted first: a registration that comes in force from now on finds this one, and one that
        // is in force already is found here.
        if let Some(association) = self.associations.lock().get_mut(&controller) {
            association.proven = Some((id, name.clone()));
        }
        self.check_identifier(data, true)?;
        self.inventory.proved(id, &name);
        Ok(())
    }

    /// The name that the host of a controller has proved, to be stored with its registration.
    ///
    /// # Errors
    /// A host that proved another name uses the same identifier, which is nobody's yet. Neither
    /// becomes the other's registrant.
    pub(super) fn reserves_as(
        &self,
        controller: ControllerId,
        operation: &ReservationRequest,
    ) -> Result<Option<Nqn>, ReservationRefusal> {
        let associations = self.associations.lock();
        let Some((id, name)) = associations.get(&controller).and_then(|of| of.proven.clone())
        else {
            return Ok(None);
        };
        let mut all = associations.values().filter_map(|of| of.proven.as_ref());
        let is_shared = all.any(|(of, by)| *of == id && *by != name);
        drop(associations);
        let registers = matches!(operation.action, Action::Register { key, .. } if key != 0);
        if is_shared && registers && self.inventory.owner(id).is_none_or(|owner| owner != name) {
            let text = || {
                format!(
                    "host {name} cannot register: another host is connected with its identifier {id}; give each host its own \
                     (/etc/nvme/hostid), or say whose it is in a table [[host_identifier]]"
                )
            };
            SHARED.log_now(text);
            return Err(ReservationRefusal::Conflict);
        }
        Ok(Some(name))
    }

    /// Ends associations of hosts that use an identifier under which another host, by its proven
    /// name, is registered with a namespace. `pending` is kept until no device has their commands.
    pub(super) fn end_strangers(
        &self,
        namespace: Uuid,
        associations: &mut BTreeMap<ControllerId, Association>,
        pending: &Arc<PendingChange>,
    ) {
        if associations.values().all(|of| of.proven.is_none()) {
            return;
        }
        let inventory = self.inventory.now();
        let mut kept = inventory.namespaces().filter_map(|of| of.reservations.as_ref());
        let Some(kept) = kept.find(|kept| kept.uuid() == namespace) else { return };
        let owners: HashMap<Id128, Nqn> = kept.shared().look(|state| {
            let known = state.registrations().iter().filter_map(|known| match &known.registrant {
                Registrant::Host(id) => Some((*id, known.proven.clone()?)),
                Registrant::Nexus(_) => None,
            });
            known.collect()
        });
        for association in associations.values_mut().filter(|of| !of.ending) {
            let Some((id, name)) = &association.proven else { continue };
            let Some(owner) = owners.get(id).filter(|owner| *owner != name) else { continue };
            let text = || {
                format!(
                    "host {name} is disconnected: its identifier is that of host {owner}, which has registered with it"
                )
            };
            SHARED.log_now(text);
            association.ending = true;
            let preempted = || {
                Message::Own(NvmeMessage::Preempted { nsid: None, pending: Arc::clone(pending) })
            };
            association.io.iter().for_each(|io| io.mailbox.post(preempted()));
            association.tell(|| Message::Stop);
        }
    }
}
