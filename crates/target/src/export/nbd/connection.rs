//! One connection of a client, from accept to its end.

use super::server_state::{Nothing, ServerState};
use super::session::Session;
use crate::export::budget::host_of;
use crate::export::connection_limit::Newcomer;
use crate::export::driver::{self, MailboxOf, Place, Service};
use crate::export::members::Serving;
use std::sync::Arc;
use weft_connection::limits::ESHUTDOWN_MAX;
use weft_connection::pump::{Flow, Handler, Pieces, StreamPump};
use weft_io::tls::TlsServer;
use weft_io::{DriverId, Handle, Stream};
use weft_proto::nbd::code::{ErrorCode, ReplyCode};
use weft_proto::nbd::server::ExportOffer;
use weft_proto::nbd::{NbdEngine, ServerConfig, ServerEvent};
use weft_proto::printable::Printable;
use weft_proto::stream::{StreamEngine, Tag};

type Pump = StreamPump<NbdEngine>;

/// What the client wants and what became of it.
pub(super) struct Connection {
    id: DriverId,
    shared: Arc<ServerState>,
    mailbox: MailboxOf<Self>,
    peer: String,
    /// Once the client has chosen its export.
    session: Option<Session>,
    serving: Option<Serving<Nothing>>,
    /// Until then.
    newcomer: Option<Newcomer>,
    /// Where TLS is to be used.
    tls: Option<TlsServer>,
    /// TLS is to be set up.
    start_tls: bool,
    /// The client took its leave.
    leaving: bool,
    /// Requests in progress end, then the connection closes.
    draining: bool,
}

impl Connection {
    /// Takes an accepted stream to the loop whose turn it is.
    pub(super) fn accept(
        on: &Handle,
        stream: Box<dyn Stream>,
        shared: &Arc<ServerState>,
        tls: Option<TlsServer>,
    ) {
        let limit = shared.limits.handshake;
        let config = ServerConfig {
            tls: tls.is_some(),
            negotiation_limit: limit,
            ..ServerConfig::new(shared.exports())
        };
        let (pump, to) =
            (StreamPump::new(stream, NbdEngine::new(config)).watched(), Arc::clone(shared));
        driver::accept(
            on,
            pump,
            &shared.members,
            &shared.homes,
            move |id, pump: &mut Pump, mailbox, newcomer| {
                let (mailbox, peer, session, serving) =
                    (Arc::clone(mailbox), pump.peer(), None, None);
                let (newcomer, start_tls, leaving, draining) =
                    (Some(newcomer), false, false, false);
                Self {
                    id,
                    shared: to,
                    mailbox,
                    peer,
                    session,
                    serving,
                    newcomer,
                    tls,
                    start_tls,
                    leaving,
                    draining,
                }
            },
        );
    }

    /// The client wants an export: tells about it and, if it is to be used, opens the device.
    fn select(&mut self, on: &Handle, engine: &mut NbdEngine) {
        let Some((listed, info, namespace)) = self.shared.find(engine.wanted()) else {
            let text =
                || format!("{}: there is no export {}", self.peer, Printable(engine.wanted()));
            self.shared.members.refusals().log(on.now().since_epoch(), text);
            return engine.answer(Err((ReplyCode::ERR_UNKNOWN, "there is no export of this name")));
        };
        if engine.wants_to_go() {
            let Some(nqn) = self.shared.choose(&self.mailbox, &namespace, &self.peer) else {
                return engine
                    .answer(Err((ReplyCode::ERR_UNKNOWN, "the export has changed: try again")));
            };
            let meter = self.shared.meter(&self.peer, (nqn, namespace.nsid));
            let rate = self.shared.inventory.rate_of(host_of(&self.peer));
            match Session::open(&namespace, rate, on, self.id, &self.peer, meter) {
                Ok(session) => self.session = Some(session),
                Err(e) => {
                    let text = || format!("{}: export {}: {e}", self.peer, listed.name);
                    self.shared.members.refusals().log(on.now().since_epoch(), text);
                    return engine
                        .answer(Err((ReplyCode::ERR_PLATFORM, "the device has no free queue")));
                }
            }
            (self.serving, self.newcomer) = (Some(self.shared.members.serve()), None);
        }
        engine.answer(Ok(ExportOffer { listed: &listed, info }));
    }
}

impl Service for Connection {
    type Link = Pump;
    type Handler = Self;
    type Session = Session;
    type Own = Nothing;

    /// A client may send its last requests and leave: what is outstanding is handled before the
    /// server closes the connection (NBD, "Terminating the transmission phase"). A client has no
    /// other server at which it could have repeated them.
    const FINISHES: bool = true;

    #[inline]
    fn handler(&mut self) -> &mut Self {
        self
    }

    #[inline]
    fn session(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    fn host(&self, _: &Pump) -> Option<String> {
        self.session.is_some().then(|| self.peer.clone())
    }

    fn own_message(&mut self, _: &Handle, _: &mut Pump, nothing: Nothing) {
        match nothing {}
    }

    fn drain(&mut self, pump: &mut Pump) {
        self.draining = true;
        match &mut self.session {
            Some(session) => session.side.drain(),
            None => pump.close(),
        }
    }

    fn stop(&mut self, pump: &mut Pump) {
        if let Some(session) = &mut self.session {
            session.stop();
        }
        pump.close();
    }

    #[inline]
    fn follow_devices(&mut self, _: &mut Pump) {
        if let Some(session) = &mut self.session {
            session.side.tell_changes(&self.shared.inventory);
        }
    }

    fn may_resume(&mut self, pump: &mut Pump) -> bool {
        let stuck = self.session.as_ref().is_some_and(Session::is_stuck);
        !(stuck || pump.engine.is_full() || self.leaving || self.start_tls)
    }

    #[inline]
    fn advance(&mut self, _: &Handle, pump: &mut Pump) -> bool {
        if self.session.as_ref().is_some_and(|session| session.refused() > ESHUTDOWN_MAX)
            && !pump.is_closing()
        {
            self.stop(pump);
        }
        let done = || pump.engine.outstanding() == 0 && !pump.engine.wants_transmit();
        if (self.draining || self.leaving) && done() {
            pump.close();
        }
        self.start_tls && !pump.has_unsent()
    }

    /// The client was told that TLS begins: with the next byte it does.
    fn replace(&mut self, on: &Handle, mut pump: Pump) -> Place<Self> {
        self.start_tls = false;
        let Some(tls) = self.tls.clone().filter(|_| pump.is_quiet()) else {
            // Whatever came with the option is looked at by the engine, which does not stand for
            // it.
            pump.resume();
            return Place::Here(pump);
        };
        let peer = pump.peer();
        let mut pump = match pump.wrap(|stream| tls.wrap(stream)) {
            Ok(pump) => pump,
            Err(e) => {
                let text = || format!("{peer}: {e}");
                self.shared.members.refusals().log(on.now().since_epoch(), text);
                return Place::Nowhere;
            }
        };
        pump.engine.secured();
        pump.resume();
        Place::Here(pump)
    }

    #[inline]
    fn awaits_sending(&self, pump: &Pump) -> bool {
        self.draining || pump.is_paused()
    }

    fn end(&mut self, _: &mut Pump) -> bool {
        let Some(session) = &mut self.session else { return true };
        session.stop();
        session.side.is_quiet()
    }

    fn violation(pump: &mut Pump) -> Option<String> {
        let missed = || {
            pump.engine
                .misses_tls()
                .then(|| "the client did not start TLS, without which it gets nothing".to_owned())
        };
        pump.engine.violation().map(|violation| violation.to_string()).or_else(missed)
    }
}

impl Handler<NbdEngine> for Connection {
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
    fn wants_whole(&self, tag: Tag) -> bool {
        self.session.as_ref().is_some_and(|session| session.side.wants_whole(tag))
    }

    #[inline]
    fn place(&mut self, tag: Tag, payload: &[u8]) {
        if let Some(session) = &mut self.session {
            session.place(tag, payload);
        }
    }

    #[inline]
    fn event(&mut self, on: &Handle, engine: &mut NbdEngine, event: ServerEvent) -> Flow {
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
                    session.data_arrived(on, engine, tag);
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
            ServerEvent::Full => Flow::Pause,
            ServerEvent::Disconnect => {
                self.leaving = true;
                Flow::Pause
            }
        }
    }

    #[inline]
    fn released(&mut self, on: &Handle, engine: &mut NbdEngine, tag: Tag) {
        if let Some(session) = &mut self.session {
            session.released(on, engine, tag);
        }
    }
}
