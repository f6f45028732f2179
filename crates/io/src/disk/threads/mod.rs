//! Files by threads that block: the way on systems without io_uring, or where it is switched off.
//!
//! The loop lends an operation's memory to a thread of the process-wide [`pool`] and gets it back
//! with the result. Results are collected in a mailbox; the loop is woken once for all results that
//! it has not taken yet.

mod call;
mod mailbox;
mod pool;

pub use call::{can_discard, make_sparse};

use super::op::DiskOp;
use super::service::DiskBackend;
use super::service::OpenFile;
use super::slab::Slab;
use crate::event_loop::{Activity, Driver, DriverId, Handle};
use crate::limits::{DISK_CLOSE_WAIT_MS, DISK_OPS_PER_LOOP};
use crate::segment::Receipt;
use core::cell::RefCell;
use core::time::Duration;
use mailbox::{Finished, Loans, Mailbox};
use pool::Job;
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use weft_base::lock::Lock;

/// The backend.
pub(super) struct Threads(RefCell<PendingDiskOps>);

struct PendingDiskOps {
    mailbox: Arc<Mailbox>,
    waiting: Slab<Waiting>,
    /// QueueOwners whose operation was given back.
    starved: Vec<DriverId>,
    /// Collected results; kept for their memory.
    collected: Vec<Finished>,
}

/// The loop's part of an operation whose memory is with a thread.
struct Waiting {
    file: Rc<OpenFile>,
    op: DiskOp,
    receipts: SmallVec<[Receipt; 1]>,
}

impl Threads {
    /// Makes the mailbox and the driver that empties it.
    pub(super) fn start(on: &Handle) -> Rc<Self> {
        let mut this = None;
        on.spawn(|driver| {
            let mailbox =
                Arc::new(Mailbox { finished: Lock::default(), remote: on.remote(), driver });
            let state = PendingDiskOps {
                mailbox,
                waiting: Slab::default(),
                starved: Vec::new(),
                collected: Vec::new(),
            };
            let threads = Rc::new(Self(RefCell::new(state)));
            this = Some(Rc::clone(&threads));
            Collector(threads)
        });
        this.expect("set when the driver was made")
    }

    /// Takes in what threads finished; returns how much there was.
    fn collect(&self, on: &Handle) -> usize {
        let mut state = self.0.borrow_mut();
        let empty = core::mem::take(&mut state.collected);
        let mut collected = state.mailbox.take(empty);
        let count = collected.len();
        for finished in collected.drain(..) {
            let Some(Waiting { file, mut op, receipts }) = state.waiting.remove(finished.key)
            else {
                continue;
            };
            op.data = receipts
                .into_iter()
                .zip(finished.loans)
                .map(|(receipt, loan)| receipt.redeem(loan))
                .collect();
            file.complete(on, op, finished.result);
        }
        state.collected = collected;
        if count > 0 {
            state.starved.drain(..).for_each(|owner| on.wake(owner));
        }
        count
    }
}

impl DiskBackend for Threads {
    fn submit(&self, _: &Handle, file: &Rc<OpenFile>, mut op: DiskOp) -> Result<(), DiskOp> {
        let mut state = self.0.borrow_mut();
        if state.waiting.len() >= DISK_OPS_PER_LOOP {
            state.starved.push(file.owner());
            return Err(op);
        }
        let (kind, offset, len) = (op.kind, op.offset, op.len);
        let mut loans = Loans::new();
        let lend = |segment: crate::Segment| {
            let (receipt, loan) = segment.lend();
            loans.push(loan);
            receipt
        };
        let receipts = core::mem::take(&mut op.data).into_iter().map(lend).collect();
        let key = state.waiting.insert(Waiting { file: Rc::clone(file), op, receipts });
        let reply = Arc::clone(&state.mailbox);
        pool::run(Job { file: Arc::clone(file.file()), kind, offset, len, loans, key, reply });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "threads"
    }
}

impl Drop for PendingDiskOps {
    /// Waits for memory that is still with threads; after a while its receipts leak it rather than
    /// wait on.
    fn drop(&mut self) {
        let give_up = Instant::now() + Duration::from_millis(DISK_CLOSE_WAIT_MS);
        while self.waiting.len() > 0 && Instant::now() < give_up {
            for Finished { key, loans, .. } in self.mailbox.take(Vec::new()) {
                let receipts =
                    self.waiting.remove(key).into_iter().flat_map(|waiting| waiting.receipts);
                receipts.zip(loans).for_each(|(receipt, loan)| drop(receipt.redeem(loan)));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

struct Collector(Rc<Threads>);

impl Driver for Collector {
    fn receive(&mut self, on: &Handle) -> Activity {
        Activity::busy_if(self.0.collect(on) > 0)
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}
