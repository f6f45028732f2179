//! Operations on the blocks of one queue, by chance, each of which the oracle knows about.
//!
//! The blocks are split into slots. A slot has one operation under way at a time, so that writes of
//! a block do not overlap; a flush may be in flight at the same time, and reads of blocks that are
//! being written. A workload outlives its device: it stops when the device is lost and goes on with
//! the next one.

mod driver;

pub use driver::start;

use crate::journal::SimJournal;
use crate::oracle::{Oracle, Ticket};
use crate::reserving::known_reservations::KnownReservations;
use crate::reserving::model::Who;
use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;
use weft_block::{OpKind, Outcome, Status, StatusKind};
use weft_io::Time;
use weft_io::sim::Rng;

/// Plan of a workload.
#[derive(Clone, Debug)]
pub struct WorkloadPlan {
    /// Its name, for the journal.
    pub name: String,
    /// Its host, by number.
    pub host: usize,
    /// Its first unit.
    pub first: u64,
    /// Ranges with one operation at a time.
    pub slots: u32,
    /// Units of each.
    pub slot_units: u32,
    /// They are one and the same range, which others use as well.
    pub overlap: bool,
    /// All units of its initiator, which its flushes cover.
    pub flushes: (u64, u32),
    /// Flushes do something: there is a volatile cache.
    pub is_cached: bool,
    /// Longest pause of a slot.
    pub think: Duration,
    /// Operations in flight outlive the process.
    pub is_taken_over: bool,
    /// True if an operation may fail: the disk makes errors, or the device does not wait for a path
    /// to come back.
    pub may_fail: bool,
}

/// An operation under way.
pub(crate) struct UnderWay {
    /// Places where only a slot's own operation counts.
    slot: Option<u32>,
    ticket: Ticket,
    /// Of a write: its first unit, and how many.
    written: Option<(u64, u32)>,
    /// When it began, for those who reserve.
    mark: usize,
    /// What is done again if the process ends.
    copy: Option<OpCopy>,
}

/// An operation as it was made.
pub(crate) struct OpCopy {
    /// A process before this one has sent it.
    is_left: bool,
    kind: OpKind,
    lba: u64,
    blocks: u32,
    data: Vec<u8>,
}

/// A workload, across the devices on which it runs.
pub struct SharedWorkload {
    /// Its plan.
    pub plan: WorkloadPlan,
    /// Operations that are still to be submitted.
    pub left: u32,
    /// Reads every slot once, in order, instead of by chance; the next one.
    pub sweep: Option<u32>,
    /// Operations that ended so far.
    pub ended: u64,
    /// Operations that ended without success.
    pub failed: u64,
    /// Writes that were acknowledged.
    pub written: u64,
    /// A driver runs it now.
    pub running: bool,
    /// The device was lost.
    pub lost: bool,
    /// Reservations of what it uses, and as whom it uses it.
    pub reservations: Option<(Rc<RefCell<KnownReservations>>, Option<Who>)>,
    /// When the last flush that has ended began, for those who reserve.
    flushed: usize,
    rng: Rng,
    oracle: Rc<RefCell<Oracle>>,
    journal: SimJournal,
    /// By slot: when its next operation may be submitted.
    free_at: Vec<Time>,
    busy: Vec<bool>,
    /// Units of a block of the device.
    units: u32,
    /// The device compares and writes a block as one.
    compares: bool,
    /// By block: what it held last, as far as this workload has seen.
    looked: std::collections::BTreeMap<u64, Vec<u8>>,
    /// By the operation's identifier.
    under_way: std::collections::BTreeMap<u64, UnderWay>,
    /// Of them, those that were left by another process, and are to be done again.
    again: std::collections::VecDeque<u64>,
    next_user: u64,
}

impl SharedWorkload {
    /// A workload of this many operations.
    pub fn new(
        plan: WorkloadPlan,
        operations: u32,
        rng: Rng,
        oracle: &Rc<RefCell<Oracle>>,
        journal: &SimJournal,
    ) -> Shared {
        let slots = plan.slots as usize;
        Rc::new(RefCell::new(Self {
            plan,
            left: operations,
            sweep: None,
            ended: 0,
            failed: 0,
            written: 0,
            running: false,
            lost: false,
            reservations: None,
            flushed: 0,
            rng,
            oracle: Rc::clone(oracle),
            journal: journal.clone(),
            free_at: vec![Time::ZERO; slots],
            busy: vec![false; slots],
            units: 1,
            compares: false,
            looked: std::collections::BTreeMap::new(),
            under_way: std::collections::BTreeMap::new(),
            again: std::collections::VecDeque::new(),
            next_user: 0,
        }))
    }

    /// Returns whether all operations have ended.
    pub fn is_over(&self) -> bool {
        self.left == 0 && self.under_way.is_empty()
    }

    /// The operations under way, in the order in which they began.
    pub fn under_way(&self) -> impl Iterator<Item = u64> {
        self.under_way.keys().copied()
    }

    /// Returns whether a write is under way.
    pub fn is_writing(&self) -> bool {
        self.under_way.values().any(|it| it.written.is_some())
    }

    /// The process ended; the next one does again what was under way.
    pub fn left_to_next(&mut self) {
        self.again = self.under_way.keys().copied().collect();
        self.under_way.values_mut().flat_map(|it| &mut it.copy).for_each(|it| it.is_left = true);
        (self.running, self.lost) = (false, false);
    }

    /// Reads everything once.
    pub fn begin_sweep(&mut self) {
        (self.sweep, self.left) = (Some(0), self.plan.slots);
    }

    /// Begins `operations` more operations.
    pub fn begin_more(&mut self, operations: u32) {
        (self.sweep, self.left) = (None, operations);
    }

    /// The process ended together with its operations in flight, which will not be executed when
    /// somebody goes on.
    pub fn forget(&mut self) {
        let unknown = Outcome::settled(Status::new(StatusKind::Gone));
        for under_way in self.under_way.values() {
            if let Some((first, units)) = under_way.written {
                self.oracle.borrow_mut().end_write(
                    first,
                    units,
                    &under_way.ticket,
                    false,
                    &unknown,
                );
            }
        }
        self.busy.fill(false);
        self.under_way.clear();
        (self.running, self.lost) = (false, false);
    }
}

/// A workload, shared with the driver that runs it.
pub type Shared = Rc<RefCell<SharedWorkload>>;
