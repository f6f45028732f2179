//! Counting of the commands of one connection. On the connection's loop; nothing here allocates,
//! locks, or asks for the time per command once the connection has had its greatest number of
//! commands in flight.

use super::cell::{Cell, OperationKind};
use super::histogram::Bucket;
use super::slow::{CommandName, Slow};
use super::{Connection, ConnectionName, NamespaceName, Statistics};
use std::sync::Arc;
use weft_io::{Handle, Time};
use weft_proto::stream::Tag;

/// A command between its arrival and its answer.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    since_ns: u64,
    bytes: u64,
    /// The namespace's number; [`NONE`] until it is known.
    number: u16,
    kind: OperationKind,
    open: bool,
}

/// No namespace.
const NONE: u16 = u16::MAX;

/// Counts the commands of one connection. They are told apart by their tags. Commands that end
/// without an answer, because the connection does, are not counted.
pub struct Meter {
    statistics: Arc<Statistics>,
    id: u64,
    now_ns: u64,
    own: Arc<Cell>,
    /// The cells of the connection's namespaces for this thread, by number.
    namespaces: Vec<Option<Arc<Cell>>>,
    flights: Vec<Flight>,
    /// Where slow commands are logged.
    slow: Option<Box<Slow>>,
}

impl Statistics {
    /// Counts a connection that serves commands from now on, with tags below `tags` (it may have
    /// more). On the thread that will serve it. A host that was refused never gets here.
    pub fn enter(self: &Arc<Self>, name: ConnectionName, tags: usize) -> Meter {
        let (mut state, cell) = (self.state.lock(), Arc::<Cell>::default());
        state.last += 1;
        let (id, named) = (state.last, state.seat(&name.host));
        let slow = self.slow.get().map(|log| Box::new(Slow::new(Arc::clone(log), name.clone())));
        state.connections.insert(id, Connection { name, cell: Arc::clone(&cell), named });
        drop(state);
        Meter::new(Arc::clone(self), id, cell, tags, slow)
    }
}

impl Meter {
    fn new(
        statistics: Arc<Statistics>,
        id: u64,
        own: Arc<Cell>,
        tags: usize,
        slow: Option<Box<Slow>>,
    ) -> Self {
        Self {
            statistics,
            id,
            now_ns: 0,
            own,
            namespaces: Vec::new(),
            flights: vec![Flight::default(); tags],
            slow,
        }
    }

    /// The connection's namespaces by the numbers that [`Meter::of`] gets, from now on.
    pub fn follow(&mut self, names: impl Iterator<Item = Option<NamespaceName>>) {
        self.flights.iter_mut().filter(|flight| flight.open && flight.number != NONE).for_each(
            |flight| {
                if let Some(Some(cell)) = self.namespaces.get(usize::from(flight.number)) {
                    cell.forget();
                }
                flight.number = NONE;
            },
        );
        let names: Vec<Option<NamespaceName>> = names.collect();
        let cell = |name: &NamespaceName| self.statistics.cell(name.clone());
        self.namespaces = names.iter().map(|name| name.as_ref().map(cell)).collect();
        self.slow.iter_mut().for_each(|slow| slow.follow(names.clone()));
    }

    /// The time of this turn of the loop.
    #[inline]
    pub fn turn(&mut self, now: Time) {
        self.now_ns = now.as_nanos();
    }

    /// A command has arrived.
    #[inline]
    pub fn start(&mut self, tag: Tag, kind: OperationKind) {
        if tag.index() >= self.flights.len() {
            self.flights.resize(tag.index() + 1, Flight::default());
        }
        if self.flights[tag.index()].open {
            self.forget(tag);
        }
        self.flights[tag.index()] =
            Flight { since_ns: self.now_ns, bytes: 0, number: NONE, kind, open: true };
        self.own.begin();
    }

    /// A command becomes an operation of `bytes` bytes on the namespace with this number. It may
    /// become several, one after the other.
    #[inline]
    pub fn of(&mut self, tag: Tag, kind: OperationKind, number: usize, bytes: u64) {
        let Some(flight) = self.flights.get_mut(tag.index()).filter(|flight| flight.open) else {
            return;
        };
        flight.kind = kind;
        flight.bytes += bytes;
        if flight.number == NONE
            && let Some(Some(cell)) = self.namespaces.get(number)
        {
            flight.number = number as u16;
            cell.begin();
        }
    }

    /// Sets the name of a command that has arrived, for the log of slow ones.
    #[inline]
    pub fn called(&mut self, tag: Tag, name: impl FnOnce() -> CommandName) {
        if let Some(slow) = &mut self.slow {
            slow.begin(tag, name(), self.now_ns);
        }
    }

    /// A command has memory for its data; the same.
    #[inline]
    pub fn has_memory(&mut self, tag: Tag) {
        if let Some(slow) = &mut self.slow {
            slow.has_memory(tag, self.now_ns);
        }
    }

    /// A command goes to the device of the namespace with this number, for these blocks; the same.
    #[inline]
    pub fn submitted(&mut self, tag: Tag, number: usize, (lba, blocks): (u64, u64)) {
        if let Some(slow) = &mut self.slow {
            slow.submitted(tag, (number, lba, blocks), self.now_ns);
        }
    }

    /// The device is done with a command, or a part of it; the same.
    #[inline]
    pub fn completed(&mut self, tag: Tag) {
        if let Some(slow) = &mut self.slow {
            slow.completed(tag, self.now_ns);
        }
    }

    /// The answer with this tag has left; the same.
    #[inline]
    pub fn sent(&mut self, on: &Handle, tag: Tag) {
        if let Some(slow) = &mut self.slow {
            slow.sent(tag, on.clock().as_nanos());
        }
    }

    /// The connection has sent what it could; the same.
    #[inline]
    pub fn has_sent(&mut self, on: &Handle, has_unsent: impl FnOnce() -> bool) {
        if let Some(slow) = &mut self.slow
            && slow.awaits_sending()
            && !has_unsent()
        {
            slow.all_sent(on.clock().as_nanos());
        }
    }

    /// A command is answered.
    #[inline]
    pub fn end(&mut self, tag: Tag, failed: bool) {
        if let Some(slow) = &mut self.slow {
            slow.answered(tag, failed, self.now_ns);
        }
        let Some(flight) = self.flights.get_mut(tag.index()).filter(|flight| flight.open) else {
            return;
        };
        flight.open = false;
        let Flight { since_ns, bytes, number, kind, .. } = *flight;
        let (ns, bytes) = (self.now_ns.saturating_sub(since_ns), if failed { 0 } else { bytes });
        let at = Bucket::of(ns);
        self.own.end(kind, ns, at, bytes);
        if failed {
            self.own.failed(kind);
        }
        if let Some(Some(cell)) = self.namespaces.get(usize::from(number)) {
            cell.end(kind, ns, at, bytes);
            if failed {
                cell.failed(kind);
            }
        }
    }

    /// The connection has ended. Commands that come nevertheless are not counted.
    #[doc(hidden)]
    pub fn leave(&mut self) {
        let now_ns = self.now_ns;
        self.slow.take().into_iter().for_each(|mut slow| slow.end(now_ns));
        (0..self.flights.len()).for_each(|tag| self.forget(Tag(tag as u16)));
        self.namespaces.clear();
        self.statistics.leave(self.id);
    }

    /// A command ends without an answer.
    #[cold]
    pub fn forget(&mut self, tag: Tag) {
        let Some(flight) = self.flights.get_mut(tag.index()).filter(|flight| flight.open) else {
            return;
        };
        flight.open = false;
        self.slow.iter_mut().for_each(|slow| slow.forget(tag));
        self.own.forget();
        if let Some(Some(cell)) = self.namespaces.get(usize::from(flight.number)) {
            cell.forget();
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.leave();
    }
}
