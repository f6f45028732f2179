//! The disk backend of a simulated loop.

use super::Disks;
use crate::disk::{DiskBackend, DiskOp, OpenFile};
use crate::event_loop::{Activity, Driver, DriverId, Handle};
use crate::time::Time;
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An operation in progress.
struct Pending {
    file: Rc<OpenFile>,
    op: DiskOp,
    /// Writes that a flush covers.
    mark: u64,
}

/// One loop's way to the disks of its host. Its driver has it too.
pub(in crate::sim) struct SimDisk(Rc<HostDisks>);

struct HostDisks {
    disks: Rc<RefCell<Disks>>,
    /// By the time at which they end, and their number.
    pending: RefCell<BTreeMap<(Time, u64), Pending>>,
    next: Cell<u64>,
    /// The driver that ends them.
    driver: Cell<Option<DriverId>>,
    /// QueueOwners whose operation was given back.
    starved: RefCell<Vec<DriverId>>,
    /// The loop has ended: the rest is not completed.
    over: Cell<bool>,
}

impl SimDisk {
    pub(in crate::sim) fn new(disks: Rc<RefCell<Disks>>) -> Self {
        Self(Rc::new(HostDisks {
            disks,
            pending: RefCell::default(),
            next: Cell::new(0),
            driver: Cell::new(None),
            starved: RefCell::default(),
            over: Cell::new(false),
        }))
    }
}

impl HostDisks {
    fn take_due(&self, now: Time) -> Option<Pending> {
        let mut pending = self.pending.borrow_mut();
        pending.first_entry().filter(|entry| entry.key().0 <= now).map(|entry| entry.remove())
    }

    fn end_due(&self, on: &Handle) -> bool {
        let mut any = false;
        while let Some(Pending { file, mut op, mark }) = self.take_due(on.now()) {
            let kind = op.kind;
            let result = self.disks.borrow_mut().perform(file.file(), &mut op, mark);
            op.kind = kind;
            file.complete(on, op, result);
            any = true;
        }
        if any {
            self.starved.take().into_iter().for_each(|owner| on.wake(owner));
        }
        any
    }

    /// The loop ends with operations in progress: writes take effect fully or in part.
    fn abandon(&self) {
        self.over.set(true);
        for Pending { file, mut op, .. } in self.pending.take().into_values() {
            // The file's errors concern nobody any more.
            let _ = self.disks.borrow_mut().tear(file.file(), &mut op);
        }
    }
}

/// Ends what is due.
struct Ender(Rc<HostDisks>);

impl Driver for Ender {
    fn work(&mut self, on: &Handle) -> Activity {
        Activity::busy_if(self.0.end_due(on))
    }
}

impl Drop for Ender {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl DiskBackend for SimDisk {
    fn submit(&self, on: &Handle, file: &Rc<OpenFile>, op: DiskOp) -> Result<(), DiskOp> {
        let this = &self.0;
        let mut disks = this.disks.borrow_mut();
        if this.pending.borrow().len() >= disks.config.depth {
            this.starved.borrow_mut().push(file.owner());
            return Err(op);
        }
        let (mark, due) = (disks.mark(file.file()), on.clock() + disks.delay());
        drop(disks);
        if this.over.get() {
            return Ok(());
        }
        let driver = this.driver.get().unwrap_or_else(|| on.spawn(|_| Ender(Rc::clone(this))));
        this.driver.set(Some(driver));
        this.next.set(this.next.get() + 1);
        this.pending
            .borrow_mut()
            .insert((due, this.next.get()), Pending { file: Rc::clone(file), op, mark });
        on.wake_at(driver, due);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "simulated"
    }
}
