//! NVMe/TCP at the target: ports that accept streams.

mod security;

pub(super) use self::security::ConnectionSecurity;
use super::connection::NvmeConnection;
use super::ports::PortAddress;
use super::target_state::TargetState;
use crate::export::listen::Open;
use crate::export::nvme::session::NvmeLink;
use crate::export::nvme::session::NvmeSession;
use crate::export::nvme::transport::{Engine, Event};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use weft_block::Error;
use weft_connection::limits::IN_CAPSULE_BYTES;
use weft_connection::psk::Proven;
use weft_connection::pump::{Flow, Handler, Pieces, StreamPump};
use weft_io::{Handle, Stream};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::deviation::Deviations;
use weft_proto::nvme::sqe::{HostMemory, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme_tcp::{TcpTargetConfig, TcpTargetConnection, TcpTargetEvent};
use weft_proto::stream::Tag;

/// The port of this listener.
fn port(listener: SocketAddr, security: &ConnectionSecurity) -> PortAddress {
    let shown = SocketAddr::new(listener.ip().to_canonical(), listener.port());
    PortAddress {
        address: security.address(shown),
        host_memory: HostMemory::Transport,
        listener: Some(listener),
        in_capsule_bytes: IN_CAPSULE_BYTES,
    }
}

/// `at`: what the listener was given, of which the port may have been any free one.
fn accept(
    on: &Handle,
    stream: Box<dyn Stream>,
    mut at: SocketAddr,
    shared: &Arc<TargetState>,
    security: &ConnectionSecurity,
) {
    let Ok(local) = stream.local().parse::<SocketAddr>() else { return };
    let peer = stream.peer();
    let (stream, proven) = match security {
        ConnectionSecurity::None => (stream, None),
        ConnectionSecurity::Tls(tls) => match tls.wrap(stream) {
            Ok((stream, peer)) => (stream, Some(Proven { peer, is_required: true })),
            Err(e) => {
                let now = on.now().since_epoch();
                return shared.members.refusals().log(now, || format!("{peer}: {e}"));
            }
        },
        ConnectionSecurity::Either(tls) => {
            shared.generated.forget(on.now().since_epoch());
            let (stream, peer) = tls.wrap_if_asked(stream);
            (stream, Some(Proven { peer, is_required: false }))
        }
    };
    at.set_port(local.port());
    let port = shared.port(&port(at, security), local.ip());
    NvmeConnection::accept(on, link(stream, shared.limits.handshake), shared, port, proven);
}

/// Listens at an address on the loop of `on`.
pub(super) fn listen(
    on: &Handle,
    at: SocketAddr,
    shared: &Arc<TargetState>,
    security: ConnectionSecurity,
) -> Result<(SocketAddr, Open), Error> {
    let (to, of_port) = (Arc::clone(shared), security.clone());
    let (address, open) =
        Open::tcp(on, at, move |on, stream| accept(on, stream, at, &to, &security))?;
    shared.port_opened(&port(address, &of_port));
    Ok((address, open))
}

// NVMe/TCP as a transport of controllers: a stream pump with the target's engine.

/// One connection.
type TcpLink = StreamPump<TcpTargetConnection>;

/// A connection over an accepted stream, whose Connect may take so long.
fn link(stream: Box<dyn Stream>, connect_limit: Duration) -> TcpLink {
    let config = TcpTargetConfig {
        in_capsule_bytes: IN_CAPSULE_BYTES,
        connect_limit,
        ..TcpTargetConfig::default()
    };
    StreamPump::new(stream, TcpTargetConnection::new(config)).watched().heeding()
}

/// The part of an event that controllers receive; none for events of the connection itself.
#[inline]
fn nvme_event(event: TcpTargetEvent) -> Option<Event> {
    match event {
        TcpTargetEvent::Command { tag, in_capsule_bytes } => {
            Some(Event::Command { tag, in_capsule_bytes })
        }
        TcpTargetEvent::DataArrived { tag } => Some(Event::DataArrived { tag }),
        TcpTargetEvent::DataFailed { tag } => Some(Event::DataFailed { tag }),
        TcpTargetEvent::Dropped { tag } => Some(Event::Dropped { tag }),
        TcpTargetEvent::Ready(_) | TcpTargetEvent::Terminated(_) => None,
    }
}

impl Engine for TcpTargetConnection {
    #[inline]
    fn sqe(&self) -> &Sqe {
        Self::sqe(self)
    }

    #[inline]
    fn fetch(&mut self, tag: Tag, bytes: u32) -> Result<(), Status> {
        Self::fetch(self, tag, bytes)
    }

    fn ignore_data(&mut self, tag: Tag) {
        Self::ignore_data(self, tag);
    }

    #[inline]
    fn complete(&mut self, tag: Tag, cqe: Cqe, data_bytes: u32) {
        Self::complete(self, tag, cqe, data_bytes);
    }

    fn queued(&self) -> u64 {
        Self::queued(self)
    }

    #[inline]
    fn sent(&mut self, tag: Tag) {
        Self::sent(self, tag);
    }

    fn abandon(&mut self, tag: Tag) {
        Self::abandon(self, tag);
    }

    fn drop_pending(&mut self) {
        Self::drop_pending(self, |_| ());
    }

    fn begin_queue(&mut self, entries: u16, flow_control: bool) {
        self.set_queue_entries(entries);
        self.set_success_flag(!flow_control);
    }

    #[inline]
    fn checks_data(&self) -> bool {
        self.has_data_digest()
    }
}

impl NvmeLink for TcpLink {
    const PROTOCOL: &'static str = "nvme+tcp";

    fn encrypted_by(&self) -> Option<&'static str> {
        Self::encrypted_by(self)
    }

    fn sent(&self) -> u64 {
        Self::sent(self)
    }

    fn violation(&self) -> Option<String> {
        self.engine.violation().map(|violation| violation.to_string())
    }

    #[inline]
    fn take_deviations(&mut self) -> Deviations {
        self.engine.take_deviations()
    }
}

impl Handler<TcpTargetConnection> for NvmeSession {
    #[inline]
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        Self::memory_mut(self, tag, offset, len)
    }

    #[inline]
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        Self::pieces_mut(self, tag, offset, len, into);
    }

    #[inline]
    fn wants_whole(&self, tag: Tag) -> bool {
        Self::wants_whole(self, tag)
    }

    #[inline]
    fn place(&mut self, tag: Tag, payload: &[u8]) {
        Self::place(self, tag, payload);
    }

    #[inline]
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        Self::memory(self, tag, offset, len)
    }

    #[inline]
    fn event(
        &mut self,
        on: &Handle,
        engine: &mut TcpTargetConnection,
        event: TcpTargetEvent,
    ) -> Flow {
        nvme_event(event).map_or(Flow::Continue, |event| Self::event(self, on, engine, event))
    }

    #[inline]
    fn released(&mut self, on: &Handle, engine: &mut TcpTargetConnection, tag: Tag) {
        Self::released(self, on, engine, tag);
    }
}
