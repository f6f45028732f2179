//! Effects of each operation (Base 2.1 §8.1.22.2 to 8.1.22.7, SPC-4 §5.12.7 to 5.12.11).

use super::kind::Kind;
use super::operation::{Action, Changes, KeyCheck, Notice, ReservationRefusal, ReservationRequest};
use super::state::{Registrant, Registration, Reservation, ReservationState};
use crate::limits::REGISTRANTS_MAX;

type Applied = Result<Changes, ReservationRefusal>;

impl ReservationState {
    /// Executes an operation. If it is refused, the state is invalid: apply to a copy.
    pub fn apply(&mut self, operation: &ReservationRequest) -> Applied {
        let by = &self.registered_as(&operation.by);
        let changes = match &operation.action {
            Action::Register { check, key, all_ports } => {
                self.register(by, *check, *key, *all_ports)
            }
            Action::Acquire { key, kind } => {
                self.registered(by, *key).and_then(|()| self.acquire(by, *kind))
            }
            Action::Release { key, kind } => {
                self.registered(by, *key).and_then(|()| self.release(by, *kind))
            }
            Action::Clear { key } => self.registered(by, *key).map(|()| self.clear(by)),
            Action::Preempt { key, target, kind, abort } => {
                self.registered(by, *key).and_then(|()| self.preempt(by, *kind, *target, *abort))
            }
            Action::Move { key, to, to_key, unregister } => {
                let to = &self.registered_as(to);
                self.registered(by, *key).and_then(|()| self.move_to(by, to, *to_key, *unregister))
            }
            // Whoever has no part in what there is does not decide about it.
            Action::Persist if !self.registrations.is_empty() && self.key(by).is_none() => {
                Err(ReservationRefusal::Conflict)
            }
            Action::Persist => Ok(Changes::default()),
        }?;
        self.persistent = operation.persist.unwrap_or(self.persistent);
        Ok(changes)
    }

    fn registered(&self, by: &Registrant, key: u64) -> Result<(), ReservationRefusal> {
        if self.key(by) == Some(key) { Ok(()) } else { Err(ReservationRefusal::Conflict) }
    }

    fn count(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    fn register(&mut self, by: &Registrant, check: KeyCheck, key: u64, all_ports: bool) -> Applied {
        let before = self.key(by);
        let is_right = match check {
            KeyCheck::Current(current) => before.unwrap_or(0) == current,
            KeyCheck::Ignore => true,
            KeyCheck::New => before.is_none_or(|before| before == key),
            KeyCheck::Registered(current) => {
                before.is_some_and(|before| current.is_none_or(|current| current == before))
            }
        };
        match (before, key) {
            _ if !is_right => return Err(ReservationRefusal::Conflict),
            (None, 0) => return Ok(Changes::default()),
            (Some(_), 0) => {
                self.count();
                return Ok(self.unregister(by));
            }
            _ => self.enter(by, key, all_ports)?,
        }
        if all_ports {
            self.widen(by);
        }
        self.count();
        Ok(Changes::default())
    }

    /// Registers, or changes a registration.
    fn enter(
        &mut self,
        who: &Registrant,
        key: u64,
        all_ports: bool,
    ) -> Result<(), ReservationRefusal> {
        let count = self.registrations.len();
        match self.registrations.iter_mut().find(|known| known.registrant == *who) {
            Some(known) => (known.key, known.all_ports) = (key, known.all_ports || all_ports),
            None if count >= REGISTRANTS_MAX => return Err(ReservationRefusal::Full),
            None => self.registrations.push(Registration {
                registrant: who.clone(),
                key,
                all_ports,
                proven: None,
            }),
        }
        Ok(())
    }

    /// A registration is one for all target ports from now on, in place of those of its initiator
    /// port at single ones.
    fn widen(&mut self, who: &Registrant) {
        let all = who.at_all_ports();
        self.registrations
            .retain(|known| known.registrant == *who || !all.covers(&known.registrant));
        if let Some(reservation) =
            self.reservation.as_mut().filter(|reservation| all.covers(&reservation.holder))
        {
            reservation.holder = all.clone();
        }
        self.registrations
            .iter_mut()
            .filter(|known| known.registrant == *who)
            .for_each(|known| known.registrant = all.clone());
    }

    /// Takes one registration away, and the reservation with it if that has no other holder.
    fn unregister(&mut self, by: &Registrant) -> Changes {
        self.registrations.retain(|known| known.registrant != *by);
        self.settle(by)
    }

    /// After registrations have gone: a reservation of all registrants continues while one of them
    /// remains; any other ends with its holder's registration.
    fn settle(&mut self, by: &Registrant) -> Changes {
        let Some(reservation) = &mut self.reservation else { return Changes::default() };
        if self.registrations.iter().any(|known| known.registrant == reservation.holder) {
            return Changes::default();
        }
        match self.registrations.first() {
            Some(first) if reservation.kind.all_hold() => {
                reservation.holder = first.registrant.clone();
                Changes::default()
            }
            _ => self.end(by),
        }
    }

    /// Ends the reservation; those who shared it get a notice.
    fn end(&mut self, by: &Registrant) -> Changes {
        match self.reservation.take() {
            Some(reservation) if reservation.kind.is_shared() => {
                self.tell_others(by, Notice::ReservationReleased)
            }
            _ => Changes::default(),
        }
    }

    fn tell_others(&self, by: &Registrant, notice: Notice) -> Changes {
        let others = self.registrations.iter().filter(|known| known.registrant != *by);
        Changes {
            notices: others.map(|other| (other.registrant.clone(), notice)).collect(),
            ..Changes::default()
        }
    }

    fn acquire(&mut self, by: &Registrant, kind: Kind) -> Applied {
        match &self.reservation {
            Some(reservation) if !self.is_holder(by) || reservation.kind != kind => {
                return Err(ReservationRefusal::Conflict);
            }
            Some(_) => {}
            None => self.reservation = Some(Reservation { kind, holder: by.clone() }),
        }
        Ok(Changes::default())
    }

    /// Of no effect for those who hold nothing.
    fn release(&mut self, by: &Registrant, kind: Kind) -> Applied {
        match &self.reservation {
            Some(reservation) if self.is_holder(by) => match reservation.kind == kind {
                true => Ok(self.end(by)),
                false => Err(ReservationRefusal::WrongType),
            },
            _ => Ok(Changes::default()),
        }
    }

    fn clear(&mut self, by: &Registrant) -> Changes {
        let changes = self.tell_others(by, Notice::ReservationPreempted);
        self.registrations.clear();
        self.reservation = None;
        self.count();
        changes
    }

    fn preempt(&mut self, by: &Registrant, kind: Kind, target: u64, abort: bool) -> Applied {
        let takes_over = self.reservation.as_ref().is_some_and(|reservation| {
            match reservation.kind.all_hold() {
                true => target == 0,
                false => self.key(&reservation.holder) == Some(target),
            }
        });
        if target == 0 && !takes_over {
            return Err(ReservationRefusal::ZeroKey);
        }
        // Zero means everybody; who takes over stays registered.
        let is_meant = |other: &mut Registration| {
            (target == 0 || other.key == target) && !(takes_over && other.registrant == *by)
        };
        let removed: Vec<Registration> = self.registrations.extract_if(.., is_meant).collect();
        if removed.is_empty() && !takes_over {
            return Err(ReservationRefusal::Conflict);
        }
        self.count();
        let mut changes = if takes_over { self.take_over(by, kind) } else { self.settle(by) };
        for lost in removed
            .into_iter()
            .map(|registration| registration.registrant)
            .filter(|lost| lost != by)
        {
            changes.notices.push((lost.clone(), Notice::RegistrationPreempted));
            changes.aborted.extend(abort.then_some(lost));
        }
        Ok(changes)
    }

    /// Gives the reservation to the preempting registrant. The remaining registrants get a notice
    /// if its type changes.
    fn take_over(&mut self, by: &Registrant, kind: Kind) -> Changes {
        let before = self.reservation.replace(Reservation { kind, holder: by.clone() });
        match before.is_some_and(|before| before.kind != kind) {
            true => self.tell_others(by, Notice::ReservationReleased),
            false => Changes::default(),
        }
    }

    fn move_to(
        &mut self,
        by: &Registrant,
        to: &Registrant,
        to_key: u64,
        unregister: bool,
    ) -> Applied {
        match &self.reservation {
            Some(reservation) if reservation.kind.all_hold() || !self.is_holder(by) => {
                return Err(ReservationRefusal::Conflict);
            }
            Some(_) if to == by => return Err(ReservationRefusal::MoveToHolder),
            Some(_) => {}
            None => return Err(ReservationRefusal::NothingToMove),
        }
        let all_ports =
            self.registrations.iter().any(|known| known.registrant == *to && known.all_ports);
        self.enter(to, to_key, all_ports)?;
        if let Some(reservation) = &mut self.reservation {
            reservation.holder = to.clone();
        }
        self.count();
        Ok(if unregister { self.unregister(by) } else { Changes::default() })
    }
}
