//! Legs that fail, come back and are in sync again; the end.

use super::{
    Closing, FlightKind, Halt, Io, IoTarget, LegRole, MirrorEngine, MirrorEvent, MirrorOutput,
    Owner, Purpose, has,
};
use crate::mirror::bitmap::Bitmap;
use crate::mirror::labels::{FoundLeg, read};
use crate::mirror::record::{Generation, LEGS_MAX, MirrorRecord, RecordSlots};
use crate::mirror::start::names;
use crate::op::Outcome;

impl MirrorEngine {
    /// Stops using a leg that failed; `false` if the mirror cannot do without it.
    pub(super) fn give_up(&mut self, leg: usize, outcome: &Outcome) -> bool {
        match self.roles[leg] {
            LegRole::Away => return true,
            LegRole::Greeted | LegRole::Copying => {}
            LegRole::Member => {
                let rest = self.want.members & !(1 << leg);
                if rest.count_ones() < u32::from(self.record.min_legs) || rest == 0 {
                    if super::is_unreachable(outcome) {
                        self.halt(Halt::TooFewLegs);
                    }
                    return false;
                }
                self.want.members = rest;
                self.maps.missed.add(&self.maps.written);
                self.unsound(leg);
            }
        }
        self.roles[leg] = LegRole::Away;
        // A leg that was about to be in sync is not, whatever becomes of its label.
        self.want.members &= !(1 << leg);
        self.maps.missed.add(&self.maps.written);
        self.copier.abandon(leg);
        self.to_greet &= !(1 << leg);
        self.whole.remove(&IoTarget::Leg(leg));
        self.say(MirrorEvent::Dropped { leg, why: outcome.status() });
        self.out.push(MirrorOutput::Leave { leg });
        self.forget(leg);
        true
    }

    /// A leg is gone, according to its device.
    pub(crate) fn leg_gone(&mut self, leg: usize) {
        let gone = Outcome::unsettled(crate::Status::new(crate::StatusKind::Gone));
        if self.halted.is_none() {
            self.give_up(leg, &gone);
            self.pump();
        }
    }

    pub(super) fn halt(&mut self, why: Halt) {
        if self.halted.is_none() {
            self.halted = Some(why);
            self.out.push(MirrorOutput::Halted(why));
        }
    }

    /// Returns the label of a leg that could come back.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn label_of(&self, found: &FoundLeg) -> Result<(RecordSlots, MirrorRecord), String> {
        let (slots, label) = read(found)?;
        let leg = usize::from(label.leg);
        if !label.is_of_mirror_of(&self.record) {
            return Err(format!(
                "{} belongs to mirror {}, or states other sizes than this one ({})",
                found.url, label.mirror, self.record.mirror
            ));
        }
        if leg >= usize::from(self.record.legs) {
            return Err(format!(
                "{} holds a state file in place of the label of a leg; label it again with \"weft mirror replace\"",
                found.url
            ));
        }
        if self.roles[leg] != LegRole::Away || has(self.want.members, leg) {
            return Err(format!(
                "{} says that it is leg {leg}, which is in use already",
                found.url
            ));
        }
        if self.record.is_diverged(&label) {
            return Err(format!(
                "leg {leg} ({}) has generation {}, and the legs in sync here ({}) have generation {} and know it only up to generation {}: somebody \
                 started from it without them, so each has data that the other one lacks. Keep one of the two: start from that leg alone with mirror:force=on, \
                 or give it up with \"weft mirror replace\", which labels it again, so that it is copied over",
                found.url,
                label.generation.number,
                names(self.record.members),
                self.record.generation.number,
                self.record.left[leg].number
            ));
        }
        Ok((slots, label))
    }

    /// A leg is there again, with this label; what was sent to it before is settled. Returns its
    /// number.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn leg_back(&mut self, found: &FoundLeg) -> Result<usize, String> {
        let (slots, label) = self.label_of(found)?;
        let leg = usize::from(label.leg);
        let left = self.record.left[leg];
        let is_known = left.number != 0 && label.generation == left && self.is_left_run(&label);
        let regions = if is_known { None } else { Some(Bitmap::full(self.maps.busy.len())) };
        self.greet(leg, slots, regions);
        self.pump();
        Ok(leg)
    }

    /// Returns whether a leg that comes back is as it was when it left, and no older copy of that.
    fn is_left_run(&self, label: &MirrorRecord) -> bool {
        label.run.tag == self.record.left_runs[usize::from(label.leg)]
    }

    /// Says before anything is sent to the targets of a leg how long they may go on with it.
    pub(crate) fn bound(&mut self, bound_ms: u32) {
        self.want.bound_ms = self.want.bound_ms.max(bound_ms);
        self.pump();
    }

    /// Says in the label of a leg that it is copied to: from then on nobody starts from it. That
    /// waits until the labels of others say that it is not in sync, because until then it may be
    /// the one to start from.
    fn greet(&mut self, leg: usize, slots: RecordSlots, all: Option<Bitmap>) {
        self.slots[leg] = Some(slots);
        self.roles[leg] = LegRole::Greeted;
        self.copier.greet(leg, all);
        self.to_greet |= 1 << leg;
    }

    /// Writes the labels of legs that came back; `false` if there is nothing to begin.
    pub(super) fn greet_on(&mut self) -> bool {
        if self.stable.bound_ms != self.want.bound_ms {
            return false;
        }
        let Some(leg) = (0..LEGS_MAX).find(|leg| has(self.to_greet & !self.missing(0), *leg))
        else {
            return false;
        };
        self.to_greet &= !(1 << leg);
        // A tag that no generation has: until it is in sync, nothing of what it holds counts.
        let unknown = Generation { tag: 0, ..self.record.generation };
        let generation = if self.copier.is_whole(leg) { unknown } else { self.record.left[leg] };
        let tag = self.record.left_runs[leg];
        let run = Generation { tag, ..self.record.run };
        let label = MirrorRecord {
            leg: leg as u8,
            is_syncing: true,
            generation,
            run,
            base: tag,
            ..self.record.clone()
        };
        let Some(slots) = &mut self.slots[leg] else { return false };
        let (slot, old, new) = slots.put(&label, self.record.block_bytes);
        self.emit(Owner::Greeting, IoTarget::Leg(leg), false, Io::Label { slot, old, new });
        true
    }

    pub(super) fn greeted(&mut self, leg: usize, outcome: Outcome) {
        if self.roles[leg] != LegRole::Greeted {
            return;
        }
        if !outcome.is_success() {
            self.give_up(leg, &outcome);
            return;
        }
        self.roles[leg] = LegRole::Copying;
        let is_whole = self.copier.begin(leg, &self.maps.missed);
        let (regions, bytes) =
            (self.copier.backlog()[leg], self.region_blocks() * u64::from(self.record.block_bytes));
        self.say(MirrorEvent::Resync { leg, regions, bytes, is_whole });
    }

    /// A flush of the mirror's own has ended, on these legs.
    pub(super) fn flushed(&mut self, purpose: Purpose, good: u8, outcome: Outcome) {
        match purpose {
            Purpose::Join(leg) if outcome.is_success() && self.roles[leg] == LegRole::Copying => {
                self.roles[leg] = LegRole::Member;
                self.want.members |= 1 << leg;
                self.out.push(MirrorOutput::Joined { leg });
                if self.state.is_none() {
                    self.whole.insert(IoTarget::Leg(leg));
                }
            }
            Purpose::Join(leg) => {
                self.give_up(leg, &outcome);
            }
            Purpose::Heal(op) => self.flushed_for(op, outcome),
            Purpose::Evict => self.evicted(outcome.is_success() && self.want.members & !good == 0),
            Purpose::Close if outcome.is_success() => {
                self.closing = Closing::Releasing;
                let unreadable: Vec<usize> = self
                    .maps
                    .written
                    .regions()
                    .filter(|region| self.is_any_unreadable(*region))
                    .collect();
                self.maps.written = self.maps.suspect.clone();
                unreadable.into_iter().for_each(|region| self.maps.written.set(region));
                self.want.is_clean = self.maps.suspect.is_empty();
                self.want.claim = None;
            }
            // It stays as it is: not clean.
            Purpose::Close => {
                self.closing = Closing::Releasing;
                self.want.claim = None;
            }
        }
    }

    /// Ends: waits for operations, flushes, and gives the mirror back. The driver submits nothing
    /// after that.
    pub(crate) fn close(&mut self) {
        if self.closing == Closing::No {
            self.closing = Closing::Draining;
            // What has not begun to come back does not begin any more.
            for leg in (0..LEGS_MAX).filter(|leg| has(self.to_greet, *leg)) {
                self.roles[leg] = LegRole::Away;
            }
            self.to_greet = 0;
            self.close_hot();
            self.pump();
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_begun()
    }

    pub(super) fn close_on(&mut self) -> bool {
        match self.closing {
            Closing::Draining
                if self.is_open
                    && self.flights.is_empty()
                    && !self.has_to_copy()
                    && self.with(|role| role == LegRole::Greeted) == 0 =>
            {
                self.closing = Closing::Flushing;
                self.begin(FlightKind::Flush(Purpose::Close), 0, 0);
                true
            }
            Closing::Releasing
                if self.meta.is_none()
                    && self.stable.claim.is_none()
                    && self.stable.is_run_settled()
                    && self.stable.members == self.want.members =>
            {
                self.closing = Closing::Done;
                self.out.push(MirrorOutput::Closed);
                false
            }
            _ => false,
        }
    }
}
