//! A naive model of reservations: what the standards say, sentence by sentence.

use std::collections::BTreeMap;
use weft_proto::nvme::types::Id128;
use weft_proto::reservation::{
    Action, KeyCheck, Kind, Notice, PermittedAccess, Registrant, ReservationRefusal,
};
use weft_proto::scsi::lun::{NexusName, TransportId};

/// Hosts of both protocols.
pub const HOSTS: u8 = 5;
/// Keys, few so that they meet.
pub const KEYS: u64 = 4;

pub fn registrant(n: u8) -> Registrant {
    match n % 2 {
        0 => Registrant::Host(Id128([n + 1; 16])),
        _ => Registrant::Nexus(NexusName {
            initiator: TransportId::iscsi("iqn.2026-11.example:i", [0, 0, 0, 0, 0, n]),
            target_port: 1,
        }),
    }
}

pub fn number(of: &Registrant) -> u8 {
    (0..HOSTS).find(|n| registrant(*n) == *of).expect("one of them")
}

/// Registrants and their keys; the type of the reservation, and all holders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub generation: u32,
    pub keys: BTreeMap<u8, u64>,
    pub held: Option<(Kind, Vec<u8>)>,
}

/// Notices and their receivers, and the aborted registrants.
pub type Told = (Vec<(u8, Notice)>, Vec<u8>);

fn registrants_only(kind: Kind) -> bool {
    matches!(kind, Kind::WriteExclusiveRegistrantsOnly | Kind::ExclusiveAccessRegistrantsOnly)
}

fn all_registrants(kind: Kind) -> bool {
    matches!(kind, Kind::WriteExclusiveAllRegistrants | Kind::ExclusiveAccessAllRegistrants)
}

impl Model {
    fn others(&self, but: u8, notice: Notice) -> Vec<(u8, Notice)> {
        self.keys.keys().filter(|n| **n != but).map(|n| (*n, notice)).collect()
    }

    /// All registrants hold where the type says so; a holder that is not registered holds nothing;
    /// without holders there is no reservation, and those who shared it get a notice.
    fn tidy(&mut self, by: u8) -> Vec<(u8, Notice)> {
        let Some((kind, holders)) = &mut self.held else { return Vec::new() };
        let kind = *kind;
        if all_registrants(kind) {
            *holders = self.keys.keys().copied().collect();
        }
        holders.retain(|holder| self.keys.contains_key(holder));
        if !holders.is_empty() {
            return Vec::new();
        }
        self.held = None;
        if registrants_only(kind) || all_registrants(kind) {
            self.others(by, Notice::ReservationReleased)
        } else {
            Vec::new()
        }
    }

    fn register(&mut self, by: u8, check: KeyCheck, key: u64) -> Result<Told, ReservationRefusal> {
        let now = self.keys.get(&by).copied();
        let allowed = match (check, now) {
            (KeyCheck::Ignore, _) | (KeyCheck::New, None) => true,
            (KeyCheck::Current(given), Some(now))
            | (KeyCheck::Registered(Some(given)), Some(now)) => given == now,
            (KeyCheck::Current(given), None) => given == 0,
            (KeyCheck::New, Some(now)) => now == key,
            (KeyCheck::Registered(None), now) => now.is_some(),
            (KeyCheck::Registered(Some(_)), None) => false,
        };
        if !allowed {
            return Err(ReservationRefusal::Conflict);
        }
        if now.is_none() && key == 0 {
            return Ok(Told::default());
        }
        self.generation += 1;
        if key == 0 {
            self.keys.remove(&by)
        } else {
            self.keys.insert(by, key)
        };
        Ok((self.tidy(by), Vec::new()))
    }

    fn preempt(
        &mut self,
        by: u8,
        target: u64,
        kind: Kind,
        abort: bool,
    ) -> Result<Told, ReservationRefusal> {
        let preempted = match &self.held {
            Some((held, _)) if all_registrants(*held) => target == 0,
            Some((_, holders)) => holders.iter().any(|holder| self.keys[holder] == target),
            None => false,
        };
        if target == 0 && !preempted {
            return Err(ReservationRefusal::ZeroKey);
        }
        let named: Vec<u8> = self
            .keys
            .iter()
            .filter(|(_, key)| target == 0 || **key == target)
            .map(|(n, _)| *n)
            .collect();
        if named.is_empty() {
            return Err(ReservationRefusal::Conflict);
        }
        self.generation += 1;
        let lost: Vec<u8> = named.into_iter().filter(|n| !(preempted && *n == by)).collect();
        lost.iter().for_each(|n| _ = self.keys.remove(n));
        let mut told = Vec::new();
        if preempted {
            let before = self.held.replace((kind, vec![by])).expect("it was held").0;
            if before != kind {
                told = self.others(by, Notice::ReservationReleased);
            }
        }
        told.extend(self.tidy(by));
        let lost: Vec<u8> = lost.into_iter().filter(|n| *n != by).collect();
        told.extend(lost.iter().map(|n| (*n, Notice::RegistrationPreempted)));
        Ok((told, if abort { lost } else { Vec::new() }))
    }

    pub fn apply(&mut self, by: u8, action: &Action) -> Result<Told, ReservationRefusal> {
        let needs = match action {
            Action::Acquire { key, .. } | Action::Release { key, .. } | Action::Clear { key } => {
                Some(*key)
            }
            Action::Preempt { key, .. } | Action::Move { key, .. } => Some(*key),
            Action::Register { .. } | Action::Persist => None,
        };
        if needs.is_some() && self.keys.get(&by).copied() != needs {
            return Err(ReservationRefusal::Conflict);
        }
        let holds = self.held.as_ref().is_some_and(|(_, holders)| holders.contains(&by));
        match action {
            Action::Register { check, key, .. } => self.register(by, *check, *key),
            Action::Acquire { kind, .. } => match &self.held {
                Some((held, _)) if holds && held == kind => Ok(Told::default()),
                Some(_) => Err(ReservationRefusal::Conflict),
                None => {
                    self.held = Some((*kind, vec![by]));
                    Ok((self.tidy(by), Vec::new()))
                }
            },
            Action::Release { kind, .. } => match &self.held {
                Some((held, _)) if holds && held != kind => Err(ReservationRefusal::WrongType),
                Some(_) if holds => {
                    self.held.as_mut().expect("it is held").1.clear();
                    self.held = None;
                    let shared = registrants_only(*kind) || all_registrants(*kind);
                    Ok((
                        if shared {
                            self.others(by, Notice::ReservationReleased)
                        } else {
                            Vec::new()
                        },
                        Vec::new(),
                    ))
                }
                _ => Ok(Told::default()),
            },
            Action::Clear { .. } => {
                let told = self.others(by, Notice::ReservationPreempted);
                (self.keys, self.held) = (BTreeMap::new(), None);
                self.generation += 1;
                Ok((told, Vec::new()))
            }
            Action::Preempt { target, kind, abort, .. } => self.preempt(by, *target, *kind, *abort),
            Action::Move { to, to_key, unregister, .. } => {
                self.move_to(by, number(to), *to_key, *unregister)
            }
            Action::Persist => unreachable!("not among the actions"),
        }
    }

    fn move_to(
        &mut self,
        by: u8,
        to: u8,
        to_key: u64,
        unregister: bool,
    ) -> Result<Told, ReservationRefusal> {
        let Some((kind, holders)) = &mut self.held else {
            return Err(ReservationRefusal::NothingToMove);
        };
        if all_registrants(*kind) || !holders.contains(&by) {
            return Err(ReservationRefusal::Conflict);
        }
        if to == by {
            return Err(ReservationRefusal::MoveToHolder);
        }
        *holders = vec![to];
        self.keys.insert(to, to_key);
        self.generation += 1;
        if unregister {
            self.keys.remove(&by);
        }
        Ok((self.tidy(by), Vec::new()))
    }

    /// The table of types: who may read, and write.
    pub fn access(&self, who: u8) -> PermittedAccess {
        let Some((kind, holders)) = &self.held else {
            return PermittedAccess { read: true, write: true };
        };
        let (holder, registered) = (holders.contains(&who), self.keys.contains_key(&who));
        match kind {
            Kind::WriteExclusive => PermittedAccess { read: true, write: holder },
            Kind::ExclusiveAccess => PermittedAccess { read: holder, write: holder },
            Kind::WriteExclusiveRegistrantsOnly | Kind::WriteExclusiveAllRegistrants => {
                PermittedAccess { read: true, write: registered }
            }
            Kind::ExclusiveAccessRegistrantsOnly | Kind::ExclusiveAccessAllRegistrants => {
                PermittedAccess { read: registered, write: registered }
            }
        }
    }
}
