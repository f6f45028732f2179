//! One normal session: commands of the initiator become operations of devices, completions become
//! answers.

use super::connection::announce;
use super::reset::Waits;
use super::split::{Lost, Split};
use super::target_state::{IscsiMessage, Mailbox, Message, TargetState};
use super::units::View;
use crate::export::device_side::DeviceSide;
use crate::export::dialect::{Dialect, Starved};
use crate::reservations::NamespaceReservations;
use std::sync::Arc;
use weft_block::{Completion, OpKind, Outcome, Status, StatusKind};
use weft_connection::pump::Flow;
use weft_connection::statistics::{CommandName, OperationKind};
use weft_connection::status::scsi::to_scsi;
use weft_io::{DriverId, Handle};
use weft_proto::iscsi::pdu::{CommandFlags, ScsiCommand};
use weft_proto::iscsi::target::{TargetConnection, TargetEvent, TargetResponse};
use weft_proto::reservation::ReservationRefusal;
use weft_proto::scsi::lun::{DeviceOutcome, Nexus, Reply, Step, Task, UnitRequest};
use weft_proto::scsi::opcode::OpCode;
use weft_proto::scsi::sense::{SENSE_BYTES_MAX, Sense};
use weft_proto::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};
use weft_proto::stream::Tag;

/// A write whose data is stored as it arrives.
const WRITE: OpKind = OpKind::Write { fua: false };

/// What a session keeps of a command.
#[derive(Default)]
pub(super) struct SessionCommand {
    pub(super) task: Task,
    /// A device has an operation of it.
    pub(super) in_device: bool,
    /// That is one on reservations.
    pub(super) reserves: bool,
    /// The request that became several operations.
    pub(super) split: Option<Box<Split>>,
    /// Bytes of the initiator's data that it wants in memory.
    pub(super) wanted: u32,
    /// It ends without a response as soon as its memory is free.
    pub(super) dying: bool,
}

/// The I/O side of a connection after login.
pub(super) struct Session {
    pub(super) nexus: Box<Nexus>,
    pub(super) shared: Arc<TargetState>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) commands: Vec<SessionCommand>,
    pub(super) side: DeviceSide<Starved<UnitRequest>>,
    /// Those of the logical units, by their numbers.
    pub(super) reservations: Arc<[Option<Arc<NamespaceReservations>>]>,
    /// The memory of long requests of which a device still has parts.
    lost: Lost,
    pub(super) waits: Waits,
    /// The initiator has asked for the end.
    pub(super) logging_out: bool,
    /// To be closed once everything is sent.
    pub(super) over: bool,
}

/// Whether a command was only told what has happened before: that is no error of it, as its
/// initiator sends it again.
fn is_attention(reply: &Reply) -> bool {
    reply.sense.is_some_and(|sense| sense.key == SenseKey::UNIT_ATTENTION)
}

impl Session {
    pub(super) fn new(
        nexus: Box<Nexus>,
        shared: Arc<TargetState>,
        mailbox: Arc<Mailbox>,
        side: DeviceSide<Starved<UnitRequest>>,
    ) -> Self {
        let tags = side.memory.tags();
        Self {
            nexus,
            shared,
            mailbox,
            commands: (0..tags).map(|_| SessionCommand::default()).collect(),
            side,
            reservations: Arc::new([]),
            lost: Lost::default(),
            waits: Waits::default(),
            logging_out: false,
            over: false,
        }
    }

    #[inline]
    pub(super) fn event(
        &mut self,
        on: &Handle,
        engine: &mut TargetConnection,
        event: TargetEvent,
    ) -> Flow {
        self.side.meter.turn(on.now());
        match event {
            TargetEvent::Command { tag, command } => self.command(on, engine, tag, &command),
            TargetEvent::DataArrived { tag }
                if self.side.memory.len(tag) < self.commands[tag.index()].wanted as usize =>
            {
                let bytes = self.commands[tag.index()].wanted;
                self.fetch(on, engine, tag, bytes)
            }
            TargetEvent::DataArrived { tag } => {
                let task = &mut self.commands[tag.index()].task;
                let step = match self.side.placed(tag) {
                    None => self.nexus.data(task, self.side.memory.first(tag)),
                    Some(Some(outcome)) => {
                        self.nexus.finished(task, device_outcome(WRITE, &outcome), &[])
                    }
                    Some(None) => self.kept_out(tag),
                };
                self.follow(on, engine, tag, step)
            }
            TargetEvent::DataFailed { tag } => {
                let sense = Sense::new(
                    SenseKey::ABORTED_COMMAND,
                    AdditionalSense::PROTOCOL_SERVICE_CRC_ERROR,
                );
                self.refuse(engine, tag, ScsiStatus::CHECK_CONDITION, Some(sense));
                Flow::Continue
            }
            TargetEvent::Dropped { tag } => {
                self.side.memory.free(tag);
                self.settled(engine, tag);
                Flow::Continue
            }
            TargetEvent::Task { tag, function, request, referenced } => {
                self.manage(engine, tag, function, &request, referenced);
                Flow::Continue
            }
            TargetEvent::Logout => {
                self.logging_out = true;
                self.abort_all(engine);
                Flow::Continue
            }
            TargetEvent::Login | TargetEvent::Pong => Flow::Continue,
        }
    }

    #[inline]
    fn command(
        &mut self,
        on: &Handle,
        engine: &mut TargetConnection,
        tag: Tag,
        command: &ScsiCommand,
    ) -> Flow {
        let name = || CommandName::Scsi(OpCode(command.cdb[0]), command.task.0);
        self.side.meter.start(tag, OperationKind::Other);
        self.side.meter.called(tag, name);
        if self.side.is_draining() {
            self.refuse(engine, tag, ScsiStatus::BUSY, None);
            return Flow::Continue;
        }
        let data_out =
            if command.flags.has(CommandFlags::WRITE) { command.expected_bytes } else { 0 };
        let step = self.nexus.start(
            &mut self.commands[tag.index()].task,
            command.lun.0,
            &command.cdb,
            data_out,
        );
        self.follow(on, engine, tag, step)
    }

    /// The data of a write was kept from the device. If the reason for that has gone since, the
    /// initiator must send it again.
    #[cold]
    fn kept_out(&mut self, tag: Tag) -> Step {
        let task = &mut self.commands[tag.index()].task;
        match self.nexus.data(task, &[]) {
            Step::Submit(_) => {
                let again = Outcome::NotSent(Status::new(StatusKind::Aborted));
                self.nexus.finished(task, device_outcome(WRITE, &again), &[])
            }
            step => step,
        }
    }

    /// Ends a command that got no further.
    pub(super) fn refuse(
        &mut self,
        engine: &mut TargetConnection,
        tag: Tag,
        status: ScsiStatus,
        sense: Option<Sense>,
    ) {
        let reply =
            Reply { status, sense, descriptor_sense: false, data_in_bytes: 0, transfer_bytes: 0 };
        self.reply(engine, tag, &reply);
    }

    /// Does what the logical unit says.
    #[inline]
    pub(super) fn follow(
        &mut self,
        on: &Handle,
        engine: &mut TargetConnection,
        tag: Tag,
        step: Step,
    ) -> Flow {
        match step {
            Step::Fetch { bytes } => return self.fetch(on, engine, tag, bytes),
            Step::Submit(request) => self.submit(on, tag, request),
            Step::Respond { bytes } => self.respond(on, engine, tag, bytes),
            Step::Reserve => self.reserve(tag),
            Step::Reply(reply) => self.reply(engine, tag, &reply),
        }
        Flow::Continue
    }

    /// Gives a command memory to be answered in.
    fn respond(&mut self, on: &Handle, engine: &mut TargetConnection, tag: Tag, bytes: u32) {
        // What is sent is padded from the same memory.
        let room = (bytes as usize).next_multiple_of(4);
        let Some(mut buf) = self.side.memory.buffer(on, room) else {
            return self.side.wait(Starved::Respond { tag, bytes });
        };
        buf.fill(0);
        let reply =
            self.nexus.respond(&mut self.commands[tag.index()].task, &mut buf[..bytes as usize]);
        let end = reply.data_in_bytes as usize;
        buf[end..end.next_multiple_of(4)].fill(0);
        self.side.memory.free(tag);
        self.side.memory.at(tag).push(buf.into());
        self.reply(engine, tag, &reply);
    }

    /// Answers a command. Memory that the initiator does not get is free at once.
    #[inline]
    pub(super) fn reply(&mut self, engine: &mut TargetConnection, tag: Tag, reply: &Reply) {
        self.side.meter.end(tag, reply.status != ScsiStatus::GOOD && !is_attention(reply));
        let _ = self.side.placed(tag);
        let mut sense = [0; SENSE_BYTES_MAX];
        let sense_bytes = reply.put_sense(&mut sense);
        let answer = TargetResponse {
            status: reply.status,
            sense: &sense[..sense_bytes],
            data_bytes: reply.data_in_bytes,
            total_bytes: reply.transfer_bytes,
        };
        if !engine.complete(tag, &answer) {
            self.side.memory.free(tag);
        }
    }

    /// The initiator has the memory's content.
    #[inline]
    pub(super) fn released(&mut self, on: &Handle, engine: &mut TargetConnection, tag: Tag) {
        self.side.meter.sent(on, tag);
        self.side.memory.free(tag);
        engine.sent(tag);
    }

    /// The initiator sees other logical units, or there are other devices behind them. What no
    /// device has taken yet and was meant for one that is gone ends.
    #[cold]
    pub(super) fn set_view(
        &mut self,
        on: &Handle,
        id: DriverId,
        engine: &mut TargetConnection,
        view: &View,
    ) {
        if self.nexus.set_units(&view.units) {
            announce(engine, 0, AdditionalSense::REPORTED_LUNS_DATA_CHANGED);
        }
        self.side.meter.follow(self.shared.names(view));
        self.side.follow(&view.devices, on, id);
        self.reservations = Arc::clone(&view.reservations);
        let revoked = self.side.take_revoked(|tag, request| {
            let task = &self.commands[tag.index()].task;
            self.nexus.revoked(task, request.lba, request.blocks)
        });
        for tag in revoked {
            // Unless it is gone.
            let sense = Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE);
            let outcome = DeviceOutcome::Failed(ScsiStatus::CHECK_CONDITION, Some(sense));
            let step = self.nexus.finished(&mut self.commands[tag.index()].task, outcome, &[]);
            let _ = self.follow(on, engine, tag, step);
        }
    }

    /// Whether no device holds anything of this session.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.side.is_quiet() && !self.holds_overdue()
    }

    /// Whether devices hold commands that were answered at a time limit; memory that came back is
    /// free.
    pub(super) fn holds_overdue(&mut self) -> bool {
        let held = self.side.holds_overdue();
        self.lost.give_back(|memory| self.side.memory.give(memory));
        held
    }
}

/// The outcome of an operation, for the logical unit.
#[inline]
fn device_outcome(kind: OpKind, outcome: &Outcome) -> DeviceOutcome {
    if outcome.is_success() {
        return DeviceOutcome::Done;
    }
    let (status, sense) = to_scsi(kind, outcome);
    DeviceOutcome::Failed(status, sense)
}

impl Dialect<TargetConnection> for Session {
    type Waiting = Starved<UnitRequest>;

    #[inline]
    fn side(&mut self) -> &mut DeviceSide<Starved<UnitRequest>> {
        &mut self.side
    }

    #[inline]
    fn completed(
        &mut self,
        on: &Handle,
        engine: &mut TargetConnection,
        tag: Tag,
        completion: &mut Completion,
        mut overdue: bool,
    ) {
        if let Some(split) = &mut self.commands[tag.index()].split
            && !split.came_back(completion)
        {
            return;
        }
        if let Some(split) = self.commands[tag.index()].split.take() {
            overdue |= self.lost.keep(*split);
        }
        let Completion { op, outcome } = completion;
        self.commands[tag.index()].in_device = false;
        if op.kind.data_factor() > 0 {
            // Others keep what they need in the command's memory, which their operations do not
            // carry.
            *self.side.memory.at(tag) = core::mem::take(&mut op.data);
        }
        if self.commands[tag.index()].dying && !(overdue && self.revive(engine, tag)) {
            return self.bury(engine, tag);
        }
        let step = self.nexus.finished(
            &mut self.commands[tag.index()].task,
            device_outcome(op.kind, outcome),
            self.side.memory.first(tag),
        );
        // What a command wants after its data was there needs no pause.
        let _ = self.follow(on, engine, tag, step);
    }

    fn retry(&mut self, on: &Handle, engine: &mut TargetConnection, command: Starved<UnitRequest>) {
        match command {
            Starved::Fetch { tag, bytes, .. } => _ = self.fetch(on, engine, tag, bytes),
            Starved::Submit { tag, request } => self.submit(on, tag, request),
            Starved::Respond { tag, bytes } => self.respond(on, engine, tag, bytes),
        }
    }

    #[inline]
    fn settle(&mut self, engine: &mut TargetConnection) {
        // Others may have looked at overdue operations since.
        let looks = self.side.has_overdue() || self.waits.are_held();
        if looks && !self.holds_overdue() {
            self.overdue_settled(engine);
        }
    }
}

// PERSISTENT RESERVE OUT: an operation on the reservations of a namespace, which others may have,
// too.

impl Session {
    /// Has the operation of a command executed. It counts as one that a device has, until
    /// [`IscsiMessage::Reserved`].
    fn reserve(&mut self, tag: Tag) {
        let unit = self.commands[tag.index()].task.unit();
        let of = self.reservations.get(unit).and_then(Option::as_ref);
        self.side.hold();
        let place = &mut self.commands[tag.index()];
        (place.in_device, place.reserves) = (true, true);
        let mailbox = Arc::clone(&self.mailbox);
        let answer = Box::new(move |outcome| {
            mailbox.post(Message::Own(IscsiMessage::Reserved(tag, outcome)))
        });
        match (self.nexus.take_operation(), of) {
            (Some(operation), Some(of)) => of.execute(operation, answer),
            (None, Some(of)) => of.confirm(answer),
            (_, None) => answer(Err(ReservationRefusal::Conflict)),
        }
    }

    /// The operation of a command has ended.
    pub(super) fn reserved(
        &mut self,
        on: &Handle,
        engine: &mut TargetConnection,
        tag: Tag,
        outcome: Result<(), ReservationRefusal>,
    ) {
        self.side.release();
        let place = &mut self.commands[tag.index()];
        (place.in_device, place.reserves) = (false, false);
        if self.commands[tag.index()].dying {
            return self.bury(engine, tag);
        }
        let step = self.nexus.reserved(&mut self.commands[tag.index()].task, outcome);
        let _ = self.follow(on, engine, tag, step);
    }
}
