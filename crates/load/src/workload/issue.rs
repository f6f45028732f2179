//! Choosing, building and submitting operations.

use super::direction::Direction;
use super::job::{Job, JobStage, OpInFlight, Spare};
use super::order::below;
use super::pace::Pace;
use weft_block::{Op, OpKind};
use weft_io::{Handle, Time};

/// Minimum size of a payload that takes noticeable time to make. An application has its data before
/// it writes, so a write without a schedule is due once its payload is made.
const CLOCK_BYTES_MIN: usize = 16 << 10;

/// The next operation.
struct Choice {
    direction: Direction,
    /// Its first unit, and how many there are.
    unit: u64,
    span: u64,
    due: Time,
}

impl Job {
    /// Begins as many operations as the depth, the schedule and the stage allow, and submits. Tells
    /// whether the device took any. What takes the place of operations that completed begins when
    /// they did: `reaped`.
    pub(super) fn fill(&mut self, on: &Handle, reaped: Option<Time>) -> bool {
        if !self.spare.is_empty() {
            let now = reaped.unwrap_or_else(|| on.clock());
            while let Some(spare) = self.spare.pop() {
                let Some(choice) = self.choose(now) else {
                    self.spare.push(spare);
                    break;
                };
                self.begin(on, spare, choice);
            }
        }
        self.submit(on)
    }

    /// What to do next, where, and since when it is due.
    #[inline]
    fn choose(&mut self, now: Time) -> Option<Choice> {
        match self.stage {
            JobStage::Running => self.choose_running(now),
            JobStage::Verifying => self.choose_written().map(|unit| Choice {
                direction: Direction::Read,
                unit,
                span: 1,
                due: now,
            }),
            JobStage::Connecting if self.spare.len() + 1 == self.slots.len() => {
                Some(Choice { direction: Direction::Read, unit: 0, span: self.shortest, due: now })
            }
            _ => None,
        }
    }

    #[inline]
    fn choose_running(&mut self, now: Time) -> Option<Choice> {
        if self.is_over_by_count() {
            return None;
        }
        let (paced, due) = match &self.pace {
            None => (None, now),
            Some(pace) => {
                self.next_paced(*pace, now).map(|(direction, due)| (Some(direction), due))?
            }
        };
        let (direction, unit, span) = match self.held.take() {
            Some((direction, unit)) => (direction, unit, 1),
            None => {
                let direction = paced.unwrap_or_else(|| self.draw_direction());
                let span = self.draw_span(direction)?;
                (direction, self.order.next(direction, span, &mut self.rng), span)
            }
        };
        if self.ledger.as_ref().is_some_and(|ledger| !ledger.is_free(unit)) {
            self.held = Some((direction, unit));
            return None;
        }
        self.begun += 1;
        self.begun_units += span;
        if let Some(pace) = &mut self.pace {
            pace.begin(direction, span * u64::from(self.shared.plan.unit_bytes()));
        }
        Some(Choice { direction, unit, span, due })
    }

    /// The next direction that is due, and since when; none before it is, and after the end of the
    /// schedule.
    fn next_paced(&mut self, pace: Pace, now: Time) -> Option<(Direction, Time)> {
        let (direction, due) = match pace.free() {
            None => pace.next(),
            Some(free) => match self.draw_direction() {
                drawn if drawn != free && pace.due(drawn) <= now => (drawn, pace.due(drawn)),
                _ => (free, now),
            },
        };
        let over = due > now || self.schedule.end.is_some_and(|end| due >= end);
        (!over).then_some((direction, due))
    }

    /// Whether as many operations have begun as are to be done, or as many bytes.
    pub(super) fn is_over_by_count(&self) -> bool {
        self.share.limit.is_some_and(|limit| self.begun >= limit)
            || self.share.unit_limit.is_some_and(|limit| self.begun_units + self.shortest > limit)
    }

    /// Units of the next operation; none where no size fits into what is left.
    #[inline]
    fn draw_span(&mut self, direction: Direction) -> Option<u64> {
        let Some(sizes) = &self.sizes else { return Some(1) };
        let left =
            self.share.unit_limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.begun_units));
        sizes.draw(direction, left.min(self.share.units), &mut self.rng)
    }

    #[inline]
    fn draw_direction(&mut self) -> Direction {
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
    fn begin(
        &mut self,
        on: &Handle,
        Spare { user, data }: Spare,
        Choice { direction, unit, span, mut due }: Choice,
    ) {
        let (lba, blocks) = self.blocks_of(unit, span);
        let mut data = self.sizes.as_mut().map_or(data, |sizes| sizes.take(span));
        if direction == Direction::Write {
            let offset = lba * u64::from(self.shared.plan.geometry.block_bytes);
            let made;
            (data, made) = self.payload.fill(&self.shared.noise, data, user, offset);
            if made >= CLOCK_BYTES_MIN && self.pace.is_none() {
                due = on.clock();
            }
        }
        let generation = self.ledger.as_mut().map_or(0, |ledger| match direction {
            Direction::Write => ledger.begin_write(unit),
            _ => ledger.begin_read(unit),
        });
        let kind = match direction {
            Direction::Read => OpKind::Read,
            Direction::Write => OpKind::Write { fua: false },
            Direction::Trim => OpKind::Discard,
        };
        let mut op = Op::new(kind, lba, blocks, user, data);
        if direction == Direction::Trim {
            // A discard carries no data; a job that discards does nothing else, so the memory is
            // not missed.
            op.data.clear();
        }
        if direction == Direction::Write && generation != 0 {
            self.stamp(&mut op, generation);
        }
        self.slots[op.user as usize] = OpInFlight { direction, unit, due, taken: due, generation };
        self.queued_slots.push_back(op.user as u32);
        self.queued.push_back(op);
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
            if !self.recording {
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
