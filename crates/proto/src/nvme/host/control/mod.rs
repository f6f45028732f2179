//! The control value of an association: its state, its inputs and its outputs. The steps themselves
//! are in the neighbouring files.

mod access;
mod cross_reset;
mod discovery;
mod health;
mod recovery;
mod scan;
mod setup;

use core::time::Duration;
use std::collections::VecDeque;

use self::access::Access;
use self::scan::Scan;
use super::config::{AdminData, DiscoveryResult, HostAction, HostConfig};
use super::error::{Asked, HostError};
use super::namespace::{NamespaceProblem, RemoteNamespace};
use super::remote::RemoteController;
use super::request::{AssociationStep, Purpose, RequestId, Requests};
use super::timer::{Timer, Timers};
use crate::limits::{ADMIN_QUEUE_ENTRIES_MAX, QUEUE_ENTRIES_MAX};
use crate::nvme::cqe::Cqe;
use crate::nvme::cross_reset::CrossControllerReset;
use crate::nvme::fabrics::{Connect, ConnectData};
use crate::nvme::property::Configuration;
use crate::nvme::sqe::Sqe;
use crate::nvme::types::{Cid, Nsid, Qid};
use crate::nvme::wire::NqnField;

const _: () = assert!(HostConfig::ADMIN_ENTRIES <= ADMIN_QUEUE_ENTRIES_MAX);

/// Stage in the life of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssociationStage {
    /// Nothing was sent.
    Start,
    /// From Connect until I/O may begin.
    Setup,
    /// I/O may be sent, or the discovery log has been read.
    Ready,
    /// The controller is being disabled; `HostControl::cause` says why.
    Resetting,
    /// The controller is being shut down.
    ShuttingDown,
    /// Over.
    Ended,
}

/// An I/O command that took too long.
#[derive(Debug)]
struct Stuck {
    qid: Qid,
    cid: Cid,
    /// An Abort was sent for it.
    aborted: bool,
    /// When the controller is reset for it.
    deadline: Duration,
}

/// Progress of a Cross-Controller Reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrossResetProgress {
    /// To be sent.
    Waiting,
    /// The command is outstanding.
    Sent,
    /// The controller is at it; the log page will tell.
    UnderWay,
}

/// A controller for which a reset was requested.
#[derive(Debug)]
struct CrossReset {
    lost: CrossControllerReset,
    progress: CrossResetProgress,
}

/// Progress of the reading of the discovery log.
#[derive(Debug, Default)]
struct DiscoveryReading {
    attempts: u32,
    result: DiscoveryResult,
    records: usize,
    /// The header was asked for to see whether it has changed.
    check: bool,
}

/// One association with a controller, seen from the host. See the [module](super) for how to drive
/// it.
///
/// Times are since an epoch of the driver's choice and never go back.
#[derive(Debug)]
pub struct HostControl {
    config: HostConfig,
    stage: AssociationStage,
    remote: RemoteController,
    /// CC as it was set last; EN is set once the controller has been asked to start.
    configuration: Configuration,
    requests: Requests,
    timers: Timers,
    /// Subject of [`Timer::Stage`], and its time limit.
    stage_limit: (AssociationStep, Duration),
    /// Pause before CSTS is read again.
    status_interval: Duration,
    /// I/O queues that are being opened.
    opening: Vec<Qid>,
    /// I/O queues that are open.
    open: Vec<Qid>,
    queue_entries: u16,
    scan: Scan,
    namespaces: Vec<RemoteNamespace>,
    unusable: Vec<(Nsid, NamespaceProblem)>,
    /// Those for which the last look did not show whether they are unchanged.
    unsure: Vec<Nsid>,
    /// The one that is used, as it was when its use began.
    used: Option<RemoteNamespace>,
    reading: DiscoveryReading,
    access: Access,
    cross_resets: Vec<CrossReset>,
    event_refused: bool,
    keep_alive_refused: bool,
    /// An event asked for another look while the line was busy.
    look_again: bool,
    stuck: Vec<Stuck>,
    /// Unneeded I/O commands that wait for an Abort.
    unwanted: VecDeque<(Qid, Cid)>,
    /// Why the controller is being reset.
    cause: Option<HostError>,
    actions: VecDeque<HostAction>,
}

impl HostControl {
    /// An association that begins with the first [`Self::poll`]. Numbers of `config` outside their
    /// range are moved into it.
    pub fn new(mut config: HostConfig) -> Self {
        config.io_queues = config.io_queues.clamp(1, u16::MAX - 1);
        config.queue_entries = config.queue_entries.clamp(2, QUEUE_ENTRIES_MAX);
        Self {
            stage: AssociationStage::Start,
            remote: RemoteController::default(),
            configuration: Configuration::default(),
            requests: Requests::default(),
            timers: Timers::default(),
            stage_limit: (AssociationStep::Connect, Duration::ZERO),
            status_interval: Duration::ZERO,
            opening: Vec::new(),
            open: Vec::new(),
            queue_entries: config.queue_entries,
            scan: Scan::default(),
            namespaces: Vec::new(),
            unusable: Vec::new(),
            unsure: Vec::new(),
            used: None,
            reading: DiscoveryReading::default(),
            access: Access::default(),
            cross_resets: Vec::new(),
            event_refused: false,
            keep_alive_refused: false,
            look_again: false,
            stuck: Vec::new(),
            unwanted: VecDeque::new(),
            cause: None,
            actions: VecDeque::new(),
            config,
        }
    }

    /// Returns the next action. To be called until it returns `None`, after every input and when
    /// [`Self::deadline`] has come.
    pub fn poll(&mut self, now: Duration) -> Option<HostAction> {
        if self.stage == AssociationStage::Start {
            self.start(now);
        }
        self.expire(now);
        self.actions.pop_front()
    }

    /// When to call [`Self::poll`] at the latest, if nothing else happens before.
    pub fn deadline(&self) -> Option<Duration> {
        let stuck = self.stuck.iter().map(|stuck| stuck.deadline).min();
        [self.timers.deadline(), self.requests.deadline(), stuck].into_iter().flatten().min()
    }

    /// An admin command has completed. `data` is what the controller sent for it.
    pub fn admin_completed(&mut self, now: Duration, id: RequestId, cqe: &Cqe, data: &[u8]) {
        let result = match self.requests.take(id) {
            Some(Purpose::Line(step)) => self.line_completed(now, step, cqe, data),
            Some(Purpose::AsyncEvent) => self.event_completed(now, cqe),
            Some(Purpose::KeepAlive) => self.keep_alive_completed(cqe),
            Some(Purpose::Abort) => {
                self.send_aborts(now);
                Ok(())
            }
            Some(Purpose::CrossReset(lost)) => {
                self.cross_reset_answered(now, lost, cqe);
                Ok(())
            }
            Some(Purpose::CrossResetLog) => {
                self.cross_reset_log_read(now, cqe, data);
                Ok(())
            }
            None => Ok(()),
        };
        if let Err(error) = result {
            self.fail(now, error);
        }
    }

    /// Connect has completed on the connection of an I/O queue. If there is no connection, report
    /// [`Self::connection_lost`].
    pub fn queue_opened(&mut self, now: Duration, qid: Qid, cqe: &Cqe) {
        if let Err(error) = self.queue_connected(now, qid, cqe) {
            self.fail(now, error);
        }
    }

    /// The connection of a queue ended, or could not be made. That is the end of the association,
    /// too. A controller that is being reset or shut down may close those of its I/O queues; that
    /// has no further effect.
    pub fn connection_lost(&mut self, now: Duration, qid: Qid) {
        if qid == Qid(0) {
            self.end_without_controller(HostError::ConnectionLost(qid));
        } else if self.open.contains(&qid) || self.opening.contains(&qid) {
            self.open.retain(|&open| open != qid);
            self.opening.retain(|&opening| opening != qid);
            if !matches!(self.stage, AssociationStage::Resetting | AssociationStage::ShuttingDown) {
                self.fail(now, HostError::ConnectionLost(qid));
            }
        }
    }

    /// An I/O command has taken too long. The controller is asked to abort it; if
    /// [`Self::io_completed`] is not called for it within the command timeout, the controller is
    /// reset.
    pub fn io_timed_out(&mut self, now: Duration, qid: Qid, cid: Cid) {
        self.command_stuck(now, qid, cid);
    }

    /// Nobody needs an I/O command any longer: the controller is asked to abort it, when there is
    /// room for that.
    pub fn io_cancelled(&mut self, now: Duration, qid: Qid, cid: Cid) {
        self.command_unwanted(now, qid, cid);
    }

    /// A command that [`Self::io_timed_out`] or [`Self::io_cancelled`] was called for has completed
    /// after all.
    pub fn io_completed(&mut self, qid: Qid, cid: Cid) {
        self.stuck.retain(|stuck| (stuck.qid, stuck.cid) != (qid, cid));
        self.unwanted.retain(|unwanted| *unwanted != (qid, cid));
    }

    /// Ends the association in order, after the last I/O. [`HostAction::Closed`] comes within
    /// [`HostConfig::shutdown_timeout`].
    pub fn shutdown(&mut self, now: Duration) {
        self.begin_shutdown(now);
    }

    /// Connect for an I/O queue (Base §6.3): the command, and its data.
    pub fn io_connect(&self, qid: Qid) -> (Sqe, Box<[u8; 1024]>) {
        (self.connect(qid).encode(), self.connect_data())
    }

    /// The controller, as far as it is known.
    pub fn controller(&self) -> &RemoteController {
        &self.remote
    }

    /// Returns whether the controller notices within its keep alive timeout that its host is gone.
    pub fn has_keep_alive(&self) -> bool {
        self.config.keep_alive_ms != 0 && !self.keep_alive_refused
    }

    /// The usable namespaces, by ascending identifier.
    pub fn namespaces(&self) -> &[RemoteNamespace] {
        &self.namespaces
    }

    /// Active namespaces that cannot be used, and why, by ascending identifier.
    pub fn unusable_namespaces(&self) -> &[(Nsid, NamespaceProblem)] {
        &self.unusable
    }

    /// Returns whether the subsystem has more namespaces than
    /// [`crate::limits::REMOTE_NAMESPACES_MAX`], so that some were not looked at.
    pub fn namespaces_cut_off(&self) -> bool {
        self.scan.cut_off
    }

    /// I/O queues that are open.
    pub fn queues(&self) -> &[Qid] {
        &self.open
    }

    /// Fields of Connect for a queue.
    pub(super) fn connect(&self, qid: Qid) -> Connect {
        let admin = qid == Qid(0);
        let entries = if admin { HostConfig::ADMIN_ENTRIES } else { self.queue_entries };
        let keep_alive_ms = if admin { self.config.keep_alive_ms } else { 0 };
        // The host counts its commands by their identifiers. Without flow control a target may say
        // in the last data that all went well, and sends no response behind it; one that cannot do
        // without ignores the wish (Base §6.3).
        let attributes = if admin { 0 } else { Connect::DISABLE_FLOW_CONTROL };
        Connect { record_format: 0, qid, sq_size: entries - 1, attributes, keep_alive_ms }
    }

    /// Data of Connect: the controller that was asked for, or the one that was given.
    pub(super) fn connect_data(&self) -> Box<[u8; 1024]> {
        let data = ConnectData {
            host_id: self.config.host_id,
            cntlid: self.remote.cntlid,
            subnqn: NqnField::from(&self.config.subsystem),
            hostnqn: NqnField::from(&self.config.host_nqn),
        };
        let mut bytes = Box::new([0; ConnectData::BYTES]);
        data.put(&mut bytes[..]);
        bytes
    }

    /// Explains the refusal of a Connect.
    pub(super) fn connect_refused(&self, qid: Qid, cqe: &Cqe) -> HostError {
        let asked = Asked {
            host: &self.config.host_nqn,
            subsystem: &self.config.subsystem,
            cntlid: self.remote.cntlid,
            connect: self.connect(qid),
        };
        asked.refused(cqe.status, cqe.do_not_retry, cqe.result as u32)
    }

    pub(super) fn push(&mut self, action: HostAction) {
        self.actions.push_back(action);
    }

    /// Sends an admin command with a time limit, or without one.
    pub(super) fn send(
        &mut self,
        now: Duration,
        purpose: Purpose,
        sqe: Sqe,
        data: AdminData,
        limit: Option<Duration>,
    ) {
        let id = self.requests.add(purpose, now, limit);
        self.push(HostAction::Admin { id, sqe, data });
    }

    /// Sends the next command of the line. There is never more than one.
    pub(super) fn line(&mut self, now: Duration, step: AssociationStep, sqe: Sqe, data: AdminData) {
        debug_assert!(!self.line_busy());
        self.send(now, Purpose::Line(step), sqe, data, Some(self.config.command_timeout));
    }

    /// Returns whether a command of the line is outstanding.
    pub(super) fn line_busy(&self) -> bool {
        self.requests.any(|purpose| matches!(purpose, Purpose::Line(_)))
    }

    /// Does what is due. Each command and timer goes off at most once per call.
    fn expire(&mut self, now: Duration) {
        while let Some((purpose, waited)) = self.requests.take_expired(now) {
            self.request_expired(now, purpose, waited);
        }
        while let Some(timer) = self.timers.take_expired(now) {
            self.timer_expired(now, timer);
        }
        self.expire_stuck(now);
    }

    /// Gives a stage `limit` from now to get beyond `step`.
    pub(super) fn limit_stage(&mut self, now: Duration, step: AssociationStep, limit: Duration) {
        self.stage_limit = (step, limit);
        self.timers.set(Timer::Stage, now.saturating_add(limit));
    }

    fn timer_expired(&mut self, now: Duration, timer: Timer) {
        match timer {
            Timer::Status => self.read_status(now),
            Timer::Stage => {
                let (step, limit) = self.stage_limit;
                self.fail(now, HostError::TimedOut { step, after_ms: limit.as_millis() as u64 });
            }
            Timer::KeepAlive => self.send_keep_alive(now),
            // Something else may be on the line by now, such as the access states.
            Timer::Rescan => self.look_again(now),
            Timer::Access => self.reread_access(now),
            Timer::CrossReset => self.look_at_cross_resets(now),
        }
    }

    fn request_expired(&mut self, now: Duration, purpose: Purpose, waited: Duration) {
        let step = match purpose {
            Purpose::Line(step) => step,
            Purpose::KeepAlive => AssociationStep::KeepAlive,
            Purpose::Abort => AssociationStep::Abort,
            Purpose::CrossReset(_) => AssociationStep::CrossReset,
            Purpose::CrossResetLog => AssociationStep::ReadCrossResetLog,
            Purpose::AsyncEvent => return,
        };
        self.fail(now, HostError::TimedOut { step, after_ms: waited.as_millis() as u64 });
    }

    /// Gives up what is under way: answers to it will be ignored, and what was not handed out yet
    /// is not done.
    pub(super) fn give_up(&mut self) {
        self.requests.forget();
        self.timers.stop_all();
        self.stuck.clear();
        self.unwanted.clear();
        self.cross_resets.clear();
        self.actions.retain(|action| {
            !matches!(action, HostAction::Admin { .. } | HostAction::OpenQueue { .. })
        });
    }

    /// The end: nothing more is sent or received.
    pub(super) fn end(&mut self, last: HostAction) {
        self.stage = AssociationStage::Ended;
        self.give_up();
        self.push(last);
    }
}
