//! The initiator's end of a session of one connection (RFC 7143), at error recovery level 0.
//!
//! An [`Initiator`] performs the login by itself: security, with CHAP in one or both directions,
//! then operational negotiation. A session without a target name is a discovery session, which
//! requests the list of targets. [`tick`](Initiator::tick) passes in the time.
//!
//! The life of a command, identified by the [`Tag`] that [`submit`](Initiator::submit) returns:
//!
//! 1. `submit` puts it into the transmit queue; it is sent as soon as the target's command window
//!    allows. Its data, in either direction, is in the memory of the tag, which belongs to this
//!    session until the command has ended. The engine sends immediate and unsolicited data and
//!    answers R2Ts by itself.
//! 2. After each [`Part::Release`](crate::stream::Part::Release) that was sent, the pump calls
//!    [`sent`](Initiator::sent) and handles the event that it may return.
//! 3. [`InitiatorEvent::Ended`] is reported once, when the command has ended *and* no gather list
//!    refers to the memory.
//! 4. [`release`](Initiator::release) returns the tag when the layer above has finished with the
//!    memory.
//!
//! A command that takes too long is aborted; if that fails, its logical unit is reset; if that
//! fails too, the session ends. After the end of a session [`fault`](Initiator::fault) returns the
//! reason. The layer above then ends outstanding commands as not sent or as possibly executed,
//! according to [`never_sent`](Initiator::never_sent).

mod command;
mod config;
mod control;
mod discovery;
mod fault;
mod login;
mod logout;
mod ping;
mod receive;
mod recovery;
mod slot;
mod transfer;
mod transmit;

use self::login::Login;
use self::ping::{Health, Pings};
use self::receive::Receiver;
use self::recovery::Recovery;
use self::slot::{Direction, R2t, TaskSlot, TaskState};
use super::deviation::Deviations;
use super::digest::Digests;
use super::pdu::TaskTag;
use super::serial::Serial;
use super::text::Parameters;
use crate::capture::{End, Protocol, Role};
use crate::limits::{ISCSI_LOGIN_TEXT_BYTES, QUEUE_ENTRIES_MAX, R2T_OUTSTANDING_MAX};
use crate::slab::{Entries, Slab};
use crate::stream::{Rx, StreamEngine, Tag, Transmit};
pub use command::{
    CommandOutcome, CommandResponse, DiscoveredTarget, InitiatorCommand, InitiatorEvent, Residual,
    SENSE_BYTES_MAX, ScsiData, SubmitError,
};
pub use config::{InitiatorConfig, TargetProof};
use core::time::Duration;
pub use fault::{SessionFault, Violation};
use std::collections::VecDeque;

/// Task tags of the session's own requests.
const PING_TASK: TaskTag = TaskTag(0x8000_0002);

const LOGOUT_TASK: TaskTag = TaskTag(0x8000_0003);

/// Time limit of a task management function.
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Progress of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Login,
    FullFeature,
    /// Nothing more is sent or received.
    Closed,
}

/// Progress of the end of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logout {
    /// Not requested.
    No,
    /// As soon as all commands have ended, at the latest then.
    Wanted(Duration),
    /// The request was sent; the time limit of the response.
    Sent(Duration),
}

impl Logout {
    fn is_wanted(self) -> bool {
        self != Self::No
    }

    fn is_sent(self) -> bool {
        matches!(self, Self::Sent(_))
    }

    fn deadline(self) -> Option<Duration> {
        match self {
            Self::No => None,
            Self::Wanted(at) | Self::Sent(at) => Some(at),
        }
    }
}

/// The list of targets as far as it has come.
#[derive(Default)]
struct Discovery {
    text: Vec<u8>,
    exchanges: u32,
    targets: Vec<DiscoveredTarget>,
}

/// Unsolicited data of a command that is being sent: only answers to R2Ts and similar PDUs may come
/// between its PDUs, because the data must be sent in the order of the commands (RFC 7143
/// §4.2.5.2).
#[derive(Clone, Copy, Debug)]
struct Burst {
    tag: Tag,
    next: u32,
    end: u32,
    data_sn: Serial,
}

/// Bytes of text that go into one step of a gather list.
const TEXT_STEP: usize = 256;

/// Login and text requests that wait to be sent.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn transmit(&mut self, out: &mut Transmit) {
        while !out.is_full() && self.sent < self.bytes.len() {
            let end = self.bytes.len().min(self.sent + TEXT_STEP);
            out.header(&self.bytes[self.sent..end]);
            self.sent = end;
        }
        if self.sent == self.bytes.len() {
            *self = Self::default();
        }
    }
}

/// The initiator's end of a session.
pub struct Initiator {
    config: InitiatorConfig,
    phase: Phase,
    fault: Option<SessionFault>,
    now: Duration,
    window: Window,
    parameters: Parameters,
    login: Login,
    discovery: Discovery,
    slots: Slab<TaskSlot>,
    r2ts: Entries<R2t>,
    /// Commands to be sent, in order.
    commands: VecDeque<Tag>,
    /// Commands with R2Ts to be answered.
    data: VecDeque<Tag>,
    burst: Option<Burst>,
    outgoing: Outgoing,
    receiver: Receiver,
    pings: Pings,
    recovery: Recovery,
    logout: Logout,
    /// Events for `poll_event`.
    events: VecDeque<InitiatorEvent>,
    deviations: Deviations,
}

impl Initiator {
    /// A session whose first transmit is a login request. `now` is the time since an epoch of the
    /// caller's.
    pub fn new(config: InitiatorConfig, now: Duration) -> Self {
        let mut slots = Slab::new(config.commands.min(QUEUE_ENTRIES_MAX));
        slots.reserve();
        let capacity = slots.capacity();
        let mut r2ts = Entries::new(R2T_OUTSTANDING_MAX);
        r2ts.reserve(capacity);
        let function_timeout = config.command_timeout.min(FUNCTION_TIMEOUT);
        let mut initiator = Self {
            phase: Phase::Login,
            fault: None,
            now,
            window: Window::new(Serial(1)),
            parameters: Parameters::default(),
            login: Login::new(),
            discovery: Discovery::default(),
            slots,
            r2ts,
            commands: VecDeque::with_capacity(capacity),
            data: VecDeque::with_capacity(capacity),
            burst: None,
            outgoing: Outgoing::default(),
            receiver: Receiver::new(),
            pings: Pings::new(config.ping_interval, config.ping_timeout, now),
            recovery: Recovery::new(config.command_timeout, function_timeout, capacity, now),
            logout: Logout::No,
            events: VecDeque::with_capacity(capacity),
            deviations: Deviations::default(),
            config,
        };
        initiator.start_login();
        initiator
    }

    /// Submits a command. Commands are sent in the order in which they were submitted.
    #[inline]
    pub fn submit(&mut self, now: Duration, command: InitiatorCommand) -> Result<Tag, SubmitError> {
        if self.phase == Phase::Closed || self.logout.is_wanted() {
            return Err(SubmitError::Closed);
        }
        let (direction, bytes) = match command.data {
            ScsiData::None | ScsiData::In(0) | ScsiData::Out(0) => (Direction::None, 0),
            ScsiData::In(bytes) => (Direction::In, bytes),
            ScsiData::Out(bytes) => (Direction::Out, bytes),
        };
        let (tag, slot) = self.slots.take().ok_or(SubmitError::Full)?;
        slot.direction = direction;
        slot.bytes = bytes;
        slot.lun = command.lun;
        slot.cdb = command.cdb;
        slot.started = now;
        self.commands.push_back(tag);
        Ok(tag)
    }

    /// The pump has sent everything before a [`Part::Release`](crate::stream::Part::Release) of
    /// `tag`. Gives the event that waited for this, if any.
    #[inline]
    pub fn sent(&mut self, tag: Tag) -> Option<InitiatorEvent> {
        let slot = self.slots.at(tag)?;
        slot.unsent = slot.unsent.saturating_sub(1);
        if slot.state != TaskState::Ending || slot.unsent > 0 {
            return None;
        }
        slot.state = TaskState::Done;
        Some(InitiatorEvent::Ended { tag, end: slot.end })
    }

    /// Returns the identity by which the target recognises a session at a new login (RFC 7143
    /// §6.3.5): the names of both, the ISID, and the target portal group, if the target has
    /// reported it. Of a discovery session nothing.
    pub fn nexus(&self) -> Option<String> {
        let target = self.config.target.as_ref()?;
        let group = self.login.portal_group.as_deref().unwrap_or("-");
        Some(format!("{} {} {} {group}", self.config.name, self.config.isid, target))
    }

    /// The ISID of the session.
    pub fn isid(&self) -> crate::iscsi::pdu::Isid {
        self.config.isid
    }

    /// The layer above has handled the end of `tag`: its memory is free, and the tag may name
    /// another command.
    #[inline]
    pub fn release(&mut self, tag: Tag) {
        if self.slots.at(tag).is_some_and(|slot| slot.state == TaskState::Done) {
            self.slots.give_back(tag);
        }
    }

    /// Sense data that came with the answer to a command, until that is released; at most
    /// [`SENSE_BYTES_MAX`] bytes.
    pub fn sense(&self, tag: Tag) -> &[u8] {
        self.slots
            .peek(tag)
            .and_then(|slot| slot.sense.get(..slot.sense_bytes.into()))
            .unwrap_or_default()
    }

    /// Returns whether no byte of a command can have reached the target, as it was never part of a
    /// gather list.
    pub fn never_sent(&self, tag: Tag) -> bool {
        self.slots.peek(tag).is_some_and(|slot| slot.state == TaskState::Submitted)
    }

    /// Commands that were submitted and not released.
    pub fn outstanding(&self) -> usize {
        self.slots.in_use()
    }

    /// Commands that may be outstanding.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// The deviations of the target from the standard that were tolerated so far.
    pub fn deviations(&self) -> Deviations {
        self.deviations
    }

    /// Why the session has ended.
    pub fn fault(&self) -> Option<&SessionFault> {
        self.fault.as_ref()
    }

    /// Returns the negotiated parameters, once login has succeeded.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Digests in use now.
    #[inline]
    fn digests(&self) -> Digests {
        if self.phase == Phase::FullFeature { self.parameters.digests } else { Digests::NONE }
    }

    /// Data that the target may put into one PDU.
    #[inline]
    fn receive_limit(&self) -> u32 {
        if self.phase == Phase::FullFeature {
            self.parameters.max_recv_bytes
        } else {
            ISCSI_LOGIN_TEXT_BYTES
        }
    }

    fn outstanding_r2t(&self) -> u8 {
        self.parameters.max_outstanding_r2t.min(R2T_OUTSTANDING_MAX.into()) as u8
    }

    fn enter_full_feature(&mut self) {
        self.phase = Phase::FullFeature;
        if self.config.target.is_none() {
            self.start_discovery();
        }
    }

    /// Puts a command into the queue of those with data to send, in which it is at most once.
    fn enqueue_data(&mut self, tag: Tag) {
        let Some(slot) = self.slots.at(tag) else { return };
        if !core::mem::replace(&mut slot.data_queued, true) {
            self.data.push_back(tag);
        }
    }

    /// A command that is in the queue of data, or to be aborted, has ended.
    #[cold]
    fn forget(&mut self, tag: Tag) {
        self.data.retain(|other| *other != tag);
        self.recovery.forget(tag);
    }

    #[cold]
    fn fail(&mut self, fault: SessionFault) {
        self.phase = Phase::Closed;
        self.fault.get_or_insert(fault);
    }
}

impl StreamEngine for Initiator {
    type Event = InitiatorEvent;

    const ROLE: Option<Role> = Some(Role { protocol: Protocol::Iscsi, end: End::Host });

    #[inline]
    fn receive(&mut self, bytes: &[u8]) -> (usize, Rx<InitiatorEvent>) {
        self.receive_steps(bytes)
    }

    fn payload_checked(&mut self, matches: bool) -> Option<InitiatorEvent> {
        self.settle(matches)
    }

    #[inline]
    fn payload_received(&mut self) -> Option<InitiatorEvent> {
        self.settle(true)
    }

    #[inline]
    fn transmit(&mut self, out: &mut Transmit) {
        if self.phase != Phase::Closed {
            self.transmit_all(out);
        }
    }

    #[inline]
    fn wants_transmit(&self) -> bool {
        let ready = || {
            self.burst.is_some()
                || !self.data.is_empty()
                || (!self.commands.is_empty() && self.window.is_open())
                || self.pings.is_due()
                || self.recovery.is_due()
                || self.logout_is_due()
        };
        match self.phase {
            Phase::Login => !self.outgoing.is_empty(),
            Phase::FullFeature => !self.outgoing.is_empty() || ready(),
            Phase::Closed => false,
        }
    }

    /// Time limits of commands, pings and logout. The caller that opens the session limits the time
    /// of the login.
    fn tick(&mut self, now: Duration) {
        self.now = now;
        if self.phase != Phase::FullFeature {
            return;
        }
        self.tick_recovery();
        self.tick_logout();
        if self.pings.tick(now) == Health::Silent {
            self.fail(SessionFault::Silent);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        if self.phase != Phase::FullFeature {
            return None;
        }
        let recovery = self.recovery.deadline(self.slots.in_use() > 0);
        [self.pings.deadline(), recovery, self.logout.deadline()].into_iter().flatten().min()
    }

    /// Commands that were aborted.
    fn poll_event(&mut self) -> Option<InitiatorEvent> {
        self.events.pop_front()
    }

    fn behind_payload(&self) -> Option<usize> {
        self.receiver.behind_payload()
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}

// Sequence numbers of a session: the command window, and the last status seen (RFC 7143 §4.2.2).

/// CmdSN, its window, and ExpStatSN.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// CmdSN of the next command that is not immediate; immediate requests carry it too.
    pub cmd_sn: Serial,
    max_cmd_sn: Serial,
    pub exp_stat_sn: Serial,
}

impl Window {
    /// Before login: no command may be sent.
    pub fn new(first: Serial) -> Self {
        Self { cmd_sn: first, max_cmd_sn: first.previous(), exp_stat_sn: Serial(0) }
    }

    /// Returns whether the target takes another command.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.max_cmd_sn.precedes(self.cmd_sn)
    }

    /// ExpCmdSN and MaxCmdSN of a received PDU. Older ones, and those that contradict each other,
    /// say nothing (§4.2.2.1).
    #[inline]
    pub fn update(&mut self, exp_cmd_sn: Serial, max_cmd_sn: Serial) {
        if self.max_cmd_sn.precedes(max_cmd_sn) && !max_cmd_sn.precedes(exp_cmd_sn.previous()) {
            self.max_cmd_sn = max_cmd_sn;
        }
    }

    /// StatSN of a PDU that carries a status, which is acknowledged from now on.
    #[inline]
    pub fn status(&mut self, stat_sn: Serial) {
        if !stat_sn.precedes(self.exp_stat_sn) {
            self.exp_stat_sn = stat_sn.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_opens_and_never_closes_again() {
        let last = Serial(u32::MAX);
        let mut window = Window::new(last);
        assert!(!window.is_open());
        window.update(last, Serial(0));
        assert_eq!((window.is_open(), window.cmd_sn.take()), (true, last));
        assert_eq!(
            (window.is_open(), window.cmd_sn.take(), window.is_open()),
            (true, Serial(0), false)
        );
        window.update(last, last);
        assert!(!window.is_open());
        window.update(Serial(1), Serial(9));
        window.update(Serial(90), Serial(20));
        assert_eq!((window.is_open(), window.max_cmd_sn), (true, Serial(9)));
    }

    #[test]
    fn status_is_acknowledged_in_order() {
        let mut window = Window::new(Serial(1));
        window.exp_stat_sn = Serial(u32::MAX);
        window.status(Serial(u32::MAX));
        window.status(Serial(u32::MAX));
        assert_eq!(window.exp_stat_sn, Serial(0));
    }
}
