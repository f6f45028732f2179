//! Operations in progress in one session, and their outcomes.

mod answers;
mod commands;
mod questions;

use super::device_state::DeviceState;
use super::identity::Identification;
use super::session_names::SessionEnd;
use super::step::Running;
use crate::source::iscsi::device_state::access_of;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weft_block::limits::RESERVATION_REPORT_BYTES;
use weft_block::{AccessState, Completion, DeviceChange, Op, OpKind, Outcome, Status, StatusKind};
use weft_connection::limits::{ABSENT_PAUSE_MS, ISCSI_PROBE_BYTES, ISCSI_RETRIES_MAX};
use weft_connection::pump::{Flow, Handler};
use weft_connection::settle::lost_writes::GONE;
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, RemoteLoop, Time};
use weft_proto::iscsi::initiator::{
    CommandOutcome, Initiator, InitiatorCommand, InitiatorEvent, ScsiData, SubmitError,
};
use weft_proto::iscsi::pdu::Lun;
use weft_proto::scsi::cdb::Command as Scsi;
use weft_proto::scsi::initiator::{
    AttentionChange as Attention, CommandVerdict, PortState, ScsiDisk,
};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, SenseKey as Key};
use weft_proto::stream::Tag;

/// Bytes of READ CAPACITY(16) data that are of interest.
const CAPACITY_BYTES: u32 = 12;

/// The task of a tag.
enum TaskSlot {
    Free,
    Io(Running),
    /// How large the disk is, which is asked after it has said that this changed.
    /// Answers the questions for it up to this one.
    Capacity([u8; CAPACITY_BYTES as usize], u64),
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
    pub(super) disk: ScsiDisk,
    pub(super) lun: Lun,
    pub(super) url: Arc<str>,
}

/// All operations of one session.
pub(super) struct Table {
    disk: ScsiDisk,
    lun: Lun,
    shared: Arc<DeviceState>,
    slots: Vec<TaskSlot>,
    /// Operations whose command is to be sent again, not before then.
    waiting: VecDeque<(Time, Running)>,
    running: usize,
    done: Vec<Completion>,
    now: Time,
    /// When a command last ended, or was sent for its own sake.
    touched: Time,
    /// When to ask for the capacity, which may have changed.
    capacity_at: Option<Time>,
    /// The last question for the size that this session has heard of.
    size_question: u64,
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
        shared: Arc<DeviceState>,
    ) -> Self {
        let Unit { disk, lun, url } = unit;
        let (slots, size_question) = (engine.capacity(), shared.size.answered());
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
            slots: (0..slots).map(|_| TaskSlot::Free).collect(),
            waiting: VecDeque::with_capacity(slots),
            running: 0,
            done: Vec::with_capacity(slots),
            now: on.now(),
            touched: on.now(),
            capacity_at: None,
            size_question,
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

    /// Whether an operation on the reservation can be done here.
    fn reserves(&self, kind: OpKind) -> bool {
        let fits = self.disk.block_bytes as usize <= RESERVATION_REPORT_BYTES;
        self.disk.reservations && if kind.is_reserve() { self.shared.is_only_session } else { fits }
    }

    /// Sends the next command of an operation, or gives it back when there is no room.
    #[inline]
    fn start(&mut self, engine: &mut Initiator, mut running: Running) -> Option<Running> {
        let (cdb, data) = running.next(&self.disk);
        match engine.submit(
            self.now.since_epoch(),
            InitiatorCommand { lun: self.lun, cdb: cdb.bytes, data },
        ) {
            Ok(tag) => {
                self.slots[tag.index()] = TaskSlot::Io(running);
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
        data: ScsiData,
        slot: TaskSlot,
    ) -> bool {
        let command = InitiatorCommand { lun: self.lun, cdb: command.encode().bytes, data };
        let Ok(tag) = engine.submit(self.now.since_epoch(), command) else { return false };
        self.slots[tag.index()] = slot;
        self.touched = self.now;
        true
    }
}

impl Handler<Initiator> for Table {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        match &mut self.slots[tag.index()] {
            TaskSlot::Io(running) => running.memory_mut(offset, len),
            TaskSlot::Capacity(data, _) => data.get_mut(offset as usize..(offset + len) as usize),
            TaskSlot::Identity(data) | TaskSlot::Ports(data) => {
                data.get_mut(offset as usize..(offset + len) as usize)
            }
            TaskSlot::Ready | TaskSlot::Free => None,
        }
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let memory = match &self.slots[tag.index()] {
            TaskSlot::Io(running) => running.memory(&self.disk, offset, len),
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

impl Drop for Table {
    fn drop(&mut self) {
        let (remote, driver) = &self.user;
        self.shared.tell_absent(&mut self.absent, false, &self.url);
        self.shared.leave(remote, *driver);
        // The loop ends, if there are any.
        for slot in self.slots.drain(..) {
            if let TaskSlot::Io(running) = slot {
                running.op.give_up();
            }
        }
        self.waiting.drain(..).for_each(|(_, running)| running.op.give_up());
    }
}

/// Whether the disk can give space back.
pub(super) fn discards(disk: &ScsiDisk) -> bool {
    disk.unmap || (disk.write_same && disk.write_same_unmap)
}

/// Whether it compares and writes as much as others expect to be done in one piece: 4 KiB.
pub(super) fn compares_blocks(disk: &ScsiDisk) -> bool {
    u32::from(disk.compare_and_write_blocks) * disk.block_bytes >= 4096
}

// Commands that must be sent again: when, and how often.

impl Table {
    /// The command was not executed, or to no avail: it is sent again, so often and for so long.
    fn again(&mut self, mut running: Running, pause: Duration, otherwise: Status) {
        let patient = if pause.is_zero() {
            running.tries < ISCSI_RETRIES_MAX
        } else {
            self.now < running.started + self.shared.limit
        };
        running.tries += u32::from(pause.is_zero());
        if !patient || running.cancelled {
            let status =
                if running.cancelled { Status::new(StatusKind::Aborted) } else { otherwise };
            return self.finish(running.op, Outcome::Done(status));
        }
        self.waiting.push_back((self.now + pause, running));
    }

    /// Sends commands again whose time has come. Gives the time of the next one.
    fn start_waiting(&mut self, engine: &mut Initiator) -> Option<Time> {
        let mut next = None;
        for _ in 0..self.waiting.len() {
            let Some((at, running)) = self.waiting.pop_front() else { break };
            if running.cancelled {
                let aborted = Status::new(StatusKind::Aborted);
                let outcome = if running.is_untouched() {
                    Outcome::NotSent(aborted)
                } else {
                    Outcome::settled(aborted)
                };
                self.finish(running.op, outcome);
                continue;
            }
            if self.identification.is_absent() {
                let outcome = if running.is_untouched() {
                    Outcome::NotSent(GONE)
                } else {
                    Outcome::settled(GONE)
                };
                self.finish(running.op, outcome);
                continue;
            }
            let left = if at <= self.now && !self.identification.holds() {
                self.start(engine, running)
            } else {
                Some(running)
            };
            if let Some(running) = left {
                next = Some(next.map_or(at, |next: Time| next.min(at)));
                self.waiting.push_back((at, running));
            }
        }
        next
    }
}

// Questions of a session about the target's port groups.

impl Table {
    /// Notes what a status says of the access state, if anything.
    fn note_access(&mut self, verdict: CommandVerdict, sense: Option<Sense>) {
        if verdict == CommandVerdict::Again(Attention::AccessState) {
            self.access.doubt();
        } else if let Some(state) = sense.and_then(refusing) {
            self.shared.set_access(access_of(Some(state)), &self.url);
            self.access.again.get_or_insert(self.now);
        }
    }

    /// Asks for the state where that is due.
    fn ask_access(&mut self, engine: &mut Initiator) {
        let due = self.access.again.is_some_and(|at| at <= self.now);
        if !(self.access.wanted || due) {
            return;
        }
        if !self.disk.asymmetric || self.disk.port_group.is_none() {
            (self.access.wanted, self.access.again) = (false, None);
            // It does not tell when it takes commands again: whether it does is to be tried.
            return self.shared.set_access(AccessState::Optimized, &self.url);
        }
        let allocation = ISCSI_PROBE_BYTES as u32;
        let command = Scsi::ReportTargetPortGroups { extended: false, allocation };
        if self.ask(
            engine,
            command,
            ScsiData::In(allocation),
            TaskSlot::Ports(Box::new([0; ISCSI_PROBE_BYTES])),
        ) {
            (self.access.wanted, self.access.again) = (false, None);
        }
    }

    /// The target has told it, or not.
    fn ports_known(&mut self, end: CommandOutcome, sense: Option<Sense>, data: &[u8]) {
        let verdict = self.verdict(end, sense);
        let (Some(CommandVerdict::Done), CommandOutcome::Answered(answer)) = (verdict, end) else {
            self.access.again = Some(self.now + Duration::from_millis(ABSENT_PAUSE_MS));
            return;
        };
        let data = &data[..(answer.received_bytes as usize).min(data.len())];
        let state = self
            .disk
            .port_group
            .and_then(|group| PortState::of_group(data, group))
            .filter(|_| !answer.damaged);
        let access = access_of(state);
        if !matches!(access, AccessState::Optimized | AccessState::NonOptimized) {
            self.access.again = Some(self.now + Duration::from_millis(ABSENT_PAUSE_MS));
        }
        self.shared.set_access(access, &self.url);
    }
}

// Access state of the logical unit through the target's port (SPC-4 §5.15), as a session learns
// it.

/// What a session knows of the access state.
#[derive(Default)]
struct Access {
    /// What was told of it last.
    told: AccessState,
    /// The target is to be asked.
    wanted: bool,
    /// It is to be asked then.
    again: Option<Time>,
}

impl Access {
    /// There is reason to ask.
    fn doubt(&mut self) {
        self.wanted = true;
    }

    /// When to ask next.
    fn next(&self) -> Option<Time> {
        self.again
    }

    /// What is news.
    fn change(&mut self, state: AccessState) -> Option<DeviceChange> {
        (core::mem::replace(&mut self.told, state) != state).then_some(DeviceChange::Access(state))
    }
}

/// The state in which a target refuses commands like this.
fn refusing(sense: Sense) -> Option<PortState> {
    match (sense.key, sense.code) {
        (Key::NOT_READY, Code::ACCESS_STATE_TRANSITION) => Some(PortState::TRANSITIONING),
        (Key::NOT_READY, Code::ACCESS_STATE_STANDBY) => Some(PortState::STANDBY),
        (Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE) => Some(PortState::UNAVAILABLE),
        (Key::NOT_READY, Code::ACCESS_STATE_OFFLINE) => Some(PortState::OFFLINE),
        _ => None,
    }
}
