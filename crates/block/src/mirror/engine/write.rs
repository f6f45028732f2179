//! Operations that change data, and flushes: to all legs.

use super::{
    FailureMeaning, FlightKind, FlightStage, Io, IoTarget, LegRole, MirrorEngine, Owner, fault,
};
use crate::mirror::record::LEGS_MAX;
use crate::op::{OpKind, Outcome};

/// Retries of an operation on the same leg after a failure that may pass.
pub(crate) const RETRIES_MAX: u8 = 3;

impl MirrorEngine {
    /// Marks the regions of a write, which begins when the marks are durable.
    pub(super) fn reserve(&mut self, op: u64) {
        let Some(flight) = self.flights.get_mut(&op) else { return };
        flight.stage = FlightStage::Bits;
        let is_first = !core::mem::replace(&mut flight.is_busy, true);
        let (lba, blocks) = (flight.lba, flight.blocks);
        for region in self.regions_of(lba, blocks) {
            self.maps.busy[region] += u32::from(is_first);
            self.want(region);
        }
        self.due.push_back(op);
    }

    /// Returns whether a leg is not in sync, by what is durable or wanted.
    pub(super) fn is_someone_absent(&self) -> bool {
        self.stable.members & self.record.members & self.want.members != self.record.all()
    }

    pub(super) fn are_bits_stored(&self, op: u64) -> bool {
        let Some(flight) = self.flights.get(&op) else { return false };
        let missed = Some(&self.maps.stored[1]).filter(|_| self.is_someone_absent());
        self.regions_of(flight.lba, flight.blocks)
            .all(|region| self.is_marked(region) && missed.is_none_or(|missed| missed.has(region)))
    }

    /// Sends a flight to all legs that get writes.
    pub(super) fn store(&mut self, op: u64) {
        let Some(flight) = self.flights.get(&op) else { return };
        let kind = flight.kind;
        let targets = match kind {
            FlightKind::Copy { .. } => flight.pending,
            FlightKind::Flush(super::Purpose::Join(leg)) => 1 << leg,
            // A leg that is copied to may be in sync before the write counts as durable, or the
            // mark of its region is cleared, by a flush that began before it.
            FlightKind::Flush(super::Purpose::Heal(_) | super::Purpose::Evict) => {
                self.with(|role| matches!(role, LegRole::Member | LegRole::Copying))
            }
            FlightKind::Flush(_) => self.with(|role| role == LegRole::Member),
            FlightKind::User(_) => {
                self.with(|role| matches!(role, LegRole::Member | LegRole::Copying))
            }
        };
        let targets =
            targets & self.with(|role| matches!(role, LegRole::Member | LegRole::Copying));
        let is_flush = matches!(kind, FlightKind::Flush(_) | FlightKind::User(OpKind::Flush));
        let counted = targets | self.missing(0);
        if let Some(flight) = self.flights.get_mut(&op) {
            flight.exempt = if is_flush { !counted } else { 0 };
            (flight.stage, flight.pending) = (FlightStage::Storing, targets);
            (flight.bad, flight.failure, flight.retries) = (0, None, 0);
        }
        (0..LEGS_MAX).filter(|leg| targets >> leg & 1 != 0).for_each(|leg| self.send(op, leg));
        if targets == 0 {
            self.due.push_back(op);
        }
    }

    fn send(&mut self, op: u64, leg: usize) {
        let Some(flight) = self.flights.get(&op) else { return };
        let io = match flight.kind {
            FlightKind::User(OpKind::Flush) | FlightKind::Flush(_) => Io::Flush,
            FlightKind::User(_) => Io::Write { op },
            FlightKind::Copy { .. } => {
                let (copy, lba, blocks) = (op, flight.lba, flight.blocks);
                match self.roles[leg] {
                    // A leg in sync holds most of it.
                    LegRole::Member => Io::Equalise { copy, lba, blocks },
                    _ => Io::Store { copy, lba, blocks },
                }
            }
        };
        self.emit(Owner::Flight(op), IoTarget::Leg(leg), false, io);
    }

    pub(super) fn flight_done(&mut self, op: u64, leg: usize, outcome: Outcome) {
        let Some(flight) = self.flights.get(&op) else { return };
        match flight.stage {
            FlightStage::Fetching => self.fetched(op, leg, outcome),
            FlightStage::Storing if flight.pending >> leg & 1 != 0 => self.stored(op, leg, outcome),
            _ => {}
        }
    }

    fn stored(&mut self, op: u64, leg: usize, outcome: Outcome) {
        let Some(flight) = self.flights.get_mut(&op) else { return };
        if outcome.is_success() {
            flight.good |= 1 << leg;
        } else if fault(&outcome) == FailureMeaning::Passing && flight.retries < RETRIES_MAX {
            flight.retries += 1;
            return self.send(op, leg);
        } else {
            flight.bad |= 1 << leg;
            let first = flight.failure.get_or_insert(outcome);
            // What the request itself is to blame for says the most.
            if fault(&outcome) == FailureMeaning::Request {
                *first = outcome;
            }
        }
        flight.pending &= !(1 << leg);
        if flight.pending == 0 {
            self.due.push_back(op);
        }
    }

    /// All legs have answered: drops those that failed, and acknowledges when that is durable.
    pub(super) fn judge_write(&mut self, op: u64) {
        let Some(flight) = self.flights.get(&op) else { return };
        let (good, bad, failure) = (flight.good, flight.bad, flight.failure);
        let members = self.with(|role| role == LegRole::Member);
        // A copy was read from a leg that has it; the flush of a leg that is not in sync yet says
        // nothing of others.
        let is_own = matches!(
            flight.kind,
            FlightKind::Copy { .. } | FlightKind::Flush(super::Purpose::Join(_))
        );
        let is_executed = is_own || good & members != 0;
        let failed =
            failure.unwrap_or(Outcome::settled(crate::Status::new(crate::StatusKind::Gone)));
        if !is_executed {
            return if super::is_unreachable(&failed) {
                self.halt(super::Halt::TooFewLegs)
            } else {
                self.fail_write(op, failed)
            };
        }
        let mut is_kept = false;
        for leg in (0..LEGS_MAX).filter(|leg| bad >> leg & 1 != 0) {
            is_kept |= !self.give_up(leg, &failed);
        }
        if self.halted.is_some() {
            return;
        }
        if is_kept {
            return self.fail_write(op, failed);
        }
        if is_own {
            let outcome = if bad == 0 { Outcome::SUCCESS } else { failed };
            return self.finish(op, outcome);
        }
        if let Some(flight) = self.flights.get_mut(&op) {
            flight.stage = FlightStage::Loss;
        }
        self.due.push_back(op);
    }

    /// A write fails; unless no leg can have executed it, legs may differ now.
    pub(super) fn fail_write(&mut self, op: u64, outcome: Outcome) {
        let Some(flight) = self.flights.get(&op) else { return };
        let is_harmless = flight.good == 0 && fault(&outcome) == FailureMeaning::Request;
        let (lba, blocks) = (flight.lba, flight.blocks);
        let outcome = match outcome {
            // It may have reached another leg.
            Outcome::NotSent(status) if flight_may_have_executed(flight) => {
                Outcome::settled(status)
            }
            other => other,
        };
        if blocks > 0 && !is_harmless {
            self.suspect(lba, blocks);
        }
        self.finish(op, outcome);
    }

    /// The legs in sync may differ in these blocks.
    pub(super) fn suspect(&mut self, lba: u64, blocks: u32) {
        for region in self.regions_of(lba, blocks) {
            self.maps.suspect.set(region);
            self.stay(region);
            self.copier.disturb(region);
        }
    }

    pub(super) fn is_suspect(&self, op: u64) -> bool {
        let Some(flight) = self.flights.get(&op) else { return false };
        (self.want.members | self.missing(0)).count_ones() > 1
            && self
                .regions_of(flight.lba, flight.blocks)
                .any(|region| self.maps.suspect.has(region))
    }

    /// The leg no longer answers: its operations in flight have failed, except for reads, which end
    /// by themselves.
    pub(super) fn forget(&mut self, leg: usize) {
        let gone = Outcome::unsettled(crate::Status::new(crate::StatusKind::Gone));
        let of_leg = |(_, (_, target, is_read)): &(&u64, &(Owner, IoTarget, bool))| {
            *target == IoTarget::Leg(leg) && !is_read
        };
        let names: Vec<u64> = self.pending.iter().filter(of_leg).map(|(name, _)| *name).collect();
        for name in names {
            let Some((owner, target, _)) = self.pending.remove(&name) else { continue };
            match owner {
                Owner::Flight(op) => self.flight_done(op, leg, gone),
                Owner::Meta => self.meta_done(target, gone),
                Owner::Greeting => {}
            }
        }
    }
}

fn flight_may_have_executed(flight: &super::Flight) -> bool {
    flight.good != 0 || flight.bad.count_ones() > 1
}
