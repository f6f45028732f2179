//! What travels between the loops.

use super::channel::Channel;
use crate::device::Change;
use crate::op::{OpKind, Outcome};
use crate::status::{Status, StatusKind};
use smallvec::SmallVec;
use std::sync::Arc;
use weft_io::segment::Loan;
use weft_io::{Segment, Segments};

/// What operations end with that the server takes with it.
pub(super) const GONE: Status = Status::new(StatusKind::Gone);

/// Memory on its way.
pub(super) type Loans = SmallVec<[Loan; 1]>;

/// The memory of an operation, on the loop that borrows it.
pub(super) fn borrowed(loans: Loans) -> Segments {
    loans.into_iter().map(Segment::Loan).collect()
}

/// The memory on its way back.
pub(super) fn returned(segments: Segments) -> Loans {
    let loan = |segment| match segment {
        Segment::Loan(loan) => Some(loan),
        _ => None,
    };
    segments.into_iter().filter_map(loan).collect()
}

/// To the server.
pub(super) enum Request {
    /// An operation, under the name that the client has for it.
    Submit { name: u64, kind: OpKind, lba: u64, blocks: u32, loans: Loans },
    /// The operation of this name is to end early.
    Cancel(u64),
    /// The client has gone: there will be no more requests.
    Close,
}

/// From the server.
pub(super) enum Reply {
    /// The operation of this name ended. Memory that is lost is missing.
    Done { name: u64, outcome: Outcome, loans: Loans },
    /// The device changed.
    Changed(Change),
    /// There is no server any more: operations that were not answered are with the device, and their memory is lost.
    Ended,
}

/// The server's end of both ways. When it is dropped, whatever was not taken out is refused and the client is told.
pub(super) struct ServerEnd {
    pub(super) requests: Arc<Channel<Request>>,
    pub(super) replies: Arc<Channel<Reply>>,
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        let refused = self.requests.close().into_iter().filter_map(|request| match request {
            Request::Submit { name, loans, .. } => Some(Reply::Done { name, outcome: Outcome::NotSent(GONE), loans }),
            Request::Cancel(_) | Request::Close => None,
        });
        let mut replies: Vec<Reply> = refused.chain([Reply::Changed(Change::Gone), Reply::Ended]).collect();
        // When the client's loop has ended, nobody waits for them.
        self.replies.put(&mut replies);
    }
}
