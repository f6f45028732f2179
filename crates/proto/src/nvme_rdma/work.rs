//! Requests of an engine to the queue pair, and their outcomes.

pub use weft_base::verbs::{Exposure, RemoteMemory, WorkError, WorkOutcome};

use crate::stream::Tag;

/// The memory of a receive, `0..receives`. The pump keeps it under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiveBuffer(pub u16);

/// A request. Everything is done at once, and posted in the order in which it is returned. What is
/// posted to the send queue completes under its [`WorkId`], if it is signaled or does not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Post a receive.
    PostReceive(ReceiveBuffer),
    /// Give the other end access to the first `bytes` of the memory of `tag`, and call
    /// [`exposed`](super::HostQueuePair::exposed) or
    /// [`not_exposed`](super::HostQueuePair::not_exposed) before asking for more work. With
    /// [`Exposure::Window`] that posts a bind as [`WorkKind::Bind`], unsignaled.
    Expose {
        /// Tag of the memory.
        tag: Tag,
        /// Bytes.
        bytes: u32,
        /// True if the other end writes to it; otherwise it reads from it.
        writable: bool,
    },
    /// End the access that a registration gave, without posting anything.
    Conceal {
        /// Tag of the memory.
        tag: Tag,
    },
    /// Post a local invalidation of the window of `tag`, signaled as [`WorkKind::Invalidate`].
    Invalidate {
        /// Tag of the memory.
        tag: Tag,
        /// Its key.
        key: u32,
    },
    /// Post a SEND of the capsule of `tag`, signaled as [`WorkKind::Send`].
    Send {
        /// Tag of the capsule.
        tag: Tag,
        /// Bytes of the memory of the tag that follow the command in its capsule.
        data_bytes: u32,
        /// The key of the other end that is invalidated with it.
        invalidate: Option<u32>,
    },
    /// Post an RDMA READ into the memory of `tag`, signaled as [`WorkKind::Read`].
    Read {
        /// Into whose memory.
        tag: Tag,
        /// The first byte in it.
        offset: u32,
        /// Bytes, more than zero.
        bytes: u32,
        /// From where.
        from: RemoteMemory,
    },
    /// Post an RDMA WRITE from the memory of `tag` as [`WorkKind::Write`].
    Write {
        /// From whose memory.
        tag: Tag,
        /// The first byte in it.
        offset: u32,
        /// Bytes, more than zero.
        bytes: u32,
        /// To where.
        to: RemoteMemory,
        /// True if it is signaled. If not then the SEND behind it tells.
        signaled: bool,
    },
    /// Copy `bytes` from behind the command in a receive to the start of the memory of `tag`, and
    /// call [`placed`](super::TargetQueuePair::placed).
    Place {
        /// Into whose memory.
        tag: Tag,
        /// From which receive, from byte 64 on.
        buffer: ReceiveBuffer,
        /// Bytes, more than zero.
        bytes: u32,
    },
    /// End the connection: the queue pair goes to its error state, and everything that is posted is
    /// flushed.
    Disconnect,
    /// Destroy the queue pair, which has not flushed what was posted in time, and call `destroyed`.
    Destroy,
}

impl Work {
    /// Returns the name under which it ends, if it belongs to a command and reports its own end.
    pub const fn id(self) -> Option<WorkId> {
        let (tag, kind) = match self {
            Self::Send { tag, .. } => (tag, WorkKind::Send),
            Self::Read { tag, .. } => (tag, WorkKind::Read),
            Self::Write { tag, .. } => (tag, WorkKind::Write),
            _ => return None,
        };
        Some(WorkId { tag, kind })
    }
}

/// Kind of work of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// [`Work::Send`].
    Send,
    /// [`Work::Read`]. Several of one tag complete in order.
    Read,
    /// [`Work::Write`]. The same.
    Write,
    /// [`Work::Invalidate`].
    Invalidate,
    /// The bind of [`Work::Expose`].
    Bind,
}

/// Names work in the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkId {
    /// The tag.
    pub tag: Tag,
    /// The kind.
    pub kind: WorkKind,
}

impl WorkId {
    /// As a number that a queue pair carries for its user.
    pub const fn number(self) -> u64 {
        let kind = match self.kind {
            WorkKind::Send => 0,
            WorkKind::Read => 1,
            WorkKind::Write => 2,
            WorkKind::Invalidate => 3,
            WorkKind::Bind => 4,
        };
        self.tag.0 as u64 | kind << 16
    }

    /// Back from that number.
    pub const fn from_number(number: u64) -> Option<Self> {
        let kind = match number >> 16 {
            0 => WorkKind::Send,
            1 => WorkKind::Read,
            2 => WorkKind::Write,
            3 => WorkKind::Invalidate,
            4 => WorkKind::Bind,
            _ => return None,
        };
        Some(Self { tag: Tag(number as u16), kind })
    }
}

/// A message that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The receive that it used up.
    pub buffer: ReceiveBuffer,
    /// All of it.
    pub bytes: &'a [u8],
    /// Immediate data, if there was some.
    pub immediate: Option<u32>,
    /// The key of this end that it invalidated, if it did.
    pub invalidated: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_work() {
        for kind in
            [WorkKind::Send, WorkKind::Read, WorkKind::Write, WorkKind::Invalidate, WorkKind::Bind]
        {
            for tag in [Tag(0), Tag(77), Tag(u16::MAX)] {
                let id = WorkId { tag, kind };
                assert_eq!(WorkId::from_number(id.number()), Some(id));
            }
        }
        assert_eq!(WorkId::from_number(5 << 16), None);
        assert_eq!(WorkId::from_number(u64::MAX), None);
    }
}
