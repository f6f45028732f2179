//! Counting of the commands of an I/O queue.

use super::subsystems::{ControllerId, ControllerView};
use super::target_state::TargetState;
use weft_connection::statistics::{CommandName, ConnectionName, Meter, OperationKind};
use weft_proto::nvme::controller::{IoQueue, IoRequest, IoRequestKind};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_proto::stream::Tag;

/// The counts of the queue of a controller, whose host is at `peer` by this protocol, encrypted by
/// `tls`; and the subsystem.
pub(super) fn enter(
    shared: &TargetState,
    controller: ControllerId,
    (protocol, peer, tls): (&'static str, &str, Option<&'static str>),
    queue: &IoQueue,
    view: &ControllerView,
) -> (Meter, Nqn) {
    let (subsystem, host) =
        shared.names(controller).unwrap_or_else(|| (Nqn::discovery(), String::new()));
    let (peer, queue_id) = (peer.to_owned(), Some(queue.qid().0));
    let name = ConnectionName { protocol, host, peer, queue: queue_id, tls };
    let mut meter = shared.inventory.statistics().enter(name, queue.entries() as usize);
    meter.follow(names(&subsystem, view));
    (meter, subsystem)
}

/// The names of the namespaces that a host sees, by their indexes.
pub(super) fn names(
    subsystem: &Nqn,
    view: &ControllerView,
) -> impl Iterator<Item = Option<(Nqn, Nsid)>> {
    (0..view.devices.len()).map(move |index| Some((subsystem.clone(), view.table.at(index)?.nsid)))
}

/// A command has arrived.
#[inline]
pub(super) fn count(meter: &mut Meter, tag: Tag, sqe: &Sqe) {
    let opcode = NvmOpcode(sqe.opcode());
    let kind = match opcode {
        NvmOpcode::READ => OperationKind::Read,
        NvmOpcode::WRITE => OperationKind::Write,
        _ => OperationKind::Other,
    };
    meter.start(tag, kind);
    meter.called(tag, || CommandName::Nvme(opcode, sqe.cid().0));
}

/// A request becomes an operation of its device.
#[inline]
pub(super) fn issued(meter: &mut Meter, request: &IoRequest) {
    let kind = match request.kind {
        IoRequestKind::Read => OperationKind::Read,
        IoRequestKind::Write => OperationKind::Write,
        // Of a copy what is written counts, for the namespace to which it is.
        IoRequestKind::CopyRead => return,
        _ => OperationKind::Other,
    };
    meter.of(request.tag, kind, request.namespace, request.bytes.into());
    let blocks = (request.lba.0, request.blocks.into());
    meter.submitted(request.tag, request.namespace, blocks);
}
