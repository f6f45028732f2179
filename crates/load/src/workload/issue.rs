//! Choosing, building and submitting operations.

use super::direction::Direction;
use super::job::{Job, JobStage, OpInFlight};
use super::permutation::below;
use super::think::Hold;
use weft_block::{Op, OpKind};
use weft_io::{Handle, Time};

/// Minimum size of a payload that takes noticeable time to make. An application has its data before
/// it writes, so a write without a schedule is due once its payload is made.
const CLOCK_BYTES_MIN: usize = 16 << 10;

/// Writes of one submission: the device executes them while the data of the next are made. If all
/// were submitted together, device and job would take turns.
const WRITES_AT_A_TIME: usize = 8;

/// The next operation.
struct Choice {
    /// `None`: a flush.
    direction: Option<Direction>,
    /// Its first unit, and how many there are.
    unit: u64,
    span: u64,
    due: Time,
}

impl Choice {
    fn sync(due: Time) -> Self {
        Self { direction: None, unit: 0, span: 0, due }
    }
}

impl Job {
    /// Begins as many operations as the depth, the schedule and the stage allow, and submits. Tells
    /// whether the device took any. What takes the place of operations that completed begins when
    /// they did: `reaped`.
    pub(super) fn fill(&mut self, on: &Handle, reaped: Option<Time>) -> bool {
        let mut busy = false;
        if !self.spare.is_empty() && self.refills() {
            let now = reaped.unwrap_or_else(|| on.clock());
            while let Some(user) = self.spare.pop() {
                let Some(choice) = self.choose(on, now) else {
                    self.spare.push(user);
                    break;
                };
                let is_write = choice.direction == Some(Direction::Write);
                self.begin(on, user, choice);
                if is_write && self.queued.len().is_multiple_of(WRITES_AT_A_TIME) {
                    busy |= self.submit(on);
                }
            }
            self.filling &= !self.spare.is_empty();
        }
        self.submit(on) || busy
    }

    /// Returns whether operations begin although others are in flight: not once the depth was
    /// reached, until few enough are left (`iodepth_low`).
    fn refills(&mut self) -> bool {
        let Some(low) = self.shared.plan.spec.iodepth_low else { return true };
        self.filling |= self.slots.len() - self.spare.len() <= low as usize;
        self.filling
    }

    /// Returns whether as many operations are in flight as `latency_target` allows, given how many
    /// are not.
    #[inline]
    pub(super) fn is_deep_enough(&self, spare: usize) -> bool {
        let depth = self.search.as_ref().map(|search| search.depth() as usize);
        depth.is_some_and(|depth| self.slots.len() - spare >= depth)
    }

    /// What to do next, where, and since when it is due.
    #[inline]
    fn choose(&mut self, on: &Handle, now: Time) -> Option<Choice> {
        let read = |unit, span| Choice { direction: Some(Direction::Read), unit, span, due: now };
        let stage = self.stage;
        match stage {
            // The name of the operation that is about to be chosen has been taken from `spare`.
            JobStage::Running if self.is_deep_enough(self.spare.len() + 1) => None,
            JobStage::Running if self.pauses.is_some() && self.pauses_now(on, now) => None,
            JobStage::Running => self.choose_running(now),
            JobStage::Flushing { .. } if self.syncs.ends_with_sync() => {
                self.syncs.ended();
                Some(Choice::sync(now))
            }
            JobStage::Verifying => self.choose_written().map(|unit| read(unit, 1)),
            JobStage::Connecting if self.spare.len() + 1 == self.slots.len() => {
                Some(read(0, self.shortest))
            }
            _ => None,
        }
    }

    /// Returns whether the job pauses (`thinktime`).
    fn pauses_now(&mut self, on: &Handle, now: Time) -> bool {
        let is_idle = self.spare.len() + 1 == self.slots.len();
        let Some(pauses) = &mut self.pauses else { return false };
        match pauses.hold(now, self.begun, self.ended, is_idle) {
            Hold::No => false,
            Hold::Yes => true,
            Hold::Until(wake) => {
                on.wake_at(self.id, wake);
                let think = self.shared.plan.spec.think;
                if let Some(pace) = self.pace.as_mut().filter(|_| think.outside_rate) {
                    pace.delay(think.time);
                }
                true
            }
        }
    }

    #[inline]
    fn choose_running(&mut self, now: Time) -> Option<Choice> {
        if self.is_over_by_count() && !self.owes_sync() {
            return None;
        }
        if self.syncs.is_due() {
            return Some(Choice::sync(now));
        }
        let (paced, due) = self.next_due(now)?;
        let (direction, unit, span) = match self.held.take() {
            Some(held) => held,
            None => {
                let direction = paced.unwrap_or_else(|| self.draw_direction());
                let span = self.draw_span(direction)?;
                (direction, self.order.next(direction, span, &mut self.rng), span)
            }
        };
        if self.is_taken(direction, unit, span) {
            self.held = Some((direction, unit, span));
            return None;
        }
        self.note_begun(direction, span);
        Some(Choice { direction: Some(direction), unit, span, due })
    }

    /// Counts an operation of `span` units, and moves the schedule on.
    #[inline]
    pub(super) fn note_begun(&mut self, direction: Direction, span: u64) {
        self.begun += 1;
        self.begun_units += span;
        if let Some(pace) = &mut self.pace {
            pace.begin(direction, span * self.shared.plan.unit_bytes);
        }
    }

    /// Returns whether these units are in use by an operation that the next one has to wait for.
    #[inline]
    fn is_taken(&self, direction: Direction, unit: u64, span: u64) -> bool {
        if self.ledger.as_ref().is_some_and(|ledger| !ledger.is_free(unit)) {
            return true;
        }
        let overlaps = |slot: &&OpInFlight| {
            slot.span > 0 && slot.unit < unit + span && unit < slot.unit + slot.span
        };
        let reads = |slot: &OpInFlight| [direction, slot.direction] == [Direction::Read; 2];
        self.shared.plan.spec.serialize_overlap
            && self.slots.iter().filter(overlaps).any(|slot| !reads(slot))
    }

    /// The next direction that is due, and since when; none before it is, and after the end of the
    /// schedule. No direction if all have one clock, or none.
    #[inline]
    fn next_due(&mut self, now: Time) -> Option<(Option<Direction>, Time)> {
        let Some(pace) = &self.pace else { return Some((None, now)) };
        let (direction, due) = match pace.free() {
            None => pace.next(),
            Some(free) => {
                let drawn = self.draw_direction();
                let due = self.pace.as_ref().map_or(now, |pace| pace.due(drawn));
                if drawn != free && due <= now { (Some(drawn), due) } else { (Some(free), now) }
            }
        };
        let over = due > now || self.schedule.end.is_some_and(|end| due >= end);
        (!over).then_some((direction, due))
    }

    /// Returns whether the requested number of operations, or of bytes, has begun.
    pub(super) fn is_over_by_count(&self) -> bool {
        self.share.limit.is_some_and(|limit| self.begun >= limit)
            || self.share.unit_limit.is_some_and(|limit| self.begun_units + self.shortest > limit)
    }

    /// Returns whether a flush is due although no operation follows. As in fio, a job flushes at
    /// its end if what is left of its bytes is too little for an operation, and not if nothing is
    /// left.
    pub(super) fn owes_sync(&self) -> bool {
        let spec = &self.shared.plan.spec;
        let ios = spec.number_ios.map(|ios| ios.saturating_mul(spec.extent.loops.into()));
        let begun = self.begun_units * self.shared.plan.unit_bytes;
        let reached = ios.is_some_and(|ios| self.begun >= ios)
            || self.share.bytes.is_none_or(|bytes| begun >= bytes);
        !reached && self.syncs.is_due()
    }

    /// Units of the next operation; none where no size fits into what is left.
    #[inline]
    pub(super) fn draw_span(&mut self, direction: Direction) -> Option<u64> {
        let left =
            self.share.unit_limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.begun_units));
        self.spans.draw(direction, left.min(self.share.units), &mut self.rng)
    }

    #[inline]
    pub(super) fn draw_direction(&mut self) -> Direction {
        let spec = &self.shared.plan.spec;
        if !spec.rw.is_mixed() {
            return spec.rw.first_direction();
        }
        if below(100, &mut self.rng) < u64::from(spec.rwmixread) {
            Direction::Read
        } else {
            Direction::Write
        }
    }

    /// The next unit that was written; at the end the job drains.
    fn choose_written(&mut self) -> Option<u64> {
        let unit = self.ledger.as_ref()?.next_written(self.cursor);
        self.cursor = unit.map_or(self.share.units, |unit| unit + 1);
        unit
    }

    /// Makes the operation that was chosen.
    fn begin(&mut self, on: &Handle, user: u64, choice: Choice) {
        let Choice { direction, unit, span, mut due } = choice;
        self.syncs.began(direction);
        let (op, generation, made) = match direction {
            Some(direction) => self.data_op(user, direction, unit, span),
            None => (Op::bare(OpKind::Flush, 0, 0, user), 0, 0),
        };
        if made >= CLOCK_BYTES_MIN && self.pace.is_none() {
            due = on.clock();
        }
        self.slots[user as usize] = OpInFlight {
            direction: direction.unwrap_or(Direction::Write),
            is_sync: direction.is_none(),
            unit,
            span,
            due,
            taken: due,
            generation,
        };
        self.queued_slots.push_back(user as u32);
        self.queued.push_back(op);
    }

    /// An operation on units, the generation that it writes or must find, and the bytes that were
    /// made for it now.
    fn data_op(
        &mut self,
        user: u64,
        direction: Direction,
        unit: u64,
        span: u64,
    ) -> (Op, u32, usize) {
        let (lba, blocks) = self.blocks_of(unit, span);
        let generation = self.ledger.as_mut().map_or(0, |ledger| match direction {
            Direction::Write => ledger.begin_write(unit),
            _ => ledger.begin_read(unit),
        });
        let kind = match direction {
            Direction::Read => OpKind::Read,
            Direction::Write => OpKind::Write { fua: self.shared.plan.spec.syncs.each_write },
            // A discard carries no data.
            Direction::Trim => {
                return (Op::bare(OpKind::Discard, lba, blocks, user), generation, 0);
            }
        };
        let block_bytes = self.shared.plan.geometry.block_bytes;
        let (mut data, mut made) =
            (self.memory.take(user, blocks as usize * block_bytes as usize), 0);
        if direction == Direction::Write {
            let offset = lba * u64::from(block_bytes);
            (data, made) = self.payload.fill(&self.shared.noise, data, user, offset);
        }
        let mut op = Op::new(kind, lba, blocks, user, data);
        if direction == Direction::Write && generation != 0 {
            self.stamp(&mut op, generation);
        }
        (op, generation, made)
    }

    fn stamp(&self, op: &mut Op, generation: u32) {
        let Some(stamp) = &self.stamp else { return };
        let block_bytes = self.shared.plan.geometry.block_bytes as usize;
        let blocks = op.data.iter_mut().flat_map(|segment| segment.chunks_exact_mut(block_bytes));
        for (lba, block) in (op.lba..).zip(blocks) {
            stamp.put(block, lba, generation);
        }
    }

    /// Offers the device what is queued.
    fn submit(&mut self, on: &Handle) -> bool {
        let before = self.queued.len();
        if before == 0 {
            return false;
        }
        self.queue.submit(&mut self.queued);
        let taken = before - self.queued.len();
        if taken == 0 {
            return false;
        }
        let now = on.clock();
        if self.recording {
            let depth = self.in_flight();
            self.recorder.batch_submitted(taken, depth);
        }
        self.note_taken(taken, now);
        true
    }

    /// Notes when the device took the first `taken` of the queued operations. Those that were due
    /// together are recorded together.
    fn note_taken(&mut self, taken: usize, now: Time) {
        let mut run: Option<(Direction, Time, u64)> = None;
        for user in self.queued_slots.drain(..taken) {
            let slot = &mut self.slots[user as usize];
            slot.taken = now;
            if !self.recording || slot.is_sync {
                continue;
            }
            match &mut run {
                Some((direction, due, n)) if (*direction, *due) == (slot.direction, slot.due) => {
                    *n += 1
                }
                _ => {
                    if let Some((direction, due, n)) = run.replace((slot.direction, slot.due, 1)) {
                        self.recorder.submitted(direction, (now - due).as_nanos() as u64, n);
                    }
                }
            }
        }
        if let Some((direction, due, n)) = run {
            self.recorder.submitted(direction, (now - due).as_nanos() as u64, n);
        }
    }
}
