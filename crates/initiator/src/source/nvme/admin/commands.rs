//! The commands of an admin connection: whose they are, their memory, and how they ended.

use super::super::association::AdminReply;
use super::super::transport::{CommandEngine, CommandEvent, CommandOwner};
use std::collections::VecDeque;
use weft_io::Handle;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::RequestId;
use weft_proto::stream::Tag;

/// Whose command it is.
pub(super) enum Owner {
    Control(RequestId),
    /// Likewise, of Connect.
    Connect(RequestId),
    Authentication,
    Caller(AdminReply),
}

/// A command, and its memory.
pub(super) struct AdminCommand {
    pub(super) owner: Owner,
    pub(super) data: Vec<u8>,
}

/// The admin commands under way, and those that have ended.
#[derive(Default)]
pub(super) struct AdminCommands {
    pub(super) slots: Vec<Option<AdminCommand>>,
    pub(super) ended: VecDeque<(AdminCommand, Cqe, u32)>,
}

impl<E: CommandEngine> CommandOwner<E> for AdminCommands {
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.slots
            .get_mut(tag.index())?
            .as_mut()?
            .data
            .get_mut(offset as usize..(offset + len) as usize)
    }

    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8] {
        let slot = self.slots[tag.index()].as_ref().expect("the engine sends what was submitted");
        &slot.data[offset as usize..(offset + len) as usize]
    }

    fn event(&mut self, _: &Handle, engine: &mut E, event: CommandEvent) {
        let (tag, cqe, received) = match event {
            CommandEvent::Response { tag, cqe, received_bytes } => (tag, cqe, received_bytes),
            CommandEvent::DataFailed { tag, cqe } => {
                let status = weft_proto::nvme::status::Status::TRANSIENT_TRANSPORT_ERROR;
                (tag, Cqe { status, ..cqe }, 0)
            }
        };
        engine.release(tag);
        if let Some(slot) = self.slots[tag.index()].take() {
            self.ended.push_back((slot, cqe, received));
        }
    }
}
