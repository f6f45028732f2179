//! Whether what the source calls durable is so.
//!
//! A system tells that it could not write back what it had cached once only, to whoever asks first (fsync(2)); the data is lost, and the next
//! who asks hears of success. So the first failure is kept: from then on every flush and every durable write fails, whoever sends it by
//! whatever queue, until the source is opened again. And who asked at the same time as the one who heard of the failure hears of success, too:
//! so an operation is reported as durable only when all those that were under way when it ended have ended as well.

use crate::op::OpKind;
use crate::status::{Status, StatusKind};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_io::{DriverId, Remote};

/// Which writes of a file are durable. All queues of a source share one.
#[derive(Default)]
pub(super) struct Durability(Mutex<Ledger>);

#[derive(Default)]
struct Ledger {
    /// The next ticket.
    next: u64,
    /// Operations under way that are to make something durable.
    open: BTreeSet<u64>,
    failure: Option<Status>,
    /// Whom to wake when another one has ended.
    waiting: Vec<(Remote, DriverId)>,
}

/// An operation that is to make something durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// Those that were under way at a time: all before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before(u64);

/// Whether an operation makes something durable, or says so.
pub(super) const fn is_durable(kind: OpKind) -> bool {
    match kind {
        OpKind::Flush => true,
        OpKind::Write { fua } | OpKind::WriteZeroes { fua, .. } | OpKind::CompareAndWrite { fua } => fua,
        OpKind::Read | OpKind::Discard | OpKind::Compare => false,
    }
}

impl Durability {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation begins, unless nothing can be made durable any more; then why.
    pub(super) fn begin(&self) -> Result<Ticket, Status> {
        let ledger = &mut *self.ledger();
        if let Some(failure) = ledger.failure {
            return Err(failure);
        }
        let ticket = ledger.next;
        ledger.next += 1;
        ledger.open.insert(ticket);
        Ok(Ticket(ticket))
    }

    /// An operation has ended, or was not begun after all.
    pub(super) fn end(&self, ticket: Ticket) -> Before {
        let ledger = &mut *self.ledger();
        ledger.open.remove(&ticket.0);
        let before = Before(ledger.next);
        let waiting = core::mem::take(&mut ledger.waiting);
        // Woken after the failure, if it is one, has been noted: `fail` comes before.
        waiting.into_iter().for_each(|(remote, driver)| remote.wake(driver));
        before
    }

    /// What was written could not be made durable. Tells whether that is news.
    pub(super) fn fail(&self, status: Status) -> bool {
        let ledger = &mut *self.ledger();
        let is_news = ledger.failure.is_none();
        ledger.failure.get_or_insert(Status { kind: StatusKind::Media, ..status });
        is_news
    }

    /// The outcome of an operation that succeeded; `None` while earlier operations are outstanding. `waiter` is woken when one of these ends.
    pub(super) fn verdict(&self, before: Before, waiter: impl FnOnce() -> (Remote, DriverId)) -> Option<Status> {
        let ledger = &mut *self.ledger();
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
