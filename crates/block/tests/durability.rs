//! A report by the system that cached data could not be written back, which it makes once, stays
//! true for everybody.

use crate::scratch::Scratch;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use weft_block::testing::{Rig, TestOp, TestPlan};
use weft_block::{Device, OpKind, OpenOptions, StatusKind, open};
use weft_io::disk::{DiskBackend, DiskKind, DiskOp, OpenFile};
use weft_io::{Activity, Driver, Handle};

/// Behaviour of the disk under all loops.
#[derive(Default)]
struct Script {
    /// The next operation that is to make something durable fails; those after it succeed, as with
    /// fsync(2).
    fails: AtomicBool,
    /// With which error of the system; 0: that of a device that fails.
    error: AtomicI32,
    /// Failures happen only when this is unset.
    held: AtomicBool,
    /// Operations that were to make something durable: taken, and ended with success.
    taken: AtomicUsize,
    succeeded: AtomicUsize,
}

/// A disk that keeps nothing.
struct Fake(Arc<Script>);

impl DiskBackend for Fake {
    fn submit(&self, on: &Handle, file: &Rc<OpenFile>, op: DiskOp) -> Result<(), DiskOp> {
        let durable = matches!(
            op.kind,
            DiskKind::Sync
                | DiskKind::Write { dsync: true }
                | DiskKind::WriteZeroes { dsync: true, .. }
        );
        let fails = durable && self.0.fails.swap(false, SeqCst);
        self.0.taken.fetch_add(usize::from(durable), SeqCst);
        let (script, file) = (Arc::clone(&self.0), Rc::clone(file));
        let ops = RefCell::new(VecDeque::from([op]));
        on.spawn(move |id| {
            on.wake(id);
            Later { script, file, ops, fails, durable, id }
        });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "fake"
    }
}

/// Ends an operation.
struct Later {
    script: Arc<Script>,
    file: Rc<OpenFile>,
    ops: RefCell<VecDeque<DiskOp>>,
    fails: bool,
    durable: bool,
    id: weft_io::DriverId,
}

impl Driver for Later {
    fn work(&mut self, on: &Handle) -> Activity {
        if self.fails && self.script.held.load(SeqCst) {
            on.wake(self.id);
            return Activity::Busy;
        }
        let Some(op) = self.ops.borrow_mut().pop_front() else { return Activity::Idle };
        on.remove(self.id);
        // EIO on Unix; "the device does not function" on Windows.
        let usual = if cfg!(windows) { 31 } else { 5 };
        let error = || {
            io::Error::from_raw_os_error(match self.script.error.load(SeqCst) {
                0 => usual,
                other => other,
            })
        };
        let result = if self.fails { Err(error()) } else { Ok(()) };
        self.file.complete(on, op, result);
        self.script.succeeded.fetch_add(usize::from(self.durable && !self.fails), SeqCst);
        Activity::Busy
    }
}

fn rig(device: &Device, script: &Arc<Script>) -> Rig {
    Rig::with(TestPlan { loops: 2, ..TestPlan::default() }, |loops| {
        for one in loops {
            let script = Arc::clone(script);
            one.post(move |on| on.disk().set_backend(Rc::new(Fake(script))));
        }
        Arc::clone(device)
    })
}

fn device(scratch: &Scratch) -> Device {
    open(&scratch.url("size=1MiB,direct=off"), &OpenOptions::default()).unwrap()
}

fn bare(kind: OpKind, blocks: u32) -> TestOp {
    TestOp { kind, lba: 0, blocks, data: vec![], cuts: vec![] }
}

/// Everything that promises durability fails, on each loop; what does not works.
fn is_broken(rig: &Rig) {
    for on_loop in 0..2 {
        rig.fails(on_loop, bare(OpKind::Flush, 0), StatusKind::Media);
        rig.fails(
            on_loop,
            rig.request(OpKind::Write { fua: true }, 0, vec![1; 512]),
            StatusKind::Media,
        );
        rig.fails(
            on_loop,
            bare(OpKind::WriteZeroes { deallocate: false, fua: true }, 1),
            StatusKind::Media,
        );
        rig.one(on_loop, rig.request(OpKind::Write { fua: false }, 0, vec![1; 512]));
        rig.one(on_loop, rig.request(OpKind::Read, 0, vec![0; 512]));
    }
}

#[test]
fn a_flush_that_failed_makes_all_fail_until_the_source_is_opened_again() {
    let (scratch, script) = (Scratch::new(), Arc::new(Script::default()));
    let first = device(&scratch);
    let one = rig(&first, &script);
    one.one(0, bare(OpKind::Flush, 0));
    script.fails.store(true, SeqCst);
    one.fails(0, bare(OpKind::Flush, 0), StatusKind::Media);
    is_broken(&one);
    // Another host, and the same one after it has connected again.
    one.reopen(0);
    is_broken(&one);
    one.end();
    let other = rig(&first, &script);
    is_broken(&other);
    other.end();
    drop(first);
    let again = device(&scratch);
    let rig = rig(&again, &script);
    rig.one(0, bare(OpKind::Flush, 0));
    rig.end();
}

#[test]
fn a_durable_write_that_failed_makes_all_fail_too() {
    let (scratch, script) = (Scratch::new(), Arc::new(Script::default()));
    let device = device(&scratch);
    let rig = rig(&device, &script);
    script.fails.store(true, SeqCst);
    rig.fails(1, rig.request(OpKind::Write { fua: true }, 0, vec![1; 512]), StatusKind::Media);
    is_broken(&rig);
    rig.end();
}

#[test]
fn a_flush_beside_one_that_fails_does_not_succeed() {
    let (scratch, script) = (Scratch::new(), Arc::new(Script::default()));
    let device = device(&scratch);
    let rig = rig(&device, &script);
    script.held.store(true, SeqCst);
    script.fails.store(true, SeqCst);
    let failing = rig.start(0, vec![bare(OpKind::Flush, 0)]);
    weft_testing::wait::until("the disk has the first flush", || script.taken.load(SeqCst) == 1);
    let beside = rig.start(1, vec![bare(OpKind::Flush, 0)]);
    weft_testing::wait::until("the disk has done the second one", || {
        script.succeeded.load(SeqCst) == 1
    });
    script.held.store(false, SeqCst);
    for (on_loop, names) in [(0, failing), (1, beside)] {
        assert_eq!(rig.wait(on_loop, &names)[0].outcome.status().kind, StatusKind::Media);
    }
    rig.end();
}

/// A write that bypasses the cache only reports a full disk, but the data of a cached write is
/// lost.
#[test]
#[cfg(unix)]
fn a_full_disk_loses_what_was_cached() {
    const ENOSPC: i32 = 28;
    let (scratch, script) = (Scratch::new(), Arc::new(Script::default()));
    script.error.store(ENOSPC, SeqCst);
    let opened = device(&scratch);
    let flushed = rig(&opened, &script);
    script.fails.store(true, SeqCst);
    flushed.fails(0, bare(OpKind::Flush, 0), StatusKind::Media);
    is_broken(&flushed);
    flushed.end();
    drop(opened);
    let opened = device(&scratch);
    let written = rig(&opened, &script);
    script.fails.store(true, SeqCst);
    written.fails(
        0,
        written.request(OpKind::Write { fua: true }, 0, vec![1; 512]),
        StatusKind::NoSpace,
    );
    is_broken(&written);
    written.end();
}

/// Past the cache a write answers for itself; after a failure it is not begun. Windows has no such
/// mode here.
#[test]
#[cfg(target_os = "linux")]
fn a_source_past_the_cache_stays_broken_too() {
    let (scratch, script) = (Scratch::new(), Arc::new(Script::default()));
    let Ok(device) = open(&scratch.url("size=1MiB,direct=on,block=4096"), &OpenOptions::default())
    else {
        return weft_testing::skip("this file system has no direct I/O");
    };
    let rig = rig(&device, &script);
    script.fails.store(true, SeqCst);
    rig.fails(0, bare(OpKind::Flush, 0), StatusKind::Media);
    for on_loop in 0..2 {
        rig.fails(on_loop, bare(OpKind::Flush, 0), StatusKind::Media);
        rig.fails(
            on_loop,
            rig.request(OpKind::Write { fua: true }, 0, vec![1; 4096]),
            StatusKind::Media,
        );
        rig.one(on_loop, rig.request(OpKind::Write { fua: false }, 0, vec![1; 4096]));
    }
    rig.end();
}
