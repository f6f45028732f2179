//! Blocks that a request writes partially: they are read, and written back with the new data by
//! compare-and-write, repeatedly until no other writer has changed them in between. So no write by
//! another client or protocol is lost.

use crate::export::memory::CommandMemory;
use smallvec::smallvec;
use weft_block::{Completion, Op, OpKind, Outcome, Status, StatusKind};
use weft_connection::limits::NBD_MERGES_MAX;
use weft_io::{Handle, Segments};

/// One such block.
pub(super) struct PartialBlock {
    /// Its place among the parts of the request.
    pub part: usize,
    lba: u64,
    /// The bytes of the block that are new.
    from: usize,
    to: usize,
    /// The block as it was, and as it is to be; away while the device has them.
    old: Segments,
    new: Segments,
    merges: u32,
}

/// What follows for an partial_block.
pub(super) enum Next {
    /// The device is to do this.
    Submit(Op),
    /// It is over.
    Done(Outcome),
}

impl PartialBlock {
    /// The bytes `from..to` of the block `lba`, without memory.
    pub(super) fn new(part: usize, lba: u64, from: usize, to: usize) -> Self {
        Self { part, lba, from, to, old: Segments::new(), new: Segments::new(), merges: 0 }
    }

    /// Takes memory for two blocks, if there is some.
    pub(super) fn provide(
        &mut self,
        on: &Handle,
        memory: &mut CommandMemory,
        block_bytes: u32,
    ) -> bool {
        let mut block = || memory.buffer(on, block_bytes as usize);
        match (block(), block()) {
            (Some(old), Some(new)) => {
                (self.old, self.new) = (smallvec![old.into()], smallvec![new.into()])
            }
            (Some(buf), None) | (None, Some(buf)) => {
                memory.give(smallvec![buf.into()]);
                return false;
            }
            (None, None) => return false,
        }
        true
    }

    /// Gives it back.
    pub(super) fn free(&mut self, memory: &mut CommandMemory) {
        memory.give(core::mem::take(&mut self.old));
        memory.give(core::mem::take(&mut self.new));
    }

    /// Reads the block.
    pub(super) fn read(&mut self, user: u64) -> Op {
        Op::new(OpKind::Read, self.lba, 1, user, core::mem::take(&mut self.old))
    }

    /// The device is done with an operation. `ours` is what is new in the block's own memory;
    /// without it zeroes are.
    pub(super) fn next(
        &mut self,
        completion: &mut Completion,
        ours: Option<&[u8]>,
        fua: bool,
    ) -> Next {
        let Completion { op, outcome } = completion;
        if op.kind == OpKind::Read && outcome.is_success() {
            return Next::Submit(self.merge(op, ours, fua));
        }
        self.take_back(op);
        let changed =
            matches!(outcome, Outcome::Done(status) if status.kind == StatusKind::CompareFailed);
        if !(changed && op.kind != OpKind::Read) {
            return Next::Done(*outcome);
        }
        self.merges += 1;
        match self.merges < NBD_MERGES_MAX {
            true => Next::Submit(self.read(op.user)),
            false => Next::Done(Outcome::NotSent(Status::new(StatusKind::Busy))),
        }
    }

    /// The block was read.
    fn merge(&mut self, read: &mut Op, ours: Option<&[u8]>, fua: bool) -> Op {
        let mut data = core::mem::take(&mut read.data);
        if let (Some(old), Some(new)) = (data.first(), self.new.first_mut()) {
            new.copy_from_slice(old);
            let place = &mut new[self.from..self.to];
            match ours {
                Some(block) => place.copy_from_slice(&block[self.from..self.to]),
                None => place.fill(0),
            }
        }
        data.append(&mut self.new);
        Op::new(OpKind::CompareAndWrite { fua }, self.lba, 1, read.user, data)
    }

    /// Takes the memory of an operation, which its device has given back.
    pub(super) fn take_back(&mut self, op: &mut Op) {
        let mut data = core::mem::take(&mut op.data);
        if op.kind != OpKind::Read {
            self.new.extend(data.pop());
        }
        self.old = data;
    }
}
