//! Outcomes of operations, by the target's answers.

use super::{Table, TaskSlot};
use crate::source::iscsi::identity::is_missing;
use crate::source::iscsi::step::Running;
use std::time::Duration;
use weft_block::{Op, OpKind, Outcome, Status, StatusKind};
use weft_connection::limits::ISCSI_BUSY_PAUSE_MS;
use weft_connection::refusals::Refusals;
use weft_connection::settle::lost_writes::GONE;
use weft_connection::status::scsi::from_scsi;
use weft_proto::iscsi::deviation::Deviations;
use weft_proto::iscsi::initiator::{CommandOutcome, CommandResponse, Initiator, InitiatorEvent};
use weft_proto::iscsi::pdu::ScsiResponseCode;
use weft_proto::scsi::initiator::{AttentionChange as Attention, CommandVerdict};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};
use weft_proto::stream::Tag;

/// Commands that targets rejected, for the log.
static REJECTED: Refusals = Refusals::new();

impl Table {
    #[inline]
    fn ended(&mut self, engine: &mut Initiator, tag: Tag, end: CommandOutcome) {
        let sense = match end {
            CommandOutcome::Answered(answer) if answer.status != 0 => {
                Sense::decode(engine.sense(tag))
            }
            _ => None,
        };
        engine.release(tag);
        self.touched = self.now;
        match core::mem::replace(&mut self.slots[tag.index()], TaskSlot::Free) {
            TaskSlot::Io(running)
                if self.is_restarted && matches!(end, CommandOutcome::Answered(_)) =>
            {
                self.finish(running.op, Outcome::settled(GONE));
            }
            TaskSlot::Io(running) => self.io_ended(engine, running, end, sense),
            TaskSlot::Capacity(data, question) => self.capacity(end, sense, &data, question),
            TaskSlot::Identity(data) => self.identified(end, sense, &data[..]),
            TaskSlot::Ports(data) => self.ports_known(end, sense, &data[..]),
            TaskSlot::Ready => drop(self.verdict(end, sense)),
            TaskSlot::Free => {}
        }
    }

    /// What an answer means; notes what the disk reports besides.
    pub(super) fn verdict(
        &mut self,
        end: CommandOutcome,
        sense: Option<Sense>,
    ) -> Option<CommandVerdict> {
        let CommandOutcome::Answered(answer) = end else { return None };
        let verdict = CommandVerdict::of(ScsiStatus(answer.status), sense);
        if verdict == CommandVerdict::Again(Attention::Capacity) {
            self.capacity_at = Some(self.now);
        }
        self.note_access(verdict, sense);
        if verdict == CommandVerdict::Again(Attention::Restarted) {
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
        end: CommandOutcome,
        sense: Option<Sense>,
    ) {
        match end {
            CommandOutcome::Answered(answer)
                if answer == CommandResponse::GOOD && !running.op.kind.fills() =>
            {
                self.step_done(engine, running)
            }
            CommandOutcome::Answered(answer) => self.answered(engine, running, answer, sense),
            CommandOutcome::NotSent if running.is_untouched() => {
                self.finish(running.op, Outcome::NotSent(Status::new(StatusKind::Aborted)))
            }
            // The target has said that it no longer knows the command.
            CommandOutcome::NotSent | CommandOutcome::Aborted => {
                self.finish(running.op, Outcome::settled(Status::new(StatusKind::Aborted)))
            }
            CommandOutcome::Rejected(reason) => {
                let url = &self.url;
                let text = || format!("{url}: the target rejected a command: {:#04x}", reason.0);
                REJECTED.log_now(text);
                self.finish(running.op, Outcome::Done(Status::new(StatusKind::Invalid)));
            }
        }
    }

    fn answered(
        &mut self,
        engine: &mut Initiator,
        mut running: Running,
        answer: CommandResponse,
        sense: Option<Sense>,
    ) {
        if answer.response != ScsiResponseCode::COMPLETED {
            // The target has failed to execute it, and does not know the task any more (RFC 7143
            // §11.4.3).
            return self.finish(running.op, Outcome::settled(Status::new(StatusKind::Internal)));
        }
        let status = from_scsi(ScsiStatus(answer.status), sense);
        match self.verdict(CommandOutcome::Answered(answer), sense) {
            Some(CommandVerdict::Done) if running.is_whole(&self.disk, &answer) => {
                self.step_done(engine, running)
            }
            // The blocks are still there, and may come through undamaged.
            Some(CommandVerdict::Done) if answer.damaged => {
                self.again(running, Duration::ZERO, Status::new(StatusKind::Transport))
            }
            Some(CommandVerdict::Done) => {
                self.finish(running.op, Outcome::Done(Status::new(StatusKind::Transport)))
            }
            Some(CommandVerdict::Again(_)) => self.again(running, Duration::ZERO, status),
            Some(CommandVerdict::Later) => {
                self.again(running, Duration::from_millis(ISCSI_BUSY_PAUSE_MS), status)
            }
            Some(CommandVerdict::Failed) => self.failed(engine, running, status),
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
        if is_missing(&status) {
            self.identification.doubt(self.now);
        }
        // That there is no such logical unit is not the submitter's fault: it may come back, and
        // others may have another way to it.
        let status = if is_missing(&status) { GONE } else { status };
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
    pub(super) fn finish(&mut self, op: Op, outcome: Outcome) {
        self.running -= 1;
        self.done.push(op.done(outcome));
    }

    #[inline]
    pub(super) fn handle(&mut self, engine: &mut Initiator, event: InitiatorEvent) {
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
                    && CommandVerdict::of(ScsiStatus::CHECK_CONDITION, Some(sense))
                        == CommandVerdict::Again(Attention::Restarted)
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
            InitiatorEvent::Deviation(deviation) => {
                self.shared.remarks.on(&self.url, Deviations::of(deviation))
            }
            InitiatorEvent::Leaving => tracing::info!("the target wants a session to end"),
            InitiatorEvent::Ready | InitiatorEvent::Targets => {}
        }
    }
}
