//! The exchange on a new connection: the options of NBD, and TLS where it is asked for.

use crate::source::ConnectOptions;
use crate::source::opening::{Handshake, HandshakeStep, PeerPlace};
use weft_block::{Error, ErrorKind};
use weft_connection::pump::{Flow, Handler, StreamPump};
use weft_connection::url::nbd::{NbdPlace, NbdUrl};
use weft_io::Handle;
use weft_io::tls::TlsClient;
use weft_proto::limits::NBD_REQUESTS_MAX;
use weft_proto::nbd::client::OptionRefusal;
use weft_proto::nbd::code::{OptionCode, ReplyCode};
use weft_proto::nbd::{ClientConfig, ClientEvent, NbdClient};
use weft_proto::printable::Printable;
use weft_proto::stream::Tag;

/// What to agree on with a server, and what it has said.
#[derive(Clone)]
pub(super) struct Negotiation {
    /// The URL, for messages.
    name: String,
    config: ClientConfig,
    /// TLS, and the name that the server's certificate has to have.
    tls: Option<(TlsClient, String)>,
    start_tls: bool,
    secured: bool,
    ready: bool,
}

impl Negotiation {
    /// What a URL asks for.
    ///
    /// # Errors
    /// When certificates are missing, or cannot be used.
    pub(super) fn new(url: &NbdUrl, options: &ConnectOptions) -> Result<Self, Error> {
        let host = match &url.place {
            NbdPlace::Tcp(address) => address.host(),
            NbdPlace::Unix(_) => "localhost",
        };
        let server_name = || url.server_name.clone().unwrap_or_else(|| host.to_owned());
        let tls = if url.tls {
            Some((options.tls.client(url.certificates.as_deref())?, server_name()))
        } else {
            None
        };
        let requests_max = options.queue_size.min(NBD_REQUESTS_MAX);
        let config =
            ClientConfig { tls: url.tls, requests_max, ..ClientConfig::new(url.export.clone()) };
        Ok(Self {
            name: url.to_string(),
            config,
            tls,
            start_tls: false,
            secured: false,
            ready: false,
        })
    }
}

/// Where the server of a URL is.
pub(super) fn place(url: &NbdUrl) -> PeerPlace {
    match &url.place {
        NbdPlace::Tcp(address) => PeerPlace::Host(address.clone()),
        NbdPlace::Unix(path) => PeerPlace::Unix(path.clone()),
    }
}

impl Handler<NbdClient> for Negotiation {
    fn memory_mut(&mut self, _: Tag, _: u32, _: u32) -> Option<&mut [u8]> {
        None
    }

    fn memory(&self, _: Tag, _: u32, _: u32) -> &[u8] {
        &[]
    }

    fn event(&mut self, _: &Handle, _: &mut NbdClient, event: ClientEvent) -> Flow {
        match event {
            ClientEvent::StartTls => {
                self.start_tls = true;
                return Flow::Pause;
            }
            ClientEvent::Ready => self.ready = true,
            ClientEvent::Refused
            | ClientEvent::Hole { .. }
            | ClientEvent::Extent { .. }
            | ClientEvent::Response { .. } => {}
        }
        Flow::Continue
    }

    fn released(&mut self, _: &Handle, _: &mut NbdClient, _: Tag) {}
}

impl Handshake for Negotiation {
    type Engine = NbdClient;
    type Learned = ();
    type Failure = Error;

    const PEER: &'static str = "an NBD server";

    fn engine(&mut self, _: &Handle) -> NbdClient {
        NbdClient::new(self.config.clone())
    }

    fn advance(&mut self, _: &mut NbdClient, _: &Handle) -> Result<HandshakeStep, Error> {
        Ok(match (core::mem::take(&mut self.start_tls), self.ready) {
            (true, _) => HandshakeStep::Wrap,
            (false, true) => HandshakeStep::Done,
            (false, false) => HandshakeStep::Wait,
        })
    }

    fn fault(&self, engine: &NbdClient) -> Option<Error> {
        let name = &self.name;
        if let Some(refusal) = engine.refusal() {
            return Some(explain(name, &self.config.export, refusal));
        }
        let violation = engine.violation()?;
        Some(Error::new(
            ErrorKind::Protocol,
            format!("{name}: {violation}; check that this is an NBD server"),
        ))
    }

    fn stage(&self) -> &'static str {
        "the NBD handshake"
    }

    fn hint(&self) -> &'static str {
        if self.secured {
            "it may want another certificate"
        } else {
            "check that this is an NBD server and that it has this export"
        }
    }

    /// The server agreed on TLS: with the next byte it begins.
    fn wrap(&mut self, pump: StreamPump<NbdClient>) -> Result<StreamPump<NbdClient>, Error> {
        let Some((tls, server_name)) = self.tls.as_ref().filter(|_| pump.is_quiet()) else {
            let text =
                format!("{}: the server sent plain text behind the agreement on TLS", self.name);
            return Err(Error::new(ErrorKind::Protocol, text));
        };
        let mut pump = pump
            .wrap(|stream| tls.wrap(stream, server_name))
            .map_err(|e| Error::new(ErrorKind::Usage, format!("{}: {e}", self.name)))?;
        pump.engine.secured();
        pump.resume();
        self.secured = true;
        Ok(pump)
    }

    fn finish(self, _: &mut NbdClient) {}
}

/// What a refusal means, and what to do.
fn explain(name: &str, export: &str, refusal: &OptionRefusal) -> Error {
    let OptionRefusal { option, code, message } = refusal;
    let (kind, hint) = match (*option, *code) {
        (OptionCode::STARTTLS, _) => (
            ErrorKind::Unsupported,
            "; the server has no TLS to offer: use nbd:// if you trust the network",
        ),
        (_, ReplyCode::ERR_TLS_REQD) => (ErrorKind::PermissionDenied, "; use nbds://"),
        (_, ReplyCode::ERR_UNKNOWN) => {
            (ErrorKind::NotFound, "; `nbdinfo --list` shows those that there are")
        }
        (_, ReplyCode::ERR_POLICY) => (ErrorKind::PermissionDenied, ""),
        (_, ReplyCode::ERR_SHUTDOWN) => (ErrorKind::Refused, "; try again later"),
        _ => (ErrorKind::Unsupported, ""),
    };
    let said =
        if message.is_empty() { String::new() } else { format!(" (\"{}\")", Printable(message)) };
    let export = if export.is_empty() {
        "the default export".to_owned()
    } else {
        format!("export \"{export}\"")
    };
    Error::new(kind, format!("{name}: {export}: {code}{said}{hint}"))
}
