//! Calls of a pump to its source or export.

use crate::limits::RECEIVE_PIECES;
use smallvec::SmallVec;
use std::io::IoSliceMut;
use weft_io::Handle;
use weft_proto::stream::{StreamEngine, Tag};

/// Decision whether to go on with the bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// Go on.
    Continue,
    /// Nothing more is parsed or received until [`StreamPump::resume`](super::StreamPump::resume): the layer above has no
    /// memory for what comes next.
    Pause,
}

/// Calls of a pump to its source or export.
pub trait Handler<E: StreamEngine> {
    /// The memory of `tag` from `offset` on: at least one and at most `len` contiguous bytes.
    /// `None` throws the bytes away: the command was given up.
    fn memory_mut(&mut self, tag: Tag, offset: u32, len: u32) -> Option<&mut [u8]>;

    /// The memory of `tag` from `offset` on, up to `len` bytes, piece by piece and in order, to be
    /// received into at once. Fewer bytes than asked for are received by further calls.
    fn pieces_mut<'a>(&'a mut self, tag: Tag, offset: u32, len: u32, into: &mut Pieces<'a>) {
        into.extend(self.memory_mut(tag, offset, len).map(IoSliceMut::new));
    }

    /// The same for sending.
    ///
    /// # Panics
    /// May panic when the tag has no such memory: the engine sends only what the layer above
    /// offered.
    fn memory(&self, tag: Tag, offset: u32, len: u32) -> &[u8];

    /// Whether a payload without digest, whose command has no memory of its own, is to be shown
    /// whole to [`Handler::place`]. It is no longer than
    /// [`WHOLE_BYTES_MAX`](crate::limits::WHOLE_BYTES_MAX).
    fn wants_whole(&self, tag: Tag) -> bool {
        let _ = tag;
        false
    }

    /// Takes the payload of a command for which [`Handler::wants_whole`] said so.
    fn place(&mut self, tag: Tag, payload: &[u8]) {
        let _ = (tag, payload);
    }

    /// Something happened on the connection.
    fn event(&mut self, on: &Handle, engine: &mut E, event: E::Event) -> Flow;

    /// The stream no longer needs the memory of `tag`.
    fn released(&mut self, on: &Handle, engine: &mut E, tag: Tag);
}

/// Memory to be received into by one call.
pub type Pieces<'a> = SmallVec<[IoSliceMut<'a>; RECEIVE_PIECES]>;
