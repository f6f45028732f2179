//! One connection of a client, from accept to its end.

use super::session::Session;
use super::shared::{Mailbox, Message, Shared, Transmitting};
use crate::export::seats::Seat;
use crate::limits::{CLOSE_S, STARVED_RETRY_MS};
use crate::pump::{End, Flow, Handler, Pieces, StreamPump};
use std::sync::Arc;
use std::time::Duration;
use weft_block::Change;
use weft_io::event_loop::TimerSlot;
use weft_io::tls::TlsServer;
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};
use weft_proto::nbd::code::{ErrorCode, ReplyCode};
use weft_proto::nbd::{Server, ServerConfig, ServerEvent};
use weft_proto::stream::{StreamEngine, Tag};

/// Times that completions may lead to new operations within one turn.
const WORK_PASSES: usize = 8;

/// What the client wants and what became of it.
struct Talk {
    id: DriverId,
    shared: Arc<Shared>,
    /// Once the client has chosen its export.
    session: Option<Session>,
    transmitting: Option<Transmitting>,
    /// TLS is to be set up.
    start_tls: bool,
    /// Nothing more is taken until a slot is free.
    full: bool,
    /// The client took its leave.
    leaving: bool,
}

/// The driver of a connection.
pub(super) struct Connection {
    id: DriverId,
    /// Taken out while its stream is replaced.
    pump: Option<StreamPump<Server>>,
    talk: Talk,
    tls: Option<TlsServer>,
    mailbox: Arc<Mailbox>,
    /// Requests under way end, then the connection closes.
    draining: bool,
    /// When a connection without an export is closed.
    deadline: Time,
    /// When a connection that is closing is cut off.
    close_by: Option<Time>,
    /// For that, and for memory that is waited for.
    timer: TimerSlot,
    /// Counts the connection for as long as it lives.
    _seat: Seat,
}

impl Connection {
    /// Takes an accepted stream to the loop whose turn it is.
    pub(super) fn accept(stream: Box<dyn Stream>, shared: &Arc<Shared>, tls: Option<TlsServer>) {
        let Some(seat) = shared.seats.take(stream.as_ref()) else { return };
        let to = Arc::clone(shared);
        shared.homes.hand_over(stream, move |on, stream| {
            if let Err(e) = Self::settle(on, stream, to, tls, seat) {
                tracing::error!("cannot watch an accepted connection: {e}");
            }
        });
    }

    fn settle(
        on: &Handle,
        stream: Box<dyn Stream>,
        shared: Arc<Shared>,
        tls: Option<TlsServer>,
        seat: Seat,
    ) -> std::io::Result<()> {
        on.try_spawn(|id| {
            let config = ServerConfig { tls: tls.is_some(), ..ServerConfig::new(Arc::clone(&shared.exports)) };
            let mut pump = StreamPump::new(stream, Server::new(config));
            pump.register(on, id)?;
            let deadline = on.now() + shared.limits.handshake;
            on.wake_at(id, deadline);
            let mailbox = Arc::<Mailbox>::default();
            shared.enter(&mailbox);
            mailbox.settle(on.remote(), id);
            let (session, transmitting) = (None, None);
            let talk = Talk { id, shared, session, transmitting, start_tls: false, full: false, leaving: false };
            let (draining, close_by, timer) = (false, None, TimerSlot::default());
            Ok(Self { id, pump: Some(pump), talk, tls, mailbox, draining, deadline, close_by, timer, _seat: seat })
        })
        .map(drop)
    }

    fn take_messages(&mut self) {
        for message in self.mailbox.take() {
            self.draining = true;
            if let Some(session) = &mut self.talk.session {
                session.drain();
                if matches!(message, Message::Stop) {
                    session.stop();
                }
            }
            if self.talk.session.is_none() || matches!(message, Message::Stop) {
                self.pump.iter_mut().for_each(StreamPump::close);
            }
        }
    }

    /// The client was told that TLS begins: with the next byte it does.
    fn start_tls(&mut self, on: &Handle) {
        let Some(pump) = self.pump.take_if(|pump| self.talk.start_tls && !pump.has_unsent()) else { return };
        self.talk.start_tls = false;
        // What the client has sent meanwhile is received now: no readiness tells of it again.
        on.wake(self.id);
        let Some(tls) = self.tls.clone().filter(|_| pump.is_quiet()) else {
            // Whatever came with the option is looked at by the engine, which does not stand for it.
            let pump = self.pump.insert(pump);
            return pump.resume();
        };
        let peer = pump.peer();
        match pump.wrap(|stream| tls.wrap(stream)) {
            Ok(mut pump) => {
                pump.engine.secured();
                pump.resume();
                self.pump = Some(pump);
            }
            Err(e) => tracing::error!("{peer}: {e}"),
        }
    }

    /// Before the client has chosen its export.
    fn work_negotiation(&mut self, on: &Handle) -> Activity {
        self.start_tls(on);
        let Some(pump) = &mut self.pump else {
            on.remove(self.id);
            return Activity::Idle;
        };
        if pump.end().is_some() {
            Self::log_end(pump);
            on.remove(self.id);
        } else if on.now() >= self.deadline {
            let limit = self.talk.shared.limits.handshake.as_secs_f32();
            tracing::warn!("{}: no export chosen within {limit} s; connection closed", pump.peer());
            on.remove(self.id);
        } else if core::mem::take(&mut self.talk.full) {
            pump.resume();
            return Activity::Busy;
        }
        Activity::Idle
    }

    #[inline]
    fn work_session(&mut self, on: &Handle) -> Activity {
        let (Some(session), Some(pump)) = (&mut self.talk.session, &mut self.pump) else { return Activity::Idle };
        let mut busy = false;
        if session.is_starved() {
            if session.feed(on, &mut pump.engine) && pump.is_paused() && !self.talk.full {
                pump.resume();
                // What was held back is parsed by the next receive, which no readiness may announce.
                busy = true;
            }
            if session.is_starved() {
                self.timer.arm(on, self.id, on.now() + Duration::from_millis(STARVED_RETRY_MS));
            }
        }
        for _ in 0..WORK_PASSES {
            if !session.work(&mut pump.engine) {
                break;
            }
            busy = true;
        }
        if self.talk.full && !pump.engine.is_full() && !session.is_starved() {
            self.talk.full = false;
            pump.resume();
            busy = true;
        }
        while let Some(change) = session.change() {
            log_change(pump, change);
        }
        if (self.draining || self.talk.leaving) && pump.engine.outstanding() == 0 && !pump.engine.wants_transmit() {
            pump.close();
        }
        if pump.end().is_some() {
            session.stop();
            if session.is_quiet() {
                Self::log_end(pump);
                on.remove(self.id);
            }
        }
        Activity::busy_if(busy)
    }

    /// What has to be said about the end, if anything.
    fn log_end(pump: &StreamPump<Server>) {
        if let Some(violation) = pump.engine.violation() {
            tracing::warn!("{}: the client broke the protocol: {violation}; connection closed", pump.peer());
        } else if let Some(End::Error(e)) = pump.end() {
            tracing::debug!("connection ended: {e}");
        }
    }

    /// Cuts off a peer that does not take what a closing connection has for it.
    #[inline]
    fn watch_close(&mut self, on: &Handle) {
        let Some(pump) = self.pump.as_mut().filter(|pump| pump.is_closing()) else { return };
        let by = *self.close_by.get_or_insert_with(|| on.now() + Duration::from_secs(CLOSE_S));
        if on.now() >= by {
            pump.abort();
            on.wake(self.id);
        } else {
            self.timer.arm(on, self.id, by);
        }
    }
}

/// The protocol has no word for it: a client learns of a new size when it connects anew.
fn log_change(pump: &StreamPump<Server>, change: Change) {
    tracing::info!("{}: {change:?}, which this client does not see before it connects anew", pump.peer());
}

impl Talk {
    /// The client wants an export: tells about it and, if it is to be used, opens the device.
    fn select(&mut self, on: &Handle, engine: &mut Server) {
        let Some((offer, device)) = self.shared.find(engine.wanted()) else {
            return engine.answer(Err((ReplyCode::ERR_UNKNOWN, "there is no export of this name")));
        };
        if engine.wants_to_go() {
            match Session::open(device, on, self.id) {
                Ok(session) => self.session = Some(session),
                Err(e) => {
                    tracing::error!("export {}: {e}", offer.listed.name);
                    return engine.answer(Err((ReplyCode::ERR_PLATFORM, "the device has no queue to spare")));
                }
            }
            self.transmitting = Some(self.shared.transmit());
        }
        engine.answer(Ok(offer));
    }
}

impl Handler<Server> for Talk {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.session.as_mut()?.memory_mut(tag, offset, len)
    }

    #[inline]
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        if let Some(session) = &mut self.session {
            session.pieces_mut(tag, offset, len, into);
        }
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let memory = self.session.as_ref().and_then(|session| session.memory(tag, offset, len));
        memory.expect("the engine sends what a read was completed with")
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut Server, event: ServerEvent) -> Flow {
        match event {
            ServerEvent::Request { tag, command } => match &mut self.session {
                Some(session) => session.request(on, engine, tag, command),
                None => {
                    engine.complete(tag, ErrorCode::ESHUTDOWN);
                    Flow::Continue
                }
            },
            ServerEvent::DataArrived { tag } => {
                if let Some(session) = &mut self.session {
                    session.data_arrived(engine, tag);
                }
                Flow::Continue
            }
            ServerEvent::Select => {
                self.select(on, engine);
                Flow::Continue
            }
            ServerEvent::StartTls => {
                self.start_tls = true;
                Flow::Pause
            }
            ServerEvent::Full => {
                self.full = true;
                Flow::Pause
            }
            ServerEvent::Disconnect => {
                self.leaving = true;
                Flow::Pause
            }
        }
    }

    #[inline]
    fn released(&mut self, _: &Handle, engine: &mut Server, tag: Tag) {
        if let Some(session) = &mut self.session {
            session.released(engine, tag);
        }
    }
}

impl Driver for Connection {
    #[inline]
    fn receive(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        pump.receive(on, &mut self.talk)
    }

    #[inline]
    fn work(&mut self, on: &Handle) -> Activity {
        self.take_messages();
        let activity = if self.talk.session.is_some() { self.work_session(on) } else { self.work_negotiation(on) };
        self.watch_close(on);
        activity
    }

    #[inline]
    fn send(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        let had_ended = pump.end().is_some();
        let activity = pump.send(on, &mut self.talk);
        // Once: an ended connection may wait long for its devices. And what was sent may be what was waited for.
        let done = self.talk.start_tls || self.talk.leaving || self.talk.full || self.draining;
        if (!had_ended && pump.end().is_some()) || (done && activity == Activity::Busy) {
            on.wake(self.id);
        }
        activity
    }
}
