//! A job: one queue on one loop, kept at its depth.
//!
//! Stages: *connecting* (one read that is not measured, so that connections stand before the clock
//! starts), *waiting* for all jobs, *running*, *draining*, *flushing* if that was asked for, and
//! where blocks were written to be checked *verifying* and draining again. One turn reaps what
//! completed, moves to the next stage if it is time, and submits as many as fit. The clock is read
//! when something completed and when something was submitted.

use super::direction::Direction;
use super::floor::Watch;
use super::job_report::{Broken, JobReport, VerifyReport};
use super::job_spec::Verify;
use super::memory::Memory;
use super::order::Order;
use super::pace::Pace;
use super::payload::Payload;
use super::plan::Plan;
use super::record::Recorder;
use super::region::Share;
use super::search::Search;
use super::shared::{Event, JobProgress, LoopState, SharedRun};
use super::spans::Spans;
use super::steady::Settling;
use super::syncs::{SyncState, Syncs};
use super::think::Pauses;
use super::verify::ledger::GenerationLedger;
use super::verify::{self, BadBlock, Expected, Stamp};
use crate::error::Error;
use crate::random::Pcg;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use weft_block::{BlockQueue, Completion, ErrorKind, Op, Outcome};
use weft_io::event_loop::TimerSlot;
use weft_io::limits::BUF_BYTES_MAX;
use weft_io::{Activity, Driver, DriverId, Handle, Segments, Time};

/// Rounds of reaping and submitting in one turn. Some devices are done with an operation when they
/// have taken it, and it would be unfair to charge them for the rest of the loop's turn.
const PASSES: usize = 4;

/// The purpose of an operation in flight, found by [`Op::user`].
#[derive(Clone, Copy)]
pub(super) struct OpInFlight {
    /// That of writes for a flush.
    pub direction: Direction,
    pub is_sync: bool,
    pub unit: u64,
    /// Its units; 0 if it is a flush, or is not in flight.
    pub span: u64,
    /// When it was due, or begun.
    pub due: Time,
    /// When the device took it.
    pub taken: Time,
    /// The generation that it writes or must find; 0 when that is not known.
    pub generation: u32,
}

impl OpInFlight {
    /// In the place of an operation that is not in flight.
    const NONE: Self = Self {
        direction: Direction::Read,
        is_sync: false,
        unit: 0,
        span: 0,
        due: Time::ZERO,
        taken: Time::ZERO,
        generation: 0,
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JobStage {
    Opening,
    Connecting,
    Waiting,
    Running,
    /// Until nothing is in flight, or the time is over.
    Draining {
        give_up: Time,
    },
    /// A flush after the last write.
    Flushing {
        give_up: Time,
    },
    Verifying,
    DrainingVerify {
        give_up: Time,
    },
    Over,
}

/// When things happen, once the start is known.
#[derive(Clone, Copy, Default)]
pub(super) struct Schedule {
    pub start: Option<Time>,
    pub record: Time,
    pub end: Option<Time>,
}

/// A job.
pub(super) struct Job {
    pub id: DriverId,
    pub share: Share,
    pub shared: Arc<SharedRun>,
    pub on_loop: Rc<LoopState>,
    pub events: mpsc::Sender<Event>,
    pub queue: Box<dyn BlockQueue>,
    pub stage: JobStage,
    pub schedule: Schedule,
    pub recording: bool,
    pub recorder: Recorder,
    pub report: JobReport,
    pub order: Order,
    pub rng: Pcg,
    pub pace: Option<Pace>,
    /// Operations begun, without flushes.
    pub begun: u64,
    /// Units of them.
    pub begun_units: u64,
    /// Number of completed operations.
    pub ended: u64,
    /// Lengths of operations.
    pub spans: Spans,
    /// Units of the smallest operation.
    pub shortest: u64,
    pub syncs: SyncState,
    pub pauses: Option<Pauses>,
    pub watch: Option<Watch>,
    pub search: Option<Search>,
    pub settling: Option<Settling>,
    /// True if the depth is being filled up (`iodepth_low`).
    pub filling: bool,
    /// A choice that has to wait for another operation on the same units.
    pub held: Option<(Direction, u64, u64)>,
    pub slots: Box<[OpInFlight]>,
    pub memory: Memory,
    /// Names of the operations that are not in flight: their slots.
    pub spare: Vec<u64>,
    /// Operations that the device did not take yet, and their slots in the same order.
    pub queued: VecDeque<Op>,
    pub queued_slots: VecDeque<u32>,
    done: Vec<Completion>,
    pub payload: Payload,
    pub stamp: Option<Stamp>,
    pub ledger: Option<GenerationLedger>,
    /// The unit from which the verifying phase goes on.
    pub cursor: u64,
    timer: TimerSlot,
}

impl Job {
    /// Takes the memory; the job is the queue's owner.
    pub fn new(
        id: DriverId,
        on: &Handle,
        queue: Box<dyn BlockQueue>,
        index: u32,
        shared: &Arc<SharedRun>,
        on_loop: &Rc<LoopState>,
        events: &mpsc::Sender<Event>,
    ) -> Result<Self, Error> {
        let plan = &shared.plan;
        let (spec, share, depth) = (&plan.spec, plan.share(index), plan.spec.iodepth as usize);
        let mut rng = Pcg::new(plan.seed_of(index));
        let verify = spec.verify == Verify::Crc32c;
        let spans = plan.spans();
        let differ = spans.differ() || plan.is_odd();
        let of_one = || memory(on, plan.op_bytes() as usize);
        Ok(Self {
            id,
            share,
            on_loop: Rc::clone(on_loop),
            events: events.clone(),
            queue,
            stage: JobStage::Opening,
            schedule: Schedule::default(),
            recording: false,
            recorder: Recorder::new(spec.rw, spec.syncs != Syncs::default()),
            report: JobReport {
                index,
                verify: verify.then(VerifyReport::default),
                ..JobReport::default()
            },
            order: Order::new(&plan.rule(&share), &mut rng),
            rng,
            pace: None,
            begun: 0,
            begun_units: 0,
            ended: 0,
            spans,
            shortest: plan.shortest(),
            syncs: SyncState::new(spec.syncs),
            pauses: None,
            watch: None,
            search: None,
            settling: None,
            filling: true,
            held: None,
            slots: vec![OpInFlight::NONE; depth].into(),
            memory: Memory::new(depth, differ, of_one)?,
            spare: (0..depth as u64).collect(),
            queued: VecDeque::with_capacity(depth),
            queued_slots: VecDeque::with_capacity(depth),
            done: Vec::with_capacity(depth),
            ledger: plan.writes_pattern().then(|| GenerationLedger::new(share.units as usize)),
            payload: payload(plan, &share, of_one)?,
            stamp: verify.then(|| Stamp::new(plan.seed, plan.run)),
            cursor: 0,
            timer: TimerSlot::default(),
            shared: Arc::clone(shared),
        })
    }

    pub fn progress(&self) -> &JobProgress {
        &self.shared.progress[self.share.index as usize]
    }

    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.spare.len() - self.queued.len()
    }

    /// The first block of `span` units, and how many blocks there are: all that the units touch.
    pub fn blocks_of(&self, unit: u64, span: u64) -> (u64, u32) {
        let plan = &self.shared.plan;
        let block = u64::from(plan.geometry.block_bytes);
        let begin = self.share.begin + unit * plan.unit_bytes;
        let (first, end) = (begin / block, (begin + span * plan.unit_bytes).div_ceil(block));
        (first, (end - first) as u32)
    }

    /// Keeps the memory of an operation that has ended.
    pub fn rest(&mut self, op: Op) {
        let Op { user, data, .. } = op;
        self.slots[user as usize].span = 0;
        self.memory.give_back(user, data);
        if self.memory.has(user) {
            self.spare.push(user);
        }
    }

    /// Takes in what completed; tells when, if anything did.
    fn reap(&mut self, on: &Handle) -> Option<Time> {
        self.queue.reap(&mut self.done);
        if self.done.is_empty() || self.awaits_more() {
            return None;
        }
        let now = on.clock();
        let mut done = core::mem::take(&mut self.done);
        if self.recording {
            self.recorder.batch_completed(done.len());
        }
        for completion in done.drain(..) {
            self.complete(completion, now);
        }
        self.done = done;
        if self.recording {
            self.recorder.sample(now);
            self.progress().set(self.recorder.counts());
        }
        Some(now)
    }

    /// Returns whether too few operations have completed to be taken in
    /// (`iodepth_batch_complete_min`).
    fn awaits_more(&self) -> bool {
        let least = self.shared.plan.spec.complete_min as usize;
        self.stage == JobStage::Running && self.done.len() < least.min(self.in_flight())
    }

    fn complete(&mut self, completion: Completion, now: Time) {
        let Completion { op, outcome } = completion;
        let slot = self.slots[op.user as usize];
        if self.stage == JobStage::Connecting {
            // Whatever it ended with: what matters is that the way to the device stands as far as
            // it ever will.
            self.ledger.iter_mut().for_each(|ledger| ledger.end_read(slot.unit));
            return self.rest(op);
        }
        if outcome.is_success() {
            self.succeeded(&slot, &op, now);
        } else {
            self.report.fail(slot.direction, slot.is_sync, &outcome, op.lba);
            self.progress().failed.fetch_add(1, Relaxed);
        }
        if slot.is_sync {
            return self.rest(op);
        }
        self.ended += 1;
        if let Some(ledger) = &mut self.ledger {
            match (slot.direction, outcome) {
                (Direction::Write, Outcome::Done(status)) if status.is_success() => {
                    ledger.end_write(slot.unit)
                }
                (Direction::Write, Outcome::NotSent(_)) => ledger.withdraw_write(slot.unit),
                (Direction::Write, _) => ledger.end_failed_write(slot.unit),
                _ => ledger.end_read(slot.unit),
            }
        }
        self.rest(op);
    }

    /// Counts an operation that was done.
    fn succeeded(&mut self, slot: &OpInFlight, op: &Op, now: Time) {
        self.check(slot, op);
        let (took, is_flushing) = (now - slot.due, matches!(self.stage, JobStage::Flushing { .. }));
        if self.recording && slot.is_sync && !is_flushing {
            self.recorder.synced(took);
        }
        if self.recording && !slot.is_sync {
            let bytes = slot.span * self.shared.plan.unit_bytes;
            self.recorder.completed(slot.direction, bytes, now - slot.taken, took, now);
        }
        if slot.is_sync {
            return;
        }
        self.search.iter_mut().for_each(|search| search.ended(slot.due, took));
        let most = self.shared.plan.spec.max_latency[slot.direction.index()];
        if most.is_some_and(|most| took > most) {
            let broken = Broken::Latency { direction: slot.direction, took };
            self.report.broken.get_or_insert(broken);
        }
    }

    /// Checks the blocks of a read whose content is known.
    fn check(&mut self, slot: &OpInFlight, op: &Op) {
        let Some(found) = self.report.verify.as_mut().filter(|_| slot.direction == Direction::Read)
        else {
            return;
        };
        let plan = &self.shared.plan;
        let expected = match &self.ledger {
            Some(_) if slot.generation == 0 => return,
            Some(_) => Expected {
                seed: Some(plan.seed),
                // What is only verified was written by an earlier run.
                run: (!plan.spec.verify_only).then_some(plan.run),
                generation: Some(slot.generation),
            },
            None => Expected { seed: plan.spec.randseed, ..Expected::default() },
        };
        let blocks = op
            .data
            .iter()
            .flat_map(|segment| segment.chunks_exact(plan.geometry.block_bytes as usize));
        for (lba, block) in (op.lba..).zip(blocks) {
            if let Err(fault) = verify::check(block, lba, &expected) {
                found.add(BadBlock { lba, fault });
            }
        }
        found.blocks += u64::from(op.blocks);
    }

    /// Makes sure that the next paced operation is not late.
    fn await_due(&self, on: &Handle) -> Activity {
        if self.pauses.as_ref().is_some_and(|pauses| pauses.is_spinning(on.now())) {
            return Activity::Busy;
        }
        let is_full = self.spare.is_empty() || self.is_deep_enough(self.spare.len());
        let (JobStage::Running, Some(pace), false) = (self.stage, &self.pace, is_full) else {
            return Activity::Idle;
        };
        let (_, due) = pace.next();
        let spin = self.shared.plan.spec.rate_spin;
        if due <= on.now() || due - on.now() < spin {
            return Activity::Busy;
        }
        self.timer.arm(
            on,
            self.id,
            Time::from_nanos(due.as_nanos().saturating_sub(spin.as_nanos() as u64)),
        );
        Activity::Idle
    }
}

impl Drop for Job {
    /// The time is over, or the run was stopped.
    fn drop(&mut self) {
        self.queued.drain(..).for_each(Op::give_up);
    }
}

impl Driver for Job {
    fn work(&mut self, on: &Handle) -> Activity {
        let (mut busy, mut more) = (false, true);
        for _ in 0..PASSES {
            if self.stage == JobStage::Over {
                break;
            }
            let stage = self.stage;
            let reaped = self.reap(on);
            self.advance(on);
            let submitted = self.fill(on, reaped);
            more = reaped.is_some() || submitted || self.stage != stage;
            busy |= more;
            if !more {
                break;
            }
        }
        let is_free = !busy && self.stage != JobStage::Over;
        busy |= is_free && self.payload.make_ahead(&self.shared.noise);
        match self.await_due(on) {
            Activity::Idle => {
                let is_done = !more && !self.payload.is_behind();
                Activity::busy_if(busy).or_settled_if(is_done && self.stage == JobStage::Running)
            }
            due => due,
        }
    }
}

/// The payload of a job; `of_one` takes memory for an operation.
fn payload(
    plan: &Plan,
    share: &Share,
    of_one: impl FnOnce() -> Result<Segments, Error>,
) -> Result<Payload, Error> {
    let ahead = plan.makes_ahead().then(of_one).transpose()?;
    Ok(Payload::new(&plan.spec, share.units * plan.unit_bytes, plan.op_bytes(), ahead))
}

/// Memory for an operation of `bytes` bytes, all of it touched before the clock starts.
fn memory(on: &Handle, bytes: usize) -> Result<Segments, Error> {
    let mut data = Segments::new();
    let mut left = bytes;
    while left > 0 {
        let Some(mut buf) = on.pool().take(left.min(BUF_BYTES_MAX)) else {
            let problem = "no memory for the payload: lower iodepth, numjobs or bs";
            return Err(weft_block::Error::new(ErrorKind::NoResources, problem).into());
        };
        buf.fill(0);
        left -= buf.len();
        data.push(buf.into());
    }
    Ok(data)
}
