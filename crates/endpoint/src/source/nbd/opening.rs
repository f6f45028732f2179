//! Opening a connection: TCP or a Unix socket, TLS if asked for, and the negotiation; all within one time limit.

use crate::pump::{End, Flow, Handler, StreamPump};
use crate::source::ConnectOptions;
use crate::source::dial::dial;
use crate::url::nbd::{NbdPlace, NbdUrl};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_io::tls::TlsClient;
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};
use weft_proto::limits::NBD_REQUESTS_MAX;
use weft_proto::nbd::client::Refusal;
use weft_proto::nbd::code::{OptionCode, ReplyCode};
use weft_proto::nbd::{Client, ClientConfig, ClientEvent};
use weft_proto::stream::Tag;

/// Where the server is.
#[derive(Clone)]
enum Place {
    Tcp(Vec<SocketAddr>),
    Unix(PathBuf),
}

/// What to open.
#[derive(Clone)]
pub(super) struct Plan {
    /// The URL, for messages.
    pub(super) name: String,
    place: Place,
    /// TLS, and the name that the server's certificate has to have.
    tls: Option<(TlsClient, String)>,
    config: ClientConfig,
    limit: Duration,
}

impl Plan {
    pub(super) fn new(url: &NbdUrl, options: &ConnectOptions) -> Result<Self, Error> {
        let (place, host) = match &url.place {
            NbdPlace::Tcp(address) => (Place::Tcp(address.resolve()?), address.host.clone()),
            NbdPlace::Unix(path) => (Place::Unix(path.clone()), "localhost".to_owned()),
        };
        let server_name = url.server_name.clone().unwrap_or(host);
        let tls = if url.tls { Some((options.tls.client(url.certificates.as_deref())?, server_name)) } else { None };
        let requests_max = options.queue_size.min(NBD_REQUESTS_MAX);
        let config = ClientConfig { tls: url.tls, requests_max, ..ClientConfig::new(url.export.clone()) };
        Ok(Self { name: url.to_string(), place, tls, config, limit: options.connect_timeout })
    }
}

type Then = Box<dyn FnOnce(&Handle, Result<StreamPump<Client>, Error>)>;

/// Starts to open; `then` gets the result, on this loop.
pub(super) fn open(on: &Handle, plan: Plan, then: impl FnOnce(&Handle, Result<StreamPump<Client>, Error>) + 'static) {
    let (deadline, limit) = (on.clock() + plan.limit, plan.limit);
    match plan.place.clone() {
        Place::Tcp(addresses) => {
            dial(on, &addresses, limit, "an NBD server", move |on, result| match result {
                Err(e) => then(on, Err(e)),
                Ok(stream) => negotiate(on, stream, plan, deadline, Box::new(then)),
            });
        }
        Place::Unix(path) => match connect_unix(&path) {
            Err(e) => then(on, Err(e)),
            Ok(stream) => negotiate(on, stream, plan, deadline, Box::new(then)),
        },
    }
}

#[cfg(unix)]
fn connect_unix(path: &Path) -> Result<Box<dyn Stream>, Error> {
    match weft_io::unix::Unix::connect(path) {
        Ok(stream) => Ok(Box::new(stream)),
        Err(e) => Err(Error::io(format!("cannot connect to {}: {e}; check that an NBD server listens there", path.display()), e)),
    }
}

#[cfg(not(unix))]
fn connect_unix(path: &Path) -> Result<Box<dyn Stream>, Error> {
    Err(Error::new(ErrorKind::Unsupported, format!("{}: Unix sockets are for Unix systems", path.display())))
}

fn negotiate(on: &Handle, stream: Box<dyn Stream>, plan: Plan, deadline: Time, then: Then) {
    let mut then = Some(then);
    let peer = stream.peer();
    let spawned = on.try_spawn(|id| {
        let mut pump = StreamPump::new(stream, Client::new(plan.config.clone()));
        pump.register(on, id)?;
        on.wake_at(id, deadline);
        let talk = Talk::default();
        Ok::<_, std::io::Error>(Opening { pump: Some(pump), talk, plan, peer, id, deadline, then: then.take() })
    });
    if let (Err(e), Some(then)) = (spawned, then) {
        then(on, Err(Error::io(format!("cannot watch a connection: {e}"), e)));
    }
}

/// The driver of the negotiation.
struct Opening {
    pump: Option<StreamPump<Client>>,
    talk: Talk,
    plan: Plan,
    /// For messages: a connection that was reset no longer knows it.
    peer: String,
    id: DriverId,
    deadline: Time,
    then: Option<Then>,
}

/// What the server has said.
#[derive(Default)]
struct Talk {
    start_tls: bool,
    secured: bool,
    ready: bool,
}

impl Handler<Client> for Talk {
    fn memory_mut(&mut self, _: Tag, _: u32, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn memory(&self, _: Tag, _: u32, _: u32) -> &[u8] {
        &[]
    }

    fn event(&mut self, _: &Handle, _: &mut Client, event: ClientEvent) -> Flow {
        match event {
            ClientEvent::StartTls => {
                self.start_tls = true;
                return Flow::Pause;
            }
            ClientEvent::Ready => self.ready = true,
            ClientEvent::Refused | ClientEvent::Hole { .. } | ClientEvent::Response { .. } => {}
        }
        Flow::Continue
    }

    fn released(&mut self, _: &Handle, _: &mut Client, _: Tag) {}
}

impl Opening {
    fn finish(&mut self, on: &Handle, result: Result<StreamPump<Client>, Error>) -> Activity {
        on.remove(self.id);
        if let Some(then) = self.then.take() {
            then(on, result);
        }
        Activity::Busy
    }

    /// The server agreed on TLS: with the next byte it begins.
    fn secure(&mut self, pump: StreamPump<Client>) -> Result<StreamPump<Client>, Error> {
        let Some((tls, name)) = self.plan.tls.clone().filter(|_| pump.is_quiet()) else {
            return Err(Error::new(ErrorKind::Protocol, format!("{} sent plain text behind the agreement on TLS", self.peer)));
        };
        let mut pump = pump
            .wrap(|stream| tls.wrap(stream, &name))
            .map_err(|e| Error::new(ErrorKind::Usage, format!("{}: {e}", self.plan.name)))?;
        pump.engine.secured();
        pump.resume();
        self.talk.secured = true;
        Ok(pump)
    }

    /// Why it cannot go on, if it cannot.
    fn failure(&self, on: &Handle, pump: &StreamPump<Client>) -> Option<Error> {
        let name = &self.plan.name;
        if let Some(refusal) = pump.engine.refusal() {
            return Some(explain(name, &self.plan.config.export, refusal));
        }
        if let Some(violation) = pump.engine.violation() {
            return Some(Error::new(ErrorKind::Protocol, format!("{name}: {violation}; check that this is an NBD server")));
        }
        match pump.end() {
            Some(End::Error(e)) if e.kind() == std::io::ErrorKind::InvalidData => {
                let text = format!("{name}: {e}; check the certificates of both sides");
                return Some(Error::new(ErrorKind::PermissionDenied, text));
            }
            Some(End::Error(e)) => {
                let cause = std::io::Error::from(e.kind());
                return Some(Error::io(format!("{name}: the connection failed: {e}; check that this is an NBD server"), cause));
            }
            Some(End::Peer | End::Engine) => {
                let hint = if self.talk.secured {
                    "it may want another certificate"
                } else {
                    "check that this is an NBD server and that it has this export"
                };
                return Some(Error::new(ErrorKind::Refused, format!("{name}: the server closed the connection; {hint}")));
            }
            None => {}
        }
        (on.now() >= self.deadline).then(|| {
            let limit = self.plan.limit.as_secs_f32();
            let text = format!("{name}: {} does not answer as an NBD server within {limit} s; check the port", self.peer);
            Error::new(ErrorKind::TimedOut, text)
        })
    }
}

/// What a refusal means, and what to do.
fn explain(name: &str, export: &str, refusal: &Refusal) -> Error {
    let Refusal { option, code, message } = refusal;
    let (kind, hint) = match (*option, *code) {
        (OptionCode::STARTTLS, _) => {
            (ErrorKind::Unsupported, "; the server has no TLS to offer: use nbd:// if you trust the network")
        }
        (_, ReplyCode::ERR_TLS_REQD) => (ErrorKind::PermissionDenied, "; use nbds://"),
        (_, ReplyCode::ERR_UNKNOWN) => (ErrorKind::NotFound, "; `nbdinfo --list` shows those that there are"),
        (_, ReplyCode::ERR_POLICY) => (ErrorKind::PermissionDenied, ""),
        (_, ReplyCode::ERR_SHUTDOWN) => (ErrorKind::Refused, "; try again later"),
        _ => (ErrorKind::Unsupported, ""),
    };
    let said = if message.is_empty() { String::new() } else { format!(" (\"{}\")", message.escape_debug()) };
    let export = if export.is_empty() { "the default export".to_owned() } else { format!("export \"{export}\"") };
    Error::new(kind, format!("{name}: {export}: {code}{said}{hint}"))
}

impl Driver for Opening {
    fn receive(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        pump.receive(on, &mut self.talk)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        let Some(mut pump) = self.pump.take() else { return Activity::Idle };
        if self.talk.start_tls {
            self.talk.start_tls = false;
            match self.secure(pump) {
                Ok(secured) => pump = secured,
                Err(e) => return self.finish(on, Err(e)),
            }
            self.pump = Some(pump);
            // Its first words are sent by the next receive.
            on.wake(self.id);
            return Activity::Busy;
        }
        if self.talk.ready && pump.is_quiet() && !pump.has_unsent() {
            let _ = pump.deregister(on, self.id);
            return self.finish(on, Ok(pump));
        }
        if let Some(error) = self.failure(on, &pump) {
            return self.finish(on, Err(error));
        }
        self.pump = Some(pump);
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let Some(pump) = &mut self.pump else { return Activity::Idle };
        let activity = pump.send(on, &mut self.talk);
        if pump.end().is_some() {
            on.wake(self.id);
        }
        activity
    }
}
