//! Legs that have everything that was acknowledged, where others may have lost what was not
//! flushed: too few legs were left, and when they came back the targets of some had started again.
//! What may differ is copied from the sound ones, and nothing counts as flushed before that.

use super::{FlightKind, FlightStage, LegRole, MirrorEngine, MirrorOutput};
use crate::mirror::record::LegMask;

impl MirrorEngine {
    /// Only these of the legs in sync still have what was acknowledged and not flushed. The driver
    /// says so before anything is copied.
    pub(crate) fn trust(&mut self, sound: LegMask) {
        if !self.maps.suspect.is_empty() && self.want.members & !sound != 0 {
            self.sound = Some(sound & self.want.members);
        }
    }

    /// The legs that have it, if not all in sync do.
    pub(crate) fn sound(&self) -> Option<LegMask> {
        self.sound
    }

    /// The leg to copy from. Always the same one, so that what legs have in common does not depend
    /// on who looks first.
    pub(super) fn source(&self, usable: LegMask) -> Option<usize> {
        let sound = usable & self.sound.unwrap_or(usable);
        let from = if sound == 0 { usable } else { sound };
        (from != 0).then(|| from.trailing_zeros() as usize)
    }

    /// A leg in sync is lost.
    pub(super) fn unsound(&mut self, leg: usize) {
        let Some(sound) = &mut self.sound else { return };
        *sound &= !(1 << leg);
        let sound = *sound;
        if sound == 0 {
            self.forget_unflushed();
        } else if self.want.members & !sound == 0 {
            self.made_sound();
        }
    }

    /// Data that only a sound leg has cannot be copied from it: reports the loss, and ends all
    /// waiting.
    pub(super) fn forget_unflushed(&mut self) {
        if self.sound.is_some() {
            self.out.push(MirrorOutput::Forgotten);
            self.made_sound();
        }
    }

    /// Legs are equal, or nothing can be saved.
    pub(super) fn made_sound(&mut self) {
        if self.sound.take().is_some() {
            let waiting = self
                .flights
                .iter()
                .filter(|(_, flight)| flight.stage == FlightStage::Sound)
                .map(|(op, _)| *op);
            self.due.extend(waiting);
        }
    }

    /// Sends a flush, or has it wait until all legs have what it is to make durable.
    pub(super) fn flush(&mut self, op: u64) {
        match self.flights.get_mut(&op) {
            Some(flight) if self.sound.is_some() && is_for_users(flight.kind) => {
                flight.stage = FlightStage::Sound
            }
            _ => self.store(op),
        }
    }

    /// Copying is not over although the mirror is being closed: a leg would be left behind that
    /// must not be copied from.
    pub(super) fn has_to_copy(&self) -> bool {
        self.sound.is_some() && self.with(|role| role == LegRole::Member).count_ones() > 1
    }
}

fn is_for_users(kind: FlightKind) -> bool {
    matches!(kind, FlightKind::User(_) | FlightKind::Flush(super::Purpose::Close))
}
