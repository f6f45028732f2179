//! Durability of writes that the source reports as durable.
//!
//! When the system fails to write back cached data, it reports this only once, to the first caller
//! of fsync(2). The data is lost, and the next caller gets success. Therefore the first failure is
//! kept: from then on every flush and every durable write fails, from any submitter and queue,
//! until the source is opened again. A caller that is concurrent with the one that got the error
//! also gets success. Therefore an operation is reported as durable only when all operations that
//! were in progress when it ended have ended too.

use crate::op::OpKind;
use crate::outcome::status::{Status, StatusKind};
use std::collections::BTreeSet;
use weft_base::lock::Lock;
use weft_io::{DriverId, RemoteLoop};

/// Durable writes of a file. All queues of a source share it.
#[derive(Default)]
pub(super) struct Durability(Lock<Ledger>);

#[derive(Default)]
struct Ledger {
    /// The next ticket.
    next: u64,
    /// Operations in progress that make something durable.
    open: BTreeSet<u64>,
    failure: Option<Status>,
    /// The drivers to wake when one of them has ended.
    waiting: Vec<(RemoteLoop, DriverId)>,
}

/// An operation that makes something durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// The operations that were in progress at some time: all with lower tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before(u64);

/// Returns whether an operation makes something durable.
pub(super) const fn is_durable(kind: OpKind) -> bool {
    match kind {
        OpKind::Flush => true,
        OpKind::Write { fua }
        | OpKind::WriteZeroes { fua, .. }
        | OpKind::CompareAndWrite { fua } => fua,
        OpKind::Read
        | OpKind::Discard
        | OpKind::Compare
        | OpKind::Reserve(_)
        | OpKind::ReservationReport => false,
    }
}

impl Durability {
    /// Begins an operation; fails if nothing can be made durable.
    pub(super) fn begin(&self) -> Result<Ticket, Status> {
        let ledger = &mut *self.0.lock();
        if let Some(failure) = ledger.failure {
            return Err(failure);
        }
        let ticket = ledger.next;
        ledger.next += 1;
        ledger.open.insert(ticket);
        Ok(Ticket(ticket))
    }

    /// Ends an operation, or withdraws one that was not begun.
    pub(super) fn end(&self, ticket: Ticket) -> Before {
        let ledger = &mut *self.0.lock();
        ledger.open.remove(&ticket.0);
        let before = Before(ledger.next);
        let waiting = core::mem::take(&mut ledger.waiting);
        // If the operation failed, `fail` was called before this, so woken drivers see it.
        waiting.into_iter().for_each(|(remote, driver)| remote.wake(driver));
        before
    }

    /// Records that written data could not be made durable. Returns whether this is the first time.
    pub(super) fn fail(&self, status: Status) -> bool {
        let ledger = &mut *self.0.lock();
        let is_news = ledger.failure.is_none();
        ledger.failure.get_or_insert(Status { kind: StatusKind::Media, ..status });
        is_news
    }

    /// Returns whether a flush of written data has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.0.lock().failure.is_some()
    }

    /// The outcome of a successful operation; `None` while earlier operations are outstanding.
    /// `waiter` is woken when one of these ends.
    pub(super) fn verdict(
        &self,
        before: Before,
        waiter: impl FnOnce() -> (RemoteLoop, DriverId),
    ) -> Option<Status> {
        let ledger = &mut *self.0.lock();
        if let Some(failure) = ledger.failure {
            return Some(failure);
        }
        if ledger.open.first().is_none_or(|first| *first >= before.0) {
            return Some(Status::SUCCESS);
        }
        ledger.waiting.push(waiter());
        None
    }
}
