//! The order of writes of one file that share blocks.
//!
//! A write of less than whole blocks reads the blocks first and writes them as a whole, which would
//! undo another write to one of them in the meantime. So each write enters its blocks here, on any
//! loop, and begins when no earlier one conflicts. Writes of whole blocks never conflict with each
//! other; a partial write conflicts with every write to its blocks.

use core::ops::Range;
use weft_base::lock::Lock;
use weft_io::{DriverId, RemoteLoop};

/// The writes of a file that have not ended.
#[derive(Default)]
pub(super) struct Order(Lock<Entries>);

#[derive(Default)]
struct Entries {
    /// In the order in which they came.
    entries: Vec<Entry>,
    next: u64,
    /// Drivers of writes that wait.
    waiting: Vec<(RemoteLoop, DriverId)>,
}

struct Entry {
    ticket: Ticket,
    blocks: Range<u64>,
    is_partial: bool,
}

/// Names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl Order {
    /// Enters a write, which `is_partial` if it is of less than whole blocks.
    pub(super) fn enter(&self, blocks: Range<u64>, is_partial: bool) -> Ticket {
        let mut inside = self.0.lock();
        let ticket = Ticket(inside.next);
        inside.next += 1;
        inside.entries.push(Entry { ticket, blocks, is_partial });
        ticket
    }

    /// Returns whether a write may begin. If not, its driver is woken when another one has ended.
    pub(super) fn may_begin(
        &self,
        ticket: Ticket,
        driver: impl FnOnce() -> (RemoteLoop, DriverId),
    ) -> bool {
        let mut inside = self.0.lock();
        let Some(at) = inside.entries.iter().position(|entry| entry.ticket == ticket) else {
            return true;
        };
        let (earlier, entry) = (&inside.entries[..at], &inside.entries[at]);
        if !earlier.iter().any(|other| other.forbids(entry)) {
            return true;
        }
        let (on, id) = driver();
        if !inside.waiting.iter().any(|(of, other)| *other == id && of.is_same_loop(&on)) {
            inside.waiting.push((on, id));
        }
        false
    }

    /// A write has ended.
    pub(super) fn leave(&self, ticket: Ticket) {
        let mut inside = self.0.lock();
        inside.entries.retain(|entry| entry.ticket != ticket);
        let waiting = core::mem::take(&mut inside.waiting);
        drop(inside);
        waiting.into_iter().for_each(|(on, id)| on.wake(id));
    }
}

impl Entry {
    fn forbids(&self, other: &Self) -> bool {
        let overlap = self.blocks.start < other.blocks.end && other.blocks.start < self.blocks.end;
        overlap && (self.is_partial || other.is_partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_io::{Loop, LoopConfig};

    #[test]
    fn a_partial_write_waits_for_earlier_ones_and_later_ones_for_it() {
        let on = Loop::new(LoopConfig::default()).unwrap();
        let order = Order::default();
        let remote = on.handle().remote();
        let id = on.handle().spawn(|_| Idle);
        let may = |ticket| order.may_begin(ticket, || (remote.clone(), id));
        let whole = [order.enter(0..8, false), order.enter(0..8, false)];
        let partial = order.enter(7..9, true);
        let (behind, elsewhere) = (order.enter(8..16, false), order.enter(16..17, true));
        assert!(may(whole[0]) && may(whole[1]) && may(elsewhere));
        assert!(!may(partial) && !may(behind));
        order.leave(whole[0]);
        assert!(!may(partial));
        order.leave(whole[1]);
        assert!(may(partial) && !may(behind), "the one that came first");
        order.leave(partial);
        assert!(may(behind));
    }

    struct Idle;

    impl weft_io::Driver for Idle {
        fn work(&mut self, _: &weft_io::Handle) -> weft_io::Activity {
            weft_io::Activity::Idle
        }
    }
}
