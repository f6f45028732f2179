//! The exchange on a new connection: ICReq and ICResp and, for an I/O queue, Connect.

use super::transport::TcpLink;
use crate::names::Names;
use crate::source::nvme::connect_exchange::ConnectExchange;
use crate::source::nvme::transport::{
    CommandEvent, CommandOwner, ConcatenationState, ConnectResult, LinkPlan, OpenLink, Opened,
};
use crate::source::opening::{self, Handshake, HandshakeStep, PeerPlace};
use std::net::SocketAddr;
use weft_block::{Error, ErrorKind};
use weft_connection::psk::TlsPsk;
use weft_connection::pump::{Flow, Handler};
use weft_io::{Handle, Stream};
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::FABRICS_CAPSULE_DATA_BYTES;
use weft_proto::nvme_tcp::{HostConnection, TcpHostConfig, TcpHostEvent};
use weft_proto::stream::Tag;
use weft_tls::{Peer, TlsConnector};

impl OpenLink for TcpLink {
    type Place = Vec<SocketAddr>;

    fn open(
        on: &Handle,
        plan: LinkPlan<Vec<SocketAddr>>,
        then: impl FnOnce(&Handle, Result<Opened<Self>, Error>) + 'static,
    ) {
        let exchange = ConnectExchange::new(&plan);
        let LinkPlan { name, place: addresses, options, commands, io, limit, channel } = plan;
        let host = TcpHostConfig {
            digests: Digests { header: options.hdr_digest, data: options.data_digest },
            queue_entries: commands,
            ..TcpHostConfig::default()
        };
        let in_capsule_bytes =
            io.as_ref().map_or(FABRICS_CAPSULE_DATA_BYTES, |io| io.in_capsule_bytes);
        let connecting = Connecting {
            name: name.clone(),
            host,
            generated: (channel == ConcatenationState::Keyed)
                .then_some(options.secrets.controller.is_some()),
            psk: options.tls.psk,
            peer: None,
            exchange,
            in_capsule_bytes,
            ready: false,
            refused: None,
            terminated: None,
        };
        let capture = options.control.capture();
        let plan =
            opening::OpeningPlan { name, place: PeerPlace::Addresses(addresses), limit, capture };
        opening::open(on, &Names::default(), plan, connecting, move |on, opened| {
            then(on, opened.map(|(pump, result)| (Self::new(pump), result)));
        });
    }
}

/// A digest that the host asked for and the target does not grant: whoever asks for one relies on
/// it.
fn refused_digest(asked: Digests, granted: Digests) -> Option<&'static str> {
    match (asked.header && !granted.header, asked.data && !granted.data) {
        (true, _) => Some("header"),
        (_, true) => Some("data"),
        _ => None,
    }
}

/// What was said so far.
struct Connecting {
    name: String,
    host: TcpHostConfig,
    exchange: ConnectExchange,
    /// With it nothing is said in plain text.
    psk: Option<TlsPsk>,
    /// Whether the controller had to prove who it is when that key was made; none: it was not made
    /// by an authentication.
    generated: Option<bool>,
    /// The other end of TLS, once the connection is made.
    peer: Option<Peer>,
    in_capsule_bytes: u32,
    ready: bool,
    /// A digest that was asked for and not granted.
    refused: Option<&'static str>,
    terminated: Option<String>,
}

impl Connecting {
    /// Whether TLS is not established yet.
    fn is_unproven(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.identity().is_none())
    }
}

impl Handler<HostConnection> for Connecting {
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        CommandOwner::<HostConnection>::memory_mut(&mut self.exchange, tag, offset, len)
    }

    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        CommandOwner::<HostConnection>::memory(&self.exchange, tag, offset, len)
    }

    fn event(&mut self, on: &Handle, engine: &mut HostConnection, event: TcpHostEvent) -> Flow {
        match event {
            TcpHostEvent::Ready(negotiated) => {
                self.ready = true;
                self.refused = refused_digest(self.host.digests, negotiated.digests);
                if self.refused.is_none() {
                    self.exchange.start(engine);
                }
            }
            TcpHostEvent::Response { tag, cqe, received_bytes } => {
                self.exchange.event(
                    on,
                    engine,
                    CommandEvent::Response { tag, cqe, received_bytes },
                );
            }
            TcpHostEvent::DataFailed { tag, cqe } => {
                self.exchange.event(on, engine, CommandEvent::DataFailed { tag, cqe })
            }
            TcpHostEvent::Terminated(why) => self.terminated = Some(why.to_string()),
        }
        Flow::Continue
    }

    fn released(&mut self, on: &Handle, engine: &mut HostConnection, tag: Tag) {
        if let Some(event) = engine.sent(tag) {
            let _ = self.event(on, engine, event);
        }
    }
}

impl Handshake for Connecting {
    type Engine = HostConnection;
    type Learned = ConnectResult;
    type Failure = Error;

    const PEER: &'static str = "a target";

    fn engine(&mut self, _: &Handle) -> HostConnection {
        HostConnection::new(self.host)
    }

    fn owes_answers(engine: &HostConnection) -> bool {
        engine.outstanding() > 0
    }

    fn secure(&mut self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, Error> {
        let Some(psk) = &self.psk else { return Ok(stream) };
        let wrapped = psk.client().map(|client: &TlsConnector| client.wrap(stream));
        let failed =
            |why: String| Error::new(ErrorKind::Unsupported, format!("{}: {why}", self.name));
        let (stream, peer) = wrapped
            .ok_or_else(|| failed("TLS is asked for, but no key was chosen".into()))?
            .map_err(|e| failed(e.to_string()))?;
        self.peer = Some(peer);
        Ok(stream)
    }

    fn advance(&mut self, _: &mut HostConnection, _: &Handle) -> Result<HandshakeStep, Error> {
        if let Some(digest) = self.refused {
            let text = format!(
                "{}: the target grants no {digest} digest, which was asked for; ask for none, or let the target grant it",
                self.name
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        if let Some(why) = self.exchange.take_failure() {
            return Err(why);
        }
        Ok(if self.ready && self.exchange.is_done() {
            HandshakeStep::Done
        } else {
            HandshakeStep::Wait
        })
    }

    fn fault(&self, engine: &HostConnection) -> Option<Error> {
        let (name, stage, hint) = (&self.name, self.stage(), self.hint());
        if let Some(why) = &self.terminated {
            let text =
                format!("{name}: the target ended the connection in answer to {stage}: {why}");
            return Some(Error::new(ErrorKind::Protocol, text));
        }
        let violation = engine.violation()?;
        Some(Error::new(
            ErrorKind::Protocol,
            format!("{name}: the peer does not speak NVMe/TCP: {violation}; {hint}"),
        ))
    }

    fn verdict(&self) -> Option<Error> {
        self.exchange.verdict()
    }

    fn stage(&self) -> &'static str {
        match (self.ready, self.is_unproven()) {
            (true, _) => self.exchange.stage(),
            (false, true) => "the TLS handshake",
            (false, false) => "ICReq",
        }
    }

    fn hint(&self) -> &'static str {
        match (&self.peer, self.is_unproven()) {
            (Some(_), true) if self.generated.is_some() => self.tls_hint(),
            (Some(_), true) => {
                "check that this port of the target demands TLS, and that the target has this host's key"
            }
            (Some(_), false) => "check that this is the port of an NVMe/TCP target",
            (None, _) => {
                "check that this is the port of an NVMe/TCP target, and whether it demands TLS (--tls)"
            }
        }
    }

    fn tls_hint(&self) -> &'static str {
        match self.generated {
            None => {
                "check the keys of both sides, and that they are of this host and this subsystem"
            }
            Some(false) => {
                "the target has made no key of the authentication, or another one than this host"
            }
            Some(true) => {
                "the target has made no key of the authentication, or another one than this host; Linux's target (to 7.3 at least) makes none when \
                 it had to prove who it is (--dhchap-ctrl-secret-file)"
            }
        }
    }

    fn finish(mut self, engine: &mut HostConnection) -> ConnectResult {
        engine.set_in_capsule_bytes(self.in_capsule_bytes);
        self.exchange.finish()
    }
}
