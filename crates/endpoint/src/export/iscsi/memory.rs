//! The memory of a session's commands.
//!
//! Memory is taken when a command needs it and there is some; a command that finds none waits ("starved"). Data that comes by R2T
//! is then not asked for yet; unsolicited data stops the receiving of the connection. So that this always ends, a session may go
//! beyond the pool's cap by one command's unsolicited data.

use crate::export::budget::Budget;
use crate::memory::{add_pieces, piece, piece_mut};
use crate::pump::Pieces;
use weft_io::{Buf, Handle, Segments};
use weft_proto::stream::Tag;

/// Memory by tag.
pub(super) struct Memory {
    segments: Vec<Segments>,
    budget: Budget,
    /// The command that holds memory beyond the pool's cap.
    reserve: Option<Tag>,
}

impl Memory {
    pub(super) fn new(tags: u16) -> Self {
        Self { segments: (0..tags).map(|_| Segments::new()).collect(), budget: Budget::default(), reserve: None }
    }

    #[inline]
    pub(super) fn at(&mut self, tag: Tag) -> &mut Segments {
        &mut self.segments[tag.index()]
    }

    #[inline]
    pub(super) fn take(&mut self, tag: Tag) -> Segments {
        core::mem::take(&mut self.segments[tag.index()])
    }

    /// The first piece of a command's memory: all of it, where a command looks at its data.
    #[inline]
    pub(super) fn first(&self, tag: Tag) -> &[u8] {
        self.segments[tag.index()].first().map_or(&[], |segment| segment)
    }

    #[inline]
    pub(super) fn piece(&self, tag: Tag, offset: u32, len: u32) -> Option<&[u8]> {
        piece(self.segments.get(tag.index())?, offset, len)
    }

    #[inline]
    pub(super) fn piece_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        piece_mut(self.segments.get_mut(tag.index())?, offset, len)
    }

    #[inline]
    pub(super) fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        if let Some(memory) = self.segments.get_mut(tag.index()) {
            add_pieces(memory, offset, len, into);
        }
    }

    /// A buffer of the pool, if this session may have one more.
    #[inline]
    pub(super) fn buffer(&mut self, on: &Handle, bytes: usize) -> Option<Buf> {
        self.budget.take(on, bytes)
    }

    /// The same for a command whose data stops the connection: one at a time gets more than there is.
    pub(super) fn urgent_buffer(&mut self, on: &Handle, tag: Tag, bytes: usize) -> Option<Buf> {
        let taken = self.budget.take(on, bytes);
        if taken.is_some() || self.reserve.is_some() {
            return taken;
        }
        self.reserve = Some(tag);
        self.budget.take_reserve(on, bytes)
    }

    /// Gives a command's memory back.
    #[inline]
    pub(super) fn free(&mut self, tag: Tag) {
        self.budget.give(&mut self.segments[tag.index()]);
        if self.reserve == Some(tag) {
            self.reserve = None;
        }
    }
}
