use super::*;
use crate::testing::{Plan, Rig, conformance};
use crate::{Change, Completion, Op, OpKind, OpenOptions, StatusKind, open};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::JoinHandle;
use weft_io::{LoopConfig, Remote};

/// A device that grants one queue, and tells of a change when asked to.
struct Single {
    inner: Device,
    open: Arc<AtomicUsize>,
    change: Arc<Mutex<Option<Change>>>,
}

struct SingleQueue {
    inner: Box<dyn BlockQueue>,
    open: Arc<AtomicUsize>,
    change: Arc<Mutex<Option<Change>>>,
}

impl BlockDevice for Single {
    fn url(&self) -> &str {
        self.inner.url()
    }
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn max_queues(&self) -> usize {
        1
    }
    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        assert_eq!(self.open.fetch_add(1, Ordering::SeqCst), 0, "there is one queue");
        let inner = self.inner.open_queue(on, owner)?;
        Ok(Box::new(SingleQueue { inner, open: Arc::clone(&self.open), change: Arc::clone(&self.change) }))
    }
}

impl BlockQueue for SingleQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.inner.submit(ops);
    }
    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.inner.reap(done);
    }
    fn cancel(&mut self, user: u64) {
        self.inner.cancel(user);
    }
    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
    fn change(&mut self) -> Option<Change> {
        self.change.lock().unwrap().take()
    }
}

impl Drop for SingleQueue {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A mailbox on a loop of its own.
struct Host {
    device: Arc<dyn BlockDevice>,
    open: Arc<AtomicUsize>,
    change: Arc<Mutex<Option<Change>>>,
    remote: Remote,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Host {
    fn new(url: &str) -> Self {
        let (open_queues, change) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
        let inner = open(url, &OpenOptions::default()).unwrap();
        let single = Arc::new(Single { inner, open: Arc::clone(&open_queues), change: Arc::clone(&change) });
        let setup = move |on: &Handle| Mailbox::open(single, on).unwrap();
        let (device, remote, thread) = weft_io::event_loop::spawn(LoopConfig::default(), setup).unwrap();
        Self { device, open: open_queues, change, remote, thread }
    }

    fn stop(&self) {
        self.remote.post(|on| on.stop());
    }
}

#[test]
fn two_loops_share_one_queue() {
    for (block, loops) in [(512, 1), (4096, 2)] {
        let host = Host::new(&format!("ram:16MiB,block={block}"));
        conformance(&host.device, Plan { loops, ..Plan::default() });
        assert_eq!(host.open.load(Ordering::SeqCst), 1);
        // The last who lets go of the mailbox ends the keeper, and with it the queue.
        let Host { device, open, remote, thread, .. } = host;
        drop(device);
        while open.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        remote.post(|on| {
            assert_eq!(on.live_drivers(), 0);
            on.stop();
        });
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn what_the_keeper_takes_with_it_completes_all_the_same() {
    let host = Host::new("error:rate=1,kind=timeout,ops=read,ram:16MiB");
    let rig = Rig::new(&host.device, Plan::default());
    let reads = rig.start(0, (0..3).map(|n| rig.request(OpKind::Read, n, vec![0; 512])).collect());
    rig.write(0, 9, &[1; 512]);
    host.stop();
    for answer in rig.wait(0, &reads) {
        assert!(matches!(answer.outcome, crate::Outcome::MayHaveExecuted(status) if status.kind == StatusKind::Gone));
    }
    host.thread.join().unwrap().unwrap();
    let late = rig.run(0, vec![rig.request(OpKind::Write { fua: false }, 9, vec![2; 512])]).remove(0);
    assert!(matches!(late.outcome, crate::Outcome::NotSent(status) if status.kind == StatusKind::Gone));
    rig.end();
}

#[test]
fn every_queue_is_told_of_changes() {
    let host = Host::new("ram:16MiB");
    let rig = Rig::new(&host.device, Plan { loops: 2, ..Plan::default() });
    // The keeper knows a queue by the time it has answered it.
    (0..2).for_each(|on_loop| drop(rig.read(on_loop, 0, 1)));
    *host.change.lock().unwrap() = Some(Change::Resized { blocks: 77 });
    rig.read(0, 0, 1);
    for on_loop in 0..2 {
        assert_eq!(rig.change(on_loop), Change::Resized { blocks: 77 });
    }
    rig.end();
}
