//! One connection of an initiator, from accept to its end, on one loop.

use super::session::Session;
use super::target_state::{Before, IscsiMessage, Mailbox, TargetState, Verdict};
use super::units::View;
use crate::export::budget::Budget;
use crate::export::connection_limit::Newcomer;
use crate::export::device_side::DeviceSide;
use crate::export::devices::OpenDevices;
use crate::export::dialect::Dialect;
use crate::export::driver::{self, Service};
use crate::export::listen::Homes;
use crate::export::members::Serving;
use std::sync::Arc;
use weft_connection::limits::LOGOUT_WAIT_S;
use weft_connection::pump::{Flow, Handler, Pieces, StreamPump};
use weft_io::{DriverId, Handle, Stream};
use weft_proto::iscsi::pdu::{LoginStatus, Lun};
use weft_proto::iscsi::target::{Login, SessionKind, TargetConnection, TargetEvent, Violation};
use weft_proto::printable::Printable;
use weft_proto::scsi::lun::{Nexus, lun_of};
use weft_proto::scsi::sense::{SENSE_BYTES_MAX, Sense};
use weft_proto::scsi::status::{AdditionalSense, SenseKey};
use weft_proto::stream::Tag;

type Pump = StreamPump<TargetConnection>;

/// What the connection is for.
enum Role {
    /// Login is under way; whether it is over but for our word.
    Login { asked: bool },
    /// Discovery.
    Discovery { over: bool },
    /// Commands.
    Normal(Box<Session>),
}

/// What a connection is and does.
pub(super) struct Connection {
    id: DriverId,
    role: Role,
    shared: Arc<TargetState>,
    mailbox: Arc<Mailbox>,
    /// A session is waited for that has to end first.
    waits: bool,
    /// The session that had to.
    before: Option<Box<Before>>,
    /// While there is a session.
    serving: Option<Serving<IscsiMessage>>,
    /// Until there is one, or the login has failed.
    newcomer: Option<Newcomer>,
    /// The number of the target port by which the initiator came.
    port: u16,
}

impl Connection {
    /// Takes a stream that was accepted at a target port to the loop whose turn it is.
    pub(super) fn accept(
        on: &Handle,
        stream: Box<dyn Stream>,
        port: u16,
        shared: &Arc<TargetState>,
        homes: &Homes,
    ) {
        let portals = shared.portals(port, stream.local().parse().ok());
        let mut engine =
            TargetConnection::new(shared.config(), portals, shared.identities.random());
        if let Some(guesses) = &shared.guesses {
            engine.set_guard(guesses.guard(&stream.peer()));
        }
        let pump = StreamPump::new(stream, engine).watched().heeding();
        let to = Arc::clone(shared);
        driver::accept(on, pump, &shared.members, homes, move |id, _, mailbox, newcomer| {
            let (role, mailbox) = (Role::Login { asked: false }, Arc::clone(mailbox));
            Self {
                id,
                role,
                shared: to,
                mailbox,
                waits: false,
                before: None,
                serving: None,
                newcomer: Some(newcomer),
                port,
            }
        });
    }

    /// A login that the engine has refused is written down.
    #[cold]
    fn watch_login(&mut self, on: &Handle, pump: &mut Pump) {
        let Some(Violation::LoginRefused(status)) = pump.engine.violation() else { return };
        if self.newcomer.take().is_some() {
            self.note_refusal(on, pump, status);
        }
    }

    /// Does not let the initiator in.
    #[cold]
    fn refuse(&mut self, on: &Handle, pump: &mut Pump, status: LoginStatus) {
        self.newcomer = None;
        self.note_refusal(on, pump, status);
        pump.engine.refuse(status);
        pump.resume();
        pump.close();
    }

    /// Who was refused, and why, for the log.
    fn note_refusal(&self, on: &Handle, pump: &Pump, status: LoginStatus) {
        let (peer, attempt) = (pump.peer(), pump.engine.attempt());
        let said = |what: &'static str, text: &Option<String>| {
            text.as_ref().map_or_else(String::new, |text| format!(" {what} {}", Printable(text)))
        };
        let (initiator, user) = (said("of", &attempt.initiator), said("as user", &attempt.user));
        let text = || format!("{peer}: login{initiator}{user} refused: {}", status.text());
        self.shared.members.refusals().log(on.now().since_epoch(), text);
    }

    /// Everything is negotiated: lets the initiator in, or not.
    fn decide(&mut self, on: &Handle, pump: &mut Pump) {
        let Some(login) = pump.engine.login().cloned() else { return };
        self.shared.remarks.on_name(&login.initiator);
        self.shared.remarks.on(&pump.peer(), pump.engine.deviations());
        let before = self.before.take();
        self.role = Role::Login { asked: false };
        if login.kind == SessionKind::Discovery && !self.shared.allows(&login.initiator) {
            return self.refuse(on, pump, LoginStatus::AUTHORIZATION_FAILURE);
        }
        if login.kind == SessionKind::Discovery {
            self.role = Role::Discovery { over: false };
            self.newcomer = None;
            pump.engine.admit(self.shared.new_tsih(), None);
            return pump.resume();
        }
        self.shared.inventory.look_at_devices();
        match self.shared.enter(&login, self.port, &self.mailbox, before.as_deref()) {
            Verdict::Wait => {
                self.waits = true;
                self.role = Role::Login { asked: true };
            }
            Verdict::Refuse(status) => self.refuse(on, pump, status),
            Verdict::Enter { tsih, nexus, view } => {
                match OpenDevices::open(
                    &view.devices,
                    self.shared.rate_of(&login.initiator),
                    on,
                    self.id,
                ) {
                    Ok(devices) => {
                        self.serve(on, pump, &login, (nexus, devices), view);
                        let renews = before.as_ref().filter(|_| login.tsih != 0);
                        pump.engine.admit(tsih, renews.map(|before| &before.takeover));
                        tracing::info!("{}: {} logged in", pump.peer(), login.initiator);
                        pump.resume();
                    }
                    Err(e) => {
                        let (peer, now) = (pump.peer(), on.now().since_epoch());
                        self.shared
                            .members
                            .refusals()
                            .log(now, || format!("{peer}: cannot let {} in: {e}", login.initiator));
                        drop(nexus);
                        self.shared.leave(&login, self.port, &self.mailbox, pump.engine.takeover());
                        self.refuse(on, pump, LoginStatus::OUT_OF_RESOURCES);
                    }
                }
            }
        }
    }

    /// Begins the session of an initiator that was let in.
    fn serve(
        &mut self,
        on: &Handle,
        pump: &Pump,
        login: &Login,
        (nexus, devices): (Box<Nexus>, OpenDevices),
        view: View,
    ) {
        let (peer, tags) = (pump.peer(), pump.engine.tags());
        let meter = self.shared.meter(&login.initiator, &peer, tags, &view);
        let side = DeviceSide::new(devices, tags.into(), Budget::new(on, &peer), meter);
        let (shared, mailbox) = (Arc::clone(&self.shared), Arc::clone(&self.mailbox));
        let mut session = Session::new(nexus, shared, mailbox, side);
        session.reservations = view.reservations;
        self.role = Role::Normal(Box::new(session));
        self.newcomer = None;
        self.serving = Some(self.shared.members.serve());
    }
}

/// Closes a connection whose session is over or was stopped.
#[inline]
fn close_if_done(session: &mut Session, pump: &mut Pump) {
    let wanted = session.over || session.logging_out || session.side.is_stopping();
    if !wanted || pump.is_closing() {
        return;
    }
    if session.logging_out && session.is_quiet() {
        pump.engine.logged_out();
        pump.close();
    } else if session.over || session.side.is_stopping() && session.is_quiet() {
        pump.engine.announce_drop(0);
        pump.close();
    }
}

impl Service for Connection {
    type Link = Pump;
    type Handler = Self;
    type Session = Session;
    type Own = IscsiMessage;

    #[inline]
    fn handler(&mut self) -> &mut Self {
        self
    }

    #[inline]
    fn session(&mut self) -> Option<&mut Session> {
        if let Role::Normal(session) = &mut self.role { Some(session) } else { None }
    }

    fn host(&self, pump: &Pump) -> Option<String> {
        match &self.role {
            Role::Login { .. } => None,
            Role::Discovery { .. } | Role::Normal(_) => {
                pump.engine.login().map(|login| login.initiator.to_string())
            }
        }
    }

    fn own_message(&mut self, on: &Handle, pump: &mut Pump, message: IscsiMessage) {
        match (&mut self.role, message) {
            (Role::Normal(session), IscsiMessage::Abort(ticket)) => {
                session.ordered(&mut pump.engine, ticket)
            }
            (Role::Normal(session), IscsiMessage::Preempted(pending)) => {
                session.preempted(&mut pump.engine, pending)
            }
            (Role::Normal(session), IscsiMessage::Reserved(tag, outcome)) => {
                session.reserved(on, &mut pump.engine, tag, outcome)
            }
            (Role::Normal(session), IscsiMessage::Overdue(number)) => {
                session.ticket_overdue(&mut pump.engine, number)
            }
            (Role::Normal(session), IscsiMessage::Settled(number)) => {
                session.ticket_settled(&mut pump.engine, number)
            }
            (Role::Normal(_), IscsiMessage::Changed(number, what)) => {
                announce(&mut pump.engine, number, what)
            }
            (Role::Normal(session), IscsiMessage::Units(view)) => {
                session.set_view(on, self.id, &mut pump.engine, &view)
            }
            (Role::Login { .. }, IscsiMessage::Freed(before)) => {
                (self.waits, self.before) = (false, Some(before))
            }
            _ => {}
        }
    }

    fn drain(&mut self, pump: &mut Pump) {
        match &mut self.role {
            Role::Normal(session) => {
                session.side.drain();
                pump.engine.request_logout(LOGOUT_WAIT_S);
            }
            Role::Login { .. } | Role::Discovery { .. } => pump.close(),
        }
    }

    fn stop(&mut self, pump: &mut Pump) {
        match &mut self.role {
            Role::Normal(session) => session.stop(&mut pump.engine),
            Role::Login { .. } | Role::Discovery { .. } => pump.close(),
        }
    }

    #[inline]
    fn follow_devices(&mut self, _: &mut Pump) {
        if let Role::Normal(session) = &mut self.role {
            session.side.tell_changes(&self.shared.inventory);
        }
    }

    fn may_resume(&mut self, _: &mut Pump) -> bool {
        // A login is resumed by the word that it waits for.
        matches!(&self.role, Role::Normal(session) if !session.side.is_stuck())
    }

    #[inline]
    fn work(&mut self, on: &Handle, pump: &mut Pump) -> bool {
        let Role::Normal(session) = &mut self.role else {
            self.watch_login(on, pump);
            return false;
        };
        session.work(on, &mut pump.engine)
    }

    #[inline]
    fn advance(&mut self, on: &Handle, pump: &mut Pump) -> bool {
        match &mut self.role {
            Role::Normal(session) => close_if_done(session, pump),
            Role::Login { asked: true } if !self.waits => self.decide(on, pump),
            Role::Discovery { over: true } if !pump.is_closing() => {
                pump.engine.logged_out();
                pump.close();
            }
            Role::Login { .. } | Role::Discovery { .. } => {}
        }
        false
    }

    fn end(&mut self, pump: &mut Pump) -> bool {
        self.shared.remarks.on(&pump.peer(), pump.engine.deviations());
        let Role::Normal(session) = &mut self.role else { return true };
        session.stop(&mut pump.engine);
        if !session.is_quiet() {
            return false;
        }
        // The nexus is lost before another one of this name comes into being.
        self.role = Role::Login { asked: false };
        self.serving = None;
        if let Some(login) = pump.engine.login().cloned() {
            tracing::info!("{}: the session of {} has ended", pump.peer(), login.initiator);
            self.shared.leave(&login, self.port, &self.mailbox, pump.engine.takeover());
        }
        true
    }

    fn violation(pump: &mut Pump) -> Option<String> {
        // Logins that are refused are written down apart.
        let violation = pump
            .engine
            .violation()
            .filter(|violation| !matches!(violation, Violation::LoginRefused(_)));
        violation.map(|violation| violation.to_string())
    }
}

/// Tells by an Asynchronous Message (RFC 7143 §11.9.1) what the next command is told too.
pub(super) fn announce(engine: &mut TargetConnection, number: usize, what: AdditionalSense) {
    let mut sense = [0; SENSE_BYTES_MAX];
    let bytes = Sense::new(SenseKey::UNIT_ATTENTION, what).put_fixed(&mut sense);
    engine.announce_event(Lun(lun_of(number)), &sense[..bytes]);
}

impl Handler<TargetConnection> for Connection {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        match &mut self.role {
            Role::Normal(session) => session.side.memory.piece_mut(tag, offset, len),
            _ => None,
        }
    }

    #[inline]
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        if let Role::Normal(session) = &mut self.role {
            session.side.memory.pieces_mut(tag, offset, len, into);
        }
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let memory = match &self.role {
            Role::Normal(session) => session.side.memory.piece(tag, offset, len),
            _ => None,
        };
        memory.expect("the engine sends what a command was completed with")
    }

    #[inline]
    fn wants_whole(&self, tag: Tag) -> bool {
        matches!(&self.role, Role::Normal(session) if session.side.wants_whole(tag))
    }

    #[inline]
    fn place(&mut self, tag: Tag, payload: &[u8]) {
        if let Role::Normal(session) = &mut self.role {
            session.place(tag, payload);
        }
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut TargetConnection, event: TargetEvent) -> Flow {
        match &mut self.role {
            Role::Normal(session) => session.event(on, engine, event),
            Role::Login { asked } if event == TargetEvent::Login => {
                *asked = true;
                Flow::Pause
            }
            Role::Discovery { over } if event == TargetEvent::Logout => {
                *over = true;
                Flow::Continue
            }
            _ => Flow::Continue,
        }
    }

    #[inline]
    fn released(&mut self, on: &Handle, engine: &mut TargetConnection, tag: Tag) {
        match &mut self.role {
            Role::Normal(session) => session.released(on, engine, tag),
            _ => engine.sent(tag),
        }
    }
}
