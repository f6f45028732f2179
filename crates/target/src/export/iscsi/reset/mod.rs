//! Ending commands without an answer: task management, other sessions' orders, and the end of the
//! session itself.
//!
//! A request to abort commands is answered only when no device holds any operation of them, in any
//! session. If a device does not give an operation back in time ([`weft_block::time_limit`]), a
//! task management function is rejected, and everything else that promises this waits.

use super::session::Session;
use super::target_state::{IscsiMessage, Message, Ticket};
use crate::reservations::PendingChange;
use std::sync::Arc;
use weft_proto::iscsi::pdu::{Lun, TaskFunction, TaskRequest, TaskResult};
use weft_proto::iscsi::target::TargetConnection;
use weft_proto::scsi::lun::unit_number;
use weft_proto::stream::Tag;

/// What happens when commands are gone.
pub(super) enum Then {
    /// A task management function is answered.
    Answer(Tag, TaskResult),
    /// The same, and all sessions end.
    AnswerAndEnd(Tag),
    /// Another session is notified, by dropping this.
    Tell(Ticket),
    /// The same of an operation on reservations.
    Release(Arc<PendingChange>),
}

/// Commands that have to be gone before something happens.
struct Wait {
    number: u64,
    own: Vec<Tag>,
    /// Tickets that other sessions have.
    others: usize,
    /// A device has an overdue operation of a command that was to be aborted.
    held: bool,
    then: Then,
}

impl Wait {
    fn is_over(&self) -> bool {
        self.own.is_empty() && self.others == 0 && !self.held
    }

    /// Whether an initiator waits for the answer, and may be told that it is not done.
    fn may_be_rejected(&self) -> bool {
        matches!(self.then, Then::Answer(..) | Then::AnswerAndEnd(_))
    }
}

/// What is waited for. Bounded by the commands of a session, and by the sessions of a target.
#[derive(Default)]
pub(super) struct Waits {
    waits: Vec<Wait>,
    last: u64,
}

impl Waits {
    /// Whether something waits for overdue operations.
    #[inline]
    pub(super) fn are_held(&self) -> bool {
        self.waits.iter().any(|wait| wait.held)
    }
}

impl Session {
    /// Carries out a task management function (RFC 7143 §11.5.1).
    pub(super) fn manage(
        &mut self,
        engine: &mut TargetConnection,
        tag: Tag,
        function: TaskFunction,
        request: &TaskRequest,
        referenced: Option<Tag>,
    ) {
        let number = unit_number(request.lun.0).filter(|&number| self.nexus.sees(number));
        let whole_target =
            matches!(function, TaskFunction::TARGET_WARM_RESET | TaskFunction::TARGET_COLD_RESET);
        if number.is_none() && !whole_target && function != TaskFunction::ABORT_TASK {
            return engine.complete_task(tag, TaskResult::NO_LUN);
        }
        tracing::debug!("task management function {} for LUN {:?}", function.0, number);
        let own: Vec<Tag> = match function {
            TaskFunction::ABORT_TASK => referenced.into_iter().collect(),
            _ if whole_target => engine.tasks().map(|(task, _)| task).collect(),
            _ => self.tasks_of(engine, number),
        };
        match function {
            TaskFunction::CLEAR_TASK_SET => _ = self.nexus.clear_task_set(request.lun.0),
            TaskFunction::LOGICAL_UNIT_RESET => _ = self.nexus.reset_unit(request.lun.0),
            _ if whole_target => self.nexus.reset_target(),
            _ => {}
        }
        let then = match function {
            TaskFunction::TARGET_COLD_RESET => Then::AnswerAndEnd(tag),
            _ => Then::Answer(tag, TaskResult::COMPLETE),
        };
        self.abort_then(engine, own, then);
    }

    /// The commands in progress on a logical unit.
    fn tasks_of(&self, engine: &TargetConnection, number: Option<usize>) -> Vec<Tag> {
        let is_meant = |(_, lun): &(Tag, Lun)| unit_number(lun.0) == number;
        engine.tasks().filter(is_meant).map(|(task, _)| task).collect()
    }

    /// Has another session abort what it was ordered to, or this one. Tells how many tickets that
    /// took.
    fn wake(
        &mut self,
        engine: &mut TargetConnection,
        number: u64,
        nexus: weft_proto::scsi::lun::NexusId,
        own: &mut Vec<Tag>,
    ) -> usize {
        if nexus == self.nexus.id() {
            own.extend(self.abort_ordered(engine));
            return 0;
        }
        let Some(mailbox) = self.shared.mailbox(nexus) else { return 0 };
        mailbox.post(Message::Own(IscsiMessage::Abort(Ticket {
            number,
            issuer: Arc::clone(&self.mailbox),
        })));
        1
    }

    /// Aborts own commands and those that the nexus has just ordered aborted elsewhere; then
    /// something happens.
    fn abort_then(&mut self, engine: &mut TargetConnection, tasks: Vec<Tag>, then: Then) {
        self.waits.last += 1;
        let number = self.waits.last;
        let mut own: Vec<Tag> =
            tasks.into_iter().filter(|&task| !self.abort(engine, task)).collect();
        let mut others = 0;
        while let Some(nexus) = self.nexus.take_wake() {
            others += self.wake(engine, number, nexus, &mut own);
        }
        let held = self.holds_overdue();
        self.begin(engine, Wait { number, own, others, held, then });
    }

    fn begin(&mut self, engine: &mut TargetConnection, wait: Wait) {
        if wait.is_over() {
            self.end(engine, wait.then);
        } else if wait.held && wait.may_be_rejected() {
            reject(engine, &wait);
        } else {
            tell_overdue(&wait);
            self.waits.waits.push(wait);
        }
    }

    fn end(&mut self, engine: &mut TargetConnection, then: Then) {
        match then {
            Then::Answer(tag, result) => engine.complete_task(tag, result),
            Then::AnswerAndEnd(tag) => {
                engine.complete_task(tag, TaskResult::COMPLETE);
                self.shared.stop_others(&self.mailbox);
                self.over = true;
            }
            Then::Tell(ticket) => drop(ticket),
            Then::Release(pending) => drop(pending),
        }
    }

    /// Another session cannot abort in time what this one ordered.
    pub(super) fn ticket_overdue(&mut self, engine: &mut TargetConnection, number: u64) {
        for wait in
            self.waits.waits.extract_if(.., |wait| wait.number == number && wait.may_be_rejected())
        {
            reject(engine, &wait);
        }
    }

    /// A device has not given a dying command back in time, but will still do so: it could not be
    /// aborted. Returns whether it is answered like any other now.
    #[cold]
    pub(super) fn revive(&mut self, engine: &mut TargetConnection, tag: Tag) -> bool {
        for wait in self.waits.waits.iter_mut().filter(|wait| wait.own.contains(&tag)) {
            wait.held = true;
            tell_overdue(wait);
        }
        let mut rejected = false;
        for wait in self.waits.waits.extract_if(.., |wait| wait.held && wait.may_be_rejected()) {
            reject(engine, &wait);
            rejected = true;
        }
        if rejected && !self.side.is_stopping() {
            self.settled(engine, tag);
        }
        rejected && !self.side.is_stopping()
    }

    /// Devices have given all overdue operations back.
    pub(super) fn overdue_settled(&mut self, engine: &mut TargetConnection) {
        if self
            .waits
            .waits
            .iter_mut()
            .map(|wait| core::mem::take(&mut wait.held))
            .fold(false, |any, held| any | held)
        {
            self.end_waits(engine);
        }
    }

    /// Another session had commands of this one aborted.
    pub(super) fn ordered(&mut self, engine: &mut TargetConnection, ticket: Ticket) {
        let own = self.abort_ordered(engine);
        let held = self.holds_overdue();
        self.begin(engine, Wait { number: 0, own, others: 0, held, then: Then::Tell(ticket) });
    }

    /// A reservation was preempted, and commands of this session aborted with it. Those that change
    /// reservations do no I/O and are not waited for: one of them may itself wait until this is
    /// through.
    pub(super) fn preempted(&mut self, engine: &mut TargetConnection, pending: Arc<PendingChange>) {
        let mut own = self.abort_ordered(engine);
        own.retain(|tag| !self.commands[tag.index()].reserves);
        let held = self.holds_overdue();
        self.begin(engine, Wait { number: 0, own, others: 0, held, then: Then::Release(pending) });
    }

    /// Aborts what others have ordered; gives all commands that are dying, for whatever reason.
    fn abort_ordered(&mut self, engine: &mut TargetConnection) -> Vec<Tag> {
        while let Some(number) = self.nexus.take_abort() {
            for task in self.tasks_of(engine, Some(number)) {
                self.abort(engine, task);
            }
        }
        (0_u16..)
            .map(Tag)
            .zip(&self.commands)
            .filter(|(_, place)| place.dying)
            .map(|(tag, _)| tag)
            .collect()
    }

    /// A ticket of this session came back.
    pub(super) fn ticket_settled(&mut self, engine: &mut TargetConnection, number: u64) {
        if let Some(wait) = self.waits.waits.iter_mut().find(|wait| wait.number == number) {
            wait.others = wait.others.saturating_sub(1);
        }
        self.end_waits(engine);
    }

    /// A command that was dying is gone.
    pub(super) fn settled(&mut self, engine: &mut TargetConnection, tag: Tag) {
        self.commands[tag.index()].dying = false;
        self.waits.waits.iter_mut().for_each(|wait| wait.own.retain(|own| *own != tag));
        self.end_waits(engine);
    }

    fn end_waits(&mut self, engine: &mut TargetConnection) {
        while let Some(at) = self.waits.waits.iter().position(Wait::is_over) {
            let wait = self.waits.waits.remove(at);
            self.end(engine, wait.then);
        }
    }

    /// Ends a command without an answer; tells whether it is gone already. Otherwise
    /// [`Self::settled`] is called when it is.
    fn abort(&mut self, engine: &mut TargetConnection, tag: Tag) -> bool {
        let place = &mut self.commands[tag.index()];
        if place.dying || place.in_device {
            place.dying = true;
            match &place.split {
                None => self.side.cancel(tag.0.into()),
                Some(split) => split.users(tag).for_each(|user| self.side.cancel(user)),
            }
            return false;
        }
        self.side.forget_waiting(|starved| starved.tag() == tag);
        let _ = self.side.placed(tag);
        if !engine.abandon(tag) {
            self.commands[tag.index()].dying = true;
            return false;
        }
        self.side.memory.free(tag);
        self.side.meter.forget(tag);
        true
    }

    /// The device has given the memory of a dying command back.
    #[cold]
    pub(super) fn bury(&mut self, engine: &mut TargetConnection, tag: Tag) {
        self.side.memory.free(tag);
        self.side.meter.forget(tag);
        engine.abandon(tag);
        self.settled(engine, tag);
    }

    /// Aborts everything.
    pub(super) fn abort_all(&mut self, engine: &mut TargetConnection) {
        let all: Vec<Tag> = engine.tasks().map(|(task, _)| task).collect();
        for task in all {
            self.abort(engine, task);
        }
    }

    /// Takes no more commands and asks the devices to end what they have.
    pub(super) fn stop(&mut self, engine: &mut TargetConnection) {
        if self.side.stop() {
            self.abort_all(engine);
        }
    }
}

/// Answers that commands were not aborted: a device still has them.
#[cold]
fn reject(engine: &mut TargetConnection, wait: &Wait) {
    if let Then::Answer(tag, _) | Then::AnswerAndEnd(tag) = wait.then {
        engine.complete_task(tag, TaskResult::REJECTED);
    }
}

/// Another session waits for commands that a device does not give back in time.
fn tell_overdue(wait: &Wait) {
    if let Wait { held: true, then: Then::Tell(ticket), .. } = wait {
        ticket.issuer.post(Message::Own(IscsiMessage::Overdue(ticket.number)));
    }
}

#[cfg(test)]
mod tests;
