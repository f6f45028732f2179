//! The outstanding requests of a client.

use super::command::{ClientCommand, ClientEvent};
use super::coverage::Coverage;
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
