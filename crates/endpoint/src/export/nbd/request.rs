//! One request, and the memory of its data: in parts, each as long as one operation of the device may be.

use smallvec::SmallVec;
use weft_block::{Completion, Op, OpKind};
use weft_io::Segments;
use weft_proto::nbd::code::ErrorCode;
use weft_proto::nbd::server::{Command, CommandKind};
use weft_proto::stream::Tag;

/// A request under way. One slot serves many, one after the other, and keeps the memory of its lists.
#[derive(Default)]
pub(super) struct Request {
    /// What is to be done.
    pub command: Option<Command>,
    /// Memory of the data, all parts of the same length but the last. A part is away while the device has it.
    pub parts: SmallVec<[Segments; 1]>,
    /// Operations that the device has.
    pub pending: u32,
    /// The first error.
    pub error: Option<ErrorCode>,
    /// Blocks that a trim or write zeroes has not come to yet: the next one, and how many.
    pub next_lba: u64,
    pub left_blocks: u64,
    /// A flush has to follow.
    pub flush: bool,
}

/// The name of an operation: the request's tag, and the part of its data.
pub(super) fn user(tag: Tag, part: usize) -> u64 {
    u64::from(tag.0) | (part as u64) << 16
}

/// Undoes [`user`].
pub(super) fn tag_and_part(user: u64) -> (Tag, usize) {
    (Tag(user as u16), (user >> 16) as usize)
}

impl Request {
    /// Begins another request.
    pub fn begin(&mut self, command: Command, block_bytes: u32) {
        let block = u64::from(block_bytes);
        self.command = Some(command);
        (self.pending, self.error) = (0, None);
        (self.next_lba, self.left_blocks) = (command.offset / block, command.length / block);
        self.flush = matches!(command.kind, CommandKind::Trim { fua: true });
    }

    /// The kind of the operations that it takes.
    pub fn op_kind(&self) -> OpKind {
        match self.command.map(|command| command.kind) {
            Some(CommandKind::Read) => OpKind::Read,
            Some(CommandKind::Write { fua }) => OpKind::Write { fua },
            Some(CommandKind::Trim { .. }) => OpKind::Discard,
            Some(CommandKind::WriteZeroes { may_free, fua }) => OpKind::WriteZeroes { deallocate: may_free, fua },
            Some(CommandKind::Flush) | None => OpKind::Flush,
        }
    }

    /// The next operation of a request without data, if there is one more.
    pub fn next_bare(&mut self, tag: Tag) -> Option<Op> {
        if self.error.is_some() {
            return None;
        }
        if self.left_blocks > 0 {
            // Half of what fits, so that pieces of a large range start at round places.
            let blocks = self.left_blocks.min(1 << 31) as u32;
            let op = Op::bare(self.op_kind(), self.next_lba, blocks, user(tag, 0));
            self.next_lba += u64::from(blocks);
            self.left_blocks -= u64::from(blocks);
            return Some(op);
        }
        core::mem::take(&mut self.flush).then(|| Op::bare(OpKind::Flush, 0, 0, user(tag, 0)))
    }

    /// An operation came back; takes its memory.
    #[inline]
    pub fn came_back(&mut self, part: usize, completion: Completion, error: ErrorCode) {
        self.pending -= 1;
        if error != ErrorCode::SUCCESS {
            self.error.get_or_insert(error);
        }
        if let Some(place) = self.parts.get_mut(part) {
            *place = completion.op.data;
        }
    }

    /// Whether it is a read.
    #[inline]
    pub fn is_read(&self) -> bool {
        matches!(self.command, Some(Command { kind: CommandKind::Read, .. }))
    }
}
