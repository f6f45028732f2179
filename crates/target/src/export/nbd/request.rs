//! One request, and the memory of its data: in parts, each as long as one operation of the device
//! may be. Blocks of which a write has a part only are parts of their own, before and behind the
//! others.

use super::partial_block::PartialBlock;
use smallvec::SmallVec;
use weft_block::{Completion, Op, OpKind};
use weft_io::Segments;
use weft_proto::nbd::code::ErrorCode;
use weft_proto::nbd::server::{CommandKind, ServerCommand};
use weft_proto::stream::Tag;

/// A request in progress. A slot serves one request after another, and keeps the memory of its
/// lists.
#[derive(Default)]
pub(super) struct Request {
    /// The command to execute.
    pub command: Option<ServerCommand>,
    /// Memory of the data, all parts of the same length but the last. A part is away while the
    /// device has it.
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
    /// Blocks that it writes a part of.
    pub partial_blocks: SmallVec<[PartialBlock; 2]>,
    /// Bytes before the data in the memory of its first block.
    pub lead: u32,
    /// The blocks that it reads, or writes wholly: the first, and bytes of all.
    pub first: u64,
    pub bytes: u32,
    /// Bytes of the part before these.
    head: u32,
}

/// The name of an operation: the request's tag, and the part of its data.
pub(super) fn user(tag: Tag, part: usize) -> u64 {
    u64::from(tag.0) | (part as u64) << 16
}

/// The part of the operation with this name.
pub(super) fn part_of(user: u64) -> usize {
    (user >> 16) as usize
}

impl Request {
    /// Begins another request.
    pub(super) fn begin(&mut self, command: ServerCommand, block_bytes: u32) {
        let block = u64::from(block_bytes);
        let end = command.offset + command.length;
        self.command = Some(command);
        (self.pending, self.error) = (0, None);
        self.partial_blocks.clear();
        (self.lead, self.head) = ((command.offset % block) as u32, 0);
        self.first = command.offset / block;
        let mut blocks = end.div_ceil(block) - self.first;
        if !(command.offset | end).is_multiple_of(block) && command.kind != CommandKind::Read {
            blocks = self.find_partial_blocks(command, block, end);
        }
        // Of no meaning for what has no data.
        self.bytes = (blocks * block) as u32;
        (self.next_lba, self.left_blocks) = (self.first, blocks);
        self.flush = matches!(command.kind, CommandKind::Trim { fua: true });
    }

    /// The blocks that the request touches: the first, and how many.
    pub(super) fn touched(&self, block_bytes: u32) -> (u64, u64) {
        let block = u64::from(block_bytes);
        self.command.map_or((0, 0), |ServerCommand { offset, length, .. }| {
            (offset / block, (offset + length).div_ceil(block) - offset / block)
        })
    }

    /// Returns whether the block behind the whole ones is written in part.
    pub(super) fn has_tail(&self) -> bool {
        self.partial_blocks.len() > usize::from(self.head > 0)
    }

    /// Returns whether the block before them is written in part.
    pub(super) fn has_head(&self) -> bool {
        self.head > 0
    }

    /// Puts the blocks apart that are not written wholly; a trim leaves them alone. Gives how many
    /// others there are.
    #[cold]
    fn find_partial_blocks(&mut self, command: ServerCommand, block: u64, end: u64) -> u64 {
        let (first, last) = (self.first, end / block);
        let within = first == last;
        let keeps = matches!(command.kind, CommandKind::Trim { .. });
        let mut part = 0;
        if self.lead > 0 || within {
            self.first += 1;
            if !keeps {
                let to = if within { end % block } else { block };
                self.partial_blocks.push(PartialBlock::new(
                    0,
                    first,
                    self.lead as usize,
                    to as usize,
                ));
                (self.head, part) = (block as u32, 1);
            }
        }
        let blocks = last.saturating_sub(self.first);
        if !end.is_multiple_of(block) && !within && !keeps {
            self.partial_blocks.push(PartialBlock::new(part, last, 0, (end % block) as usize));
        }
        blocks
    }

    /// The part of its memory that holds the byte `offset` of its data, and where in it that is.
    #[inline]
    pub(super) fn place(&self, offset: u32, part_bytes: u32) -> (usize, u32) {
        let at = self.lead + offset;
        if self.partial_blocks.is_empty() {
            return ((at / part_bytes) as usize, at % part_bytes);
        }
        self.place_among_partial_blocks(at, part_bytes)
    }

    #[cold]
    fn place_among_partial_blocks(&self, at: u32, part_bytes: u32) -> (usize, u32) {
        let Some(at) = at.checked_sub(self.head) else { return (0, at) };
        let parts_before = usize::from(self.head > 0);
        match at.checked_sub(self.bytes) {
            Some(behind) => (parts_before + self.bytes.div_ceil(part_bytes) as usize, behind),
            None => (parts_before + (at / part_bytes) as usize, at % part_bytes),
        }
    }

    /// Returns whether the command carries data, in either direction.
    pub(super) fn has_payload(&self) -> bool {
        matches!(
            self.command.map(|command| command.kind),
            Some(CommandKind::Read | CommandKind::Write { .. })
        )
    }

    /// Returns whether the command asks for durability (FUA).
    pub(super) fn fua(&self) -> bool {
        let kind = self.command.map(|command| command.kind);
        matches!(
            kind,
            Some(CommandKind::Write { fua: true } | CommandKind::WriteZeroes { fua: true, .. })
        )
    }

    /// The names of all operations that it may have in flight.
    pub(super) fn users(&self, tag: Tag) -> impl Iterator<Item = u64> + use<> {
        (0..self.parts.len().max(self.partial_blocks.len()).max(1)).map(move |part| user(tag, part))
    }

    /// The kind of the operations that it takes.
    pub(super) fn op_kind(&self) -> OpKind {
        match self.command.map(|command| command.kind) {
            Some(CommandKind::Read) => OpKind::Read,
            Some(CommandKind::Write { fua }) => OpKind::Write { fua },
            Some(CommandKind::Trim { .. }) => OpKind::Discard,
            Some(CommandKind::WriteZeroes { may_free, fua }) => {
                OpKind::WriteZeroes { deallocate: may_free, fua }
            }
            Some(CommandKind::Flush) | None => OpKind::Flush,
        }
    }

    /// The next operation of a request without data, if there is one more.
    pub(super) fn next_bare(&mut self, tag: Tag) -> Option<Op> {
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
    pub(super) fn came_back(&mut self, part: usize, completion: &mut Completion, error: ErrorCode) {
        self.pending -= 1;
        if error != ErrorCode::SUCCESS {
            self.error.get_or_insert(error);
        }
        if let Some(place) = self.parts.get_mut(part) {
            *place = core::mem::take(&mut completion.op.data);
        }
    }

    /// Returns whether it is a write, whose data follows it.
    #[inline]
    pub(super) fn is_write(&self) -> bool {
        matches!(self.command, Some(ServerCommand { kind: CommandKind::Write { .. }, .. }))
    }

    /// Returns whether it is a read.
    #[inline]
    pub(super) fn is_read(&self) -> bool {
        matches!(self.command, Some(ServerCommand { kind: CommandKind::Read, .. }))
    }
}
