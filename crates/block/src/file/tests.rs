//! A file on a server that is cut elsewhere: this system has the old length until it has asked.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::{path::PathBuf, sync::Arc};

use weft_base::lock::Lock;
use weft_testing::wait::until;

use super::{FileAccess, FileDevice, open, system};
use crate::{
    Device, OpKind, StatusKind,
    testing::{Rig, TestPlan},
    url::naming,
};

/// The file, and how its server answers.
struct Server {
    path: PathBuf,
    /// Held while the server hangs.
    gate: Lock<()>,
    is_cut: AtomicBool,
    questions: AtomicUsize,
}

impl Server {
    /// A file of 1 MiB.
    fn new(name: &str) -> Arc<Self> {
        let name = format!("weft-block-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let (gate, is_cut, questions) = Default::default();
        Arc::new(Self { path, gate, is_cut, questions })
    }

    /// Opens the file, which no other device has.
    fn device(self: &Arc<Self>) -> Device {
        let rest = format!("{},size=1MiB,direct=off", self.path.display());
        let url = format!("file:{rest}");
        let names = naming::of_this_process();
        let access = FileAccess { read_only: false, shared: false, created: None, names };
        let opened = open::open(&url, &rest, &access).unwrap_or_else(|e| panic!("{e}"));
        let mut question = system::question(&opened.file).unwrap();
        let server = Arc::clone(self);
        let ask = move || {
            server.questions.fetch_add(1, SeqCst);
            drop(server.gate.lock());
            if server.is_cut.load(SeqCst) { Ok(16_384) } else { question() }
        };
        Arc::new(FileDevice::new(&url, opened, false, Some(Box::new(ask))).unwrap())
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
fn a_flush_alone_waits_for_the_length_that_the_server_has() {
    let server = Server::new("flush");
    let device = server.device();
    let rig = Rig::new(&device, TestPlan { loops: 2, ..TestPlan::default() });
    let flush = || rig.request(OpKind::Flush, 0, vec![]);
    let before = server.questions();
    rig.one(0, flush());
    assert!(server.questions() > before);
    let hangs = server.gate.lock();
    let flushes = rig.start(0, vec![flush(), flush()]);
    let data = vec![7; rig.block_bytes()];
    rig.write(1, 1, &data);
    assert_eq!(rig.read(1, 1, 1), data);
    server.is_cut.store(true, SeqCst);
    drop(hangs);
    for answer in rig.wait(0, &flushes) {
        assert_eq!(answer.outcome.status().kind, StatusKind::Media);
    }
    assert!(device.trouble().unwrap().contains("cut to 16384 bytes"));
    rig.fails(1, flush(), StatusKind::Media);
    rig.end();
}

#[test]
fn a_cut_elsewhere_is_noticed_without_any_operation() {
    let server = Server::new("look");
    let device = server.device();
    let asked = server.questions();
    until("the server is asked", || server.questions() > asked + 1);
    assert_eq!(device.trouble(), None);
    server.is_cut.store(true, SeqCst);
    until("the cut is noticed", || device.trouble().is_some());
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_hangs_does_not_keep_the_lock_of_a_closed_file() {
    let server = Server::new("lock");
    let hangs = server.gate.lock();
    let device = server.device();
    until("the server is asked", || server.questions() > 0);
    drop(device);
    drop(server.device());
    drop(hangs);
}
