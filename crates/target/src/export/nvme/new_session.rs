//! A connection before its Connect.

use super::transport::{Engine, Event};
use weft_connection::psk::Proven;
use weft_connection::pump::Flow;
use weft_proto::nvme::controller::{CONNECT_BYTES, ConnectError, Next, Port, before_connect};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::Connect;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Qid;
use weft_proto::stream::Tag;

/// What has been heard so far.
pub(crate) struct NewSession {
    port: Port,
    /// The other end, where the connection is encrypted.
    proven: Option<Proven>,
    data: Box<[u8; CONNECT_BYTES]>,
    connect: Option<(Tag, Sqe)>,
    /// The data is whole.
    arrived: bool,
    /// It is not its turn yet.
    waits: bool,
}

impl NewSession {
    pub(super) fn new(port: Port, proven: Option<Proven>) -> Self {
        Self {
            port,
            proven,
            data: Box::new([0; CONNECT_BYTES]),
            connect: None,
            arrived: false,
            waits: false,
        }
    }

    pub(super) fn port(&self) -> Port {
        self.port
    }

    pub(super) fn data(&self) -> &[u8; CONNECT_BYTES] {
        &self.data
    }

    /// Whether the names in the data of the Connect are those of the connection's PSK identity,
    /// where it has one.
    pub(super) fn check_identity(&self) -> Result<(), ConnectError> {
        self.proven.as_ref().map_or(Ok(()), |proven| proven.check(&self.data))
    }

    /// Whether the connection itself proves the names in it.
    pub(super) fn is_proven(&self) -> bool {
        self.identity().is_some()
    }

    /// Asks only about the Connect of an admin queue.
    pub(super) fn of_admin(
        &self,
        sqe: &Sqe,
        ask: impl FnOnce() -> Result<(), ConnectError>,
    ) -> Result<(), ConnectError> {
        if Connect::decode(sqe).qid == Qid(0) { ask() } else { Ok(()) }
    }

    /// The identity of the connection's key, where it is encrypted.
    pub(super) fn identity(&self) -> Option<&[u8]> {
        self.proven.as_ref().and_then(Proven::identity)
    }

    /// Whether a Connect and its data are there, and not waiting.
    pub(super) fn has_connect(&self) -> bool {
        self.arrived && !self.waits
    }

    /// Whether that Connect is of an admin queue.
    pub(super) fn wants_admin_queue(&self) -> bool {
        self.connect.is_some_and(|(_, sqe)| Connect::decode(&sqe).qid == Qid(0))
    }

    /// The Connect has to wait, or not any longer.
    pub(super) fn set_waits(&mut self, waits: bool) {
        self.waits = waits;
    }

    /// Takes the Connect; the next command is a new attempt.
    pub(super) fn take_connect(&mut self) -> Option<(Tag, Sqe)> {
        self.arrived = false;
        self.connect.take()
    }

    pub(super) fn memory_mut(&mut self, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.data.get_mut(offset as usize..(offset + len) as usize)
    }

    pub(super) fn event(&mut self, engine: &mut impl Engine, event: Event) -> Flow {
        match event {
            Event::Command { tag, in_capsule_bytes } => {
                let sqe = *engine.sqe();
                match before_connect(&sqe, in_capsule_bytes, self.port.host_memory) {
                    Next::Fetch { bytes } => match engine.fetch(tag, bytes) {
                        Ok(()) => self.connect = Some((tag, sqe)),
                        Err(status) => engine.complete(tag, Cqe::refuse(sqe.cid(), status), 0),
                    },
                    Next::Reply { cqe, .. } => engine.complete(tag, cqe, 0),
                    Next::Produce { .. } | Next::Hold => {}
                }
                Flow::Continue
            }
            Event::DataArrived { .. } => {
                self.arrived = true;
                Flow::Pause
            }
            Event::DataFailed { .. } => {
                if let Some((tag, sqe)) = self.connect.take() {
                    engine.complete(tag, Cqe::new(sqe.cid(), Status::TRANSIENT_TRANSPORT_ERROR), 0);
                }
                Flow::Continue
            }
            Event::Dropped { .. } => Flow::Continue,
        }
    }
}
