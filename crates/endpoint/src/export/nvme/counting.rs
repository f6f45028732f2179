//! Counting of the commands of an I/O queue.

use super::subsystems::{ControllerId, View};
use super::target_state::TargetState;
use crate::statistics::{CommandName, ConnectionName, Kind, Meter};
use weft_io::Time;
use weft_proto::nvme::controller::{IoQueue, Request, RequestKind};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nqn;
use weft_proto::stream::Tag;

/// Counts the commands of one I/O queue.
pub(super) struct Counting {
    subsystem: Nqn,
    meter: Meter,
}

impl Counting {
    /// For the queue of a controller, whose host is at `peer` by this protocol, encrypted by `tls`.
    pub(super) fn new(
        shared: &TargetState,
        controller: ControllerId,
        (protocol, peer, tls): (&'static str, &str, Option<&'static str>),
        queue: &IoQueue,
        view: &View,
    ) -> Self {
        let (subsystem, host) =
            shared.names(controller).unwrap_or_else(|| (Nqn::discovery(), String::new()));
        let (peer, queue_id) = (peer.to_owned(), Some(queue.qid().0));
        let name = ConnectionName { protocol, host, peer, queue: queue_id, tls };
        let meter = shared.inventory.statistics().enter(name, queue.entries() as usize);
        let mut counting = Self { subsystem, meter };
        counting.follow(view);
        counting
    }

    /// The host sees other namespaces.
    pub(super) fn follow(&mut self, view: &View) {
        let name = |index| Some((self.subsystem.clone(), view.table.at(index)?.nsid));
        self.meter.follow((0..view.devices.len()).map(name));
    }

    /// The time of this turn.
    #[inline]
    pub(super) fn turn(&mut self, now: Time) {
        self.meter.turn(now);
    }

    /// A command has arrived.
    #[inline]
    pub(super) fn start(&mut self, tag: Tag, sqe: &Sqe) {
        let opcode = NvmOpcode(sqe.opcode());
        let kind = match opcode {
            NvmOpcode::READ => Kind::Read,
            NvmOpcode::WRITE => Kind::Write,
            _ => Kind::Other,
        };
        self.meter.start(tag, kind);
        self.meter.called(tag, || CommandName::Nvme(opcode, sqe.cid().0));
    }

    /// A request becomes an operation of its device.
    #[inline]
    pub(super) fn issued(&mut self, request: &Request) {
        let kind = match request.kind {
            RequestKind::Read => Kind::Read,
            RequestKind::Write => Kind::Write,
            // Of a copy what is written counts, for the namespace to which it is.
            RequestKind::CopyRead => return,
            _ => Kind::Other,
        };
        self.meter.of(request.tag, kind, request.namespace, request.bytes.into());
        let blocks = (request.lba.0, request.blocks.into());
        self.meter.submitted(request.tag, request.namespace, blocks);
    }

    /// The rest is told to this.
    #[inline]
    pub(super) fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    /// A command is answered.
    #[inline]
    pub(super) fn end(&mut self, tag: Tag, failed: bool) {
        self.meter.end(tag, failed);
    }
}
