//! The memory of a session's commands, by their tags, with the session's fair share of its loop's.
//!
//! Memory is taken when a command needs it and there is some; a command that finds none waits
//! ("starved"). Data that is asked for is then not asked for yet; data that comes unasked stops the
//! receiving of the connection. So that this always ends, one command at a time may go beyond the
//! pool's cap. A long command has its memory in pieces, all or none of them.

use super::budget::Budget;
use weft_connection::limits::TRANSFER_BYTES_MAX;
use weft_connection::memory::{add_pieces, piece, piece_mut};
use weft_connection::pump::Pieces;
use weft_io::segment::total_len;
use weft_io::{Buf, Handle, Segment, Segments};
use weft_proto::stream::Tag;

/// Memory by tag.
pub(crate) struct CommandMemory {
    segments: Vec<Segments>,
    budget: Budget,
    /// The command that holds memory beyond the pool's cap.
    reserve: Option<Tag>,
}

impl CommandMemory {
    pub(crate) fn new(tags: usize, budget: Budget) -> Self {
        Self { segments: (0..tags).map(|_| Segments::new()).collect(), budget, reserve: None }
    }

    /// Tags are below this.
    pub(crate) fn tags(&self) -> usize {
        self.segments.len()
    }

    #[inline]
    pub(crate) fn at(&mut self, tag: Tag) -> &mut Segments {
        &mut self.segments[tag.index()]
    }

    #[inline]
    pub(crate) fn take(&mut self, tag: Tag) -> Segments {
        core::mem::take(&mut self.segments[tag.index()])
    }

    /// The memory of a command.
    #[inline]
    pub(crate) fn of(&self, tag: Tag) -> &Segments {
        &self.segments[tag.index()]
    }

    /// The result of a command, if all of it is in memory of its device.
    #[inline]
    pub(crate) fn take_lent(&mut self, tag: Tag) -> Option<Segments> {
        let memory = self.segments.get_mut(tag.index()).filter(|memory| !memory.is_empty())?;
        memory
            .iter()
            .all(|segment| matches!(segment, Segment::Lent(_)))
            .then(|| core::mem::take(memory))
    }

    /// The first piece of a command's memory: all of it, where a command looks at its data.
    #[inline]
    pub(crate) fn first(&self, tag: Tag) -> &[u8] {
        self.segments[tag.index()].first().map_or(&[], |segment| segment)
    }

    #[inline]
    pub(crate) fn piece(&self, tag: Tag, offset: u32, len: u32) -> Option<&[u8]> {
        piece(self.segments.get(tag.index())?, offset, len)
    }

    #[inline]
    pub(crate) fn piece_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        piece_mut(self.segments.get_mut(tag.index())?, offset, len)
    }

    #[inline]
    pub(crate) fn pieces_mut<'a>(
        &'a mut self,
        tag: Tag,
        offset: u32,
        len: u32,
        into: &mut Pieces<'a>,
    ) {
        if let Some(memory) = self.segments.get_mut(tag.index()) {
            add_pieces(memory, offset, len, into);
        }
    }

    /// A buffer of the pool, if this session may have one more.
    #[inline]
    pub(crate) fn buffer(&mut self, on: &Handle, bytes: usize) -> Option<Buf> {
        self.budget.take(on, bytes)
    }

    /// Bytes of a command's memory.
    #[inline]
    pub(crate) fn len(&self, tag: Tag) -> usize {
        total_len(&self.segments[tag.index()])
    }

    /// Brings a command's memory to so many bytes, if this session may have them; otherwise nothing
    /// changes.
    #[inline]
    pub(crate) fn provide(&mut self, on: &Handle, tag: Tag, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.len(tag));
        match missing <= TRANSFER_BYTES_MAX as usize {
            true => {
                missing == 0 || self.budget.take(on, missing).is_some_and(|buf| self.add(tag, buf))
            }
            false => self.provide_pieces(on, tag, missing),
        }
    }

    #[cold]
    fn provide_pieces(&mut self, on: &Handle, tag: Tag, mut missing: usize) -> bool {
        let mut pieces = Segments::new();
        let mut ours = self.budget.affords(on, missing);
        while ours && missing > 0 {
            let bytes = missing.min(TRANSFER_BYTES_MAX as usize);
            // Whoever holds nothing gets the first piece in any case, and may not get the next.
            match self.budget.take(on, bytes) {
                Some(buf) => pieces.push(buf.into()),
                None => ours = false,
            }
            missing -= bytes;
        }
        match ours {
            true => self.segments[tag.index()].extend(pieces),
            false => self.budget.give(&mut pieces),
        }
        ours
    }

    /// One more piece of memory for a command, if this session may have it.
    pub(crate) fn add_buffer(&mut self, on: &Handle, tag: Tag, bytes: usize) -> bool {
        self.budget.take(on, bytes).is_some_and(|buf| self.add(tag, buf))
    }

    #[inline]
    fn add(&mut self, tag: Tag, buf: Buf) -> bool {
        self.segments[tag.index()].push(buf.into());
        true
    }

    /// So many bytes of memory for a command that has none and whose data stops the connection: one
    /// at a time gets more than there is.
    pub(crate) fn provide_reserve(&mut self, on: &Handle, tag: Tag, bytes: usize) -> bool {
        if self.reserve.is_some() || self.len(tag) > 0 {
            return false;
        }
        let taken = self.budget.take_reserve(on, bytes).is_some_and(|buf| self.add(tag, buf));
        self.reserve = taken.then_some(tag);
        taken
    }

    /// Gives memory back that no command has any more.
    pub(crate) fn give(&mut self, mut memory: Segments) {
        self.budget.give(&mut memory);
    }

    /// Gives a command's memory back.
    #[inline]
    pub(crate) fn free(&mut self, tag: Tag) {
        self.budget.give(&mut self.segments[tag.index()]);
        self.reserve.take_if(|holder| *holder == tag);
    }
}
