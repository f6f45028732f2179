//! The outstanding requests of a client.

use super::command::{ClientCommand, ClientEvent};
use crate::limits::NBD_FRAGMENTS_MAX;
use crate::nbd::Violation;
use crate::nbd::code::{CommandCode, CommandFlags, ErrorCode};
use crate::slab::{Slab, SlabSlot};
use crate::stream::Tag;

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    Free,
    /// In no gather list yet.
    Submitted,
    /// The server may know it.
    Active,
    /// The reply is here, but the memory is still named in a gather list.
    Answered,
    /// The layer above has the response.
    Done,
}

/// A request.
pub(super) struct RequestSlot {
    pub state: RequestState,
    /// Its data is named in a gather list and not sent yet.
    pub unsent: bool,
    pub cookie: u64,
    pub command: ClientCommand,
    /// The first error that the server reported.
    pub error: ErrorCode,
    /// Arrived parts of a read.
    pub coverage: Coverage,
    /// Bytes of which block status has told.
    pub told: u64,
}

impl RequestSlot {
    /// Returns whether a successful request has received everything that it asked for. Block status
    /// may cover only a part.
    #[inline]
    pub fn is_whole(&self) -> bool {
        match self.command.code {
            CommandCode::READ => self.coverage.is_whole(self.command.length as u32),
            CommandCode::BLOCK_STATUS => self.told > 0,
            _ => true,
        }
    }

    pub fn answer(&mut self, tag: Tag) -> ClientEvent {
        self.state = RequestState::Done;
        ClientEvent::Response { tag, error: self.error }
    }
}

/// A cookie is the tag and, above it, a number that changes whenever the slot is used again, so
/// that a late reply is not taken for another request's. The first use has number 0.
const USE: u64 = 1 << 16;

impl SlabSlot for RequestSlot {
    fn new(tag: Tag) -> Self {
        Self {
            state: RequestState::Free,
            unsent: false,
            cookie: u64::from(tag.0).wrapping_sub(USE),
            command: ClientCommand {
                code: CommandCode::READ,
                flags: CommandFlags::default(),
                offset: 0,
                length: 0,
            },
            error: ErrorCode::SUCCESS,
            coverage: Coverage::default(),
            told: 0,
        }
    }

    #[inline]
    fn begin(&mut self) {
        self.cookie = self.cookie.wrapping_add(USE);
        self.state = RequestState::Submitted;
        self.error = ErrorCode::SUCCESS;
        self.coverage.clear();
        self.told = 0;
    }

    #[inline]
    fn end(&mut self) {
        self.state = RequestState::Free;
    }

    #[inline]
    fn is_free(&self) -> bool {
        self.state == RequestState::Free
    }
}

impl Slab<RequestSlot> {
    /// The request that a reply names, if it is outstanding.
    #[inline]
    pub fn by_cookie(&mut self, cookie: u64) -> Option<(Tag, &mut RequestSlot)> {
        let tag = Tag(cookie as u16);
        let slot = self.at(tag)?;
        (slot.cookie == cookie && slot.state == RequestState::Active).then_some((tag, slot))
    }
}

// Arrived parts of a read: a server may send the data in pieces and in any order.

/// Ranges that are there: in order, apart from each other. One is the common case.
#[derive(Debug, Default)]
pub(super) struct Coverage(Vec<(u32, u32)>);

impl Coverage {
    /// Forgets everything; keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a range that is not empty.
    ///
    /// # Errors
    /// [`Violation::DataRange`] when a part of it was there already, [`Violation::Scattered`] when
    /// there are too many ranges.
    #[inline]
    pub fn add(&mut self, from: u32, to: u32) -> Result<(), Violation> {
        let at = self.0.partition_point(|(start, _)| *start < from);
        let before = at.checked_sub(1).map(|n| self.0[n]);
        let after = self.0.get(at).copied();
        if before.is_some_and(|(_, end)| end > from) || after.is_some_and(|(start, _)| start < to) {
            return Err(Violation::DataRange);
        }
        match (before.filter(|(_, end)| *end == from), after.filter(|(start, _)| *start == to)) {
            (Some(_), Some((_, end))) => {
                self.0[at - 1].1 = end;
                self.0.remove(at);
            }
            (Some(_), None) => self.0[at - 1].1 = to,
            (None, Some(_)) => self.0[at].0 = from,
            (None, None) if self.0.len() == NBD_FRAGMENTS_MAX => return Err(Violation::Scattered),
            (None, None) => self.0.insert(at, (from, to)),
        }
        Ok(())
    }

    /// Returns whether all of `0..len` is there.
    #[inline]
    pub fn is_whole(&self, len: u32) -> bool {
        self.0[..] == [(0, len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_become_whole() {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [2, 0, 3, 1]] {
            let mut coverage = Coverage::default();
            for piece in order {
                assert!(!coverage.is_whole(40));
                coverage.add(piece * 10, piece * 10 + 10).unwrap();
            }
            assert!(coverage.is_whole(40));
        }
    }

    #[test]
    fn overlaps_are_found() {
        let mut coverage = Coverage::default();
        coverage.add(10, 20).unwrap();
        coverage.add(30, 40).unwrap();
        for (from, to) in [(10, 20), (0, 11), (19, 25), (12, 13), (5, 45), (39, 50), (25, 31)] {
            assert_eq!(coverage.add(from, to), Err(Violation::DataRange), "{from}..{to}");
        }
        assert_eq!(coverage.add(20, 30), Ok(()));
    }

    #[test]
    fn pieces_have_a_limit() {
        let mut coverage = Coverage::default();
        let many = (0..).map(|n| coverage.add(n * 2, n * 2 + 1)).take_while(Result::is_ok).count();
        assert_eq!(many, NBD_FRAGMENTS_MAX);
    }
}
