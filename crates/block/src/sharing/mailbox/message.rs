//! Messages between the loops.

use super::channel::Channel;
use crate::device::DeviceChange;
use crate::op::{OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use smallvec::SmallVec;
use std::sync::Arc;
use weft_io::segment::Loan;
use weft_io::{Segment, Segments};

/// The outcome of operations that end because the server is gone.
pub(super) const GONE: Status = Status::new(StatusKind::Gone);

/// Memory in transit.
pub(super) type Loans = SmallVec<[Loan; 1]>;

/// The memory of an operation, on the loop that borrows it.
pub(super) fn borrowed(loans: Loans) -> Segments {
    loans.into_iter().map(Segment::Loan).collect()
}

/// Memory on its way back.
pub(super) fn returned(segments: Segments) -> Loans {
    let loan = |segment| match segment {
        Segment::Loan(loan) => Some(loan),
        _ => None,
    };
    segments.into_iter().filter_map(loan).collect()
}

/// To the server.
pub(super) enum Request {
    /// An operation, under the client's name for it.
    Submit { name: u64, kind: OpKind, lba: u64, blocks: u32, loans: Loans },
    /// Cancel the operation of this name.
    Cancel(u64),
    /// The client is gone: no more requests follow.
    Close,
}

/// From the server.
pub(super) enum Reply {
    /// The operation of this name ended. Lost memory is missing.
    Done { name: u64, outcome: Outcome, loans: Loans },
    /// The device changed.
    Changed(DeviceChange),
    /// The server is gone: operations without a reply are still with the device, and their memory
    /// is lost.
    Ended,
}

/// The server's knowledge of its queue, for questions that cannot wait for an answer.
#[derive(Default)]
pub(super) struct QueueStatus {
    /// [`BlockQueue::holds_back`](crate::BlockQueue::holds_back).
    pub(super) holds_back: AtomicBool,
    /// [`BlockQueue::overdue`](crate::BlockQueue::overdue).
    pub(super) overdue: AtomicUsize,
}

/// The server's end of both directions. When it is dropped, pending requests are refused and the
/// client is notified.
pub(super) struct ServerEnd {
    pub(super) requests: Arc<Channel<Request>>,
    pub(super) replies: Arc<Channel<Reply>>,
    pub(super) known: Arc<QueueStatus>,
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        let refused = self.requests.close().into_iter().filter_map(|request| match request {
            Request::Submit { name, loans, .. } => {
                Some(Reply::Done { name, outcome: Outcome::NotSent(GONE), loans })
            }
            Request::Cancel(_) | Request::Close => None,
        });
        let mut replies: Vec<Reply> =
            refused.chain([Reply::Changed(DeviceChange::Gone), Reply::Ended]).collect();
        // If the client's loop has ended, nobody waits for the replies.
        self.replies.put(&mut replies);
    }
}
