//! Operations that read: each from one leg in sync, and from another one if that fails.

use super::{
    FailureMeaning, FlightKind, FlightStage, Io, IoTarget, LegRole, MirrorEngine, Owner, fault, has,
};
use crate::mirror::record::LEGS_MAX;
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};

/// Retries of a read on the same leg after a failure that may pass.
const RETRIES_MAX: u8 = 3;

impl MirrorEngine {
    /// The leg for a read: the one on which it has failed before, then the one with the fewest
    /// reads in flight, then the one that read up to there.
    fn choose(&self, op: u64) -> Option<usize> {
        let flight = self.flights.get(&op)?;
        let region = *self.regions_of(flight.lba, flight.blocks).start();
        if matches!(flight.kind, FlightKind::Copy { .. }) {
            return self.source(self.with(|role| role == LegRole::Member) & !flight.bad);
        }
        let usable = (0..LEGS_MAX)
            .filter(|leg| self.roles[*leg] == LegRole::Member && !has(flight.bad, *leg));
        usable.min_by_key(|leg| {
            (
                flight.failed_on != Some(*leg),
                self.reads[*leg].in_flight,
                self.reads[*leg].end != flight.lba,
                (leg + region) % LEGS_MAX,
            )
        })
    }

    /// Reads from a leg that was not tried yet.
    pub(super) fn fetch(&mut self, op: u64) {
        if self.is_in_doubt(op) {
            return self.ask_again(op);
        }
        let Some(leg) = self.choose(op) else {
            let failure = self.flights.get(&op).and_then(|flight| flight.failure);
            return self
                .finish(op, failure.unwrap_or(Outcome::NotSent(Status::new(StatusKind::Path))));
        };
        let Some(flight) = self.flights.get_mut(&op) else { return };
        flight.stage = FlightStage::Fetching;
        let (lba, blocks) = (flight.lba, flight.blocks);
        let io = match flight.kind {
            FlightKind::Copy { .. } => Io::Fetch { copy: op, lba, blocks },
            FlightKind::User(OpKind::Read) => Io::Read { op },
            _ => Io::Compare { op },
        };
        self.reads[leg].in_flight += 1;
        self.reads[leg].end = lba + u64::from(blocks);
        self.emit(Owner::Flight(op), IoTarget::Leg(leg), true, io);
    }

    /// Returns whether legs may differ in what a user is about to see: a write failed while this
    /// operation waited, or the leg that was read is lost, and another one may hold something else.
    fn is_in_doubt(&self, op: u64) -> bool {
        let Some(flight) = self.flights.get(&op) else { return false };
        matches!(flight.kind, FlightKind::User(_))
            && flight.blocks > 0
            && !flight.is_equal
            && self.is_suspect(op)
    }

    /// Gives the blocks back and asks for them again, behind a copy.
    fn ask_again(&mut self, op: u64) {
        let granted = self.ranges.release(op);
        if let Some(flight) = self.flights.get_mut(&op) {
            flight.failure = None;
        }
        self.lock(op);
        granted.into_iter().for_each(|next| self.granted(next));
    }

    pub(super) fn fetched(&mut self, op: u64, leg: usize, outcome: Outcome) {
        self.reads[leg].in_flight = self.reads[leg].in_flight.saturating_sub(1);
        if outcome.is_success() {
            return self.fetched_well(op, leg);
        }
        let Some(flight) = self.flights.get_mut(&op) else { return };
        match fault(&outcome) {
            FailureMeaning::Request => return self.finish(op, outcome),
            FailureMeaning::Passing if flight.retries < RETRIES_MAX => {
                flight.retries += 1;
                return self.fetch(op);
            }
            FailureMeaning::Passing | FailureMeaning::Leg => {}
        }
        flight.bad |= 1 << leg;
        flight.failure = Some(outcome);
        let kind = flight.kind;
        if matches!(kind, FlightKind::Copy { .. })
            && self.sound.is_some_and(|sound| has(sound, leg))
        {
            self.forget_unflushed();
        }
        let Some(flight) = self.flights.get(&op) else { return };
        if matches!(outcome, Outcome::Done(Status { kind: StatusKind::Media, .. })) {
            // Another leg has the data; writing it again mends the blocks, or shows that they
            // cannot be mended.
            let (lba, blocks) = (flight.lba, flight.blocks);
            if self.want.members.count_ones() > 1 && !self.is_suspect(op) {
                self.suspect(lba, blocks);
            }
        } else {
            self.give_up(leg, &outcome);
        }
        if self.halted.is_none() {
            self.fetch(op);
        }
    }

    fn fetched_well(&mut self, op: u64, leg: usize) {
        let Some(flight) = self.flights.get_mut(&op) else { return };
        match flight.kind {
            FlightKind::User(OpKind::CompareAndWrite { .. }) => self.reserve(op),
            FlightKind::Copy { .. } => {
                flight.good = 1 << leg;
                self.store_copy(op, leg);
            }
            _ => self.finish(op, Outcome::SUCCESS),
        }
    }
}
