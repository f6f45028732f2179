//! Questions to the server of a file. The system knows the length of a file on a server from the
//! server's last answer: a file that was cut elsewhere keeps its old length here until the server
//! is asked. That is an operation of its own ([`DiskKind::Refresh`]), as the answer may take long.

use super::durability::Ticket;
use weft_io::Segments;
use weft_io::disk::{DiskKind, DiskOp};

/// The questions of a queue, of which one is under way at most.
#[derive(Default)]
pub(super) struct Server {
    is_asked: bool,
    /// The length is wanted as it is after the question under way.
    is_due: bool,
    /// Held by flushes that wait for the answer to the question under way.
    answering: Vec<Ticket>,
    /// Held by flushes that wait for the answer to the next question.
    waiting: Vec<Ticket>,
}

impl Server {
    /// Wants the length as it is now or later; `ticket` is returned with the answer.
    pub(super) fn want(&mut self, ticket: Option<Ticket>) {
        self.waiting.extend(ticket);
        self.is_due = true;
    }

    /// Begins a question if one is due and none is under way.
    pub(super) fn question(&mut self) -> Option<DiskOp> {
        if self.is_asked || !self.is_due {
            return None;
        }
        (self.is_asked, self.is_due) = (true, false);
        core::mem::swap(&mut self.answering, &mut self.waiting);
        let (kind, data) = (DiskKind::Refresh, Segments::new());
        Some(DiskOp { kind, offset: 0, len: 0, data, user: 0 })
    }

    /// Undoes [`Server::question`]: there was no room for the operation.
    pub(super) fn refused(&mut self) {
        (self.is_asked, self.is_due) = (false, true);
        core::mem::swap(&mut self.answering, &mut self.waiting);
    }

    /// Ends the question under way; the tickets that waited for it.
    pub(super) fn answered(&mut self) -> Vec<Ticket> {
        self.is_asked = false;
        core::mem::take(&mut self.answering)
    }

    /// All tickets, when nobody waits for answers any more.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Ticket> {
        self.answering.drain(..).chain(self.waiting.drain(..))
    }
}
