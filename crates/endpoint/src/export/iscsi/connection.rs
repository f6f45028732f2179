//! One connection of an initiator, from accept to its end, on one loop.

use super::session::Session;
use super::shared::{Before, Mailbox, Message, Shared, Verdict};
use crate::export::devices::OpenDevices;
use crate::export::seats::Seat;
use crate::limits::{CLOSE_S, LOGOUT_WAIT_MS, PING_AFTER_S, PING_TIMEOUT_S, STARVED_RETRY_MS};
use crate::pump::{End, Flow, Handler, Pieces, StreamPump};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};
use weft_proto::iscsi::pdu::{LoginStatus, Lun};
use weft_proto::iscsi::target::{Entropy, SessionKind, TargetConnection, TargetEvent};
use weft_proto::scsi::lun::lun_of;
use weft_proto::scsi::sense::{SENSE_BYTES_MAX, Sense};
use weft_proto::scsi::status::{AdditionalSense, SenseKey};
use weft_proto::stream::{StreamEngine, Tag};

/// Times that completions may lead to new operations within one turn.
const WORK_PASSES: usize = 8;

/// What the connection is for.
enum Role {
    /// Login is under way; whether it is over but for our word.
    Login { asked: bool },
    /// Discovery.
    Discovery { over: bool },
    /// Commands.
    Normal(Box<Session>),
}

/// The driver of a connection.
pub(super) struct Connection {
    id: DriverId,
    pump: StreamPump<TargetConnection>,
    role: Role,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    /// When login has to be over.
    deadline: Time,
    /// A session is waited for that has to end first.
    waits: bool,
    /// What was received when last looked at, since when, and when to look again.
    heard: u64,
    heard_at: Time,
    look_at: Time,
    pinged: bool,
    /// When a connection that is draining is closed whether the initiator has logged out or not.
    drain_by: Option<Time>,
    /// When a connection that is closing is cut off.
    close_by: Option<Time>,
    timer: TimerSlot,
    /// Counts the connection.
    _seat: Seat,
}

/// Random bytes for CHAP.
fn entropy() -> Entropy {
    // The first six bytes of a random UUID are all random.
    const RANDOM: usize = 6;
    let mut bytes = [0; core::mem::size_of::<Entropy>()];
    for piece in bytes.chunks_mut(RANDOM) {
        piece.copy_from_slice(&Uuid::new_v4().as_bytes()[..piece.len()]);
    }
    bytes
}

impl Connection {
    /// Takes an accepted stream, on the loop where it is to live.
    pub(super) fn settle(on: &Handle, stream: Box<dyn Stream>, shared: &Arc<Shared>, seat: Seat) -> std::io::Result<()> {
        let portals = stream.local().parse().map_or_else(|_| Arc::new([]) as Arc<[String]>, |local| shared.portals(local));
        on.try_spawn(|id| {
            let engine = TargetConnection::new(Arc::clone(&shared.config), portals, entropy());
            let mut pump = StreamPump::new(stream, engine);
            pump.register(on, id)?;
            let now = on.now();
            let deadline = now + shared.limits.login;
            on.wake_at(id, deadline);
            let mailbox = Arc::<Mailbox>::default();
            mailbox.settle(on.remote(), id);
            shared.join(&mailbox);
            Ok(Self {
                id,
                pump,
                role: Role::Login { asked: false },
                shared: Arc::clone(shared),
                mailbox,
                deadline,
                waits: false,
                heard: 0,
                heard_at: now,
                look_at: now,
                pinged: false,
                drain_by: None,
                close_by: None,
                timer: TimerSlot::default(),
                _seat: seat,
            })
        })
        .map(drop)
    }

    /// What has to be said about the end, if anything.
    fn log_end(&self) {
        if let Some(violation) = self.pump.engine.violation() {
            tracing::warn!("{}: {violation}; connection closed", self.pump.peer());
        } else if let Some(End::Error(e)) = self.pump.end() {
            tracing::debug!("connection ended: {e}");
        }
    }

    /// Leaves without a session.
    fn remove(&mut self, on: &Handle) {
        self.log_end();
        self.shared.part(&self.mailbox);
        on.remove(self.id);
    }

    fn work_login(&mut self, on: &Handle) -> Activity {
        let mut before = None;
        for message in self.mailbox.take() {
            match message {
                Message::Stop | Message::Drain => {
                    self.remove(on);
                    return Activity::Idle;
                }
                Message::Freed(freed) => {
                    self.waits = false;
                    before = Some(freed);
                }
                Message::Abort(_) | Message::Settled(_) | Message::Resized(_) => {}
            }
        }
        if self.pump.end().is_some() {
            self.remove(on);
        } else if on.now() >= self.deadline && !self.pump.is_closing() {
            let limit = self.shared.limits.login.as_secs_f32();
            tracing::warn!("{}: not logged in within {limit} s; connection closed", self.pump.peer());
            self.remove(on);
        } else if matches!(self.role, Role::Login { asked: true }) && !self.waits {
            self.decide(on, before.as_deref());
            return Activity::Busy;
        }
        Activity::Idle
    }

    /// Everything is negotiated: lets the initiator in, or not.
    fn decide(&mut self, on: &Handle, before: Option<&Before>) {
        let Some(login) = self.pump.engine.login().cloned() else { return };
        self.role = Role::Login { asked: false };
        if login.kind == SessionKind::Discovery {
            self.role = Role::Discovery { over: false };
            self.pump.engine.admit(self.shared.new_tsih(), None);
            return self.begin(on);
        }
        self.shared.look_at_sizes();
        match self.shared.enter(&login, &self.mailbox, before) {
            Verdict::Wait => {
                self.waits = true;
                self.role = Role::Login { asked: true };
            }
            Verdict::Refuse(status) => self.refuse(status),
            Verdict::Enter { tsih, nexus } => match OpenDevices::open(&self.shared.devices, on, self.id) {
                Ok(devices) => {
                    let tags = self.pump.engine.tags();
                    let session = Session::new(nexus, Arc::clone(&self.shared), Arc::clone(&self.mailbox), devices, tags);
                    self.role = Role::Normal(Box::new(session));
                    let takeover = before.filter(|_| login.tsih != 0).map(|before| &before.takeover);
                    self.pump.engine.admit(tsih, takeover);
                    tracing::info!("{}: {} logged in", self.pump.peer(), login.initiator);
                    self.begin(on);
                }
                Err(e) => {
                    tracing::error!("{}: cannot let {} in: {e}", self.pump.peer(), login.initiator);
                    drop(nexus);
                    self.shared.leave(&login, &self.mailbox, self.pump.engine.takeover());
                    self.refuse(LoginStatus::OUT_OF_RESOURCES);
                }
            },
        }
    }

    fn refuse(&mut self, status: LoginStatus) {
        tracing::warn!("{}: login refused: {}", self.pump.peer(), status.text());
        self.pump.engine.refuse(status);
        self.pump.resume();
        self.pump.close();
    }

    fn begin(&mut self, on: &Handle) {
        self.pump.resume();
        self.heard_at = on.now();
        self.look_at = on.now() + Duration::from_secs(PING_AFTER_S);
        self.timer.arm(on, self.id, self.look_at);
    }

    fn work_discovery(&mut self, on: &Handle) -> Activity {
        if !self.mailbox.take().is_empty() {
            self.pump.close();
        }
        if matches!(self.role, Role::Discovery { over: true }) && !self.pump.is_closing() && self.pump.end().is_none() {
            self.pump.engine.logged_out();
            self.pump.close();
        }
        if self.pump.end().is_some() {
            self.remove(on);
        }
        Activity::Idle
    }

    fn take_messages(&mut self, on: &Handle) {
        for message in self.mailbox.take() {
            let Role::Normal(session) = &mut self.role else { return };
            let engine = &mut self.pump.engine;
            match message {
                Message::Stop => session.stop(engine),
                Message::Drain => {
                    session.draining = true;
                    engine.request_logout(LOGOUT_WAIT_MS.div_ceil(1000) as u16);
                    let by = on.now() + Duration::from_millis(LOGOUT_WAIT_MS);
                    self.drain_by = Some(by);
                    self.timer.arm(on, self.id, by);
                }
                Message::Abort(ticket) => session.ordered(engine, ticket),
                Message::Settled(number) => session.ticket_settled(engine, number),
                Message::Resized(number) => announce_resize(engine, number),
                Message::Freed(_) => {}
            }
        }
    }

    #[inline]
    fn work_normal(&mut self, on: &Handle) -> Activity {
        self.take_messages(on);
        let mut busy = self.feed(on);
        let Role::Normal(session) = &mut self.role else { return Activity::Idle };
        for _ in 0..WORK_PASSES {
            if !session.work(on, &mut self.pump.engine) {
                break;
            }
            busy = true;
        }
        while let Some((number, change)) = session.change() {
            self.shared.device_changed(number, change);
        }
        self.close_if_done(on);
        self.end_if_gone(on);
        Activity::busy_if(busy)
    }

    /// Serves commands that wait for memory; tells whether the connection may receive again.
    fn feed(&mut self, on: &Handle) -> bool {
        let Role::Normal(session) = &mut self.role else { return false };
        let stuck = self.pump.is_paused();
        if session.starved.is_empty() && !stuck {
            return false;
        }
        session.feed(on, &mut self.pump.engine);
        if !session.starved.is_empty() {
            self.timer.arm(on, self.id, on.now() + Duration::from_millis(STARVED_RETRY_MS));
        }
        if stuck && !session.is_stuck() {
            // What was held back is parsed by the next receive, which no readiness may announce.
            self.pump.resume();
            return true;
        }
        false
    }

    /// Closes a connection whose session is over, has drained or was stopped.
    #[inline]
    fn close_if_done(&mut self, on: &Handle) {
        let Role::Normal(session) = &mut self.role else { return };
        let wanted = session.over || session.logging_out || session.stopping || session.draining;
        if !wanted || self.pump.is_closing() || self.pump.end().is_some() {
            return;
        }
        let engine = &mut self.pump.engine;
        let drained =
            self.drain_by.is_some_and(|by| on.now() >= by) && engine.tasks().next().is_none() && !engine.wants_transmit();
        if session.logging_out && session.is_quiet() {
            engine.logged_out();
            self.pump.close();
        } else if session.over || drained || session.stopping && session.is_quiet() {
            engine.announce_drop(0);
            self.pump.close();
        }
    }

    /// The connection is gone: ends the session once no device holds anything of it.
    fn end_if_gone(&mut self, on: &Handle) {
        let Role::Normal(session) = &mut self.role else { return };
        if self.pump.end().is_none() {
            return;
        }
        session.stop(&mut self.pump.engine);
        if !session.is_quiet() {
            return;
        }
        // The nexus is lost before another one of this name comes into being.
        self.role = Role::Login { asked: false };
        if let Some(login) = self.pump.engine.login().cloned() {
            tracing::info!("{}: the session of {} has ended", self.pump.peer(), login.initiator);
            self.shared.leave(&login, &self.mailbox, self.pump.engine.takeover());
        }
        self.remove(on);
    }

    /// Pings an initiator that has been silent for long, and gives up one that does not answer.
    #[inline]
    fn watch_silence(&mut self, on: &Handle) {
        if on.now() < self.look_at || matches!(self.role, Role::Login { .. }) {
            return;
        }
        let heard = self.pump.engine.heard();
        if heard != self.heard || self.pump.is_paused() {
            (self.heard, self.heard_at, self.pinged) = (heard, on.now(), false);
        }
        let (quiet, patience) = (Duration::from_secs(PING_AFTER_S), Duration::from_secs(PING_TIMEOUT_S));
        let ping_at = self.heard_at + quiet;
        if on.now() < ping_at {
            self.look_at = ping_at;
        } else if !self.pinged {
            self.pinged = true;
            self.pump.engine.ping();
            self.look_at = on.now() + patience;
        } else {
            tracing::warn!("{}: the initiator does not answer; connection closed", self.pump.peer());
            self.pump.abort();
            on.wake(self.id);
            self.look_at = on.now() + quiet;
        }
        self.timer.arm(on, self.id, self.look_at);
    }

    /// Cuts off a peer that does not take what a closing connection has for it.
    #[inline]
    fn watch_close(&mut self, on: &Handle) {
        if !self.pump.is_closing() {
            return;
        }
        let by = *self.close_by.get_or_insert_with(|| on.now() + Duration::from_secs(CLOSE_S));
        if on.now() >= by {
            self.pump.abort();
            on.wake(self.id);
        } else {
            self.timer.arm(on, self.id, by);
        }
    }
}

/// Tells of a new size by the sense data that the next command gets too.
fn announce_resize(engine: &mut TargetConnection, number: usize) {
    let mut sense = [0; SENSE_BYTES_MAX];
    let bytes = Sense::new(SenseKey::UNIT_ATTENTION, AdditionalSense::CAPACITY_DATA_CHANGED).put_fixed(&mut sense);
    engine.announce_event(Lun(lun_of(number)), &sense[..bytes]);
}

impl Handler<TargetConnection> for Role {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        match self {
            Self::Normal(session) => session.memory.piece_mut(tag, offset, len),
            _ => None,
        }
    }

    #[inline]
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        if let Self::Normal(session) = self {
            session.memory.pieces_mut(tag, offset, len, into);
        }
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let memory = match self {
            Self::Normal(session) => session.memory.piece(tag, offset, len),
            _ => None,
        };
        memory.expect("the engine sends what a command was completed with")
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut TargetConnection, event: TargetEvent) -> Flow {
        match self {
            Self::Normal(session) => session.event(on, engine, event),
            Self::Login { asked } if event == TargetEvent::Login => {
                *asked = true;
                Flow::Pause
            }
            Self::Discovery { over } if event == TargetEvent::Logout => {
                *over = true;
                Flow::Continue
            }
            _ => Flow::Continue,
        }
    }

    #[inline]
    fn released(&mut self, _on: &Handle, engine: &mut TargetConnection, tag: Tag) {
        match self {
            Self::Normal(session) => session.released(engine, tag),
            _ => engine.sent(tag),
        }
    }
}

impl Driver for Connection {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        self.pump.receive(on, &mut self.role)
    }

    #[inline]
    fn work(&mut self, on: &Handle) -> Activity {
        let activity = match &self.role {
            Role::Normal(_) => self.work_normal(on),
            Role::Login { .. } => self.work_login(on),
            Role::Discovery { .. } => self.work_discovery(on),
        };
        self.watch_silence(on);
        self.watch_close(on);
        activity
    }

    #[inline]
    fn send(&mut self, on: &Handle) -> Activity {
        let had_ended = self.pump.end().is_some();
        let activity = self.pump.send(on, &mut self.role);
        // Once: an ended connection may wait long for its devices.
        if !had_ended && self.pump.end().is_some() {
            on.wake(self.id);
        }
        activity
    }
}
