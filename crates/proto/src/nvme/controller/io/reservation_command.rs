//! Reservation Register, Acquire and Release: what they ask for (Base 2.1 §7.4 to 7.6).

use super::super::fault::{Fault, at};
use crate::nvme::opcode::NvmOpcode;
use crate::nvme::status::Status;
use crate::reservation::{Action, KeyCheck, Kind};

/// A checked command that changes reservations; its keys come as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReservationCommand {
    verb: ReservationAction,
    pub persist: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReservationAction {
    Register,
    Unregister { ignore_key: bool },
    Replace { ignore_key: bool },
    Acquire(Kind),
    Preempt { kind: Kind, abort: bool },
    Release(Kind),
    Clear,
}

const IGNORE_EXISTING_KEY: u32 = 1 << 3;

impl ReservationCommand {
    pub fn parse(opcode: NvmOpcode, dword: u32) -> Result<Self, Fault> {
        let ignore_key = dword & IGNORE_EXISTING_KEY != 0;
        let kind = || Kind::of_nvme((dword >> 8) as u8).ok_or(Fault::field(at::CDW10));
        let mut persist = None;
        let verb = match (opcode, dword & 7) {
            (NvmOpcode::RESERVATION_REGISTER, action) => {
                persist = persistence(dword >> 30)?;
                match action {
                    0 => ReservationAction::Register,
                    1 => ReservationAction::Unregister { ignore_key },
                    2 => ReservationAction::Replace { ignore_key },
                    _ => return Err(Fault::field(at::CDW10)),
                }
            }
            // Since 1.3 the key of a registrant is never ignored here.
            _ if ignore_key => return Err(Fault::field(at::CDW10)),
            (NvmOpcode::RESERVATION_ACQUIRE, 0) => ReservationAction::Acquire(kind()?),
            (NvmOpcode::RESERVATION_ACQUIRE, action @ (1 | 2)) => {
                ReservationAction::Preempt { kind: kind()?, abort: action == 2 }
            }
            (NvmOpcode::RESERVATION_RELEASE, 0) => ReservationAction::Release(kind()?),
            (NvmOpcode::RESERVATION_RELEASE, 1) => ReservationAction::Clear,
            _ => return Err(Fault::field(at::CDW10)),
        };
        Ok(Self { verb, persist })
    }

    /// The action, with the keys of the command's data.
    pub fn action(self, data: &[u8]) -> Result<Action, Fault> {
        let key = |at: usize| {
            data.get(at..at + 8).and_then(|key| key.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let (key, other) = (key(0), key(8));
        let register = |check, key| Action::Register { check, key, all_ports: false };
        let registered = |ignore_key: bool| KeyCheck::Registered((!ignore_key).then_some(key));
        Ok(match self.verb {
            // Zero means "none" wherever a key is named.
            ReservationAction::Register | ReservationAction::Replace { .. } if other == 0 => {
                return Err(Fault::new(Status::INVALID_FIELD));
            }
            ReservationAction::Register => register(KeyCheck::New, other),
            ReservationAction::Replace { ignore_key } => register(registered(ignore_key), other),
            ReservationAction::Unregister { ignore_key } => register(registered(ignore_key), 0),
            ReservationAction::Acquire(kind) => Action::Acquire { key, kind },
            ReservationAction::Preempt { kind, abort } => {
                Action::Preempt { key, target: other, kind, abort }
            }
            ReservationAction::Release(kind) => Action::Release { key, kind },
            ReservationAction::Clear => Action::Clear { key },
        })
    }
}

/// CPTPL: Change Persist Through Power Loss State.
fn persistence(code: u32) -> Result<Option<bool>, Fault> {
    match code {
        0 => Ok(None),
        2 => Ok(Some(false)),
        3 => Ok(Some(true)),
        _ => Err(Fault::field(at::CDW10)),
    }
}
