//! Keep Alive, Abort, reset and shutdown of an association.

use core::time::Duration;

use super::setup::refused;
use super::{AssociationStage, HostControl, Stuck};
use crate::limits::{CROSS_RESETS_MAX, STUCK_COMMANDS_MAX};
use crate::nvme::cqe::Cqe;
use crate::nvme::host::HostAction;
use crate::nvme::host::config::{AdminData, HostConfig};
use crate::nvme::host::error::HostError;
use crate::nvme::host::request::{self, AssociationStep, Purpose};
use crate::nvme::host::timer::Timer;
use crate::nvme::property::{Configuration, ControllerStatus, ShutdownStatus};
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Qid};

/// Aborts that may be outstanding, whatever the controller allows: the room of the admin queue next
/// to one command of the line, one event request, one Keep Alive, Cross-Controller Resets and their
/// log page, and the commands of others.
const ABORTS_OUTSTANDING_MAX: usize =
    (HostConfig::ADMIN_COMMANDS - 4 - HostConfig::ADMIN_COMMANDS_OF_OTHERS) as usize
        - CROSS_RESETS_MAX;

impl HostControl {
    fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.config.keep_alive_ms.into())
    }

    /// The next Keep Alive comes at half the time that the controller allows. The controller's own
    /// report of its support (KAS) does not count: Linux discovery controllers report none and run
    /// the timer of Connect.
    pub(super) fn schedule_keep_alive(&mut self, now: Duration) {
        if self.config.keep_alive_ms != 0 && !self.keep_alive_refused {
            self.timers.set(Timer::KeepAlive, now.saturating_add(self.keep_alive() / 2));
        }
    }

    /// Sends Keep Alive (Base §5.18), unless the last one is still waited for.
    pub(super) fn send_keep_alive(&mut self, now: Duration) {
        self.schedule_keep_alive(now);
        if self.requests.count(Purpose::KeepAlive) == 0 {
            let limit = self.keep_alive();
            self.send(now, Purpose::KeepAlive, request::keep_alive(), AdminData::None, Some(limit));
        }
    }

    /// A controller that does not know the command has no timer either.
    pub(super) fn keep_alive_completed(&mut self, cqe: &Cqe) -> Result<(), HostError> {
        match cqe.status {
            Status::SUCCESS => Ok(()),
            Status::INVALID_OPCODE => {
                self.keep_alive_refused = true;
                self.timers.stop(Timer::KeepAlive);
                Ok(())
            }
            _ => Err(refused(AssociationStep::KeepAlive, cqe)),
        }
    }

    /// An I/O command took too long.
    pub(super) fn command_stuck(&mut self, now: Duration, qid: Qid, cid: Cid) {
        let known = self.stuck.iter().any(|stuck| (stuck.qid, stuck.cid) == (qid, cid));
        if self.stage != AssociationStage::Ready || known {
            return;
        }
        if self.stuck.len() == STUCK_COMMANDS_MAX {
            return self.fail(now, HostError::ManyStuck(self.stuck.len() + 1));
        }
        let deadline = now.saturating_add(self.config.command_timeout);
        self.unwanted.retain(|unwanted| *unwanted != (qid, cid));
        self.stuck.push(Stuck { qid, cid, aborted: false, deadline });
        self.send_aborts(now);
    }

    /// Nobody needs an I/O command any longer. Beyond a certain number that is not worth an Abort:
    /// such commands just end.
    pub(super) fn command_unwanted(&mut self, now: Duration, qid: Qid, cid: Cid) {
        let known = self.stuck.iter().any(|stuck| (stuck.qid, stuck.cid) == (qid, cid))
            || self.unwanted.contains(&(qid, cid));
        if self.stage == AssociationStage::Ready
            && !known
            && self.unwanted.len() < STUCK_COMMANDS_MAX
        {
            self.unwanted.push_back((qid, cid));
            self.send_aborts(now);
        }
    }

    /// Sends Aborts for what waits for one, as many as the controller takes at a time (ACL);
    /// commands that took too long come first.
    pub(super) fn send_aborts(&mut self, now: Duration) {
        if self.stage != AssociationStage::Ready {
            return;
        }
        let limit = (usize::from(self.remote.identify.acl) + 1).min(ABORTS_OUTSTANDING_MAX);
        let free = limit.saturating_sub(self.requests.count(Purpose::Abort));
        let mut next = Vec::new();
        for stuck in self.stuck.iter_mut().filter(|stuck| !stuck.aborted).take(free) {
            stuck.aborted = true;
            next.push((stuck.qid, stuck.cid));
        }
        let left = free - next.len();
        next.extend(self.unwanted.drain(..left.min(self.unwanted.len())));
        let limit = Some(self.config.command_timeout);
        for (qid, cid) in next {
            self.send(now, Purpose::Abort, request::abort(qid, cid), AdminData::None, limit);
        }
    }

    /// Resets the controller for the first command that even Abort did not end.
    pub(super) fn expire_stuck(&mut self, now: Duration) {
        if let Some(&Stuck { qid, cid, .. }) = self.stuck.iter().find(|stuck| stuck.deadline <= now)
        {
            self.fail(now, HostError::CommandStuck { qid, cid });
        }
    }

    /// Something went wrong. As long as I/O may be outstanding the controller is reset first, so
    /// that it is known to have stopped.
    pub(super) fn fail(&mut self, now: Duration, error: HostError) {
        match self.stage {
            AssociationStage::Start | AssociationStage::Setup => {
                self.end(HostAction::Failed { error, confirmed: true })
            }
            AssociationStage::Ready => self.begin_reset(now, error),
            AssociationStage::Resetting | AssociationStage::ShuttingDown => {
                self.end_without_controller(error)
            }
            AssociationStage::Ended => {}
        }
    }

    /// The association ends without a word from the controller.
    pub(super) fn end_without_controller(&mut self, error: HostError) {
        let error = self.cause.take().unwrap_or(error);
        match self.stage {
            AssociationStage::Ended => {}
            AssociationStage::ShuttingDown => self.end(HostAction::Closed { confirmed: false }),
            AssociationStage::Start | AssociationStage::Setup => {
                self.end(HostAction::Failed { error, confirmed: true })
            }
            AssociationStage::Ready | AssociationStage::Resetting => {
                let confirmed = self.config.discovery;
                self.end(HostAction::Failed { error, confirmed });
            }
        }
    }

    /// Disables the controller (CC.EN = 0), if it can still be reached.
    fn begin_reset(&mut self, now: Duration, cause: HostError) {
        self.push(HostAction::StopIo);
        self.cause = Some(cause);
        self.configuration.0 &= !Configuration::ENABLE;
        let limit = Duration::from_millis(self.remote.capabilities.timeout_ms().into());
        let limit = limit.max(self.config.command_timeout).min(self.config.reset_timeout);
        self.begin_ending(now, AssociationStage::Resetting, AssociationStep::Reset, limit);
    }

    /// Asks the controller to shut down (CC.SHN = 01b).
    pub(super) fn begin_shutdown(&mut self, now: Duration) {
        match self.stage {
            AssociationStage::Start | AssociationStage::Setup | AssociationStage::Ready
                if !self.configuration.enabled() =>
            {
                self.end(HostAction::Closed { confirmed: true });
            }
            AssociationStage::Start | AssociationStage::Setup | AssociationStage::Ready => {
                self.push(HostAction::StopIo);
                self.configuration.0 |= Configuration::SHUTDOWN_NORMAL;
                self.begin_ending(
                    now,
                    AssociationStage::ShuttingDown,
                    AssociationStep::Shutdown,
                    self.config.shutdown_timeout,
                );
            }
            // A reset ends the association as well.
            AssociationStage::Resetting
            | AssociationStage::ShuttingDown
            | AssociationStage::Ended => {}
        }
    }

    /// Forgets what else was under way, writes CC and waits for CSTS to follow.
    fn begin_ending(
        &mut self,
        now: Duration,
        stage: AssociationStage,
        step: AssociationStep,
        limit: Duration,
    ) {
        self.stage = stage;
        self.give_up();
        self.set_configuration(now, step);
        self.limit_stage(now, step, limit);
    }

    /// CSTS has been read in a reset or shutdown.
    pub(super) fn ending_status_known(
        &mut self,
        now: Duration,
        step: AssociationStep,
        status: ControllerStatus,
    ) {
        let done = match step {
            AssociationStep::AwaitStopped => !status.ready(),
            _ => status.shutdown() == ShutdownStatus::COMPLETE,
        };
        if !done {
            return self.read_status_later(now);
        }
        match self.cause.take() {
            Some(error) => self.end(HostAction::Failed { error, confirmed: true }),
            None => self.end(HostAction::Closed { confirmed: true }),
        }
    }
}
