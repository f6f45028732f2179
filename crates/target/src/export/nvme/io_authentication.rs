//! Reauthentication on an I/O queue: its messages among the commands.

use super::authenticating::{Authenticating, Exchange};
use super::io_session::IoSession;
use super::transport::Engine;
use weft_connection::memory::{piece, piece_mut};
use weft_connection::pump::Flow;
use weft_io::segment::total_len;
use weft_io::{Handle, Segments};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::stream::Tag;

impl IoSession {
    /// A message of an authentication, or what looks like one.
    #[cold]
    pub(super) fn authenticate(
        &mut self,
        on: &Handle,
        engine: &mut impl Engine,
        tag: Tag,
        in_capsule: bool,
    ) -> Flow {
        let sqe = *engine.sqe();
        // What the descriptor says of it is checked again when it is fetched.
        let in_capsule_bytes = if in_capsule { sqe.sgl().length } else { 0 };
        self.exchange(on, engine, tag, &sqe, in_capsule_bytes);
        Flow::Continue
    }

    /// Whether the connection ends, as its host did not prove anew who it is.
    pub(super) fn is_over(&self) -> bool {
        self.authenticating.as_ref().is_some_and(|it| it.is_over())
    }
}

impl<E: Engine> Exchange<E> for IoSession {
    fn authenticating(&mut self) -> Option<&mut Authenticating> {
        self.authenticating.as_deref_mut()
    }

    fn room(&mut self, on: &Handle, tag: Tag, bytes: usize) -> Option<&mut [u8]> {
        let buf = self.side.memory.buffer(on, bytes)?;
        let memory: &mut Segments = self.side.memory.at(tag);
        memory.push(buf.into());
        piece_mut(memory, 0, bytes as u32)
    }

    fn message(&self, tag: Tag) -> Vec<u8> {
        let memory = self.side.memory.of(tag);
        piece(memory, 0, total_len(memory) as u32).map(<[u8]>::to_vec).unwrap_or_default()
    }

    fn answer(&mut self, engine: &mut E, tag: Tag, cqe: Cqe, data_bytes: u32) {
        let cqe = self.queue.stamped(cqe);
        self.reply(engine, tag, cqe, data_bytes);
    }
}
