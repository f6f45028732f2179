//! Rare PDUs: pings, asynchronous messages, rejects, and the responses to task management and
//! logout (RFC 7143 §11.9, §11.15, §11.17, §11.19).

use super::command::{CommandOutcome, InitiatorEvent};
use super::fault::{SessionFault, Violation};
use super::ping::Question;
use super::receive::Bhs;
use super::{Initiator, LOGOUT_TASK, PING_TASK, Phase};
use crate::iscsi::pdu::{
    AsyncEvent, AsyncMessage, BHS_BYTES, Head, LogoutResponse, LogoutResult, Lun, NopIn, Opcode,
    Reject, RejectReason, TaskResponse, TaskTag,
};

impl Initiator {
    pub(super) fn dispatch_rare(
        &mut self,
        opcode: Opcode,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<Option<InitiatorEvent>, SessionFault> {
        match opcode {
            Opcode::NOP_IN => self.nop_in(bhs)?,
            Opcode::ASYNC_MESSAGE => return self.async_message(bhs, data),
            Opcode::TEXT_RESPONSE => return self.text_response(bhs, data),
            Opcode::LOGOUT_RESPONSE => self.logout_response(bhs)?,
            Opcode::TASK_RESPONSE => {
                let response = TaskResponse::decode(bhs);
                self.window.update(response.exp_cmd_sn, response.max_cmd_sn);
                self.window.status(response.stat_sn);
                self.task_response(&response);
            }
            Opcode(other) => return Err(Violation::Opcode(other).into()),
        }
        Ok(None)
    }

    fn nop_in(&mut self, bhs: &Bhs) -> Result<(), Violation> {
        let nop = NopIn::decode(bhs);
        self.window.update(nop.exp_cmd_sn, nop.max_cmd_sn);
        match (nop.task, nop.transfer) {
            // News of the window alone.
            (TaskTag::NONE, TaskTag::NONE) => {}
            (TaskTag::NONE, transfer) => {
                self.pings.question(Question { lun: nop.lun, transfer })?
            }
            (PING_TASK, _) => {
                self.window.status(nop.stat_sn);
                self.pings.answered();
            }
            _ => return Err(Violation::Task),
        }
        Ok(())
    }

    fn async_message(
        &mut self,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<Option<InitiatorEvent>, SessionFault> {
        let message = AsyncMessage::decode(bhs);
        self.window.update(message.exp_cmd_sn, message.max_cmd_sn);
        self.window.status(message.stat_sn);
        match message.event {
            AsyncEvent::SCSI => Ok(reported(message.lun, data)),
            // We negotiate nothing anew: a session that is opened again has what the target wants.
            AsyncEvent::LOGOUT_REQUEST | AsyncEvent::NEGOTIATE => {
                Ok(self.leave(u64::from(message.parameter3)).then_some(InitiatorEvent::Leaving))
            }
            AsyncEvent::CONNECTION_DROP | AsyncEvent::SESSION_DROP => Err(SessionFault::Dropped),
            AsyncEvent::TASK_TERMINATION => {
                self.end_all_of(message.lun);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn logout_response(&mut self, bhs: &Bhs) -> Result<(), SessionFault> {
        let response = LogoutResponse::decode(bhs);
        if response.task != LOGOUT_TASK || !self.logout.is_sent() {
            return Err(Violation::Task.into());
        }
        Err(if response.response == LogoutResult::CLOSED {
            SessionFault::LoggedOut
        } else {
            SessionFault::Logout(response.response)
        })
    }

    /// A PDU of ours was refused. A command that was not even begun ends with that; where its data
    /// was refused, the target ends it by a response of its own (§11.17.1).
    pub(super) fn reject(
        &mut self,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<Option<InitiatorEvent>, SessionFault> {
        let reject = Reject::decode(bhs);
        self.window.update(reject.exp_cmd_sn, reject.max_cmd_sn);
        self.window.status(reject.stat_sn);
        let Some(refused) =
            data.first_chunk::<BHS_BYTES>().filter(|_| self.phase == Phase::FullFeature)
        else {
            return Err(SessionFault::Rejected(reject.reason));
        };
        let head = Head::decode(refused);
        match head.opcode {
            Opcode::SCSI_COMMAND if reject.reason != RejectReason::DATA_DIGEST => {
                let Some((tag, _)) = self.slots.active(head.task) else { return Ok(None) };
                Ok(self.end(tag, CommandOutcome::Rejected(reject.reason)))
            }
            Opcode::SCSI_COMMAND | Opcode::DATA_OUT => Ok(None),
            Opcode::TASK_REQUEST => {
                self.task_rejected(head.task);
                Ok(None)
            }
            // An answer of any kind to a ping shows that the target is there.
            Opcode::NOP_OUT => {
                self.pings.answered();
                Ok(None)
            }
            _ => Err(SessionFault::Rejected(reject.reason)),
        }
    }
}

/// Key and code of the sense data of a SCSI event, in either format (SPC-4 §4.5).
fn reported(lun: Lun, data: &[u8]) -> Option<InitiatorEvent> {
    let sense = data.get(2..)?;
    let (key, code) = match sense.first()? & 0x7f {
        0x70 | 0x71 => (sense.get(2)?, sense.get(12..14)?),
        0x72 | 0x73 => (sense.get(1)?, sense.get(2..4)?),
        _ => return None,
    };
    Some(InitiatorEvent::Reported {
        lun,
        key: key & 0xf,
        code: u16::from_be_bytes([code[0], code[1]]),
    })
}
