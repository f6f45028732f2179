//! One normal session: commands of the initiator become operations of devices, completions become
//! answers.

use super::connection::announce;
use super::reset::Waits;
use super::shared::{Mailbox, Shared};
use super::split::{Lost, Split};
use super::units::View;
use crate::export::device_side::DeviceSide;
use crate::limits::{GUARANTEED_BYTES, ISCSI_PDU_BYTES, SPARE_BYTES_MIN};
use crate::pump::Flow;
use crate::reservations::NamespaceReservations;
use crate::statistics::{Kind, Meter};
use crate::status::scsi::to_scsi;
use std::sync::Arc;
use weft_block::{BlockDevice, Change, Completion, Op, OpKind, Outcome};
use weft_io::{Buf, DriverId, Handle, Segments};
use weft_proto::iscsi::pdu::{CommandFlags, ScsiCommand};
use weft_proto::iscsi::target::{Answer, TargetConnection, TargetEvent};
use weft_proto::scsi::lun::{DeviceOutcome, Nexus, Reply, Request, RequestKind, Step, Task};
use weft_proto::scsi::sense::{SENSE_BYTES_MAX, Sense};
use weft_proto::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};
use weft_proto::stream::{StreamEngine, Tag};

/// A command that waits for memory.
#[derive(Clone, Copy)]
pub(super) enum Starved {
    /// To bring in the initiator's data; whether that comes unsolicited.
    Fetch { tag: Tag, bytes: u32, urgent: bool },
    /// To read or to repeat data.
    Submit { tag: Tag, request: Request },
    /// To answer in.
    Respond { tag: Tag, bytes: u32 },
}

impl Starved {
    pub(super) fn tag(self) -> Tag {
        match self {
            Self::Fetch { tag, .. } | Self::Submit { tag, .. } | Self::Respond { tag, .. } => tag,
        }
    }
}

/// What a session keeps of a command.
#[derive(Default)]
pub(super) struct Place {
    pub(super) task: Task,
    /// A device has an operation of it.
    pub(super) in_device: bool,
    /// That is one on reservations.
    pub(super) reserves: bool,
    /// The request that became several operations.
    pub(super) split: Option<Box<Split>>,
    /// Bytes of the initiator's data that it wants.
    wanted: u32,
    /// It ends without a response as soon as its memory is free.
    pub(super) dying: bool,
}

/// The I/O side of a connection after login.
pub(super) struct Session {
    pub(super) nexus: Box<Nexus>,
    pub(super) shared: Arc<Shared>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) places: Vec<Place>,
    pub(super) meter: Meter,
    pub(super) side: DeviceSide<Starved>,
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

impl Session {
    pub(super) fn new(
        nexus: Box<Nexus>,
        shared: Arc<Shared>,
        mailbox: Arc<Mailbox>,
        side: DeviceSide<Starved>,
        meter: Meter,
    ) -> Self {
        let tags = side.memory.tags();
        Self {
            nexus,
            shared,
            mailbox,
            places: (0..tags).map(|_| Place::default()).collect(),
            meter,
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
        self.meter.turn(on.now());
        match event {
            TargetEvent::Command { tag, command } => self.command(on, engine, tag, &command),
            TargetEvent::DataArrived { tag }
                if self.side.memory.len(tag) < self.places[tag.index()].wanted as usize =>
            {
                let bytes = self.places[tag.index()].wanted;
                self.fetch(on, engine, tag, bytes)
            }
            TargetEvent::DataArrived { tag } => {
                let step = self
                    .nexus
                    .data(&mut self.places[tag.index()].task, self.side.memory.first(tag));
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
        self.meter.start(tag, Kind::Other);
        if self.side.is_draining() {
            self.refuse(engine, tag, ScsiStatus::BUSY, None);
            return Flow::Continue;
        }
        let data_out =
            if command.flags.has(CommandFlags::WRITE) { command.expected_bytes } else { 0 };
        let step = self.nexus.start(
            &mut self.places[tag.index()].task,
            command.lun.0,
            &command.cdb,
            data_out,
        );
        self.follow(on, engine, tag, step)
    }

    /// Ends a command that got no further.
    fn refuse(
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
            Step::Reserve => self.reserve(on, engine, tag),
            Step::Reply(reply) => self.reply(engine, tag, &reply),
        }
        Flow::Continue
    }

    /// Takes memory for the initiator's data and asks for it. Data that comes unasked is taken even
    /// where there is no room for the rest, which is then asked for when there is.
    fn fetch(&mut self, on: &Handle, engine: &mut TargetConnection, tag: Tag, bytes: u32) -> Flow {
        let urgent = engine.has_unsolicited(tag);
        self.places[tag.index()].wanted = bytes;
        if bytes >= SPARE_BYTES_MIN && self.take_spare(tag, bytes)
            || self.side.memory.provide(on, tag, bytes as usize)
        {
            engine.fetch(tag, bytes);
            return Flow::Continue;
        }
        let first = bytes.min(ISCSI_PDU_BYTES);
        if urgent && engine.awaits_data() {
            // It cannot wait for data that lies behind its own.
            if first as usize > GUARANTEED_BYTES {
                self.refuse(engine, tag, ScsiStatus::TASK_SET_FULL, None);
                return Flow::Continue;
            }
            if self.side.memory.provide_reserve(on, tag, first as usize) {
                engine.fetch(tag, first);
                return Flow::Continue;
            }
        }
        self.side.wait(Starved::Fetch { tag, bytes, urgent });
        if urgent { Flow::Pause } else { Flow::Continue }
    }

    /// Takes memory of the device that a write goes to, if it has some to give.
    fn take_spare(&mut self, tag: Tag, bytes: u32) -> bool {
        let task = &self.places[tag.index()].task;
        let Some((lba, blocks)) = task.destination() else { return false };
        let unit = task.unit();
        let block_bytes = self.side.block_bytes(unit);
        let whole =
            block_bytes.is_some_and(|size| u64::from(blocks) * u64::from(size) == u64::from(bytes));
        whole
            && self.side.memory.len(tag) == 0
            && !self.is_long(unit, bytes)
            && !self.nexus.revoked(task, lba, blocks)
            && self.side.spare_for(tag, unit, (lba, blocks))
    }

    /// Makes an operation of a request.
    #[inline]
    fn submit(&mut self, on: &Handle, tag: Tag, request: Request) {
        let (kind, data) = match request.kind {
            RequestKind::Read | RequestKind::Verify => return self.submit_read(on, tag, request),
            RequestKind::WriteRepeated | RequestKind::CompareRepeated => {
                return self.submit_repeated(on, tag, request);
            }
            RequestKind::Write => (OpKind::Write { fua: request.fua }, self.side.memory.take(tag)),
            RequestKind::Compare => (OpKind::Compare, self.side.memory.take(tag)),
            RequestKind::CompareAndWrite => {
                (OpKind::CompareAndWrite { fua: request.fua }, self.side.memory.take(tag))
            }
            RequestKind::Flush => (OpKind::Flush, Segments::new()),
            RequestKind::WriteZeroes { deallocate } => {
                (OpKind::WriteZeroes { deallocate, fua: request.fua }, Segments::new())
            }
            RequestKind::Discard => (OpKind::Discard, Segments::new()),
        };
        self.push(tag, request, kind, data);
    }

    #[inline]
    fn push(&mut self, tag: Tag, request: Request, kind: OpKind, data: Segments) {
        self.count(tag, &request);
        if self.is_long(request.unit, request.bytes) {
            return self.push_parts(tag, request, kind, data);
        }
        let op = Op::new(kind, request.lba, request.blocks, tag.0.into(), data);
        self.started(tag);
        self.side.push(request.unit, op);
    }

    /// Counts a request that becomes an operation, or several.
    #[inline]
    fn count(&mut self, tag: Tag, request: &Request) {
        let kind = match request.kind {
            RequestKind::Read => Kind::Read,
            RequestKind::Write => Kind::Write,
            _ => Kind::Other,
        };
        self.meter.of(tag, kind, request.unit, request.bytes.into());
    }

    /// Whether the device takes so many bytes in several operations only.
    #[inline]
    fn is_long(&self, unit: usize, bytes: u32) -> bool {
        self.side.operation_bytes(unit).is_some_and(|most| bytes > most)
    }

    #[inline]
    pub(super) fn started(&mut self, tag: Tag) {
        self.places[tag.index()].in_device = true;
    }

    /// A read sends the device's own memory, if that lends it; else it takes some here.
    #[inline]
    fn submit_read(&mut self, on: &Handle, tag: Tag, request: Request) {
        self.side.memory.free(tag);
        // The list of the command's slot: one that had several pieces once has room for them again.
        let mut data = self.side.memory.take(tag);
        let whole = !self.is_long(request.unit, request.bytes);
        if whole && self.side.lend(request.unit, (request.lba, request.blocks), &mut data) {
            let op = Op::new(OpKind::Read, request.lba, request.blocks, tag.0.into(), data);
            self.count(tag, &request);
            self.started(tag);
            return self.side.end(op.done(Outcome::SUCCESS));
        }
        *self.side.memory.at(tag) = data;
        if !self.side.memory.provide(on, tag, request.bytes as usize) {
            return self.side.wait(Starved::Submit { tag, request });
        }
        let data = self.side.memory.take(tag);
        self.push(tag, request, OpKind::Read, data);
    }

    /// The block in the command's memory, as often as the request says.
    fn submit_repeated(&mut self, on: &Handle, tag: Tag, request: Request) {
        let copies = request.blocks.max(1) as usize;
        let block = request.bytes as usize / copies;
        let have: usize = self.side.memory.at(tag).iter().map(|segment| segment.len()).sum();
        if have < request.bytes as usize {
            let Some(mut buf) = self.side.memory.buffer(on, request.bytes as usize) else {
                return self.side.wait(Starved::Submit { tag, request });
            };
            let first = &self.side.memory.first(tag)[..block];
            buf.chunks_mut(block).for_each(|copy| copy.copy_from_slice(first));
            self.side.memory.free(tag);
            self.side.memory.at(tag).push(buf.into());
        }
        let kind = match request.kind {
            RequestKind::CompareRepeated => OpKind::Compare,
            _ => OpKind::Write { fua: request.fua },
        };
        let mut data = self.side.memory.take(tag);
        shorten(&mut data, request.bytes as usize);
        self.push(tag, request, kind, data);
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
            self.nexus.respond(&mut self.places[tag.index()].task, &mut buf[..bytes as usize]);
        let end = reply.data_in_bytes as usize;
        buf[end..end.next_multiple_of(4)].fill(0);
        self.side.memory.free(tag);
        self.side.memory.at(tag).push(buf.into());
        self.reply(engine, tag, &reply);
    }

    /// Answers a command. Memory that the initiator does not get is free at once.
    #[inline]
    pub(super) fn reply(&mut self, engine: &mut TargetConnection, tag: Tag, reply: &Reply) {
        self.meter.end(tag, reply.status != ScsiStatus::GOOD);
        let mut sense = [0; SENSE_BYTES_MAX];
        let sense_bytes = reply.put_sense(&mut sense);
        let answer = Answer {
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
    pub(super) fn released(&mut self, engine: &mut TargetConnection, tag: Tag) {
        self.side.memory.free(tag);
        engine.sent(tag);
    }

    /// Submits, reaps and answers; tells whether something happened.
    #[inline]
    pub(super) fn work(&mut self, on: &Handle, engine: &mut TargetConnection) -> bool {
        self.meter.turn(on.now());
        let Some(mut done) = self.side.reap() else {
            // Others may have looked at overdue operations since.
            let looks = self.side.has_overdue() || self.waits.are_held();
            if looks && !self.holds_overdue() {
                self.overdue_settled(engine);
            }
            return false;
        };
        for completion in done.drain(..) {
            self.completed(on, engine, completion);
        }
        self.side.reaped(done);
        true
    }

    #[inline]
    fn completed(&mut self, on: &Handle, engine: &mut TargetConnection, completion: Completion) {
        let tag = Tag(completion.op.user as u16);
        let mut overdue = self.side.completed(&completion);
        let completion = match &mut self.places[tag.index()].split {
            None => completion,
            Some(split) => match split.came_back(completion) {
                Some(whole) => whole,
                None => return,
            },
        };
        if let Some(split) = self.places[tag.index()].split.take() {
            overdue |= self.lost.keep(*split);
        }
        let Completion { op, outcome } = completion;
        self.places[tag.index()].in_device = false;
        if op.kind.data_factor() > 0 {
            // Others keep what they need in the command's memory, which their operations do not
            // carry.
            *self.side.memory.at(tag) = op.data;
        }
        if self.places[tag.index()].dying && !(overdue && self.revive(engine, tag)) {
            return self.bury(engine, tag);
        }
        let outcome = match outcome.is_success() {
            true => DeviceOutcome::Done,
            false => {
                let (status, sense) = to_scsi(op.kind, &outcome);
                DeviceOutcome::Failed(status, sense)
            }
        };
        let step = self.nexus.finished(
            &mut self.places[tag.index()].task,
            outcome,
            self.side.memory.first(tag),
        );
        // What a command wants after its data was there needs no pause.
        let _ = self.follow(on, engine, tag, step);
    }

    /// Serves commands that wait for memory, in order, as long as there is some.
    pub(super) fn feed(&mut self, on: &Handle, engine: &mut TargetConnection) {
        for _ in 0..self.side.waiting().len() {
            let Some(starved) = self.side.next_waiting() else { break };
            match starved {
                Starved::Fetch { tag, bytes, .. } => _ = self.fetch(on, engine, tag, bytes),
                Starved::Submit { tag, request } => self.submit(on, tag, request),
                Starved::Respond { tag, bytes } => self.respond(on, engine, tag, bytes),
            }
        }
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
        self.meter.follow(self.shared.names(view));
        self.side.follow(&view.devices, on, id);
        self.reservations = Arc::clone(&view.reservations);
        for starved in self.side.take_waiting() {
            let Starved::Submit { tag, request } = starved else {
                self.side.wait(starved);
                continue;
            };
            let place = &mut self.places[tag.index()];
            if !self.nexus.revoked(&place.task, request.lba, request.blocks) {
                self.side.wait(starved);
                continue;
            }
            // Unless it is gone.
            let sense = Sense::illegal(AdditionalSense::LBA_OUT_OF_RANGE);
            let outcome = DeviceOutcome::Failed(ScsiStatus::CHECK_CONDITION, Some(sense));
            let step = self.nexus.finished(&mut place.task, outcome, &[]);
            let _ = self.follow(on, engine, tag, step);
        }
    }

    /// Whether a command waits whose data stops the connection.
    pub(super) fn is_stuck(&self) -> bool {
        self.side
            .waiting()
            .iter()
            .any(|starved| matches!(starved, Starved::Fetch { urgent: true, .. }))
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

    /// The next change of a device that was not told yet.
    #[inline]
    pub(super) fn change(&mut self) -> Option<(Arc<dyn BlockDevice>, Change)> {
        self.side.change()
    }
}

/// Cuts a list of one piece to a length.
fn shorten(data: &mut Segments, bytes: usize) {
    if let Some(weft_io::Segment::Pool(buf)) = data.first_mut() {
        Buf::set_len(buf, bytes.min(buf.capacity()));
    }
}
