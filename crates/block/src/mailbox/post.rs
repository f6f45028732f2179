//! What travels between the loops, and the boxes that it is left in.

use crate::device::Change;
use crate::op::{OpKind, Outcome};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_io::segment::Loan;
use weft_io::{DriverId, Remote, Segment, Segments};

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

/// To the keeper.
pub(super) enum Letter {
    /// Changes of the device are to be told there.
    Hello(Arc<Outbox>),
    Submit(Parcel),
    /// The operation of this name of that queue is to end early.
    Cancel(Arc<Outbox>, u64),
    /// Nobody writes any more.
    Close,
}

/// An operation.
pub(super) struct Parcel {
    pub(super) from: Arc<Outbox>,
    /// Its name there.
    pub(super) name: u64,
    pub(super) kind: OpKind,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) loans: Loans,
}

impl Parcel {
    /// Sends it back as it is.
    pub(super) fn refuse(self, outcome: Outcome) {
        self.from.put(Reply::Done { name: self.name, outcome, loans: self.loans });
    }
}

/// From the keeper.
pub(super) enum Reply {
    /// The operation of this name ended. Memory that is lost is missing.
    Done { name: u64, outcome: Outcome, loans: Loans },
    /// The device changed.
    Changed(Change),
}

/// What is left for a driver of another loop, which is woken once for all that it has not taken out yet.
struct Tray<T> {
    /// `None` when nobody takes anything out any more.
    items: Mutex<Option<Vec<T>>>,
    remote: Remote,
    driver: DriverId,
}

impl<T> Tray<T> {
    fn new(remote: Remote, driver: DriverId) -> Self {
        Self { items: Mutex::new(Some(Vec::new())), remote, driver }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<T>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts items in; `false`, and nothing taken, if nobody takes them out any more.
    fn put(&self, more: &mut Vec<T>) -> bool {
        let mut guard = self.lock();
        let Some(items) = guard.as_mut() else { return false };
        let first = items.is_empty() && !more.is_empty();
        items.append(more);
        drop(guard);
        if first {
            self.remote.wake(self.driver);
        }
        true
    }

    /// Takes all out, and leaves `empty`.
    fn take(&self, empty: Vec<T>) -> Vec<T> {
        self.lock().as_mut().map_or_else(Vec::new, |items| core::mem::replace(items, empty))
    }

    /// Takes all out, and lets nobody put in more.
    fn close(&self) -> Vec<T> {
        self.lock().take().unwrap_or_default()
    }
}

/// Where letters for the keeper are left.
pub(super) struct Inbox(Tray<Letter>);

impl Inbox {
    pub(super) fn new(remote: Remote, keeper: DriverId) -> Self {
        Self(Tray::new(remote, keeper))
    }

    pub(super) fn take(&self, empty: Vec<Letter>) -> Vec<Letter> {
        self.0.take(empty)
    }

    pub(super) fn close(&self) -> Vec<Letter> {
        self.0.close()
    }
}

/// The way to the keeper, held by all who write to it. When the last lets go of it the keeper is told.
pub(super) struct Door(pub(super) Arc<Inbox>);

impl Door {
    /// Leaves letters; `false`, and none taken, if there is no keeper any more.
    pub(super) fn put(&self, letters: &mut Vec<Letter>) -> bool {
        self.0.0.put(letters)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.put(&mut vec![Letter::Close]);
    }
}

/// Where replies for one queue are left.
pub(super) struct Outbox(Tray<Reply>);

impl Outbox {
    pub(super) fn new(remote: Remote, clerk: DriverId) -> Self {
        Self(Tray::new(remote, clerk))
    }

    pub(super) fn put(&self, reply: Reply) {
        self.put_all(&mut vec![reply]);
    }

    /// Leaves all of them. They are lost when the loop of the clerk has ended, as then nobody waits.
    pub(super) fn put_all(&self, replies: &mut Vec<Reply>) {
        if !self.0.put(replies) {
            replies.clear();
        }
    }

    pub(super) fn take(&self, empty: Vec<Reply>) -> Vec<Reply> {
        self.0.take(empty)
    }

    pub(super) fn close(&self) {
        self.0.close();
    }

    pub(super) fn clerk(&self) -> DriverId {
        self.0.driver
    }
}
