//! NVMe/TCP at the target: ports that accept streams.

mod security;
mod transport;

pub(super) use self::security::ConnectionSecurity;

use self::transport::link;
use super::connection::NvmeConnection;
use super::target_state::TargetState;
use super::transport::PortAddress;
use crate::export::listen::Open;
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::Error;
use weft_connection::limits::IN_CAPSULE_BYTES;
use weft_connection::psk::Proven;
use weft_io::{Handle, Stream};
use weft_proto::nvme::sqe::HostMemory;

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
