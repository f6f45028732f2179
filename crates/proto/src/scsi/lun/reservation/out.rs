//! PERSISTENT RESERVE OUT (SPC-4 §6.16): its rules, up to the operation that it becomes.

use crate::reservation::{self, Action, KeyCheck, Kind, Registrant, ReservationRequest};
use crate::scsi::bytes::{be16, be32, be64};
use crate::scsi::lun::name::{NexusName, TRANSPORT_ID_BYTES_MAX, TransportId};
use crate::scsi::opcode::{ReservationType, ReserveOut};
use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense, SenseKey};

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

impl Out {
    /// Checks what can be checked before the parameter list is there.
    pub fn check(self, parameters: u32) -> Result<(), Sense> {
        let bytes = parameters as usize;
        let is_length = match self.action {
            ReserveOut::REGISTER_AND_MOVE => {
                (BASIC_BYTES..=BASIC_BYTES + TRANSPORT_ID_BYTES_MAX).contains(&bytes)
            }
            _ => bytes == BASIC_BYTES,
        };
        if !is_length {
            return Err(Sense::illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR));
        }
        let is_typed = matches!(
            self.action,
            ReserveOut::RESERVE
                | ReserveOut::RELEASE
                | ReserveOut::PREEMPT
                | ReserveOut::PREEMPT_AND_ABORT
        );
        match is_typed {
            true if self.scope != 0 => Err(Sense::cdb_bit(2, 7)),
            true => self.kind().map(|_| ()),
            false => Ok(()),
        }
    }

    fn kind(self) -> Result<Kind, Sense> {
        Kind::of_scsi(self.kind.0).ok_or(Sense::cdb_bit(2, 3))
    }

    /// The operation that the command asks for, by `nexus`. `list` is the parameter list, of the
    /// length given to [`Self::check`]. If `persists` is false, no registration outlasts a loss of
    /// power (PTPL_C of REPORT CAPABILITIES).
    pub fn operation(
        self,
        nexus: &NexusName,
        list: &[u8],
        persists: bool,
    ) -> Result<ReservationRequest, Sense> {
        let (key, action_key) = (be64(list, 0), be64(list, 8));
        let mut persist = None;
        let action = match self.action {
            ReserveOut::REGISTER | ReserveOut::REGISTER_AND_IGNORE => {
                persist = Some(aptpl(list, 20, SPEC_I_PT, persists)?);
                let check = if self.action == ReserveOut::REGISTER {
                    KeyCheck::Current(key)
                } else {
                    KeyCheck::Ignore
                };
                Action::Register { check, key: action_key, all_ports: list[20] & ALL_TG_PT != 0 }
            }
            ReserveOut::RESERVE => Action::Acquire { key, kind: self.kind()? },
            ReserveOut::RELEASE => Action::Release { key, kind: self.kind()? },
            ReserveOut::CLEAR => Action::Clear { key },
            ReserveOut::REGISTER_AND_MOVE => {
                persist = Some(aptpl(list, 17, 0, persists)?);
                let to = Registrant::Nexus(moved_to(list)?);
                Action::Move { key, to, to_key: action_key, unregister: list[17] & UNREGISTER != 0 }
            }
            action => {
                let abort = action == ReserveOut::PREEMPT_AND_ABORT;
                Action::Preempt { key, target: action_key, kind: self.kind()?, abort }
            }
        };
        Ok(ReservationRequest { by: Registrant::Nexus(nexus.clone()), action, persist })
    }
}

/// APTPL, in the byte at `at`. SPEC_I_PT is not supported, as REPORT CAPABILITIES says.
fn aptpl(list: &[u8], at: usize, refused: u8, persists: bool) -> Result<bool, Sense> {
    let refused = if persists { refused } else { refused | APTPL };
    if list[at] & refused != 0 {
        return Err(Sense::parameter(at as u16));
    }
    Ok(list[at] & APTPL != 0)
}

/// To whom REGISTER AND MOVE gives the reservation (SPC-4 §5.12.8).
fn moved_to(list: &[u8]) -> Result<NexusName, Sense> {
    let initiator = TransportId::decode(&list[BASIC_BYTES..]).ok_or(Sense::parameter(24))?;
    if be32(list, 20) as usize != initiator.as_bytes().len() {
        return Err(Sense::parameter(20));
    }
    if be64(list, 8) == 0 {
        return Err(Sense::parameter(8));
    }
    match be16(list, 18) {
        NexusName::ALL_PORTS => Err(Sense::parameter(18)),
        target_port => Ok(NexusName { target_port, initiator }),
    }
}

impl From<reservation::ReservationRefusal> for Refusal {
    fn from(refusal: reservation::ReservationRefusal) -> Self {
        use reservation::ReservationRefusal as Why;
        Self::Check(match refusal {
            Why::Conflict => return Self::Conflict,
            Why::WrongType => Sense::illegal(AdditionalSense::INVALID_RELEASE),
            Why::ZeroKey => Sense::parameter(8),
            Why::Full => Sense::illegal(AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES),
            Why::CannotPersist => Sense::parameter(20),
            Why::NothingToMove => Sense::cdb_bit(1, 4),
            Why::MoveToHolder => Sense::parameter(24),
            Why::NotStored => {
                Sense::new(SenseKey::HARDWARE_ERROR, AdditionalSense::INTERNAL_TARGET_FAILURE)
            }
        })
    }
}
