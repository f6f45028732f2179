//! Requests of the kernel that a device has, and their data.
//!
//! By the channel, data that was read goes to the kernel from the memory into which the device has
//! read it, and data to write is copied once, from the buffer in which it was received. By a ring,
//! both are copied once, from and to the request's slot.

use super::order::Ticket;
use crate::export::local::exchange::Exchange;
use std::cell::{RefCell, RefMut};
use weft_block::OpKind;
use weft_block::slots::Slots;
use weft_connection::limits::FUSE_ZEROES_BYTES;
use weft_io::fuse::{FuseChannel, FuseRing};
use weft_io::segment::{pieces, total_len};
use weft_io::{Buf, Segment};

/// The work of the device for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Read,
    /// Whole blocks.
    Write,
    /// Less than whole blocks, which are read first; `is_read`: they are in the request's memory.
    Merge {
        is_read: bool,
    },
    Flush,
    /// Zeroes blocks; `deallocate`: they may give up their space.
    Zero {
        deallocate: bool,
    },
}

/// The source of a request, which gets its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub unique: u64,
    /// The slot of the ring that has it and its data; `None`: it came by the channel.
    pub slot: Option<u16>,
}

/// A request.
pub(super) struct Request {
    pub origin: Origin,
    pub work: Work,
    /// Its offset and length in bytes; for [`Work::Zero`] those of the rest.
    pub offset: u64,
    pub len: u64,
    /// Data to write, unless it is in its slot; for [`Work::Merge`], all blocks once they are read.
    pub data: Option<Buf>,
    /// Its place among the writes.
    pub ticket: Option<Ticket>,
    /// The kernel has its answer.
    pub is_answered: bool,
}

/// Requests of a queue, and where their answers go.
pub(super) struct Requests {
    pub channel: FuseChannel,
    ring: Option<RefCell<FuseRing>>,
    block_bytes: u64,
    pub open: RefCell<Slots<Request>>,
}

/// The blocks of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub first: u64,
    pub count: u32,
    /// Bytes in front of the request in its first block.
    pub skip: usize,
}

impl Blocks {
    /// Those that a range of bytes touches.
    pub(super) fn of(offset: u64, len: u64, block_bytes: u64) -> Self {
        let first = offset / block_bytes;
        let end = offset.saturating_add(len).div_ceil(block_bytes);
        let count = u32::try_from(end - first).unwrap_or(u32::MAX);
        Self { first, count, skip: (offset % block_bytes) as usize }
    }
}

impl Request {
    /// Returns whether a range consists of whole blocks.
    pub(super) fn is_whole(offset: u64, len: u64, block_bytes: u64) -> bool {
        offset.is_multiple_of(block_bytes) && len.is_multiple_of(block_bytes)
    }

    /// The next operation that it needs.
    pub(super) fn operation(&self, block_bytes: u64) -> (OpKind, u64, u32) {
        let len = match self.work {
            Work::Zero { .. } => self.len.min(FUSE_ZEROES_BYTES),
            _ => self.len,
        };
        let Blocks { first, count, .. } = Blocks::of(self.offset, len, block_bytes);
        match self.work {
            Work::Read | Work::Merge { is_read: false } => (OpKind::Read, first, count),
            Work::Write | Work::Merge { is_read: true } => {
                (OpKind::Write { fua: false }, first, count)
            }
            Work::Flush => (OpKind::Flush, 0, 0),
            Work::Zero { deallocate } => {
                (OpKind::WriteZeroes { deallocate, fua: false }, first, count)
            }
        }
    }

    /// Its operation has succeeded. Returns whether it needs another one.
    pub(super) fn goes_on(&mut self) -> bool {
        match &mut self.work {
            Work::Merge { is_read } => !core::mem::replace(is_read, true),
            Work::Zero { .. } => {
                let done = self.len.min(FUSE_ZEROES_BYTES);
                self.offset += done;
                self.len -= done;
                self.len > 0
            }
            Work::Read | Work::Write | Work::Flush => false,
        }
    }
}

impl Requests {
    pub(super) fn new(channel: FuseChannel, ring: Option<FuseRing>, block_bytes: u32) -> Self {
        let ring = ring.map(RefCell::new);
        Self { channel, ring, block_bytes: block_bytes.into(), open: RefCell::default() }
    }

    /// The ring, where the kernel has one.
    pub(super) fn ring(&self) -> Option<RefMut<'_, FuseRing>> {
        self.ring.as_ref().map(RefCell::borrow_mut)
    }

    /// Answers a request: with data, in pieces, or with a positive error number.
    pub(super) fn answer<'a>(
        &self,
        to: Origin,
        answer: Result<impl Iterator<Item = &'a [u8]>, i32>,
    ) {
        match (to.slot, self.ring()) {
            (Some(slot), Some(mut ring)) => ring.answer(slot, to.unique, answer),
            _ => self.channel.answer(to.unique, answer),
        }
    }

    /// Gives a [`Work::Merge`] memory for all of its blocks, with its data in place. `take` takes
    /// memory; `false`: there is none at present.
    pub(super) fn widen(
        &self,
        request: &mut Request,
        take: impl FnOnce(usize) -> Option<Buf>,
    ) -> bool {
        let blocks = Blocks::of(request.offset, request.len, self.block_bytes);
        let whole = blocks.count as usize * self.block_bytes as usize;
        if request.data.as_ref().is_some_and(|data| data.len() == whole) {
            return true;
        }
        let Some(mut all) = take(whole) else { return false };
        let place = &mut all[blocks.skip..blocks.skip + request.len as usize];
        match &request.data {
            Some(data) => place.copy_from_slice(data),
            None => _ = self.copy_from_slot(request.origin, 0, place),
        }
        request.data = Some(all);
        true
    }

    /// Copies data of a request out of its slot; `false`: it is in none.
    fn copy_from_slot(&self, from: Origin, at: usize, into: &mut [u8]) -> bool {
        let (Some(slot), Some(ring)) = (from.slot, self.ring()) else { return false };
        ring.read_data(slot, at, into);
        true
    }

    pub(super) fn len(&self) -> usize {
        self.open.borrow().len()
    }
}

impl Exchange for Requests {
    fn fill(&self, user: u64, into: &mut [Segment]) -> bool {
        let open = self.open.borrow();
        let Some(request) = open.get(user) else { return false };
        let is_there = |data: &Buf| total_len(into) <= data.len();
        if !request.data.as_ref().map_or(total_len(into) as u64 <= request.len, is_there) {
            return false;
        }
        let mut at = 0;
        for piece in into {
            let len = piece.len();
            match &request.data {
                Some(data) => piece.copy_from_slice(&data[at..at + len]),
                None if self.copy_from_slot(request.origin, at, piece) => {}
                None => return false,
            }
            at += len;
        }
        true
    }

    fn take(&self, user: u64, from: &[Segment]) -> bool {
        let mut open = self.open.borrow_mut();
        let Some(request) = open.get_mut(user) else { return false };
        let (len, skip) =
            (request.len as usize, Blocks::of(request.offset, request.len, self.block_bytes).skip);
        match (request.work, &mut request.data) {
            (Work::Read, _) => {
                request.is_answered = true;
                self.answer(request.origin, Ok(pieces(from, skip, len)));
                true
            }
            (Work::Merge { .. }, Some(data)) => {
                let end = (skip + len).min(data.len());
                copy(from, 0, &mut data[..skip]);
                copy(from, end, &mut data[end..]);
                true
            }
            _ => false,
        }
    }
}

/// Fills `into` with bytes of segments from an offset on.
fn copy(from: &[Segment], skip: usize, into: &mut [u8]) {
    let mut at = 0;
    for piece in pieces(from, skip, into.len()) {
        into[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(work: Work, offset: u64, len: u64) -> Request {
        Request {
            origin: Origin { unique: 1, slot: None },
            work,
            offset,
            len,
            data: None,
            ticket: None,
            is_answered: false,
        }
    }

    #[test]
    fn a_range_touches_whole_blocks() {
        let blocks = |offset, len| {
            let Blocks { first, count, skip } = Blocks::of(offset, len, 4096);
            (first, count, skip)
        };
        assert_eq!(blocks(0, 4096), (0, 1, 0));
        assert_eq!(blocks(1024, 1024), (0, 1, 1024));
        assert_eq!(blocks(4095, 2), (0, 2, 4095));
        assert_eq!(blocks(8192, 0), (2, 0, 0));
        assert!(Request::is_whole(4096, 8192, 4096) && !Request::is_whole(4096, 8191, 4096));
    }

    #[test]
    fn a_partial_write_reads_its_blocks_first() {
        let mut merge = request(Work::Merge { is_read: false }, 1024, 4096);
        assert_eq!(merge.operation(4096), (OpKind::Read, 0, 2));
        assert!(merge.goes_on());
        assert_eq!(merge.operation(4096), (OpKind::Write { fua: false }, 0, 2));
        assert!(!merge.goes_on());
    }

    #[test]
    fn a_long_range_is_zeroed_in_parts() {
        let zeroes = OpKind::WriteZeroes { deallocate: true, fua: false };
        let mut zero = request(Work::Zero { deallocate: true }, 4096, FUSE_ZEROES_BYTES + 512);
        assert_eq!(zero.operation(512), (zeroes, 8, (FUSE_ZEROES_BYTES / 512) as u32));
        assert!(zero.goes_on());
        assert_eq!(zero.operation(512), (zeroes, 8 + FUSE_ZEROES_BYTES / 512, 1));
        assert!(!zero.goes_on());
    }
}
