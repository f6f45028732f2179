//! Blocks that no leg in sync can be read from. They are found while legs are made equal, by
//! looking at smaller and smaller parts of what could not be copied, and remembered in the labels,
//! because a leg that is in sync without them holds something else there. A write heals what it
//! covers.
//!
//! A write that heals is acknowledged when the legs are flushed and the labels say that its blocks
//! can be read: a crash must leave neither what another leg held there before, nor a medium error
//! in place of what was acknowledged.

use super::copy::Job;
use super::{
    Flight, FlightKind, FlightStage, LegRole, MirrorEngine, MirrorEvent, Purpose, UNREADABLE,
};
use crate::limits::MIRROR_PROBE_BYTES;
use crate::mirror::unreadable::UnreadableBlocks;
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};

impl MirrorEngine {
    /// Blocks that no leg can be read from.
    pub(crate) fn unreadable(&self) -> &UnreadableBlocks {
        &self.want.unreadable
    }

    /// Returns whether any block of a region is one of them. The bit of such a region stays set, so
    /// that it is looked at again after a crash that the labels do not know of.
    pub(super) fn is_any_unreadable(&self, region: usize) -> bool {
        let start = region as u64 * self.region_blocks();
        self.want.unreadable.overlaps(start, start + self.region_blocks())
    }

    /// Returns whether it is known that some of its blocks cannot be read.
    pub(super) fn is_known(&self, flight: &Flight) -> bool {
        self.want.unreadable.overlaps(flight.lba, flight.end())
    }

    /// Returns whether a copy failed for no other reason than that all legs in sync failed to read
    /// it, or are known to.
    pub(super) fn cannot_be_read(&self, flight: &Flight, outcome: &Outcome) -> bool {
        let is_media = matches!(outcome, Outcome::Done(Status { kind: StatusKind::Media, .. }));
        is_media
            && flight.good == 0
            && (self.is_known(flight) || flight.bad == self.with(|role| role == LegRole::Member))
    }

    /// Divides what cannot be read, or remembers it if it is small enough. Returns whether the job
    /// may go on.
    pub(super) fn probe(&mut self, job: &mut Job, flight: &Flight) -> bool {
        let (lba, end) = (flight.lba, flight.end());
        if self.want.unreadable.overlaps(lba, end) {
            let rest = self.want.unreadable.rest(lba, end);
            job.probes
                .extend(rest.into_iter().rev().map(|(start, end)| (start, (end - start) as u32)));
            return true;
        }
        let least = MIRROR_PROBE_BYTES.div_ceil(self.record.block_bytes);
        if flight.blocks > least {
            let half = (flight.blocks / 2).next_multiple_of(least);
            job.probes.extend([(lba + u64::from(half), flight.blocks - half), (lba, half)]);
            return true;
        }
        // A leg that is not here may still have the data; only a leg that is copied to needs an
        // answer now.
        if job.legs == 0 && self.is_someone_absent() {
            return false;
        }
        let fits = self.want.unreadable.add(lba, end);
        if fits {
            job.unreadable.get_or_insert((lba, 0)).1 += u64::from(flight.blocks);
        } else if !core::mem::replace(&mut self.copier.is_too_much, true) {
            self.say(MirrorEvent::TooManyUnreadable);
        }
        fits
    }

    /// A write was executed: it ends, unless it has to heal first.
    pub(super) fn heal(&mut self, op: u64) {
        let Some(flight) = self.flights.get_mut(&op) else { return };
        let writes = matches!(
            flight.kind,
            FlightKind::User(OpKind::Write { .. } | OpKind::WriteZeroes { .. })
        );
        if !writes || !self.want.unreadable.overlaps(flight.lba, flight.end()) {
            return self.finish(op, Outcome::SUCCESS);
        }
        flight.stage = FlightStage::Healing;
        self.begin(FlightKind::Flush(Purpose::Heal(op)), 0, 0);
    }

    /// The legs were flushed for a write that heals.
    pub(super) fn flushed_for(&mut self, op: u64, outcome: Outcome) {
        let Some(flight) = self.flights.get_mut(&op) else { return };
        if !outcome.is_success() {
            return self.fail_write(op, outcome);
        }
        // The rest of a range may be two, and there is no room to remember them: what cannot be
        // read back is not acknowledged.
        if !self.want.unreadable.remove(flight.lba, flight.end()) {
            return self.fail_write(op, UNREADABLE);
        }
        self.copier.is_too_much = false;
        flight.stage = FlightStage::Healed;
        self.due.push_back(op);
    }

    /// Returns whether it is durable that the blocks of a write can be read again.
    pub(super) fn is_healed(&self, flight: &Flight) -> bool {
        self.missing(flight.good | flight.exempt) == 0
            && !self.stable.unreadable.overlaps(flight.lba, flight.end())
    }
}
