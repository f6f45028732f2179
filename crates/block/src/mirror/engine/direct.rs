//! Work of loops without the engine ([`crate::mirror::direct`]): the conditions for it, and how the
//! engine takes over operations that loops cannot end.

use super::{Flight, FlightKind, FlightStage, Halt, LegRole, MirrorEngine, Purpose};
use crate::mirror::bitmap::Bitmap;
use crate::mirror::record::{LEGS_MAX, LegMask};
use crate::op::{OpKind, Outcome};

impl MirrorEngine {
    /// Returns whether only bits change until the next failure, event of a leg, or time: all legs
    /// are in sync or away, and those in sync do not differ.
    pub(crate) fn is_calm(&self) -> bool {
        // A failure that is known is acted upon when the other legs have answered.
        let is_undecided = |flight: &Flight| {
            !matches!(flight.kind, FlightKind::User(_) | FlightKind::Flush(Purpose::Evict))
                || flight.bad != 0
                || flight.failure.is_some()
        };
        self.is_open
            && self.halted.is_none()
            && !self.closing.is_begun()
            && self.sound.is_none()
            && self.to_greet == 0
            && self.roles.iter().all(|role| matches!(role, LegRole::Member | LegRole::Away))
            && self.want.unreadable.is_none()
            && self.maps.suspect.is_empty()
            && self.is_said()
            && !self.flights.values().any(is_undecided)
    }

    /// Legs in sync.
    pub(crate) fn members(&self) -> LegMask {
        self.with(|role| role == LegRole::Member)
    }

    /// Regions whose bits are durable and stay so, and that may therefore be written to: what is
    /// stored may be about to be cleared.
    pub(crate) fn marked(&self) -> Bitmap {
        let [written, missed] = &self.maps.stored;
        let mut marked = written.clone();
        marked.keep(&self.maps.written);
        if let Some(leaving) = self.hot.leaving() {
            marked.remove(leaving);
        }
        if self.is_someone_absent() {
            marked.keep(missed);
            marked.keep(&self.maps.missed);
        }
        marked
    }

    /// Changes with the result of [`MirrorEngine::marked`].
    pub(crate) fn marks_version(&self) -> u64 {
        self.maps.version
    }

    /// Regions that were written to.
    pub(crate) fn touched(&mut self) -> &mut Bitmap {
        &mut self.maps.touched
    }

    /// Takes over a write that a loop sent to these legs, with its outcomes there. Nobody else has
    /// its blocks. [`MirrorEngine::go_on`] judges it.
    pub(crate) fn adopt(
        &mut self,
        kind: OpKind,
        (lba, blocks): (u64, u32),
        outcomes: &[Option<Outcome>; LEGS_MAX],
    ) -> u64 {
        let op = self.name();
        let mut flight = Flight::new(FlightKind::User(kind), lba, blocks);
        (flight.stage, flight.is_busy) = (FlightStage::Storing, true);
        // The loop has tried again, and has the data.
        flight.retries = super::RETRIES_MAX;
        flight.pending = (0..LEGS_MAX)
            .filter(|leg| outcomes[*leg].is_some())
            .fold(0, |mask, leg| mask | 1 << leg);
        self.flights.insert(op, flight);
        for region in self.regions_of(lba, blocks) {
            self.maps.busy[region] += 1;
            self.stay(region);
        }
        let is_granted = self.ranges.request(op, lba, lba + u64::from(blocks), true);
        debug_assert!(is_granted, "the loop has the locks of its blocks");
        for (leg, outcome) in outcomes.iter().enumerate() {
            if let Some(outcome) = outcome {
                if super::is_fenced(outcome) {
                    self.halt(Halt::Fenced(leg));
                }
                self.flight_done(op, leg, *outcome);
            }
        }
        op
    }

    /// Judges what was taken over.
    pub(crate) fn go_on(&mut self) {
        self.pump();
    }
}
