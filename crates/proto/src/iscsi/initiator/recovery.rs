//! Ends commands that take too long or that are cancelled: ABORT TASK, then LOGICAL UNIT RESET,
//! then the end of the session (RFC 7143 §4.2.3.3, §11.5).

use super::Initiator;
use super::command::{CommandOutcome, InitiatorEvent};
use super::fault::SessionFault;
use super::slot::TaskState;
use crate::iscsi::pdu::{Lun, TaskFunction, TaskResponse, TaskResult, TaskTag};
use crate::iscsi::serial::Serial;
use crate::stream::Tag;
use core::time::Duration;
use std::collections::VecDeque;

/// A function in progress; one at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub function: TaskFunction,
    pub lun: Lun,
    /// Names the request.
    pub task: TaskTag,
    /// The command that it is about, which a reset is about too if it came of one that could not be
    /// aborted.
    pub of: Tag,
    pub referenced: TaskTag,
    pub ref_cmd_sn: Serial,
    pub sent: bool,
    deadline: Duration,
}

/// Task management.
pub(super) struct Recovery {
    /// Time limit of a command, and of a function. Zero: for ever.
    limit: Duration,
    function_limit: Duration,
    /// Commands to be aborted; each is in here once.
    wanted: VecDeque<Tag>,
    running: Option<Running>,
    /// When overdue commands were looked for.
    looked: Duration,
    requests: u32,
}

/// Task tags of functions start here.
const TASKS: u32 = 0xc000_0000;

impl Recovery {
    pub fn new(limit: Duration, function_limit: Duration, commands: usize, now: Duration) -> Self {
        Self {
            limit,
            function_limit,
            wanted: VecDeque::with_capacity(commands),
            running: None,
            looked: now,
            requests: 0,
        }
    }

    /// Returns the function that must be sent, which then counts as sent.
    pub fn take_unsent(&mut self) -> Option<Running> {
        let running = self.running.as_mut().filter(|running| !running.sent)?;
        running.sent = true;
        Some(*running)
    }

    /// A command that should be aborted has ended normally.
    pub fn forget(&mut self, tag: Tag) {
        self.wanted.retain(|other| *other != tag);
    }

    /// Returns whether there is one.
    pub fn is_due(&self) -> bool {
        self.running.is_some_and(|running| !running.sent)
    }

    fn start(
        &mut self,
        now: Duration,
        function: TaskFunction,
        of: Tag,
        lun: Lun,
        referenced: TaskTag,
        ref_cmd_sn: Serial,
    ) {
        self.requests = (self.requests + 1) & 0xffff;
        let task = TaskTag(TASKS | self.requests);
        let deadline = now + self.function_limit;
        self.running = Some(Running {
            function,
            lun,
            task,
            of,
            referenced,
            ref_cmd_sn,
            sent: false,
            deadline,
        });
    }

    pub fn deadline(&self, any: bool) -> Option<Duration> {
        let watch = (any && !self.limit.is_zero()).then(|| self.looked + self.limit / 4);
        let running = self.running.map(|running| running.deadline);
        [watch, running].into_iter().flatten().min()
    }
}

impl Initiator {
    /// Asks for a command to be aborted. It ends in any case, as aborted or as if nothing had been
    /// asked. One that was not sent ends at once: the event is returned.
    pub fn abort(&mut self, tag: Tag) -> Option<InitiatorEvent> {
        let slot = self.slots.at(tag)?;
        match slot.state {
            TaskState::Submitted => {
                self.commands.retain(|other| *other != tag);
                self.end(tag, CommandOutcome::NotSent)
            }
            TaskState::Active if !slot.aborting => {
                slot.aborting = true;
                self.recovery.wanted.push_back(tag);
                self.start_abort();
                None
            }
            _ => None,
        }
    }

    /// Starts the next function if none is in progress.
    fn start_abort(&mut self) {
        while self.recovery.running.is_none() {
            let Some(tag) = self.recovery.wanted.pop_front() else { return };
            let Some(slot) = self
                .slots
                .peek(tag)
                .filter(|slot| slot.state == TaskState::Active && slot.aborting)
            else {
                continue;
            };
            self.recovery.start(
                self.now,
                TaskFunction::ABORT_TASK,
                tag,
                slot.lun,
                slot.itt,
                slot.cmd_sn,
            );
        }
    }

    /// Looks for overdue commands and functions.
    pub(super) fn tick_recovery(&mut self) {
        let (now, limit) = (self.now, self.recovery.limit);
        if self.recovery.running.is_some_and(|running| now >= running.deadline) {
            self.function_failed();
        }
        if limit.is_zero() || now < self.recovery.looked + limit / 4 {
            return;
        }
        self.recovery.looked = now;
        while let Some(tag) = self.next_overdue() {
            let event = self.abort(tag);
            self.events.extend(event);
        }
    }

    /// A command that has become overdue; each is given once.
    fn next_overdue(&mut self) -> Option<Tag> {
        let (now, limit) = (self.now, self.recovery.limit);
        let is_overdue = |state| matches!(state, TaskState::Submitted | TaskState::Active);
        let (tag, slot) = self.slots.used_mut().find(|(_, slot)| {
            is_overdue(slot.state) && !slot.overdue && now >= slot.started + limit
        })?;
        slot.overdue = true;
        Some(tag)
    }

    /// The function in progress failed: starts the next stronger one if the command is overdue, and
    /// not just cancelled.
    fn function_failed(&mut self) {
        let Some(running) = self.recovery.running.take() else { return };
        if running.function == TaskFunction::LOGICAL_UNIT_RESET {
            return self.fail(SessionFault::Stuck);
        }
        let hangs = self.slots.active(running.referenced).is_some_and(|(_, slot)| slot.overdue);
        if hangs {
            let (of, lun) = (running.of, running.lun);
            self.recovery.start(
                self.now,
                TaskFunction::LOGICAL_UNIT_RESET,
                of,
                lun,
                TaskTag::NONE,
                Serial(0),
            );
        } else {
            // It may become overdue yet, and is to be aborted then.
            let of = self.slots.at(running.of).filter(|slot| slot.itt == running.referenced);
            of.into_iter().for_each(|slot| slot.aborting = false);
            self.start_abort();
        }
    }

    /// The target's answer. Those to functions that were given up are of no interest.
    pub(super) fn task_response(&mut self, response: &TaskResponse) {
        let Some(running) =
            self.recovery.running.filter(|running| running.sent && running.task == response.task)
        else {
            return;
        };
        match (running.function, response.response) {
            (TaskFunction::ABORT_TASK, TaskResult::COMPLETE | TaskResult::NO_TASK) => {
                // Status that was sent before has come before: what the target no longer knows, it
                // will not answer.
                self.recovery.running = None;
                if let Some((tag, _)) = self.slots.active(running.referenced) {
                    let event = self.end(tag, CommandOutcome::Aborted);
                    self.events.extend(event);
                }
                self.start_abort();
            }
            (TaskFunction::LOGICAL_UNIT_RESET, TaskResult::COMPLETE) => {
                self.recovery.running = None;
                self.end_all_of(running.lun);
                self.start_abort();
            }
            _ => self.function_failed(),
        }
    }

    /// The target has rejected the request of a function.
    pub(super) fn task_rejected(&mut self, task: TaskTag) {
        if self.recovery.running.is_some_and(|running| running.task == task) {
            self.function_failed();
        }
    }

    /// All commands of a logical unit that the target may know were ended by it.
    pub(super) fn end_all_of(&mut self, lun: Lun) {
        loop {
            let found = self
                .slots
                .used_mut()
                .find(|(_, slot)| slot.state == TaskState::Active && slot.lun == lun);
            let Some((tag, _)) = found else { return };
            let event = self.end(tag, CommandOutcome::Aborted);
            self.events.extend(event);
        }
    }
}
