//! The operations of one queue, by the names under which the queues of the paths know them.

use weft_block::{Op, OpKind};
use weft_io::Time;

/// Where an operation is: on the path of this number, or
pub(super) type Place = u16;
/// not sent at present,
pub(super) const WAITING: Place = u16::MAX;
/// with the queue of a path that was lost.
pub(super) const LEAVING: Place = u16::MAX - 1;

/// What has to be known of an operation that its path was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// The submitter's name of it.
    pub(super) user: u64,
    pub(super) kind: OpKind,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) place: Place,
    /// How often it was sent again because of what a device answered.
    pub(super) repeats: u8,
    /// When it was sent.
    pub(super) at: Time,
    /// Of a flush: the mark of the log of unflushed writes when it was sent.
    pub(super) mark: u64,
    /// The losses of completed writes that its submitter could know of.
    pub(super) losses: u64,
    /// A path that had it was lost, and it changes data: it may have been executed.
    pub(super) may_have_executed: bool,
    /// It is among the unresolved writes of the device.
    pub(super) unresolved: bool,
    /// It is a write that others on its blocks wait for.
    pub(super) went_out: bool,
    /// Its submitter wants it to end.
    pub(super) cancelled: bool,
}

impl Flight {
    #[inline]
    pub(super) fn of(op: &Op, place: Place, at: Time) -> Self {
        Self {
            user: op.user,
            kind: op.kind,
            lba: op.lba,
            blocks: op.blocks,
            place,
            repeats: 0,
            at,
            mark: 0,
            losses: 0,
            may_have_executed: false,
            unresolved: false,
            went_out: false,
            cancelled: false,
        }
    }
}

/// A table of operations. Names are reused; it grows to the greatest number of operations at a time.
#[derive(Default)]
pub(super) struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    pub(super) fn insert(&mut self, flight: Flight) -> u64 {
        if let Some(name) = self.free.pop() {
            self.slots[name as usize] = Some(flight);
            return name.into();
        }
        self.slots.push(Some(flight));
        self.slots.len() as u64 - 1
    }

    #[inline]
    pub(super) fn remove(&mut self, name: u64) -> Option<Flight> {
        let flight = self.slots.get_mut(name as usize)?.take()?;
        self.free.push(name as u32);
        Some(flight)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, name: u64) -> Option<&mut Flight> {
        self.slots.get_mut(name as usize)?.as_mut()
    }

    /// All operations with their names.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Flight)> {
        (0..).zip(&mut self.slots).filter_map(|(name, slot)| Some((name, slot.as_mut()?)))
    }

    /// The name of the operation that its submitter calls `user`.
    pub(super) fn find(&self, user: u64) -> Option<u64> {
        let is_it = |slot: &Option<Flight>| slot.is_some_and(|flight| flight.user == user);
        self.slots.iter().position(is_it).map(|name| name as u64)
    }
}
