//! Returns of threads to a loop: the memory of operations, and their outcomes.

use crate::event_loop::{DriverId, RemoteLoop};
use crate::segment::{Loan, Segment, Segments};
use smallvec::SmallVec;
use std::io;
use weft_base::lock::Lock;

/// Memory that crosses to another thread.
pub(super) type Loans = SmallVec<[Loan; 1]>;

/// Result of a thread.
pub(super) struct Finished {
    pub(super) key: u64,
    pub(super) loans: Loans,
    pub(super) result: io::Result<()>,
}

/// Results of threads.
pub(super) struct Mailbox {
    pub(super) finished: Lock<Vec<Finished>>,
    pub(super) remote: RemoteLoop,
    pub(super) driver: DriverId,
}

impl Mailbox {
    /// Takes what is in it, and leaves `empty`.
    pub(super) fn take(&self, empty: Vec<Finished>) -> Vec<Finished> {
        core::mem::replace(&mut *self.finished.lock(), empty)
    }

    pub(super) fn put(&self, finished: Finished) {
        let mut all = self.finished.lock();
        all.push(finished);
        let first = all.len() == 1;
        drop(all);
        if first {
            self.remote.wake(self.driver);
        }
    }
}

/// The memory of an operation, on the thread that works on it.
pub(super) fn borrowed(loans: Loans) -> Segments {
    loans.into_iter().map(Segment::Loan).collect()
}

/// The memory on its way back.
pub(super) fn returned(segments: Segments) -> Loans {
    let loan = |segment| match segment {
        Segment::Loan(loan) => loan,
        _ => unreachable!("`borrowed` makes loans only"),
    };
    segments.into_iter().map(loan).collect()
}
