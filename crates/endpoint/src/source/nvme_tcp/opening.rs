//! What is said on a new connection: ICReq and ICResp and, for an I/O queue, Connect.

use super::transport::TcpLink;
use crate::names::Names;
use crate::nvme::host::greeting::Greeting;
use crate::nvme::host::transport::{Commands, Event, Opened, Plan};
use crate::pump::{Flow, Handler};
use crate::source::opening::{self, Handshake, Next, Place};
use std::net::SocketAddr;
use weft_block::{Error, ErrorKind};
use weft_io::Handle;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme_tcp::digest::Digests;
use weft_proto::nvme_tcp::pdu::FABRICS_CAPSULE_DATA_BYTES;
use weft_proto::nvme_tcp::{HostConfig, HostConnection, HostEvent};
use weft_proto::stream::Tag;

/// Starts to open; `then` gets the result, on this loop.
pub(super) fn open(
    on: &Handle,
    plan: Plan<Vec<SocketAddr>>,
    then: impl FnOnce(&Handle, Result<Opened<TcpLink>, Error>) + 'static,
) {
    let greeting = Greeting::new(&plan);
    let Plan { name, place: addresses, options, commands, io, limit } = plan;
    let host = HostConfig {
        digests: Digests { header: options.hdr_digest, data: options.data_digest },
        queue_entries: commands,
        ..HostConfig::default()
    };
    let in_capsule_bytes = io.as_ref().map_or(FABRICS_CAPSULE_DATA_BYTES, |io| io.in_capsule_bytes);
    let connecting =
        Connecting { name: name.clone(), host, greeting, in_capsule_bytes, ready: false, refused: None, terminated: None };
    let plan = opening::Plan { name, place: Place::Addresses(addresses), limit };
    opening::open(on, &Names::default(), plan, connecting, move |on, opened| {
        then(on, opened.map(|(pump, answer)| (TcpLink::new(pump), answer)));
    });
}

/// A digest that the host asked for and the target does not grant: whoever asks for one relies on it.
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
    host: HostConfig,
    greeting: Greeting,
    in_capsule_bytes: u32,
    ready: bool,
    /// A digest that was asked for and not granted.
    refused: Option<&'static str>,
    terminated: Option<String>,
}

impl Handler<HostConnection> for Connecting {
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        Commands::<HostConnection>::memory_mut(&mut self.greeting, tag, offset, len)
    }

    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        Commands::<HostConnection>::memory(&self.greeting, tag, offset, len)
    }

    fn event(&mut self, on: &Handle, engine: &mut HostConnection, event: HostEvent) -> Flow {
        match event {
            HostEvent::Ready(negotiated) => {
                self.ready = true;
                self.refused = refused_digest(self.host.digests, negotiated.digests);
                if self.refused.is_none() {
                    self.greeting.start(engine);
                }
            }
            HostEvent::Response { tag, cqe, received_bytes } => {
                self.greeting.event(on, engine, Event::Response { tag, cqe, received_bytes });
            }
            HostEvent::DataFailed { tag, cqe } => self.greeting.event(on, engine, Event::DataFailed { tag, cqe }),
            HostEvent::Terminated(why) => self.terminated = Some(why.to_string()),
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
    type Known = Option<Cqe>;
    type Failure = Error;

    const PEER: &'static str = "a target";

    fn engine(&mut self, _: &Handle) -> HostConnection {
        HostConnection::new(self.host)
    }

    fn advance(&mut self, _: &mut HostConnection, _: &Handle) -> Result<Next, Error> {
        if let Some(digest) = self.refused {
            let text = format!(
                "{}: the target grants no {digest} digest, which was asked for; ask for none, or let the target grant it",
                self.name
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        if let Some(why) = self.greeting.take_failure() {
            return Err(why);
        }
        Ok(if self.ready && self.greeting.is_done() { Next::Done } else { Next::Wait })
    }

    fn fault(&self, engine: &HostConnection) -> Option<Error> {
        let (name, stage, hint) = (&self.name, self.stage(), self.hint());
        if let Some(why) = &self.terminated {
            let text = format!("{name}: the target ended the connection in answer to {stage}: {why}");
            return Some(Error::new(ErrorKind::Protocol, text));
        }
        let violation = engine.violation()?;
        Some(Error::new(ErrorKind::Protocol, format!("{name}: the peer does not speak NVMe/TCP: {violation}; {hint}")))
    }

    fn stage(&self) -> &'static str {
        if self.ready { self.greeting.stage() } else { "ICReq" }
    }

    fn hint(&self) -> &'static str {
        "check that this is the port of an NVMe/TCP target"
    }

    fn finish(self, engine: &mut HostConnection) -> Option<Cqe> {
        engine.set_in_capsule_bytes(self.in_capsule_bytes);
        self.greeting.answer()
    }
}
