//! The receiving side of a target.

use super::receive_stage::{Arriving, ReceiveStage, Step};
use super::{Phase, TargetConnection, TargetEvent, Violation};
use crate::iscsi::digest::Digests;
use crate::iscsi::link::{Framed, Halt, Tail, frame};
use crate::iscsi::pdu::{
    CommandFlags, Head, NopOut, Opcode, RejectReason, ScsiCommand, TaskRequest, TaskTag,
    TextRequest,
};
use crate::iscsi::serial::Serial;
use crate::limits::{PING_BYTES_MAX, TEXT_BYTES_MAX};
use crate::scsi::sense::{SENSE_BYTES_MAX, Sense};
use crate::scsi::status::{AdditionalSense, ScsiStatus};
use crate::stream::{Rx, Tag};

pub(super) type Stepped = Result<Step, Violation>;

/// Place of a request in the order of commands (§4.2.2.1).
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
            ReceiveStage::Header => self.header(bytes),
            ReceiveStage::Immediate { tag, bytes: data } => Ok(self.immediate_data(tag, data)),
            ReceiveStage::Tail(tail) => {
                if bytes.len() < tail.bytes() {
                    return Ok(Step::More(tail.bytes()));
                }
                self.stage = ReceiveStage::Header;
                Ok(match tail.expected(bytes) {
                    Some(expected) => Step::Tell(tail.bytes(), Rx::Digest { expected }),
                    None => Step::Used(tail.bytes()),
                })
            }
            ReceiveStage::Inline(bhs) => {
                let used = self.inline.take(bytes);
                if !self.inline.is_whole() {
                    return Ok(if used > 0 { Step::Used(used) } else { Step::More(1) });
                }
                self.stage = ReceiveStage::Header;
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
        self.stage = ReceiveStage::Inline(*framed.bhs);
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
            self.stage = ReceiveStage::Immediate { tag, bytes: framed.head.data_bytes };
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

    /// Records the command's description of its data.
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

    /// The target has no bidirectional commands and no long CDBs.
    #[cold]
    fn refuse_command(&mut self, tag: Tag) {
        let mut sense = [0; SENSE_BYTES_MAX];
        let bytes =
            Sense::illegal(AdditionalSense::INVALID_COMMAND_OPERATION_CODE).put_fixed(&mut sense);
        let answer = super::TargetResponse {
            status: ScsiStatus::CHECK_CONDITION,
            sense: &sense[..bytes],
            data_bytes: 0,
            total_bytes: 0,
        };
        self.complete(tag, &answer);
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
