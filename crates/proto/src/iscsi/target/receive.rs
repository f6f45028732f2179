//! The receiving side of a target.

use super::slot::{TaskSlot, TaskState, is_current, slot_of, transfer_tag};
use super::{Phase, TargetConnection, TargetEvent, Violation};
use crate::iscsi::digest::Digests;
use crate::iscsi::link::{Framed, Halt, Tail, frame};
use crate::iscsi::pdu::{
    BHS_BYTES, CommandFlags, DataOut, Head, NopOut, Opcode, RejectReason, ScsiCommand, TaskRequest,
    TaskTag, TextRequest,
};
use crate::iscsi::serial::Serial;
use crate::limits::{PING_BYTES_MAX, TEXT_BYTES_MAX};
use crate::scsi::sense::{SENSE_BYTES_MAX, Sense};
use crate::scsi::status::{AdditionalSense, ScsiStatus};
use crate::stream::{Rx, Tag};

/// What comes next on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Header,
    /// Immediate data of a command.
    Immediate {
        tag: Tag,
        bytes: u32,
    },
    /// Padding and digest of data that the pump moved.
    Tail(Tail),
    /// The data of a PDU that the engine reads itself.
    Inline([u8; BHS_BYTES]),
}

impl Stage {
    /// Whether what the pump moved last is not judged before its digest is there.
    pub fn awaits_digest(&self) -> bool {
        matches!(self, Self::Tail(tail) if tail.has_digest())
    }
}

/// The data that the pump was told to move or throw away last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arriving {
    /// The task; `None`: unknown.
    pub tag: Option<Tag>,
    /// Whether its unsolicited data ends with it.
    ends_unsolicited: bool,
    /// The header of its PDU.
    bhs: [u8; BHS_BYTES],
}

/// What a step came to.
pub(super) enum Step {
    /// So many bytes were used up, and there is nothing to tell.
    Used(usize),
    /// So many bytes were used up, and this is to be told.
    Tell(usize, Rx<TargetEvent>),
    /// So many bytes have to be there.
    More(usize),
}

type Stepped = Result<Step, Violation>;

/// What the order of commands says of a request (§4.2.2.1).
enum Turn {
    /// It is its turn, or it needs none.
    Now,
    /// It is outside of the window: to be ignored silently.
    Never,
}

impl TargetConnection {
    #[inline]
    pub(super) fn step(&mut self, bytes: &[u8]) -> Stepped {
        match self.stage {
            Stage::Header => self.header(bytes),
            Stage::Immediate { tag, bytes: data } => Ok(self.immediate_data(tag, data)),
            Stage::Tail(tail) => {
                if bytes.len() < tail.bytes() {
                    return Ok(Step::More(tail.bytes()));
                }
                self.stage = Stage::Header;
                Ok(match tail.expected(bytes) {
                    Some(expected) => Step::Tell(tail.bytes(), Rx::Digest { expected }),
                    None => Step::Used(tail.bytes()),
                })
            }
            Stage::Inline(bhs) => {
                let used = self.inline.take(bytes);
                if !self.inline.is_whole() {
                    return Ok(if used > 0 { Step::Used(used) } else { Step::More(1) });
                }
                self.stage = Stage::Header;
                let event = self.inline_request(&bhs)?;
                Ok(event.map_or(Step::Used(used), |event| Step::Tell(used, Rx::Event(event))))
            }
        }
    }

    /// Digests of what is received now: there are none during login.
    pub(super) fn digests(&self) -> Digests {
        if self.phase == Phase::Full || self.phase == Phase::LoggingOut {
            self.parameters.digests
        } else {
            Digests::NONE
        }
    }

    #[inline]
    fn header(&mut self, bytes: &[u8]) -> Stepped {
        if !matches!(self.phase, Phase::Full | Phase::Login) {
            return Ok(if self.phase == Phase::Closed {
                Step::Tell(0, Rx::Closed)
            } else {
                self.wait(bytes)
            });
        }
        let framed = match frame(bytes, self.digests()) {
            Ok(framed) => framed,
            Err(Halt::More(need)) => return Ok(Step::More(need)),
            Err(Halt::LongHeader) => return Err(Violation::LongHeader),
            Err(Halt::HeaderDigest) => return Err(Violation::HeaderDigest),
        };
        let limit = if self.phase == Phase::Full { self.parameters.max_recv_bytes } else { 8192 };
        if framed.head.data_bytes > limit {
            return Err(Violation::DataSegmentLength(framed.head.data_bytes));
        }
        if self.phase == Phase::Login {
            return self.login_request(&framed);
        }
        match framed.head.opcode {
            Opcode::SCSI_COMMAND => self.command(&framed),
            Opcode::DATA_OUT => self.data_out(&framed),
            Opcode::TASK_REQUEST => self.task_request(&framed),
            Opcode::NOP_OUT if framed.head.data_bytes <= PING_BYTES_MAX => {
                self.ordered_inline(&framed, NopOut::decode(framed.bhs).cmd_sn)
            }
            Opcode::TEXT_REQUEST if framed.head.data_bytes as usize <= TEXT_BYTES_MAX => {
                self.ordered_inline(&framed, TextRequest::decode(framed.bhs).cmd_sn)
            }
            Opcode::NOP_OUT | Opcode::TEXT_REQUEST => {
                self.refuse_pdu(&framed, RejectReason::INVALID_FIELD)
            }
            Opcode::LOGOUT_REQUEST => self.logout_request(&framed),
            Opcode::SNACK => self.refuse_pdu(&framed, RejectReason::SNACK),
            Opcode::LOGIN_REQUEST => self.refuse_pdu(&framed, RejectReason::PROTOCOL_ERROR),
            _ => self.refuse_pdu(&framed, RejectReason::NOT_SUPPORTED),
        }
    }

    /// Nothing is read while the layer above decides, or after a logout.
    fn wait(&self, bytes: &[u8]) -> Step {
        match self.phase {
            Phase::LoggingOut if !bytes.is_empty() => Step::Used(bytes.len()),
            _ => Step::More(bytes.len() + 1),
        }
    }

    fn login_request(&mut self, framed: &Framed<'_>) -> Stepped {
        if framed.head.opcode != Opcode::LOGIN_REQUEST {
            return Err(Violation::NotLoggedIn(framed.head.opcode.0));
        }
        self.begin_inline(framed);
        Ok(Step::Used(framed.bytes))
    }

    pub(super) fn begin_inline(&mut self, framed: &Framed<'_>) {
        self.inline.begin(framed.head.data_bytes, self.digests());
        self.stage = Stage::Inline(*framed.bhs);
    }

    /// Checks CmdSN and, where it is the request's turn, counts it.
    #[inline]
    fn turn(&mut self, immediate: bool, cmd_sn: Serial) -> Result<Turn, Violation> {
        if immediate {
            return Ok(Turn::Now);
        }
        if cmd_sn == self.exp_cmd_sn && self.in_window < self.window {
            self.exp_cmd_sn = cmd_sn.next();
            return Ok(Turn::Now);
        }
        if cmd_sn.precedes(self.exp_cmd_sn) || self.max_cmd_sn().precedes(cmd_sn) {
            return Ok(Turn::Never);
        }
        Err(Violation::CommandGap)
    }

    /// A request whose data the engine reads itself.
    fn ordered_inline(&mut self, framed: &Framed<'_>, cmd_sn: Serial) -> Stepped {
        match self.turn(framed.head.immediate, cmd_sn)? {
            Turn::Now => {
                self.begin_inline(framed);
                Ok(Step::Used(framed.bytes))
            }
            Turn::Never => Ok(self.ignore(framed)),
        }
    }

    /// Throws away the data of a PDU that is of no consequence.
    pub(super) fn ignore(&mut self, framed: &Framed<'_>) -> Step {
        let bytes = framed.head.data_bytes
            + Tail::of(framed.head.data_bytes, self.digests()).bytes() as u32;
        if bytes == 0 {
            return Step::Used(framed.bytes);
        }
        self.arriving = None;
        Step::Tell(framed.bytes, Rx::Discard { len: bytes })
    }

    /// Answers a PDU with Reject.
    pub(super) fn refuse_pdu(&mut self, framed: &Framed<'_>, reason: RejectReason) -> Stepped {
        self.reject(reason, framed.bhs)?;
        Ok(self.ignore(framed))
    }

    #[inline]
    fn command(&mut self, framed: &Framed<'_>) -> Stepped {
        let command = ScsiCommand::decode(framed.bhs);
        if self.is_discovery() || command.task == TaskTag::NONE {
            return self.refuse_pdu(framed, RejectReason::PROTOCOL_ERROR);
        }
        if command.immediate && self.immediate == crate::limits::IMMEDIATE_COMMANDS_MAX {
            return self.refuse_pdu(framed, RejectReason::TOO_MANY_IMMEDIATE);
        }
        if matches!(self.turn(command.immediate, command.cmd_sn)?, Turn::Never) {
            return Ok(self.ignore(framed));
        }
        let tag = self.take_slot(command.immediate).ok_or(Violation::Flood)?;
        self.describe(tag, &command, framed.head)?;
        if framed.head.data_bytes > 0 {
            self.stage = Stage::Immediate { tag, bytes: framed.head.data_bytes };
            self.arriving = Some(Arriving {
                tag: Some(tag),
                ends_unsolicited: !self.is_unsolicited(tag),
                bhs: *framed.bhs,
            });
            // Until it has passed no answer goes out.
            if let Some(slot) = self.slots.at(tag) {
                slot.unsolicited = true;
            }
        }
        let both = command.flags.has(CommandFlags::READ) && command.flags.has(CommandFlags::WRITE);
        if both || framed.head.ahs_bytes > 0 {
            self.refuse_command(tag);
            return Ok(Step::Used(framed.bytes));
        }
        Ok(Step::Tell(framed.bytes, Rx::Event(TargetEvent::Command { tag, command })))
    }

    pub(super) fn take_slot(&mut self, immediate: bool) -> Option<Tag> {
        let (tag, slot) = self.slots.take()?;
        slot.immediate = immediate;
        *(if immediate { &mut self.immediate } else { &mut self.in_window }) += 1;
        Some(tag)
    }

    fn is_unsolicited(&mut self, tag: Tag) -> bool {
        self.slots.at(tag).is_some_and(|slot| slot.unsolicited)
    }

    /// Enters what a command says of its data.
    #[inline]
    fn describe(&mut self, tag: Tag, command: &ScsiCommand, head: Head) -> Result<(), Violation> {
        let parameters = &self.parameters;
        let Some(slot) = self.slots.at(tag) else { return Ok(()) };
        slot.task = command.task;
        slot.lun = command.lun;
        slot.expected = command.expected_bytes;
        slot.reads = command.flags.has(CommandFlags::READ);
        slot.writes = command.flags.has(CommandFlags::WRITE);
        if !slot.writes && head.data_bytes == 0 {
            return Ok(());
        }
        if head.data_bytes > 0 && !(parameters.immediate_data && slot.writes) {
            return Err(Violation::ImmediateData);
        }
        let most = parameters.first_burst().min(slot.expected);
        if head.data_bytes > most {
            return Err(Violation::UnsolicitedData);
        }
        slot.unsolicited = !parameters.initial_r2t && !head.last && head.data_bytes < most;
        Ok(())
    }

    /// Bidirectional commands and long CDBs are none of the target's.
    #[cold]
    fn refuse_command(&mut self, tag: Tag) {
        let mut sense = [0; SENSE_BYTES_MAX];
        let bytes =
            Sense::illegal(AdditionalSense::INVALID_COMMAND_OPERATION_CODE).put_fixed(&mut sense);
        let answer = super::Answer {
            status: ScsiStatus::CHECK_CONDITION,
            sense: &sense[..bytes],
            data_bytes: 0,
            total_bytes: 0,
        };
        self.complete(tag, &answer);
    }

    fn immediate_data(&mut self, tag: Tag, bytes: u32) -> Step {
        let digests = self.digests();
        let tail = Tail::of(bytes, digests);
        let ours = self.arriving.is_some_and(|arriving| arriving.tag == Some(tag));
        let Some(slot) = self.slots.at(tag).filter(|_| ours) else {
            return self.throw_away(bytes, tail);
        };
        slot.received += bytes;
        slot.damaged |= slot.state == TaskState::Held;
        if slot.state == TaskState::Fetching {
            return self.payload(0, tag, 0, bytes);
        }
        self.throw_away(bytes, tail)
    }

    fn throw_away(&mut self, bytes: u32, tail: Tail) -> Step {
        self.stage = Stage::Header;
        Step::Tell(0, Rx::Discard { len: bytes + tail.bytes() as u32 })
    }

    #[inline]
    fn payload(&mut self, used: usize, tag: Tag, offset: u32, bytes: u32) -> Step {
        let tail = Tail::of(bytes, self.digests());
        self.stage = if tail.is_empty() { Stage::Header } else { Stage::Tail(tail) };
        Step::Tell(used, Rx::Payload { tag, offset, len: bytes, digest: tail.has_digest() })
    }

    #[inline]
    fn data_out(&mut self, framed: &Framed<'_>) -> Stepped {
        let data = DataOut::decode(framed.bhs);
        let found = if data.transfer == TaskTag::NONE {
            self.unsolicited(&data)
        } else {
            self.solicited(&data)
        };
        // Data for a task that was ignored or given up is thrown away.
        let Some(tag) = found? else { return Ok(self.ignore(framed)) };
        let (burst, most) = (self.parameters.max_burst_bytes, self.parameters.first_burst());
        let Some(slot) = self.slots.at(tag) else { return Ok(self.ignore(framed)) };
        let bytes = framed.head.data_bytes;
        let end = if slot.unsolicited { most.min(slot.expected) } else { slot.window_end(burst) };
        check_data(slot, &data, bytes, end)?;
        let complete = slot.received + bytes == end;
        if framed.head.last && !complete && !slot.unsolicited {
            return Err(Violation::DataOrder);
        }
        let ends_unsolicited = slot.unsolicited && (framed.head.last || complete);
        // A number that is left out stands for data that is lost: the command fails (§7.9).
        slot.damaged |= slot.state == TaskState::Held || data.data_sn != slot.data_sn;
        slot.data_sn = if complete { Serial(0) } else { data.data_sn.next() };
        slot.received += bytes;
        let wanted = slot.state == TaskState::Fetching;
        self.arriving = Some(Arriving { tag: Some(tag), ends_unsolicited, bhs: *framed.bhs });
        if bytes == 0 {
            let event = self.settle(true);
            return Ok(event.map_or(Step::Used(framed.bytes), |event| {
                Step::Tell(framed.bytes, Rx::Event(event))
            }));
        }
        if wanted {
            return Ok(self.payload(framed.bytes, tag, data.offset, bytes));
        }
        let tail = Tail::of(bytes, self.digests());
        Ok(Step::Tell(framed.bytes, Rx::Discard { len: bytes + tail.bytes() as u32 }))
    }

    /// Whose unsolicited data this is.
    fn unsolicited(&mut self, data: &DataOut) -> Result<Option<Tag>, Violation> {
        let found = self.slots.used().find(|(_, slot)| slot.unsolicited && slot.task == data.task);
        Ok(found.map(|(tag, _)| tag))
    }

    /// Whose data this is, by the R2T that it names.
    #[inline]
    fn solicited(&mut self, data: &DataOut) -> Result<Option<Tag>, Violation> {
        let (tag, burst) = (slot_of(data.transfer), self.parameters.max_burst_bytes);
        let Some(slot) = self.slots.peek(tag) else { return Ok(None) };
        let alive = slot.state == TaskState::Fetching && is_current(data.transfer, slot.generation);
        if !alive {
            return Ok(None);
        }
        // R2Ts are answered in order (DataSequenceInOrder), so there is but one that can be meant.
        let due = transfer_tag(tag, slot.window(burst), slot.generation);
        if data.transfer != due || slot.asked <= slot.received || slot.task != data.task {
            return Err(Violation::DataOrder);
        }
        Ok(Some(tag))
    }

    /// The data named by `arriving` has passed.
    #[inline]
    pub(super) fn settle(&mut self, intact: bool) -> Option<TargetEvent> {
        let Arriving { tag, ends_unsolicited, bhs } = self.arriving.take()?;
        let tag = tag?;
        if !intact {
            // The room for replies ends the connection when it is used up.
            if let Err(violation) = self.reject(RejectReason::DATA_DIGEST, &bhs) {
                self.fail(violation);
            }
        }
        let slot = self.slots.at(tag)?;
        slot.damaged |= !intact;
        if ends_unsolicited {
            slot.unsolicited = false;
            slot.data_sn = Serial(0);
        }
        let (open, enough) = (slot.is_open(), slot.received >= slot.wanted);
        match slot.state {
            TaskState::Draining => {
                self.leave_window(tag);
                self.slots.give_back(tag);
                Some(TargetEvent::Dropped { tag })
            }
            TaskState::Completing if !open => {
                self.enqueue(tag);
                None
            }
            TaskState::Fetching if slot.unsolicited => None,
            TaskState::Fetching if !open && (slot.damaged || enough) => {
                self.fetching -= 1;
                Some(slot.arrived(tag))
            }
            TaskState::Fetching if !slot.damaged && !enough => {
                if slot.asked < slot.received || slot.asked == 0 {
                    self.ask_from_here(tag);
                } else if slot.asked < slot.wanted {
                    self.enqueue(tag);
                }
                None
            }
            _ => None,
        }
    }

    fn task_request(&mut self, framed: &Framed<'_>) -> Stepped {
        let request = TaskRequest::decode(framed.bhs);
        if self.is_discovery() || framed.head.data_bytes > 0 {
            return self.refuse_pdu(framed, RejectReason::PROTOCOL_ERROR);
        }
        if request.immediate && self.immediate == crate::limits::IMMEDIATE_COMMANDS_MAX {
            return self.refuse_pdu(framed, RejectReason::TOO_MANY_IMMEDIATE);
        }
        if matches!(self.turn(request.immediate, request.cmd_sn)?, Turn::Never) {
            return Ok(Step::Used(framed.bytes));
        }
        let tag = self.take_slot(request.immediate).ok_or(Violation::Flood)?;
        Ok(match self.begin_task(tag, &request) {
            Some(event) => Step::Tell(framed.bytes, Rx::Event(event)),
            None => Step::Used(framed.bytes),
        })
    }

    fn logout_request(&mut self, framed: &Framed<'_>) -> Stepped {
        let request = crate::iscsi::pdu::LogoutRequest::decode(framed.bhs);
        if framed.head.data_bytes > 0 {
            return self.refuse_pdu(framed, RejectReason::PROTOCOL_ERROR);
        }
        if matches!(self.turn(request.immediate, request.cmd_sn)?, Turn::Never) {
            return Ok(Step::Used(framed.bytes));
        }
        Ok(match self.begin_logout(&request)? {
            Some(event) => Step::Tell(framed.bytes, Rx::Event(event)),
            None => Step::Used(framed.bytes),
        })
    }
}

impl TaskSlot {
    /// No more data is to come: the layer above has the command again.
    #[inline]
    fn arrived(&mut self, tag: Tag) -> TargetEvent {
        self.state = TaskState::Held;
        self.asked = self.received;
        if self.damaged {
            TargetEvent::DataFailed { tag }
        } else {
            TargetEvent::DataArrived { tag }
        }
    }
}

/// Whether a Data-Out PDU goes on where the one before ended, within a sequence that ends at `end`.
#[inline]
fn check_data(slot: &TaskSlot, data: &DataOut, bytes: u32, end: u32) -> Result<(), Violation> {
    if data.offset != slot.received {
        return Err(Violation::DataOrder);
    }
    if u64::from(slot.received) + u64::from(bytes) > u64::from(end) {
        return Err(if slot.unsolicited {
            Violation::UnsolicitedData
        } else {
            Violation::DataOrder
        });
    }
    Ok(())
}
