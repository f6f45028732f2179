//! NVMe over RDMA at the target: ports that accept queue pairs.

mod receives;
mod transport;

pub(crate) use self::receives::ReceiveMemory;

use self::transport::RdmaLink;
use crate::export::listen::Open;
use crate::export::nvme::connection::NvmeConnection;
use crate::export::nvme::ports::PortAddress;
use crate::export::nvme::target_state::TargetState;
use std::net::SocketAddr;
use std::sync::Arc;
use weft_block::Error;
use weft_connection::limits::RDMA_IN_CAPSULE_BYTES;
use weft_io::Handle;
use weft_io::rdma::QueuePair;
use weft_proto::limits::{ADMIN_QUEUE_ENTRIES_MAX, IO_QUEUES_CONFIGURED_MAX, QUEUE_ENTRIES_MAX};
use weft_proto::nvme::controller::TransportAddress;
use weft_proto::nvme::sqe::HostMemory;
use weft_proto::nvme_rdma::cm::{CmOffer, CmRequest, Reject, RejectStatus};
use weft_proto::nvme_rdma::{RdmaProvider, RdmaTargetConfig, transport_address};

/// What discovery says of a port at this address.
pub(super) fn address(at: SocketAddr) -> TransportAddress {
    transport_address(at, RdmaProvider::NOT_SPECIFIED)
}

/// The port of this listener.
fn port(listener: SocketAddr) -> PortAddress {
    let shown = SocketAddr::new(listener.ip().to_canonical(), listener.port());
    PortAddress {
        address: address(shown),
        host_memory: HostMemory::Keyed,
        listener: Some(listener),
        in_capsule_bytes: RDMA_IN_CAPSULE_BYTES,
    }
}

/// Listens at an address on the loop of `on`.
pub(super) fn listen(
    on: &Handle,
    at: SocketAddr,
    shared: &Arc<TargetState>,
) -> Result<(SocketAddr, Open), Error> {
    let to = Arc::clone(shared);
    let (address, open) = Open::rdma(on, at, move |on, pair| accept(on, pair, at, &to))?;
    shared.port_opened(&port(address));
    Ok((address, open))
}

/// `at`: what the listener was given, of which the port may have been any free one.
pub(crate) fn accept(
    on: &Handle,
    mut pair: Box<dyn QueuePair>,
    mut at: SocketAddr,
    shared: &Arc<TargetState>,
) {
    let Ok(local) = pair.local().parse::<SocketAddr>() else { return };
    let refuse = |pair: &mut dyn QueuePair, status: RejectStatus, why: &dyn std::fmt::Display| {
        let peer = pair.peer();
        shared
            .members
            .refusals()
            .log(on.now().since_epoch(), || format!("{peer}: connection refused: {why}"));
        pair.reject(&Reject { status }.encode());
    };
    let config = match config(&*pair, shared) {
        Ok(config) => config,
        Err(status) => return refuse(&mut *pair, status, &status),
    };
    let receives = match shared.receives.take(&pair.peer(), RdmaLink::receive_bytes(&config)) {
        Ok(receives) => receives,
        Err(why) => return refuse(&mut *pair, RejectStatus::NO_RESOURCES, &why),
    };
    match RdmaLink::accept(pair, config, receives) {
        Ok(link) => {
            at.set_port(local.port());
            let port = shared.port(&port(at), local.ip());
            NvmeConnection::accept(on, link, shared, port, None);
        }
        Err((mut pair, e)) => refuse(&mut *pair, RejectStatus::NO_RESOURCES, &e),
    }
}

/// What the engine is to have for the queue that the host asks for.
fn config(pair: &dyn QueuePair, shared: &TargetState) -> Result<RdmaTargetConfig, RejectStatus> {
    let (request, device) = (CmRequest::decode(pair.private_data())?, pair.device_limits());
    let offer = CmOffer {
        // Which subsystem is meant, and how many it allows, is known with the Connect.
        io_queues: IO_QUEUES_CONFIGURED_MAX,
        admin_entries: ADMIN_QUEUE_ENTRIES_MAX.min(device.receives),
        io_entries: QUEUE_ENTRIES_MAX.min(device.receives),
    };
    request.check(&offer, device.reads)?;
    Ok(RdmaTargetConfig {
        // An admin queue has no data in capsules.
        in_capsule_bytes: if request.qid.0 == 0 { 0 } else { RDMA_IN_CAPSULE_BYTES },
        connect_limit: shared.limits.handshake,
        ..RdmaTargetConfig::for_request(&request)
    })
}
