//! The requests in progress at a server.

use crate::nbd::code::{CommandCode, ErrorCode};
use crate::slab::SlabSlot;
use crate::stream::Tag;

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    Free,
    /// Its payload is arriving.
    Receiving,
    /// With the layer above.
    Busy,
    /// Its reply is in the queue.
    Ready,
    /// Its reply is named in a gather list.
    Sending,
}

/// A request.
#[derive(Clone, Copy)]
pub(super) struct RequestSlot {
    pub state: RequestState,
    pub command: CommandCode,
    pub error: ErrorCode,
    pub cookie: u64,
    pub offset: u64,
    pub length: u64,
}

impl SlabSlot for RequestSlot {
    fn new(_: Tag) -> Self {
        Self {
            state: RequestState::Free,
            command: CommandCode::READ,
            error: ErrorCode::SUCCESS,
            cookie: 0,
            offset: 0,
            length: 0,
        }
    }

    #[inline]
    fn begin(&mut self) {
        self.state = RequestState::Ready;
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
