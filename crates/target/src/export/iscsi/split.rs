//! A request that is longer than an operation of its device may be: several operations, whose
//! memory is cut from that of the command.

use super::session::Session;
use weft_block::{Completion, Op, OpKind, Outcome};
use weft_io::Segments;
use weft_io::segment::Divided;
use weft_proto::scsi::lun::UnitRequest;
use weft_proto::stream::Tag;

/// The operations of one request.
pub(super) struct Split {
    memory: Divided,
    parts: u64,
    pending: u64,
    /// The first part, by its place, that failed, and how.
    failed: Option<(u64, Outcome)>,
    /// All parts have ended, but a device still has the memory of some.
    lacks_memory: bool,
}

/// Requests of which a device still has parts that were not completed in time.
#[derive(Default)]
pub(super) struct Lost(Vec<Split>);

impl Lost {
    /// Keeps a request whose parts have all ended, if it lacks memory; tells whether it does.
    pub(super) fn keep(&mut self, split: Split) -> bool {
        let lacks = split.lacks_memory;
        if lacks {
            self.0.push(split);
        }
        lacks
    }

    /// Passes on the memory of requests that the device has completed.
    pub(super) fn give_back(&mut self, mut give: impl FnMut(Segments)) {
        self.0.retain_mut(|split| match split.memory.take_back() {
            Some(memory) => {
                give(memory);
                false
            }
            None => true,
        });
    }
}

/// The name of an operation: the command's tag, and the place of the part.
fn user(tag: Tag, part: u64) -> u64 {
    part << 16 | u64::from(tag.0)
}

impl Split {
    /// The names of all operations.
    pub(super) fn users(&self, tag: Tag) -> impl Iterator<Item = u64> + use<> {
        (0..self.parts).map(move |part| user(tag, part))
    }

    /// An operation has come back. Returns whether it was the last: then it stands for the request
    /// as a whole, with the command's memory.
    pub(super) fn came_back(&mut self, Completion { op, outcome }: &mut Completion) -> bool {
        let part = op.user >> 16;
        if !outcome.is_success() && self.failed.as_ref().is_none_or(|(first, _)| part < *first) {
            self.failed = Some((part, *outcome));
        }
        self.pending -= 1;
        op.data.clear();
        if self.pending > 0 {
            return false;
        }
        op.data = self.memory.take_back().unwrap_or_default();
        self.lacks_memory = op.data.is_empty();
        *outcome = self.failed.take().map_or(Outcome::SUCCESS, |(_, outcome)| outcome);
        true
    }
}

impl Session {
    /// Submits a request as operations that the device takes.
    #[cold]
    pub(super) fn push_parts(
        &mut self,
        tag: Tag,
        request: UnitRequest,
        kind: OpKind,
        data: Segments,
    ) {
        let block_bytes = request.bytes / request.blocks.max(1);
        let most = self.side.operation_bytes(request.unit).unwrap_or(request.bytes);
        let part_blocks = (most / block_bytes.max(1)).max(1);
        let parts = u64::from(request.blocks.div_ceil(part_blocks));
        let mut split = Split {
            memory: Divided::new(),
            parts,
            pending: parts,
            failed: None,
            lacks_memory: false,
        };
        split.memory.fill(data);
        for part in 0..parts {
            let first = part as u32 * part_blocks;
            let blocks = part_blocks.min(request.blocks - first);
            let mut data = Segments::new();
            split.memory.cut(
                first as usize * block_bytes as usize,
                blocks as usize * block_bytes as usize,
                &mut data,
            );
            self.side.push(
                request.unit,
                Op::new(kind, request.lba + u64::from(first), blocks, user(tag, part), data),
            );
        }
        self.started(tag);
        self.commands[tag.index()].split = Some(Box::new(split));
    }
}
