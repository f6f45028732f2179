//! Changes of the stored state of the mirror. One change is in progress at a time; later requests
//! go into the next one, so that many writes share the write of their bits.
//!
//! The steps of a change: the pages of the bitmaps that differ, the record in the state file, the
//! record in the labels of all legs in sync. Each step is durable before the next one. A leg that
//! fails is dropped, and the next change says so: what this one was to say is not durable then.

use super::{Halt, Io, IoTarget, LegRole, MirrorEngine, Owner, has};
use crate::mirror::bitmap::Bitmap;
use crate::mirror::layout::{BitmapKind, PAGES, page_offset};
use crate::mirror::record::{Generation, LEGS_MAX, LegMask, MirrorRecord, STATE};
use crate::op::Outcome;
use crate::outcome::status::{Status, StatusKind};
use crate::random;
use std::collections::{BTreeSet, VecDeque};

/// A change under way.
pub(super) struct Meta {
    /// New record of the labels, if it changes.
    record: Option<MirrorRecord>,
    maps: [Bitmap; 2],
    /// Targets on which all pages are written.
    whole: BTreeSet<IoTarget>,
    steps: VecDeque<Step>,
    /// Actions of this step that have not ended.
    pending: u32,
    /// Legs that failed.
    failed: LegMask,
}

enum Step {
    Pages,
    State,
    Labels,
}

impl MirrorEngine {
    /// Returns the places of the bitmaps: the state file, or these legs.
    pub(super) fn homes(&self, members: LegMask) -> impl Iterator<Item = IoTarget> + use<> {
        let state = self.state.is_some().then_some(IoTarget::State);
        let legs = if self.state.is_some() { 0 } else { members };
        state.into_iter().chain((0..LEGS_MAX).filter(move |leg| has(legs, *leg)).map(IoTarget::Leg))
    }

    /// Returns whether the labels have to change.
    fn is_record_due(&self) -> bool {
        let is_said = self.record.claim == self.want.claim
            && self.record.is_clean == self.want.is_clean
            && self.record.unreadable == self.want.unreadable;
        let is_settled = self.stable.generation == self.record.generation;
        let is_run_settled =
            self.record.is_run_settled() && self.want.bound_ms == self.record.bound_ms;
        let is_same =
            is_said && is_settled && is_run_settled && self.want.members == self.record.members;
        !self.is_claimed || !is_same || self.want.is_new
    }

    /// Returns whether the labels say all that they have to, durably.
    pub(super) fn is_said(&self) -> bool {
        let is_changing = self.meta.as_ref().is_some_and(|meta| meta.record.is_some());
        !is_changing && self.written == 0 && !self.is_record_due()
    }

    /// Begins what is due; `false` if nothing is.
    pub(super) fn begin_meta(&mut self) -> bool {
        if self.meta.is_some() {
            return false;
        }
        let with_record = self.is_record_due();
        if !with_record
            && self.maps.stored[0] == self.maps.written
            && self.maps.stored[1] == self.maps.missed
        {
            return false;
        }
        let maps = [self.maps.written.clone(), self.maps.missed.clone()];
        let record = with_record.then(|| self.next_record());
        if let Some(record) = &record {
            self.record = record.clone();
            self.written |= record.members;
        }
        let whole = if with_record { core::mem::take(&mut self.whole) } else { BTreeSet::new() };
        let steps = if with_record {
            vec![Step::Pages, Step::State, Step::Labels]
        } else {
            vec![Step::Pages]
        };
        self.meta = Some(Meta { record, maps, whole, steps: steps.into(), pending: 0, failed: 0 });
        self.next_step();
        true
    }

    fn next_record(&mut self) -> MirrorRecord {
        let (claim, unreadable) = (self.want.claim.clone(), self.want.unreadable.clone());
        let mut next =
            MirrorRecord { claim, unreadable, is_clean: self.want.is_clean, ..self.record.clone() };
        next.bitmap_in_state = self.state.is_some();
        next.bound_ms = self.want.bound_ms;
        if !self.is_claimed || next.claim.is_some() != self.record.claim.is_some() {
            next.run = Generation { number: next.run.number + 1, tag: self.tag() };
        } else if self.stable.run == self.record.run {
            next.base = next.run.tag;
        }
        let is_settled = self.stable.generation == self.record.generation;
        if self.is_claimed
            && (self.want.is_new || !is_settled || self.want.members != self.record.members)
        {
            for leg in
                (0..LEGS_MAX).filter(|leg| has(self.stable.members & !self.want.members, *leg))
            {
                next.left[leg] = self.stable.generation;
                next.left_runs[leg] = self.reached[leg];
            }
            next.members = self.want.members;
            next.previous_tag = next.generation.tag;
            next.generation = Generation { number: next.generation.number + 1, tag: self.tag() };
            self.want.is_new = false;
        }
        next
    }

    /// A random number other than 0.
    fn tag(&mut self) -> u64 {
        self.random = self.random.wrapping_add(random::STEP);
        random::mix(self.random) | 1
    }

    /// Begins the next step that has something to do; the change ends when there is none.
    fn next_step(&mut self) {
        while let Some(meta) = &mut self.meta
            && meta.pending == 0
        {
            let Some(step) = meta.steps.pop_front() else { return self.end_meta() };
            let actions = match step {
                Step::Pages => self.pages(),
                Step::State => self.state_label(),
                Step::Labels => self.labels(),
            };
            if let Some(meta) = &mut self.meta {
                meta.pending = actions.len() as u32;
            }
            actions.into_iter().for_each(|(target, io)| self.emit(Owner::Meta, target, false, io));
        }
    }

    /// Legs whose labels and pages are written: those in sync, by what the labels are to say, that
    /// are not known to have failed.
    fn written_legs(&self) -> LegMask {
        self.want.members & self.record.members & self.with(|role| role == LegRole::Member)
    }

    fn pages(&mut self) -> Vec<(IoTarget, Io)> {
        let homes: Vec<IoTarget> = self.homes(self.written_legs()).collect();
        let Some(meta) = &self.meta else { return Vec::new() };
        let mut actions = Vec::new();
        for target in homes {
            for (map, new, stored) in [
                (BitmapKind::Written, &meta.maps[0], &self.maps.stored[0]),
                (BitmapKind::Missed, &meta.maps[1], &self.maps.stored[1]),
            ] {
                let is_whole = meta.whole.contains(&target);
                for page in (0..PAGES).filter(|page| is_whole || !new.is_same_page(stored, *page)) {
                    let (offset, bytes) = (page_offset(map, page), new.page(page));
                    actions.push((target, Io::Page { offset, bytes }));
                }
            }
        }
        // Bits that are cleared may be gone from now on.
        let [written, missed] = &meta.maps;
        self.maps.stored[0].keep(written);
        self.maps.stored[1].keep(missed);
        self.maps.version += 1;
        actions
    }

    fn state_label(&mut self) -> Vec<(IoTarget, Io)> {
        let record = self.meta.as_ref().and_then(|meta| meta.record.clone());
        let (Some(record), Some(slots)) = (record, &mut self.state) else { return Vec::new() };
        let block_bytes = slots.blocks[0].len() as u32;
        let (slot, old, new) =
            slots.put(&MirrorRecord { leg: STATE, is_syncing: false, ..record }, block_bytes);
        vec![(IoTarget::State, Io::Label { slot, old, new })]
    }

    fn labels(&mut self) -> Vec<(IoTarget, Io)> {
        let Some(record) = self.meta.as_ref().and_then(|meta| meta.record.clone()) else {
            return Vec::new();
        };
        let legs = self.written_legs();
        let label =
            |leg: usize, is_syncing| MirrorRecord { leg: leg as u8, is_syncing, ..record.clone() };
        let mut actions = Vec::new();
        for leg in (0..LEGS_MAX).filter(|leg| has(legs, *leg)) {
            let Some(slots) = &mut self.slots[leg] else { continue };
            let (slot, old, new) = slots.put(&label(leg, false), record.block_bytes);
            actions.push((IoTarget::Leg(leg), Io::Label { slot, old, new }));
        }
        if record.claim.is_none() {
            actions.extend(self.released());
        }
        actions
    }

    /// The labels of legs that are being copied to, without the name of who has them open.
    fn released(&mut self) -> Vec<(IoTarget, Io)> {
        let copying = self.with(|role| role == LegRole::Copying);
        let mut actions = Vec::new();
        for leg in (0..LEGS_MAX).filter(|leg| has(copying, *leg)) {
            let Some(slots) = &mut self.slots[leg] else { continue };
            let Ok((_, label)) = slots.newest() else { continue };
            let (slot, old, new) =
                slots.put(&MirrorRecord { claim: None, ..label }, self.record.block_bytes);
            actions.push((IoTarget::Leg(leg), Io::Label { slot, old, new }));
        }
        actions
    }

    pub(super) fn meta_done(&mut self, target: IoTarget, outcome: Outcome) {
        let is_taken =
            matches!(outcome, Outcome::Done(Status { kind: StatusKind::CompareFailed, .. }));
        match target {
            _ if outcome.is_success() => {}
            IoTarget::State => return self.halt(Halt::State(outcome.status())),
            IoTarget::Leg(_) if is_taken => return self.halt(Halt::Taken),
            IoTarget::Leg(leg) => {
                if let Some(meta) = &mut self.meta {
                    meta.failed |= 1 << leg;
                }
                if !self.give_up(leg, &outcome) {
                    // What the label says is not known, so nothing can be promised any more.
                    self.halt(Halt::TooFewLegs);
                }
            }
        }
        if self.halted.is_some() {
            return;
        }
        if let Some(meta) = &mut self.meta {
            meta.pending -= 1;
        }
        self.next_step();
    }

    fn end_meta(&mut self) {
        let Some(meta) = self.meta.take() else { return };
        let Meta { record, maps, failed, .. } = meta;
        self.maps.stored = maps;
        self.maps.version += 1;
        if let Some(record) = record {
            let is_first = !core::mem::replace(&mut self.is_claimed, true);
            // A leg that failed in the first change is told of in the next one.
            if is_first || failed & record.members == 0 {
                self.settle(record);
            }
        }
        let waiting = self.flights.keys().copied();
        self.due.extend(waiting);
    }

    /// The record in the labels is durable.
    fn settle(&mut self, record: MirrorRecord) {
        let joined = record.members & !self.stable.members;
        for leg in (0..LEGS_MAX).filter(|leg| has(joined, *leg)) {
            let copied = self.copier.joined(leg);
            self.say(super::MirrorEvent::InSync { leg, copied });
        }
        let written = record.members & self.with(|role| role == LegRole::Member);
        (0..LEGS_MAX)
            .filter(|leg| has(written, *leg))
            .for_each(|leg| self.reached[leg] = record.run.tag);
        self.stable = record;
        self.written = 0;
        if !self.is_someone_absent() {
            self.maps.missed = Bitmap::new(self.maps.busy.len());
            self.maps.version += 1;
        }
        let is_begun = self.stable.is_run_settled() && self.stable.members == self.want.members;
        if !self.is_open && is_begun && !self.want.is_new {
            self.is_open = true;
            self.out.push(super::MirrorOutput::Opened);
        }
    }
}
