//! All PDUs except SCSI commands: login, pings, texts, task management, logout, Reject,
//! asynchronous messages.

use super::slot::{TaskKind, TaskState};
use super::{Phase, SessionKind, TargetConnection, TargetEvent, Violation};
use crate::iscsi::digest::Digests;
use crate::iscsi::link::encode;
use crate::iscsi::pdu::{
    AsyncEvent, AsyncMessage, BHS_BYTES, LoginFlags, LoginRequest, LoginResponse, LoginStage,
    LoginStatus, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, Lun, NopIn, NopOut,
    Opcode, Reject, RejectReason, TaskFunction, TaskRequest, TaskResult, TaskTag, TextRequest,
};
use crate::limits::{LOGIN_REPLIES_BYTES_MAX, REPLIES_BYTES_MAX};
use crate::stream::{StartLimit, Tag};
use core::time::Duration;

/// Version of the protocol.
const VERSION: u8 = 0;

/// The transfer tag of pings; there is but one at a time.
const PING_TAG: TaskTag = TaskTag(0);

impl TargetConnection {
    pub(super) fn is_discovery(&self) -> bool {
        self.who.as_ref().is_some_and(|who| who.kind == SessionKind::Discovery)
    }

    /// A PDU whose data is there.
    pub(super) fn inline_request(
        &mut self,
        bhs: &[u8; BHS_BYTES],
    ) -> Result<Option<TargetEvent>, Violation> {
        let mut inline = core::mem::take(&mut self.inline);
        let opcode = Opcode::of(bhs[0]);
        let result = match inline.data() {
            // §7.8: the PDU counts as received, its data does not.
            None => self.reject(RejectReason::DATA_DIGEST, bhs).map(|()| None),
            Some(text) if opcode == Opcode::LOGIN_REQUEST => {
                self.login_step(&LoginRequest::decode(bhs), text)
            }
            Some(ping) if opcode == Opcode::NOP_OUT => self.nop_out(&NopOut::decode(bhs), ping),
            Some(text) => self.text_request(&TextRequest::decode(bhs), text, bhs).map(|()| None),
        };
        // Logins and texts are rare: idle connections hold no memory for them.
        inline.clear();
        result
    }

    fn login_step(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
    ) -> Result<Option<TargetEvent>, Violation> {
        if self.urgent.len() - self.urgent_sent > LOGIN_REPLIES_BYTES_MAX {
            return Err(Violation::Flood);
        }
        let Some(mut login) = self.login.take() else { return Ok(None) };
        if self.who.is_none() && self.stat_sn.0 == 0 {
            self.exp_cmd_sn = request.cmd_sn;
        }
        let next = login.request(request, text, &self.config, &mut self.parameters, self.clock.now);
        self.deviations = self.deviations.with(login.deviations);
        // Kept for whoever asks who was refused.
        let login = self.login.insert(login);
        match next {
            Err(violation) => {
                self.refuse_login(request, LoginStatus::INITIATOR_ERROR);
                Err(violation)
            }
            Ok(super::login::Next::Respond(flags, text)) => {
                self.respond_login(request, flags, LoginStatus::SUCCESS, text.text());
                Ok(None)
            }
            Ok(super::login::Next::Admit(flags, text)) => {
                self.who = login.login();
                self.pending = Some((*request, flags, text));
                self.phase = Phase::Deciding;
                Ok(Some(TargetEvent::Login))
            }
            Ok(super::login::Next::Refuse(status)) => {
                self.refuse_login(request, status);
                Err(Violation::LoginRefused(status))
            }
        }
    }

    /// Queues a Login Response. There are no digests yet, whatever was agreed on.
    pub(super) fn respond_login(
        &mut self,
        request: &LoginRequest,
        flags: LoginFlags,
        status: LoginStatus,
        text: &[u8],
    ) {
        let response = LoginResponse {
            flags,
            version_max: VERSION,
            version_active: VERSION,
            isid: request.isid,
            tsih: if self.phase == Phase::Full { self.tsih } else { request.tsih },
            task: request.task,
            stat_sn: self.stat_sn.take(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            status,
        };
        encode(&response.encode(text.len() as u32), text, Digests::NONE, &mut self.urgent);
    }

    pub(super) fn refuse_login(&mut self, request: &LoginRequest, status: LoginStatus) {
        self.respond_login(
            request,
            LoginFlags::new(LoginStage(request.flags.current().0), None),
            status,
            &[],
        );
        self.fail(Violation::LoginRefused(status));
    }

    /// Queues a PDU that goes ahead of everything else.
    pub(super) fn reply(&mut self, bhs: &[u8; BHS_BYTES], data: &[u8]) -> Result<(), Violation> {
        if self.urgent.len() - self.urgent_sent > REPLIES_BYTES_MAX {
            return Err(Violation::Flood);
        }
        let digests = self.parameters.digests;
        encode(bhs, data, digests, &mut self.urgent);
        Ok(())
    }

    /// Queues a Reject with the header of the PDU that is refused (§11.17).
    #[cold]
    pub(super) fn reject(
        &mut self,
        reason: RejectReason,
        bhs: &[u8; BHS_BYTES],
    ) -> Result<(), Violation> {
        let reject = Reject {
            reason,
            stat_sn: self.stat_sn.take(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            ..Reject::default()
        };
        self.reply(&reject.encode(BHS_BYTES as u32), bhs)
    }

    /// §11.18: a ping of the initiator, or its answer to one of this end.
    fn nop_out(&mut self, nop: &NopOut, data: &[u8]) -> Result<Option<TargetEvent>, Violation> {
        if nop.task == TaskTag::NONE {
            let answers = self.pinging && nop.transfer == PING_TAG;
            self.pinging &= !answers;
            return Ok(answers.then_some(TargetEvent::Pong));
        }
        let data = &data[..data.len().min(self.parameters.max_send_bytes as usize)];
        let answer = NopIn {
            task: nop.task,
            stat_sn: self.stat_sn.take(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            ..NopIn::default()
        };
        self.reply(&answer.encode(data.len() as u32), data)?;
        Ok(None)
    }

    /// Pings the initiator, unless a ping is outstanding. [`TargetEvent::Pong`] reports the answer.
    pub fn ping(&mut self) {
        if self.pinging || self.phase != Phase::Full {
            return;
        }
        let (stat_sn, exp_cmd_sn, max_cmd_sn) = (self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn());
        let ping =
            NopIn { transfer: PING_TAG, stat_sn, exp_cmd_sn, max_cmd_sn, ..NopIn::default() };
        // Without room there is enough to be answered already.
        self.pinging = self.reply(&ping.encode(0), &[]).is_ok();
    }

    /// Asks the initiator to log out within `within_s` seconds (§11.9.1). If it has not done so by
    /// then, it gets notice that its session is dropped, as soon as its commands are answered, and
    /// the connection closes.
    pub fn request_logout(&mut self, within_s: u16) {
        self.clock.logout = Some(StartLimit::new(Duration::from_secs(within_s.into())));
        self.tell(
            AsyncMessage {
                event: AsyncEvent::LOGOUT_REQUEST,
                parameter3: within_s,
                ..AsyncMessage::default()
            },
            &[],
        );
    }

    /// Tells the initiator that the target drops the session, which may come again after `wait_s`
    /// seconds (§11.9.1).
    pub fn announce_drop(&mut self, wait_s: u16) {
        self.tell(
            AsyncMessage {
                event: AsyncEvent::SESSION_DROP,
                parameter2: wait_s,
                ..AsyncMessage::default()
            },
            &[],
        );
    }

    /// Tells the initiator of a SCSI asynchronous event of a logical unit, by its sense data
    /// (§11.9.1).
    pub fn announce_event(&mut self, lun: Lun, sense: &[u8]) {
        let mut data = (sense.len() as u16).to_be_bytes().to_vec();
        data.extend_from_slice(sense);
        self.tell(AsyncMessage { event: AsyncEvent::SCSI, lun, ..AsyncMessage::default() }, &data);
    }

    fn tell(&mut self, message: AsyncMessage, data: &[u8]) {
        if self.phase != Phase::Full || self.is_discovery() && message.event == AsyncEvent::SCSI {
            return;
        }
        let (stat_sn, exp_cmd_sn, max_cmd_sn) = (self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn());
        let message = AsyncMessage { stat_sn, exp_cmd_sn, max_cmd_sn, ..message };
        // Where there is no room the initiator does not read, and hears of nothing anyhow.
        if self.reply(&message.encode(data.len() as u32), data).is_ok() {
            self.stat_sn.take();
        }
    }

    /// §11.5. Functions that this end cannot do are answered at once.
    pub(super) fn begin_task(&mut self, tag: Tag, request: &TaskRequest) -> Option<TargetEvent> {
        let referenced = self.find_task(request.referenced);
        if let Some(slot) = self.slots.at(tag) {
            slot.kind = TaskKind::Function(TaskResult::COMPLETE);
            slot.task = request.task;
            slot.lun = request.lun;
        }
        let refused = match request.function {
            TaskFunction::ABORT_TASK if referenced.is_none() => Some(TaskResult::NO_TASK),
            TaskFunction::ABORT_TASK
            | TaskFunction::ABORT_TASK_SET
            | TaskFunction::CLEAR_TASK_SET
            | TaskFunction::LOGICAL_UNIT_RESET
            | TaskFunction::TARGET_WARM_RESET
            | TaskFunction::TARGET_COLD_RESET => None,
            TaskFunction::TASK_REASSIGN => Some(TaskResult::REASSIGN_NOT_SUPPORTED),
            _ => Some(TaskResult::NOT_SUPPORTED),
        };
        if let Some(result) = refused {
            self.complete_task(tag, result);
            return None;
        }
        Some(TargetEvent::Task { tag, function: request.function, request: *request, referenced })
    }

    /// A command that was not answered yet.
    fn find_task(&self, task: TaskTag) -> Option<Tag> {
        let pending = |state| matches!(state, TaskState::Held | TaskState::Fetching);
        let mut used = self.slots.used();
        used.find(|(_, slot)| {
            slot.task == task && slot.kind == TaskKind::Command && pending(slot.state)
        })
        .map(|(tag, _)| tag)
    }

    /// §11.14. With one connection to a session, closing it closes the session.
    pub(super) fn begin_logout(
        &mut self,
        request: &LogoutRequest,
    ) -> Result<Option<TargetEvent>, Violation> {
        let ours = self.who.as_ref().is_none_or(|who| who.cid == request.cid);
        let refused = match request.reason {
            LogoutReason::CLOSE_SESSION => None,
            LogoutReason::CLOSE_CONNECTION if ours => None,
            LogoutReason::CLOSE_CONNECTION => Some(LogoutResult::NO_CONNECTION),
            LogoutReason::RECOVERY => Some(LogoutResult::NO_RECOVERY),
            _ => Some(LogoutResult::FAILED),
        };
        if let Some(result) = refused {
            self.respond_logout(request, result)?;
            return Ok(None);
        }
        self.logout = Some(*request);
        self.phase = Phase::LoggingOut;
        Ok(Some(TargetEvent::Logout))
    }

    fn respond_logout(
        &mut self,
        request: &LogoutRequest,
        response: LogoutResult,
    ) -> Result<(), Violation> {
        let answer = LogoutResponse {
            response,
            task: request.task,
            stat_sn: self.stat_sn.take(),
            exp_cmd_sn: self.exp_cmd_sn,
            max_cmd_sn: self.max_cmd_sn(),
            time2wait: self.parameters.time2wait_s,
            time2retain: 0,
        };
        self.reply(&answer.encode(0), &[])
    }

    /// All tasks of a session that the initiator ends have ended: answers it, after everything else
    /// that is queued. The connection must then be closed.
    pub fn logged_out(&mut self) {
        self.logout_due = self.logout.is_some();
    }

    pub(super) fn answer_logout(&mut self) {
        self.logout_due = false;
        if let Some(request) = self.logout.take() {
            // Without room there is nobody who reads it.
            let _ = self.respond_logout(&request, LogoutResult::CLOSED);
            self.phase = Phase::Closed;
        }
    }
}
