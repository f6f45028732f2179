//! Opening a connection, the same for every protocol: the host is looked up, the first of its
//! addresses that answers connected to, and the protocol's [`Handshake`] done, all within one time
//! limit. Nothing here blocks, so connections open side by side.

use super::dial::dial;
use crate::names::Names;
use std::cell::RefCell;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_connection::capture::Capture;
use weft_connection::pump::{ConnectionEnd, Handler, StreamPump};
use weft_connection::url::HostPort;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};
use weft_proto::stream::StreamEngine;

/// Where a peer listens.
#[derive(Clone, Debug)]
pub(crate) enum PeerPlace {
    /// At a host that has to be looked up.
    Host(HostPort),
    /// At one of these addresses of a host.
    Addresses(Vec<SocketAddr>),
    /// At a Unix socket.
    Unix(PathBuf),
}

/// The time limit of opening a device.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    /// For messages.
    pub(crate) span: Duration,
    pub(crate) until: Time,
}

impl TimeLimit {
    /// One that begins now.
    pub(crate) fn new(on: &Handle, span: Duration) -> Self {
        Self { span, until: on.clock() + span }
    }

    /// When it ends.
    pub fn until(self) -> Time {
        self.until
    }
}

/// What is opened.
#[derive(Clone, Debug)]
pub(crate) struct OpeningPlan {
    /// URL or address, for messages.
    pub(crate) name: String,
    pub(crate) place: PeerPlace,
    pub(crate) limit: TimeLimit,
    /// What captures the connection.
    pub(crate) capture: Option<Capture>,
}

/// What is said on a new connection until it can be used.
pub(crate) trait Handshake: Handler<Self::Engine> + 'static {
    /// The protocol's engine.
    type Engine: StreamEngine + 'static;
    /// What is known of the peer when all is said.
    type Learned;
    /// Why the connection cannot be used.
    type Failure: From<Error> + 'static;

    /// What should listen at the place, for messages: "a target".
    const PEER: &'static str;

    /// The engine of a new connection.
    fn engine(&mut self, on: &Handle) -> Self::Engine;

    /// Whether the peer has commands without an answer: a connection that is given up then is reset
    /// ([`StreamPump::resetting`]).
    fn owes_answers(engine: &Self::Engine) -> bool {
        let _ = engine;
        false
    }

    /// Wraps the stream before the first byte, for a protocol that may be encrypted from there on.
    ///
    /// # Errors
    /// When the stream cannot be wrapped.
    fn secure(&mut self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, Error> {
        Ok(stream)
    }

    /// Says what there is to say. Called in each turn of the connection's driver.
    ///
    /// # Errors
    /// When what the peer said makes going on useless.
    fn advance(
        &mut self,
        engine: &mut Self::Engine,
        on: &Handle,
    ) -> Result<HandshakeStep, Self::Failure>;

    /// Why the engine has given up, if it has.
    fn fault(&self, engine: &Self::Engine) -> Option<Self::Failure>;

    /// Why the peer has ended the connection in order, if that is known better than by its stage
    /// and hint. A connection that was lost says nothing about what was sent.
    fn cut_off(&self, engine: &Self::Engine) -> Option<Self::Failure> {
        let _ = engine;
        None
    }

    /// Why this end has given up, if its last message says so. How the connection ends then does
    /// not matter: that is the peer's answer.
    fn verdict(&self) -> Option<Self::Failure> {
        None
    }

    /// What the peer has to answer now, for messages: "the login".
    fn stage(&self) -> &'static str;

    /// What to do about a peer that does not answer that, or ends the connection instead.
    fn hint(&self) -> &'static str;

    /// What to do when TLS fails.
    fn tls_hint(&self) -> &'static str {
        "check the certificates of both sides"
    }

    /// Wraps the stream, where [`HandshakeStep::Wrap`] was asked for.
    ///
    /// # Errors
    /// When the stream cannot be wrapped.
    fn wrap(&mut self, pump: StreamPump<Self::Engine>) -> Result<StreamPump<Self::Engine>, Error> {
        Ok(pump)
    }

    /// What is known when all is said.
    fn finish(self, engine: &mut Self::Engine) -> Self::Learned;
}

/// How a handshake goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeStep {
    /// The peer has to answer.
    Wait,
    /// The same, or it is to be looked at again then.
    WaitUntil(Time),
    /// With the next byte another protocol begins, TLS say.
    Wrap,
    /// All is said.
    Done,
}

/// A connection that can be used, registered with no loop, and what is known of its peer; or why
/// there is none.
pub(crate) type Opened<H> = Result<
    (StreamPump<<H as Handshake>::Engine>, <H as Handshake>::Learned),
    <H as Handshake>::Failure,
>;

/// What is told an outcome, on the loop.
pub(crate) type Then<T> = Box<dyn FnOnce(&Handle, T)>;

/// Starts to open; `then` gets the outcome on this loop, when the time limit has passed at the
/// latest.
pub(crate) fn open<H: Handshake>(
    on: &Handle,
    names: &Names,
    plan: OpeningPlan,
    handshake: H,
    then: impl FnOnce(&Handle, Opened<H>) + 'static,
) {
    let then: Then<Opened<H>> = Box::new(then);
    match plan.place.clone() {
        PeerPlace::Host(host) => {
            names.look_up(on, &host, plan.limit.until, move |on, found| match found {
                Err(e) => then(on, Err(e.into())),
                Ok(addresses) => connect(on, &addresses, plan, handshake, then),
            })
        }
        PeerPlace::Addresses(addresses) => connect(on, &addresses, plan, handshake, then),
        PeerPlace::Unix(path) => match connect_unix(&path, H::PEER) {
            Err(e) => then(on, Err(e.into())),
            Ok(stream) => shake_hands(on, stream, plan, handshake, then),
        },
    }
}

fn connect<H: Handshake>(
    on: &Handle,
    addresses: &[SocketAddr],
    plan: OpeningPlan,
    handshake: H,
    then: Then<Opened<H>>,
) {
    let left = plan.limit.until - on.clock();
    dial(on, addresses, left, H::PEER, move |on, result| match result {
        Err(e) => then(on, Err(e.into())),
        Ok(stream) => shake_hands(on, stream, plan, handshake, then),
    });
}

#[cfg(unix)]
fn connect_unix(path: &Path, peer: &str) -> Result<Box<dyn Stream>, Error> {
    match weft_io::unix::Unix::connect(path) {
        Ok(stream) => Ok(Box::new(stream)),
        Err(e) => Err(Error::io(
            format!("cannot connect to {}: {e}; check that {peer} listens there", path.display()),
            e,
        )),
    }
}

#[cfg(not(unix))]
fn connect_unix(path: &std::path::Path, _: &str) -> Result<Box<dyn Stream>, Error> {
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("{}: this system has no Unix sockets", path.display()),
    ))
}

fn shake_hands<H: Handshake>(
    on: &Handle,
    stream: Box<dyn Stream>,
    plan: OpeningPlan,
    mut handshake: H,
    then: Then<Opened<H>>,
) {
    let peer = stream.peer();
    let stream = match handshake.secure(stream) {
        Ok(stream) => stream,
        Err(e) => return then(on, Err(e.into())),
    };
    let mut then = Some(then);
    let spawned = on.try_spawn(|id| {
        let engine = handshake.engine(on);
        let mut pump = StreamPump::new(stream, engine)
            .resetting(H::owes_answers)
            .captured(plan.capture.as_ref());
        pump.register(on, id)?;
        on.wake_at(id, plan.limit.until);
        let going = Some((pump, handshake));
        Ok::<_, std::io::Error>(Connecting {
            going,
            plan,
            peer,
            id,
            timer: TimerSlot::default(),
            then: then.take(),
        })
    });
    if let (Err(e), Some(then)) = (spawned, then) {
        then(on, Err(Error::io(format!("cannot watch a connection: {e}"), e).into()));
    }
}

/// The driver of a handshake.
struct Connecting<H: Handshake> {
    going: Option<(StreamPump<H::Engine>, H)>,
    plan: OpeningPlan,
    /// For messages: a connection that was reset no longer knows it.
    peer: String,
    id: DriverId,
    timer: TimerSlot,
    then: Option<Then<Opened<H>>>,
}

impl<H: Handshake> Connecting<H> {
    fn end(&mut self, on: &Handle, outcome: Opened<H>) -> Activity {
        on.remove(self.id);
        if let Some(then) = self.then.take() {
            then(on, outcome);
        }
        Activity::Busy
    }

    /// Why it will not come to anything, if so.
    fn failure(
        &self,
        on: &Handle,
        pump: &StreamPump<H::Engine>,
        handshake: &H,
    ) -> Option<H::Failure> {
        let failure = self.failure_by_peer(on, pump, handshake)?;
        Some(handshake.verdict().unwrap_or(failure))
    }

    /// The same without the verdict of this end.
    fn failure_by_peer(
        &self,
        on: &Handle,
        pump: &StreamPump<H::Engine>,
        handshake: &H,
    ) -> Option<H::Failure> {
        if let Some(fault) = handshake.fault(&pump.engine) {
            return Some(fault);
        }
        let (name, peer, stage, hint) =
            (&self.plan.name, &self.peer, handshake.stage(), handshake.hint());
        let cut_off = || handshake.cut_off(&pump.engine);
        let error = match pump.end() {
            Some(ConnectionEnd::Error(e)) if e.kind() == std::io::ErrorKind::InvalidData => {
                let text = format!("{name}: {peer}: {e}; {}", handshake.tls_hint());
                Error::new(ErrorKind::PermissionDenied, text)
            }
            Some(ConnectionEnd::Peer) if let Some(failure) = cut_off() => return Some(failure),
            Some(ConnectionEnd::Error(e)) => {
                let text = format!(
                    "{name}: {peer} closed the connection in answer to {stage}: {e}; {hint}"
                );
                Error::io(text, e.kind().into())
            }
            Some(ConnectionEnd::Peer | ConnectionEnd::Engine) => {
                let text =
                    format!("{name}: {peer} closed the connection in answer to {stage}; {hint}");
                Error::new(ErrorKind::Refused, text)
            }
            None if on.now() >= self.plan.limit.until => {
                let limit = self.plan.limit.span.as_secs_f32();
                let text =
                    format!("{name}: {peer} does not answer {stage} within {limit} s; {hint}");
                Error::new(ErrorKind::TimedOut, text)
            }
            None => return None,
        };
        Some(error.into())
    }
}

impl<H: Handshake> Driver for Connecting<H> {
    fn receive(&mut self, on: &Handle) -> Activity {
        let Some((pump, handshake)) = &mut self.going else { return Activity::Idle };
        pump.receive(on, handshake)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let Some((mut pump, mut handshake)) = self.going.take() else { return Activity::Idle };
        match handshake.advance(&mut pump.engine, on) {
            Err(e) => return self.end(on, Err(e)),
            Ok(HandshakeStep::Done) if pump.is_quiet() && !pump.has_unsent() => {
                let _ = pump.deregister(on, self.id);
                let known = handshake.finish(&mut pump.engine);
                return self.end(on, Ok((pump, known)));
            }
            Ok(HandshakeStep::Wrap) => match handshake.wrap(pump) {
                Err(e) => return self.end(on, Err(e.into())),
                Ok(wrapped) => {
                    self.going = Some((wrapped, handshake));
                    // Its first words are sent by the next receive.
                    on.wake(self.id);
                    return Activity::Busy;
                }
            },
            Ok(HandshakeStep::WaitUntil(at)) => self.timer.arm(on, self.id, at),
            Ok(HandshakeStep::Done | HandshakeStep::Wait) => {}
        }
        if let Some(failure) = self.failure(on, &pump, &handshake) {
            return self.end(on, Err(failure));
        }
        self.going = Some((pump, handshake));
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let Some((pump, handshake)) = &mut self.going else { return Activity::Idle };
        pump.send(on, handshake)
    }
}

/// Has `start` begin `count` things, all at once; `then` gets what came of them, in their order,
/// when the last one has ended.
pub(crate) fn side_by_side<T: 'static>(
    on: &Handle,
    count: usize,
    mut start: impl FnMut(&Handle, usize, Then<T>),
    then: impl FnOnce(&Handle, Vec<T>) + 'static,
) {
    struct Gathered<T, F> {
        outcomes: Vec<Option<T>>,
        left: usize,
        then: Option<F>,
    }
    if count == 0 {
        return then(on, Vec::new());
    }
    let outcomes = (0..count).map(|_| None).collect();
    let gathered = Rc::new(RefCell::new(Gathered { outcomes, left: count, then: Some(then) }));
    for n in 0..count {
        let gathered = Rc::clone(&gathered);
        start(
            on,
            n,
            Box::new(move |on, outcome| {
                let (outcomes, then) = {
                    let gathered = &mut *gathered.borrow_mut();
                    gathered.outcomes[n] = Some(outcome);
                    gathered.left -= 1;
                    if gathered.left > 0 {
                        return;
                    }
                    (core::mem::take(&mut gathered.outcomes), gathered.then.take())
                };
                if let Some(then) = then {
                    then(on, outcomes.into_iter().flatten().collect());
                }
            }),
        );
    }
}
