//! PERSISTENT RESERVE OUT (SPC-4 §6.16): changes of registrations and reservation.

use super::{Attention, Changes, Registration, Reservation, Reservations, is_all_registrants, is_shared};
use crate::limits::SCSI_REGISTRATIONS_MAX;
use crate::scsi::bytes::{be16, be32, be64};
use crate::scsi::lun::name::{NexusName, TransportId};
use crate::scsi::opcode::{ReservationType, ReserveOut};
use crate::scsi::sense::Sense;
use crate::scsi::status::AdditionalSense;

/// Bytes of the parameter list, but for REGISTER AND MOVE.
const BASIC_BYTES: usize = 24;

const SPEC_I_PT: u8 = 0x08;
const ALL_TG_PT: u8 = 0x04;
const APTPL: u8 = 0x01;
const UNREGISTER: u8 = 0x02;

/// Why a command was not executed.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::scsi::lun) enum Refusal {
    /// RESERVATION CONFLICT.
    Conflict,
    /// CHECK CONDITION.
    Check(Sense),
}

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Self {
        Self::Check(sense)
    }
}

/// One command, as the CDB says it.
#[derive(Clone, Copy, Debug)]
pub(in crate::scsi::lun) struct Out {
    /// Service action.
    pub action: ReserveOut,
    /// Scope: 0 for the logical unit, and there is no other.
    pub scope: u8,
    /// Type.
    pub kind: ReservationType,
}

/// The keys and the rest of the parameter list.
struct Parameters<'a> {
    key: u64,
    action_key: u64,
    list: &'a [u8],
}

impl Out {
    /// Checks what can be checked before the parameter list is there.
    pub fn check(self, parameters: u32) -> Result<(), Sense> {
        let bytes = parameters as usize;
        let is_length = match self.action {
            ReserveOut::REGISTER_AND_MOVE => {
                (BASIC_BYTES..=BASIC_BYTES + super::super::name::TRANSPORT_ID_BYTES_MAX).contains(&bytes)
            }
            _ => bytes == BASIC_BYTES,
        };
        if !is_length {
            return Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR));
        }
        let is_typed = matches!(
            self.action,
            ReserveOut::RESERVE | ReserveOut::RELEASE | ReserveOut::PREEMPT | ReserveOut::PREEMPT_AND_ABORT
        );
        match is_typed {
            true if self.scope != 0 => Err(Sense::cdb_bit(2, 7)),
            true if self.kind.text().is_none() => Err(Sense::cdb_bit(2, 3)),
            _ => Ok(()),
        }
    }

    /// Executes the command for `nexus`. `list` is the parameter list, of the length that [`Self::check`] was told.
    pub fn execute(self, state: &mut Reservations, nexus: &NexusName, list: &[u8]) -> Result<Changes, Refusal> {
        let parameters = Parameters { key: be64(list, 0), action_key: be64(list, 8), list };
        match self.action {
            ReserveOut::REGISTER | ReserveOut::REGISTER_AND_IGNORE => return self.register(state, nexus, &parameters),
            _ if state.key(nexus) != Some(parameters.key) => return Err(Refusal::Conflict),
            _ => {}
        }
        match self.action {
            ReserveOut::RESERVE => state.reserve(nexus, self.kind),
            ReserveOut::RELEASE => state.release(nexus, self.kind),
            ReserveOut::CLEAR => Ok(state.clear(nexus)),
            ReserveOut::REGISTER_AND_MOVE => state.register_and_move(nexus, &parameters),
            action => state.preempt(nexus, self.kind, parameters.action_key, action == ReserveOut::PREEMPT_AND_ABORT),
        }
    }

    /// REGISTER and REGISTER AND IGNORE EXISTING KEY (SPC-4 §5.12.7). SPEC_I_PT and APTPL are not supported, as REPORT CAPABILITIES says.
    /// With ALL_TG_PT the registration is one at all target ports; a target has one.
    fn register(self, state: &mut Reservations, nexus: &NexusName, parameters: &Parameters) -> Result<Changes, Refusal> {
        let registered = state.key(nexus);
        if self.action == ReserveOut::REGISTER && registered.unwrap_or(0) != parameters.key {
            return Err(Refusal::Conflict);
        }
        if parameters.list[20] & (SPEC_I_PT | APTPL) != 0 {
            return Err(Sense::parameter(20).into());
        }
        match (registered, parameters.action_key) {
            (None, 0) => return Ok(Changes::default()),
            (Some(_), 0) => {
                state.generation = state.generation.wrapping_add(1);
                return Ok(state.unregister(nexus));
            }
            (Some(_), key) => state.set_key(nexus, key),
            (None, key) => state.add(nexus.clone(), key)?,
        }
        state.set_all_ports(nexus, parameters.list[20] & ALL_TG_PT != 0);
        state.generation = state.generation.wrapping_add(1);
        Ok(Changes::default())
    }
}

impl Reservations {
    fn add(&mut self, nexus: NexusName, key: u64) -> Result<(), Refusal> {
        if self.registrations.len() >= SCSI_REGISTRATIONS_MAX {
            return Err(Sense::illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES).into());
        }
        self.registrations.push(Registration { nexus, key, all_ports: false });
        Ok(())
    }

    fn set_key(&mut self, nexus: &NexusName, key: u64) {
        for registration in self.registrations.iter_mut().filter(|registration| registration.nexus == *nexus) {
            registration.key = key;
        }
    }

    fn set_all_ports(&mut self, nexus: &NexusName, all_ports: bool) {
        for registration in self.registrations.iter_mut().filter(|registration| registration.nexus == *nexus) {
            registration.all_ports = all_ports;
        }
    }

    /// Takes one registration away, and the reservation with it if it has no holder any more (SPC-4 §5.12.11.3).
    fn unregister(&mut self, nexus: &NexusName) -> Changes {
        self.registrations.retain(|registration| registration.nexus != *nexus);
        let Some(reservation) = &mut self.reservation else { return Changes::default() };
        let last = self.registrations.is_empty();
        match is_all_registrants(reservation.kind) {
            true if !last => {
                reservation.holder = self.registrations[0].nexus.clone();
                Changes::default()
            }
            false if reservation.holder != *nexus => Changes::default(),
            _ => self.drop_reservation(nexus),
        }
    }

    /// Ends the reservation and notifies those who shared it (SPC-4 §5.12.11.2.2).
    fn drop_reservation(&mut self, by: &NexusName) -> Changes {
        match self.reservation.take() {
            Some(reservation) if is_shared(reservation.kind) => self.tell_others(by, Attention::ReservationsReleased),
            _ => Changes::default(),
        }
    }

    fn tell_others(&self, by: &NexusName, attention: Attention) -> Changes {
        let others = self.registrations.iter().filter(|registration| registration.nexus != *by);
        Changes { attentions: others.map(|other| (other.nexus.clone(), attention)).collect(), ..Changes::default() }
    }

    /// RESERVE (SPC-4 §5.12.9).
    fn reserve(&mut self, nexus: &NexusName, kind: ReservationType) -> Result<Changes, Refusal> {
        match &self.reservation {
            Some(reservation) if !self.is_holder(nexus) || reservation.kind != kind => return Err(Refusal::Conflict),
            Some(_) => {}
            None => self.reservation = Some(Reservation { kind, holder: nexus.clone() }),
        }
        Ok(Changes::default())
    }

    /// RELEASE (SPC-4 §5.12.11.2): of no effect for those who hold nothing.
    fn release(&mut self, nexus: &NexusName, kind: ReservationType) -> Result<Changes, Refusal> {
        match &self.reservation {
            Some(reservation) if self.is_holder(nexus) => match reservation.kind == kind {
                true => Ok(self.drop_reservation(nexus)),
                false => Err(Sense::illegal(AdditionalSense::INVALID_RELEASE).into()),
            },
            _ => Ok(Changes::default()),
        }
    }

    /// CLEAR (SPC-4 §5.12.11.6).
    fn clear(&mut self, nexus: &NexusName) -> Changes {
        let changes = self.tell_others(nexus, Attention::ReservationsPreempted);
        self.registrations.clear();
        self.reservation = None;
        self.generation = self.generation.wrapping_add(1);
        changes
    }

    /// PREEMPT and PREEMPT AND ABORT (SPC-4 §5.12.11.4 and on).
    fn preempt(&mut self, nexus: &NexusName, kind: ReservationType, key: u64, abort: bool) -> Result<Changes, Refusal> {
        let takes_over = self.reservation.as_ref().is_some_and(|reservation| match is_all_registrants(reservation.kind) {
            true => key == 0,
            false => self.key(&reservation.holder) == Some(key),
        });
        if key == 0 && !takes_over {
            return Err(Sense::parameter(8).into());
        }
        // Zero means everybody; who takes over stays registered.
        let is_meant = |other: &Registration| (key == 0 || other.key == key) && !(takes_over && other.nexus == *nexus);
        let (removed, kept): (Vec<_>, Vec<_>) = self.registrations.drain(..).partition(is_meant);
        self.registrations = kept;
        if removed.is_empty() && !takes_over {
            return Err(Refusal::Conflict);
        }
        self.generation = self.generation.wrapping_add(1);
        let mut changes = match takes_over {
            true => self.take_over(nexus, kind),
            false => self.settle(nexus),
        };
        let others = removed.into_iter().map(|registration| registration.nexus).filter(|other| other != nexus);
        for other in others {
            changes.attentions.push((other.clone(), Attention::RegistrationsPreempted));
            changes.aborted.extend(abort.then_some(other));
        }
        Ok(changes)
    }

    /// Gives the reservation to the preempting nexus. The remaining registrants are notified if its type changes.
    fn take_over(&mut self, nexus: &NexusName, kind: ReservationType) -> Changes {
        let before = self.reservation.replace(Reservation { kind, holder: nexus.clone() });
        match before.is_some_and(|before| before.kind != kind) {
            true => self.tell_others(nexus, Attention::ReservationsReleased),
            false => Changes::default(),
        }
    }

    /// After the removal of registrations: a reservation of all registrants continues while one remains, and ends with the last
    /// one.
    fn settle(&mut self, by: &NexusName) -> Changes {
        let Some(reservation) = &mut self.reservation else { return Changes::default() };
        if self.registrations.iter().any(|registration| registration.nexus == reservation.holder) {
            return Changes::default();
        }
        match self.registrations.first() {
            Some(first) if is_all_registrants(reservation.kind) => {
                reservation.holder = first.nexus.clone();
                Changes::default()
            }
            _ => self.drop_reservation(by),
        }
    }

    /// REGISTER AND MOVE (SPC-4 §5.12.8): the holder gives the reservation to another nexus.
    fn register_and_move(&mut self, nexus: &NexusName, parameters: &Parameters) -> Result<Changes, Refusal> {
        let flags = parameters.list[17];
        let to = NexusName {
            target_port: be16(parameters.list, 18),
            initiator: TransportId::decode(&parameters.list[BASIC_BYTES..]).ok_or(Sense::parameter(24))?,
        };
        if flags & APTPL != 0 {
            return Err(Sense::parameter(17).into());
        }
        if be32(parameters.list, 20) as usize != to.initiator.as_bytes().len() {
            return Err(Sense::parameter(20).into());
        }
        if parameters.action_key == 0 {
            return Err(Sense::parameter(8).into());
        }
        match &self.reservation {
            Some(reservation) if is_all_registrants(reservation.kind) => return Err(Refusal::Conflict),
            Some(_) if self.is_holder(nexus) => {}
            // Without a reservation there is nothing to move (SPC-4 §5.12.8 b and c).
            Some(_) => return Err(Refusal::Conflict),
            None => return Err(Sense::cdb_bit(1, 4).into()),
        }
        if to == *nexus {
            return Err(Sense::parameter(24).into());
        }
        match self.key(&to) {
            Some(_) => self.set_key(&to, parameters.action_key),
            None => self.add(to.clone(), parameters.action_key)?,
        }
        if let Some(reservation) = &mut self.reservation {
            reservation.holder = to;
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(if flags & UNREGISTER != 0 { self.unregister(nexus) } else { Changes::default() })
    }
}
