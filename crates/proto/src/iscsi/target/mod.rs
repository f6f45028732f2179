//! The target's end of an iSCSI connection (RFC 7143), which is also a whole session, because
//! sessions have one connection.
//!
//! The engine performs the login by itself up to [`TargetEvent::Login`], when the layer above
//! accepts or refuses the session. The life of a command, identified by its [`Tag`] from
//! [`TargetEvent::Command`] on:
//!
//! 1. The layer above checks it, and calls [`fetch`](TargetConnection::fetch) if it needs data from
//!    the initiator. For unsolicited data it must do so before the next
//!    [`receive`](StreamEngine::receive), which otherwise discards the data. A pump without memory
//!    therefore waits: it does not receive unsolicited data, and does not yet fetch data that is
//!    requested by R2T.
//! 2. The data arrives as [`Rx::Payload`] for the tag's memory, followed by
//!    [`TargetEvent::DataArrived`] or, after a wrong data digest, [`TargetEvent::DataFailed`]. Data
//!    beyond the fetched length is reported in the same way, beyond the end of the memory.
//! 3. The layer above calls [`complete`](TargetConnection::complete). With data for the initiator,
//!    the memory must stay until [`Part::Release`](crate::stream::Part::Release) was sent and
//!    [`sent`](TargetConnection::sent) was called, and must be readable (zeroes) up to the next
//!    multiple of four. Without data the memory is free at once.
//!
//! A response waits until unsolicited data of its command has passed. Tasks that end without a
//! response are ended by [`abandon`](TargetConnection::abandon). The command window (MaxCmdSN) is
//! as wide as the number of slots; it opens as responses are sent.

mod auth;
mod clock;
mod config;
mod control;
mod data_out;
mod login;
mod receive;
mod receive_stage;
mod response;
mod slot;
mod text_exchange;
mod text_request;
mod time;
mod transmit;
mod violation;

use crate::capture::{End, Protocol, Role};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

pub use auth::Entropy;
pub use config::{
    ChapPolicy, ChapUser, Guard, IscsiTargetConfig, Login, LoginAttempt, Portals, Reinstatement,
    SessionKind, TargetEvent, TargetResponse,
};
pub use violation::Violation;

use self::clock::Clock;
use self::login::LoginPhase;
use self::receive_stage::{Arriving, ReceiveStage, Step};
use self::slot::{SLOTS_MAX, TaskKind, TaskSlot, TaskState};
use self::text_exchange::TextExchange;
use super::deviation::Deviations;
use super::link::Inline;
use super::pdu::{LoginFlags, LoginStatus};
use super::serial::Serial;
use super::text::{Parameters, Writer};
use crate::limits::{IMMEDIATE_COMMANDS_MAX, R2T_OUTSTANDING_MAX};
use crate::slab::Slab;
use crate::stream::{Rx, StreamEngine, Tag, Transmit};

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Login.
    Login,
    /// Login is over, and the layer above is asked.
    Deciding,
    /// Full feature phase.
    Full,
    /// A Logout Request was received: nothing more is.
    LoggingOut,
    /// Nothing more is received; at most the queued data is sent.
    Closed,
}

/// The target's end of a connection.
pub struct TargetConnection {
    config: Arc<IscsiTargetConfig>,
    portals: Portals,
    phase: Phase,
    login: Option<Box<LoginPhase>>,
    who: Option<Login>,
    /// The answer that waits for the layer above.
    pending: Option<(super::pdu::LoginRequest, LoginFlags, Writer)>,
    parameters: Parameters,
    tsih: u16,
    stat_sn: Serial,
    exp_cmd_sn: Serial,
    /// Ordered commands that may be outstanding, and that are.
    window: u16,
    in_window: u16,
    immediate: u16,
    slots: Slab<TaskSlot>,
    /// Tasks with something to send.
    queue: VecDeque<Tag>,
    answers: u32,
    /// Tasks whose data is awaited.
    fetching: u16,
    stage: ReceiveStage,
    arriving: Option<Arriving>,
    inline: Inline,
    text: TextExchange,
    /// Whole PDUs that go ahead of everything else, and how much of them is in a gather list.
    urgent: Vec<u8>,
    urgent_sent: usize,
    logout: Option<super::pdu::LogoutRequest>,
    logout_due: bool,
    violation: Option<Violation>,
    clock: Clock,
    /// True if a ping of this end is not answered yet.
    pinging: bool,
    deviations: Deviations,
}

impl TargetConnection {
    /// A connection on which nothing was received yet. `entropy` is used for CHAP, and must be
    /// fresh.
    pub fn new(config: Arc<IscsiTargetConfig>, portals: Portals, entropy: Entropy) -> Self {
        let group = portals.group;
        let window = config.commands.clamp(1, (slot::SLOTS_MAX - IMMEDIATE_COMMANDS_MAX) / 2);
        Self {
            // Answers in a gather list still hold a slot, but no place in the window.
            slots: Slab::new((2 * window + IMMEDIATE_COMMANDS_MAX).min(SLOTS_MAX)),
            window,
            clock: Clock::new(&config),
            config,
            portals,
            phase: Phase::Login,
            login: Some(Box::new(LoginPhase::new(entropy, group))),
            who: None,
            pending: None,
            parameters: Parameters::default(),
            tsih: 0,
            stat_sn: Serial(0),
            exp_cmd_sn: Serial(0),
            in_window: 0,
            immediate: 0,
            queue: VecDeque::new(),
            answers: 0,
            fetching: 0,
            stage: ReceiveStage::Header,
            arriving: None,
            inline: Inline::default(),
            text: TextExchange::default(),
            urgent: Vec::new(),
            urgent_sent: 0,
            logout: None,
            logout_due: false,
            violation: None,
            pinging: false,
            deviations: Deviations::default(),
        }
    }

    /// Returns the login; `None` before [`TargetEvent::Login`].
    pub fn login(&self) -> Option<&Login> {
        self.who.as_ref()
    }

    /// Returns the present or past attempt to log in, as far as it came.
    pub fn attempt(&self) -> LoginAttempt {
        self.login.as_ref().map_or_else(LoginAttempt::default, |login| login.attempt())
    }

    /// Sets a guard, which is asked before the result of a check of a secret becomes known.
    pub fn set_guard(&mut self, guard: Arc<dyn Guard>) {
        if let Some(login) = &mut self.login {
            login.set_guard(guard);
        }
    }

    /// Returns the negotiated parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Tags are below this.
    pub fn tags(&self) -> u16 {
        self.slots.capacity() as u16
    }

    /// Returns whether commands may come.
    pub fn is_full_feature(&self) -> bool {
        self.phase == Phase::Full
    }

    /// Returns the state for a connection that takes this session over.
    pub fn takeover(&self) -> Reinstatement {
        Reinstatement { exp_cmd_sn: self.exp_cmd_sn, parameters: self.parameters }
    }

    /// Lets the initiator in, as the session `tsih` (not 0), which is a new one or that of a
    /// connection before.
    pub fn admit(&mut self, tsih: u16, before: Option<&Reinstatement>) {
        let Some((request, flags, text)) = self.pending.take() else { return };
        self.phase = Phase::Full;
        self.login = None;
        self.tsih = tsih;
        if let Some(before) = before {
            self.exp_cmd_sn = before.exp_cmd_sn;
            let own = self.parameters;
            let Parameters { digests, max_recv_bytes, max_send_bytes, .. } = own;
            self.parameters =
                Parameters { digests, max_recv_bytes, max_send_bytes, ..before.parameters };
        }
        self.slots.reserve();
        self.queue.reserve_exact(self.slots.capacity());
        self.respond_login(&request, flags, LoginStatus::SUCCESS, text.text());
    }

    /// Does not let the initiator in; the connection closes.
    pub fn refuse(&mut self, status: LoginStatus) {
        if let Some((request, ..)) = self.pending.take() {
            self.refuse_login(&request, status);
        }
    }

    /// Returns whether data of a command comes, or goes on coming, unasked.
    #[inline]
    pub fn has_unsolicited(&self, tag: Tag) -> bool {
        self.slots.peek(tag).is_some_and(|slot| slot.unsolicited)
    }

    /// Returns whether the next part of the stream is immediate data of the command, of this length
    /// and without a digest behind it.
    #[inline]
    pub fn is_next(&self, tag: Tag, bytes: u32) -> bool {
        self.stage == ReceiveStage::Immediate { tag, bytes } && !self.digests().data
    }

    /// Asks for the first `bytes` (more than zero) of the initiator's data of a command that was
    /// not fetched yet. Returns how many of them will come: the initiator may have announced fewer.
    /// If it is zero, nothing happens.
    pub fn fetch(&mut self, tag: Tag, bytes: u32) -> u32 {
        let Some(slot) =
            self.slots.at(tag).filter(|slot| slot.state == TaskState::Held && slot.writes)
        else {
            return 0;
        };
        let wanted = bytes.min(slot.expected);
        if wanted == 0 {
            return 0;
        }
        slot.state = TaskState::Fetching;
        self.fetching += 1;
        slot.wanted = wanted;
        if !slot.unsolicited && slot.received < slot.wanted {
            self.ask_from_here(tag);
        }
        wanted
    }

    /// Commands that were not answered yet, with their logical units.
    pub fn tasks(&self) -> impl Iterator<Item = (Tag, super::pdu::Lun)> {
        let pending = |state| matches!(state, TaskState::Held | TaskState::Fetching);
        self.slots
            .used()
            .filter(move |(_, slot)| slot.kind == TaskKind::Command && pending(slot.state))
            .map(|(tag, slot)| (tag, slot.lun))
    }

    /// Returns the tolerated violations of the standard by the initiator so far.
    pub fn deviations(&self) -> Deviations {
        self.deviations
    }

    /// Why this end closed the connection, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// MaxCmdSN.
    #[inline]
    fn max_cmd_sn(&self) -> Serial {
        self.exp_cmd_sn.plus(u32::from(self.window - self.in_window)).previous()
    }

    /// R2Ts that may be outstanding for one command.
    fn max_r2t(&self) -> u32 {
        self.parameters.max_outstanding_r2t.min(R2T_OUTSTANDING_MAX.into()).into()
    }

    /// Everything from here on is asked for.
    fn ask_from_here(&mut self, tag: Tag) {
        if let Some(slot) = self.slots.at(tag) {
            (slot.solicited_from, slot.asked) = (slot.received, slot.received);
            self.enqueue(tag);
        }
    }

    /// Puts a task into the transmit queue, in which it is at most once.
    #[inline]
    fn enqueue(&mut self, tag: Tag) {
        let Some(slot) = self.slots.at(tag) else { return };
        if !slot.queued {
            slot.queued = true;
            self.queue.push_back(tag);
        }
    }

    #[cold]
    fn fail(&mut self, violation: Violation) {
        self.phase = Phase::Closed;
        self.violation.get_or_insert(violation);
    }
}

impl StreamEngine for TargetConnection {
    type Event = TargetEvent;

    const ROLE: Option<Role> = Some(Role { protocol: Protocol::Iscsi, end: End::Target });

    fn receive(&mut self, bytes: &[u8]) -> (usize, Rx<TargetEvent>) {
        let mut used = 0;
        self.clock.hear(!bytes.is_empty());
        loop {
            match self.step(&bytes[used..]) {
                Ok(Step::Used(n)) => used += n,
                Ok(Step::Tell(n, what)) => {
                    if matches!(what, Rx::Payload { .. } | Rx::Discard { .. }) {
                        // The rest has to come yet.
                        self.clock.all_heard();
                    }
                    return (used + n, what);
                }
                Ok(Step::More(need)) => {
                    self.clock.all_heard();
                    return (used, Rx::More { need });
                }
                Err(violation) => {
                    self.fail(violation);
                    return (used, Rx::Closed);
                }
            }
        }
    }

    fn payload_checked(&mut self, matches: bool) -> Option<TargetEvent> {
        self.settle(matches)
    }

    fn payload_received(&mut self) -> Option<TargetEvent> {
        self.clock.hear(true);
        if self.stage.awaits_digest() { None } else { self.settle(true) }
    }

    fn transmit(&mut self, out: &mut Transmit) {
        if self.transmit_urgent(out) {
            self.transmit_queue(out);
            self.transmit_logout(out);
        }
    }

    fn wants_transmit(&self) -> bool {
        self.urgent_sent < self.urgent.len()
            || (self.sends_tasks() && (self.logout_due || !self.queue.is_empty()))
    }

    fn tick(&mut self, now: Duration) {
        self.pass_time(now);
    }

    #[inline]
    fn deadline(&self) -> Option<Duration> {
        self.next_deadline()
    }

    #[inline]
    fn awaits_data(&self) -> bool {
        self.fetching > 0
    }

    fn behind_payload(&self) -> Option<usize> {
        match self.stage {
            ReceiveStage::Header => Some(0),
            ReceiveStage::Tail(tail) => Some(tail.bytes()),
            ReceiveStage::Immediate { .. } | ReceiveStage::Inline(_) => None,
        }
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}
