//! A file on a server that is cut elsewhere: this system has the old length until it has asked.

use super::{Access, FileDevice};
use crate::testing::{Plan, Rig};
use crate::{Device, OpKind, StatusKind, naming};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use weft_io::disk::{DiskBackend, DiskKind, DiskOp, OpenFile};
use weft_io::{Activity, Driver, DriverId, Handle};
use weft_testing::wait::until;

/// The file, and what its server is asked.
struct Server {
    path: PathBuf,
    /// It is cut by the next question after this many flushes.
    flushes: AtomicUsize,
    is_cut: AtomicBool,
    questions: AtomicUsize,
}

/// A disk that keeps nothing, of which only a question finds the new length.
struct Fake(Arc<Server>);

impl DiskBackend for Fake {
    fn submit(&self, on: &Handle, file: &Rc<OpenFile>, op: DiskOp) -> Result<(), DiskOp> {
        let (server, file) = (Arc::clone(&self.0), Rc::clone(file));
        on.spawn(move |id| {
            on.wake(id);
            Later { server, file, op: Some(op), id }
        });
        Ok(())
    }

    fn name(&self) -> &'static str {
        "fake"
    }
}

/// Ends an operation.
struct Later {
    server: Arc<Server>,
    file: Rc<OpenFile>,
    op: Option<DiskOp>,
    id: DriverId,
}

impl Driver for Later {
    fn work(&mut self, on: &Handle) -> Activity {
        let Some(op) = self.op.take() else { return Activity::Idle };
        on.remove(self.id);
        let server = &self.server;
        match op.kind {
            DiskKind::Refresh => {
                server.questions.fetch_add(1, SeqCst);
                if server.flushes.load(SeqCst) == 0 && server.is_cut.load(SeqCst) {
                    let file = File::options().write(true).open(&server.path).unwrap();
                    file.set_len(16_384).unwrap();
                }
            }
            DiskKind::Sync => {
                let left = server.flushes.load(SeqCst).saturating_sub(1);
                server.flushes.store(left, SeqCst);
            }
            _ => {}
        }
        self.file.complete(on, op, Ok(()));
        Activity::Busy
    }
}

impl Server {
    /// A file of 1 MiB that is cut after some flushes.
    fn new(name: &str, flushes: usize) -> Arc<Self> {
        let name = format!("weft-block-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        Arc::new(Self {
            path,
            flushes: AtomicUsize::new(flushes),
            is_cut: AtomicBool::new(false),
            questions: AtomicUsize::new(0),
        })
    }

    fn device(&self, is_remote: bool) -> Device {
        let rest = format!("{},size=1MiB,direct=off", self.path.display());
        let names = naming::of_this_process();
        let access = Access { read_only: false, shared: false, created: None, names };
        let opened = FileDevice::open(&format!("file:{rest}"), &rest, &access);
        let mut device = opened.unwrap_or_else(|e| panic!("{e}"));
        Arc::get_mut(&mut device.0).unwrap().is_remote = is_remote;
        Arc::new(device)
    }

    fn rig(self: &Arc<Self>, device: &Device) -> Rig {
        Rig::with(Plan { loops: 2, ..Plan::default() }, |loops| {
            for one in loops {
                let server = Arc::clone(self);
                one.post(move |on| on.disk().set_backend(Rc::new(Fake(server))));
            }
            Arc::clone(device)
        })
    }

    fn questions(&self) -> usize {
        self.questions.load(SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn a_flush_waits_for_the_length_that_the_server_has() {
    let server = Server::new("flush", 2);
    let device = server.device(true);
    let rig = server.rig(&device);
    let flush = || rig.request(OpKind::Flush, 0, vec![]);
    let before = server.questions();
    rig.one(0, flush());
    assert!(server.questions() > before);
    server.is_cut.store(true, SeqCst);
    rig.fails(1, flush(), StatusKind::Media);
    assert!(device.trouble().unwrap().contains("cut to 16384 bytes"));
    rig.fails(0, flush(), StatusKind::Media);
    rig.end();
}

#[test]
fn a_cut_elsewhere_is_noticed_without_any_operation() {
    let server = Server::new("look", 0);
    let device = server.device(true);
    let rig = server.rig(&device);
    assert_eq!(device.trouble(), None);
    server.is_cut.store(true, SeqCst);
    until("the cut is noticed", || device.trouble().is_some());
    rig.end();
}

#[test]
fn nobody_is_asked_for_a_file_of_this_machine() {
    let server = Server::new("local", 0);
    let device = server.device(false);
    let rig = server.rig(&device);
    for on_loop in [0, 1, 0] {
        rig.one(on_loop, rig.request(OpKind::Flush, 0, vec![]));
    }
    rig.end();
    assert_eq!(server.questions(), 0);
}
