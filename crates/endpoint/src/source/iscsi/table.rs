//! Operations under way in one session, and what becomes of them.

mod access;
pub(super) mod reserve;
mod unit;
mod waiting;

use super::identity::Identification;
use super::isids::SessionEnd;
use super::shared::Shared;
use super::step::Running;
use crate::limits::{ISCSI_BUSY_PAUSE_MS, ISCSI_PROBE_BYTES};
use crate::pump::{Flow, Handler, StreamPump};
use crate::source::queue::{Commands, GONE, Gate};
use crate::source::settle::{Lost, iscsi_bound};
use crate::status::scsi::from_scsi;
use access::Access;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{Change, Completion, Op, OpKind, Outcome, Presence, Status, StatusKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, RemoteLoop, Time};
use weft_proto::iscsi::initiator::{
    Answer, Command, CommandData, End, Initiator, InitiatorEvent, SubmitError,
};
use weft_proto::iscsi::oddity::Oddities;
use weft_proto::iscsi::pdu::{Lun, ScsiResponseCode};
use weft_proto::scsi::cdb::Command as Scsi;
use weft_proto::scsi::initiator::{Change as Attention, Disk, Verdict};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};
use weft_proto::stream::{StreamEngine, Tag};

/// Bytes of READ CAPACITY(16) data that are of interest.
const CAPACITY_BYTES: u32 = 12;

/// One command.
enum Slot {
    Free,
    Io(Running),
    /// How large the disk is, which is asked after it has said that this changed.
    Capacity([u8; CAPACITY_BYTES as usize]),
    /// Whether it is still the same disk.
    Identity(Box<[u8; ISCSI_PROBE_BYTES]>),
    /// How well the target's port reaches the disk.
    Ports(Box<[u8; ISCSI_PROBE_BYTES]>),
    /// Whether something has happened to the disk, which it tells only when it is asked something.
    Ready,
}

/// What a session is used for.
#[derive(Clone)]
pub(super) struct Unit {
    pub(super) disk: Disk,
    pub(super) lun: Lun,
    pub(super) url: Arc<str>,
}

/// All operations of one session.
pub(super) struct Table {
    disk: Disk,
    lun: Lun,
    shared: Arc<Shared>,
    slots: Vec<Slot>,
    /// Operations whose command is to be sent again, not before then.
    waiting: VecDeque<(Time, Running)>,
    running: usize,
    done: Vec<Completion>,
    now: Time,
    /// When a command last ended, or was sent for its own sake.
    touched: Time,
    /// When to ask for the capacity, which may have changed.
    capacity_at: Option<Time>,
    access: Access,
    identification: Identification,
    /// This session says that there is no such logical unit, and is counted as one that does.
    absent: bool,
    /// The disk has said that it was started anew: what it answers after that is not to be relied
    /// on.
    is_restarted: bool,
    /// What was told of the device last.
    is_away: bool,
    /// A URL, for messages.
    url: Arc<str>,
    blocks: u64,
    /// The connection has ended.
    end: Option<Arc<SessionEnd>>,
    timer: TimerSlot,
    /// The driver of the session, and its loop.
    user: (RemoteLoop, DriverId),
}

impl Table {
    /// The table of a session that the driver `driver` of this loop has.
    pub(super) fn new(
        on: &Handle,
        driver: DriverId,
        engine: &Initiator,
        unit: Unit,
        shared: Arc<Shared>,
    ) -> Self {
        let Unit { disk, lun, url } = unit;
        let slots = engine.capacity();
        shared.enter(on.remote(), driver);
        Self {
            blocks: shared.blocks(),
            identification: Identification::new(disk.identity.clone()),
            absent: false,
            is_restarted: false,
            is_away: false,
            url,
            disk,
            lun,
            shared,
            slots: (0..slots).map(|_| Slot::Free).collect(),
            waiting: VecDeque::with_capacity(slots),
            running: 0,
            done: Vec::with_capacity(slots),
            now: on.now(),
            touched: on.now(),
            capacity_at: None,
            access: Access::default(),
            end: None,
            timer: TimerSlot::default(),
            user: (on.remote(), driver),
        }
    }

    /// How an operation ends that needs no command, if so.
    #[inline]
    fn settled(&self, op: &Op) -> Option<Outcome> {
        let failed = |kind| Some(Outcome::Done(Status::new(kind)));
        if op.lba.checked_add(op.blocks.into()).is_none_or(|end| end > self.blocks) {
            return failed(StatusKind::OutOfRange);
        }
        if op.kind.is_write() && self.disk.write_protected {
            return failed(StatusKind::WriteProtected);
        }
        let compares = |blocks| blocks <= u32::from(self.disk.compare_and_write_blocks);
        match op.kind {
            OpKind::Discard if !discards(&self.disk) => Some(Outcome::SUCCESS),
            OpKind::WriteZeroes { .. } if !self.disk.write_same => failed(StatusKind::Unsupported),
            OpKind::Compare if !compares_blocks(&self.disk) => failed(StatusKind::Unsupported),
            OpKind::CompareAndWrite { .. } if !compares_blocks(&self.disk) => {
                failed(StatusKind::Unsupported)
            }
            OpKind::Reserve(_) | OpKind::ReservationReport if !self.reserves(op.kind) => {
                failed(StatusKind::Unsupported)
            }
            OpKind::CompareAndWrite { .. } if !compares(op.blocks) => failed(StatusKind::Invalid),
            _ => None,
        }
    }

    /// Sends the next command of an operation, or gives it back when there is no room.
    #[inline]
    fn start(&mut self, engine: &mut Initiator, mut running: Running) -> Option<Running> {
        let (cdb, data) = running.next(&self.disk);
        match engine.submit(self.now.since_epoch(), Command { lun: self.lun, cdb: cdb.bytes, data })
        {
            Ok(tag) => {
                self.slots[tag.index()] = Slot::Io(running);
                None
            }
            Err(SubmitError::Full | SubmitError::Closed) => Some(running),
        }
    }

    /// Sends a command of the device's own.
    fn ask(
        &mut self,
        engine: &mut Initiator,
        command: Scsi,
        data: CommandData,
        slot: Slot,
    ) -> bool {
        let command = Command { lun: self.lun, cdb: command.encode().bytes, data };
        let Ok(tag) = engine.submit(self.now.since_epoch(), command) else { return false };
        self.slots[tag.index()] = slot;
        self.touched = self.now;
        true
    }

    #[inline]
    fn ended(&mut self, engine: &mut Initiator, tag: Tag, end: End) {
        let sense = match end {
            End::Answered(answer) if answer.status != 0 => Sense::decode(engine.sense(tag)),
            _ => None,
        };
        engine.release(tag);
        self.touched = self.now;
        match core::mem::replace(&mut self.slots[tag.index()], Slot::Free) {
            Slot::Io(running) if self.is_restarted && matches!(end, End::Answered(_)) => {
                self.finish(running.op, Outcome::settled(GONE));
            }
            Slot::Io(running) => self.io_ended(engine, running, end, sense),
            Slot::Capacity(data) => self.capacity(end, sense, &data),
            Slot::Identity(data) => self.identified(end, sense, &data[..]),
            Slot::Ports(data) => self.ports_known(end, sense, &data[..]),
            Slot::Ready => drop(self.verdict(end, sense)),
            Slot::Free => {}
        }
    }

    /// What an answer means; notes what the disk reports besides.
    fn verdict(&mut self, end: End, sense: Option<Sense>) -> Option<Verdict> {
        let End::Answered(answer) = end else { return None };
        let verdict = Verdict::of(ScsiStatus(answer.status), sense);
        if verdict == Verdict::Again(Attention::Capacity) {
            self.capacity_at = Some(self.now);
        }
        self.note_access(verdict, sense);
        if verdict == Verdict::Again(Attention::Restarted) {
            self.restarted();
        }
        if verdict.casts_doubt() {
            self.identification.doubt(self.now);
        }
        Some(verdict)
    }

    #[inline]
    fn io_ended(
        &mut self,
        engine: &mut Initiator,
        running: Running,
        end: End,
        sense: Option<Sense>,
    ) {
        match end {
            End::Answered(answer) if answer == Answer::GOOD && !running.op.kind.fills() => {
                self.step_done(engine, running)
            }
            End::Answered(answer) => self.answered(engine, running, answer, sense),
            End::NotSent if running.is_untouched() => {
                self.finish(running.op, Outcome::NotSent(Status::new(StatusKind::Aborted)))
            }
            // The target has said that it no longer knows the command.
            End::NotSent | End::Aborted => {
                self.finish(running.op, Outcome::settled(Status::new(StatusKind::Aborted)))
            }
            End::Rejected(reason) => {
                tracing::warn!("the target rejected a command: reason {:#04x}", reason.0);
                self.finish(running.op, Outcome::Done(Status::new(StatusKind::Invalid)));
            }
        }
    }

    fn answered(
        &mut self,
        engine: &mut Initiator,
        mut running: Running,
        answer: Answer,
        sense: Option<Sense>,
    ) {
        if answer.response != ScsiResponseCode::COMPLETED {
            // The target has failed to execute it, and does not know the task any more (RFC 7143
            // §11.4.3).
            return self.finish(running.op, Outcome::settled(Status::new(StatusKind::Internal)));
        }
        let status = from_scsi(ScsiStatus(answer.status), sense);
        match self.verdict(End::Answered(answer), sense) {
            Some(Verdict::Done) if running.is_whole(&self.disk, &answer) => {
                self.step_done(engine, running)
            }
            // The blocks are still there, and may come through undamaged.
            Some(Verdict::Done) if answer.damaged => {
                self.again(running, Duration::ZERO, Status::new(StatusKind::Transport))
            }
            Some(Verdict::Done) => {
                self.finish(running.op, Outcome::Done(Status::new(StatusKind::Transport)))
            }
            Some(Verdict::Again(_)) => self.again(running, Duration::ZERO, status),
            Some(Verdict::Later) => {
                self.again(running, Duration::from_millis(ISCSI_BUSY_PAUSE_MS), status)
            }
            Some(Verdict::Failed) => self.failed(engine, running, status),
            None => {}
        }
    }

    fn failed(&mut self, engine: &mut Initiator, running: Running, status: Status) {
        let flushes = running.op.kind == OpKind::Flush || running.syncing;
        if flushes
            && !self.disk.volatile_cache
            && matches!(status.kind, StatusKind::Unsupported | StatusKind::Invalid)
        {
            // It has nothing to flush, and therefore no command for it.
            return self.step_done(engine, running);
        }
        if unit::is_missing(&status) {
            self.identification.doubt(self.now);
        }
        // That there is no such logical unit is not the submitter's fault: it may come back, and
        // others may have another way to it.
        let status = if unit::is_missing(&status) { GONE } else { status };
        self.finish(running.op, Outcome::Done(status));
    }

    /// A command of an operation was done.
    #[inline]
    fn step_done(&mut self, engine: &mut Initiator, mut running: Running) {
        if !running.advance(&self.disk) {
            return self.finish(running.op, Outcome::SUCCESS);
        }
        if running.cancelled {
            return self.finish(running.op, Outcome::settled(Status::new(StatusKind::Aborted)));
        }
        let left =
            if self.identification.holds() { Some(running) } else { self.start(engine, running) };
        if let Some(running) = left {
            self.waiting.push_back((self.now, running));
        }
    }

    #[inline]
    fn finish(&mut self, op: Op, outcome: Outcome) {
        self.running -= 1;
        self.done.push(op.done(outcome));
    }

    fn handle(&mut self, engine: &mut Initiator, event: InitiatorEvent) {
        match event {
            InitiatorEvent::Ended { tag, end } => self.ended(engine, tag, end),
            InitiatorEvent::Reported { lun, code, .. } => {
                if lun == self.lun
                    && AdditionalSense(code) == AdditionalSense::CAPACITY_DATA_CHANGED
                {
                    self.capacity_at = Some(self.now);
                }
                let sense = Sense::new(SenseKey::UNIT_ATTENTION, AdditionalSense(code));
                if lun == self.lun
                    && Verdict::of(ScsiStatus::CHECK_CONDITION, Some(sense))
                        == Verdict::Again(Attention::Restarted)
                {
                    self.restarted();
                }
                if AdditionalSense(code) == AdditionalSense::ACCESS_STATE_CHANGED {
                    self.access.doubt();
                }
                if AdditionalSense(code) == AdditionalSense::REPORTED_LUNS_DATA_CHANGED {
                    self.identification.doubt(self.now);
                }
            }
            InitiatorEvent::Odd(oddity) => self.shared.remarks.on(&self.url, Oddities::of(oddity)),
            InitiatorEvent::Leaving => tracing::info!("the target wants a session to end"),
            InitiatorEvent::Ready | InitiatorEvent::Targets => {}
        }
    }
}

impl Handler<Initiator> for Table {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        match &mut self.slots[tag.index()] {
            Slot::Io(running) => running.memory_mut(offset, len),
            Slot::Capacity(data) => data.get_mut(offset as usize..(offset + len) as usize),
            Slot::Identity(data) | Slot::Ports(data) => {
                data.get_mut(offset as usize..(offset + len) as usize)
            }
            Slot::Ready | Slot::Free => None,
        }
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let memory = match &self.slots[tag.index()] {
            Slot::Io(running) => running.memory(&self.disk, offset, len),
            _ => None,
        };
        memory.expect("the engine sends what was submitted")
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut Initiator, event: InitiatorEvent) -> Flow {
        self.now = on.now();
        self.handle(engine, event);
        Flow::Continue
    }

    #[inline]
    fn released(&mut self, on: &Handle, engine: &mut Initiator, tag: Tag) {
        if let Some(event) = engine.sent(tag) {
            let _ = self.event(on, engine, event);
        }
    }
}

impl Commands for Table {
    type Link = StreamPump<Initiator>;

    #[inline]
    fn gate(&self) -> Gate {
        if self.identification.is_absent() || self.shared.why_ended().is_some() {
            Gate::Shut
        } else if self.identification.holds() {
            Gate::Held
        } else {
            Gate::Open
        }
    }

    #[inline]
    fn offer(&mut self, engine: &mut Initiator, on: &Handle, op: Op) -> Option<Op> {
        self.now = on.now();
        if let Some(outcome) = self.settled(&op) {
            self.done.push(op.done(outcome));
            return None;
        }
        // One command is kept for what the device itself wants to know.
        if engine.outstanding() + self.waiting.len() + 1 >= self.slots.len() {
            return Some(op);
        }
        match self.start(engine, Running::new(op, on.now())) {
            None => {
                self.running += 1;
                None
            }
            Some(running) => Some(running.op),
        }
    }

    fn done(&mut self) -> &mut Vec<Completion> {
        &mut self.done
    }

    fn running(&self) -> usize {
        self.running
    }

    fn cancel(&mut self, engine: &mut Initiator, user: u64) {
        if let Some((_, running)) =
            self.waiting.iter_mut().find(|(_, running)| running.op.user == user)
        {
            running.cancelled = true;
            return;
        }
        let of_user = |slot: &Slot| matches!(slot, Slot::Io(running) if running.op.user == user);
        let Some(at) = self.slots.iter().position(of_user) else { return };
        if let Slot::Io(running) = &mut self.slots[at] {
            running.cancelled = true;
        }
        if let Some(event) = engine.abort(Tag(at as u16)) {
            self.handle(engine, event);
        }
    }

    fn connection_ended(&mut self, engine: &Initiator, on: &Handle, lost: &mut Lost) {
        let agreed = engine.parameters();
        let at =
            on.now() + iscsi_bound(agreed.time2wait_s, agreed.time2retain_s, self.shared.quiesce);
        for at in 0..self.slots.len() {
            let Slot::Io(running) = core::mem::replace(&mut self.slots[at], Slot::Free) else {
                continue;
            };
            self.running -= 1;
            let untouched = running.is_untouched();
            self.done.extend(lost.take(running.op, engine.never_sent(Tag(at as u16)), untouched));
        }
        while let Some((_, running)) = self.waiting.pop_front() {
            self.running -= 1;
            let untouched = running.is_untouched();
            self.done.extend(lost.take(running.op, true, untouched));
        }
        self.session_ended(engine, on, at, lost.len() > 0);
    }

    fn settled_at(&self) -> Time {
        self.end.as_ref().map_or(self.now, |end| end.at())
    }

    fn watch(
        &mut self,
        engine: &mut Initiator,
        on: &Handle,
        driver: DriverId,
    ) -> Result<(), String> {
        self.now = on.now();
        if engine.is_closed() {
            return Err(self.violation(engine).unwrap_or_default());
        }
        if let Some(why) = self.shared.why_ended() {
            return Err(why.to_owned());
        }
        if self
            .identification
            .held_since()
            .is_some_and(|since| self.now >= since + self.shared.limit)
        {
            return Err(
                "the logical unit does not tell whether it is still the one that was opened".into(),
            );
        }
        let again = self.start_waiting(engine);
        self.look_around(engine);
        // A disk that has something to do is not asked; to look again at once would be to look all
        // the time.
        let idle = !self.shared.interval.is_zero() && self.running == 0;
        let look = idle.then(|| self.touched + self.shared.interval);
        // What waits for the names of the disk is not due before they have come.
        let again = again.filter(|_| !self.identification.holds());
        let until = self.identification.held_since().map(|since| since + self.shared.limit);
        let capacity = self.capacity_at.filter(|at| *at > self.now);
        let next = [again, look, self.identification.next(), self.access.next(), capacity, until]
            .into_iter()
            .flatten()
            .min();
        if let Some(next) = next {
            self.timer.arm(on, driver, next);
        }
        Ok(())
    }

    fn change(&mut self) -> Option<Change> {
        self.shared.tell_absent(&mut self.absent, self.identification.is_absent(), &self.url);
        let is_away = self.shared.presence() != Presence::Here;
        if is_away != self.is_away {
            self.is_away = is_away;
            return Some(if is_away { Change::Away } else { Change::Back });
        }
        if let Some(change) = self.access.change(self.shared.access()) {
            return Some(change);
        }
        let blocks = self.shared.blocks();
        if blocks == self.blocks {
            return None;
        }
        self.blocks = blocks;
        Some(Change::Resized { blocks })
    }

    fn violation(&self, engine: &Initiator) -> Option<String> {
        engine.fault().map(ToString::to_string)
    }

    fn give_back(&mut self, session: StreamPump<Initiator>) {
        self.shared.idle.give(session);
    }

    fn lost(&mut self, why: String) {
        self.shared.idle.lost(why);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let (remote, driver) = &self.user;
        self.shared.tell_absent(&mut self.absent, false, &self.url);
        self.shared.leave(remote, *driver);
        // The loop ends, if there are any.
        for slot in self.slots.drain(..) {
            if let Slot::Io(running) = slot {
                running.op.give_up();
            }
        }
        self.waiting.drain(..).for_each(|(_, running)| running.op.give_up());
    }
}

/// Whether the disk can give space back.
pub(super) fn discards(disk: &Disk) -> bool {
    disk.unmap || (disk.write_same && disk.write_same_unmap)
}

/// Whether it compares and writes as much as others expect to be done in one piece: 4 KiB.
pub(super) fn compares_blocks(disk: &Disk) -> bool {
    u32::from(disk.compare_and_write_blocks) * disk.block_bytes >= 4096
}
