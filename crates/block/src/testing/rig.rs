//! A device under test, with a queue on each of several event loops.

use super::plan::TestPlan;
use super::worker::{Command, TestOp, TestOutcome, Worker};
use crate::device::{BlockDevice, DeviceChange, Features, Geometry};
use crate::op::{OpKind, Outcome};
use crate::outcome::status::StatusKind;
use core::cell::Cell;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use weft_io::{DriverId, LoopConfig, RemoteLoop};

/// Time limit that nothing working exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Loops with a queue of one device each, driven from the test's thread.
pub struct Rig {
    device: Arc<dyn BlockDevice>,
    plan: TestPlan,
    ends: Vec<QueueUser>,
}

struct QueueUser {
    driver: DriverId,
    remote: RemoteLoop,
    commands: Sender<Command>,
    answers: Receiver<(u64, TestOutcome)>,
    next: Cell<u64>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Rig {
    /// Starts the loops and opens the queues.
    ///
    /// # Panics
    /// If that fails.
    pub fn new(device: &Arc<dyn BlockDevice>, plan: TestPlan) -> Self {
        Self::with(plan, |_| Arc::clone(device))
    }

    /// As [`Rig::new`], for a device that `make` makes when the loops are there.
    pub fn with(plan: TestPlan, make: impl FnOnce(&[RemoteLoop]) -> Arc<dyn BlockDevice>) -> Self {
        let loops: Vec<_> = (0..plan.loops).map(|index| start_loop(plan, index)).collect();
        let device = make(&loops.iter().map(|(_, remote, _)| remote.clone()).collect::<Vec<_>>());
        let ends = loops.into_iter().map(|empty| QueueUser::start(&device, empty)).collect();
        Self { device, plan, ends }
    }

    /// Plan of the tests of the device.
    pub fn plan(&self) -> TestPlan {
        self.plan
    }

    /// Loops.
    pub fn loops(&self) -> usize {
        self.ends.len()
    }

    /// The device's geometry.
    pub fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    /// The device's features.
    pub fn features(&self) -> Features {
        self.device.features()
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.geometry().block_bytes as usize
    }

    /// A request on whole blocks, as many as the data has.
    pub fn request(&self, kind: OpKind, lba: u64, data: Vec<u8>) -> TestOp {
        let blocks = data.len() / self.block_bytes() / kind.data_factor().max(1);
        TestOp { kind, lba, blocks: blocks as u32, data, cuts: Vec::new() }
    }

    /// Submits on one loop, all at once; the names of the requests.
    pub fn start(&self, on_loop: usize, requests: Vec<TestOp>) -> Vec<u64> {
        let end = &self.ends[on_loop];
        let names = requests.into_iter().map(|request| {
            let name = end.next.get();
            end.next.set(name + 1);
            let _ = end.commands.send(Command::Submit(name, request));
            name
        });
        let names = names.collect();
        end.wake();
        names
    }

    /// Waits for the answers to requests of one loop.
    ///
    /// # Panics
    /// If they do not come.
    pub fn wait(&self, on_loop: usize, names: &[u64]) -> Vec<TestOutcome> {
        let mut answers = HashMap::new();
        while names.iter().any(|name| !answers.contains_key(name)) {
            let Ok((name, answer)) = self.ends[on_loop].answers.recv_timeout(PATIENCE) else {
                let missing = names.iter().filter(|name| !answers.contains_key(*name)).count();
                panic!("{missing} of {} operations have not completed", names.len());
            };
            answers.insert(name, answer);
        }
        names.iter().filter_map(|name| answers.remove(name)).collect()
    }

    /// Submits all at once and waits.
    pub fn run(&self, on_loop: usize, requests: Vec<TestOp>) -> Vec<TestOutcome> {
        let names = self.start(on_loop, requests);
        self.wait(on_loop, &names)
    }

    /// One request, which succeeds; its memory.
    pub fn one(&self, on_loop: usize, request: TestOp) -> Vec<u8> {
        let what = format!("{:?} of {} blocks at {}", request.kind, request.blocks, request.lba);
        let answer = self.run(on_loop, vec![request]).remove(0);
        assert_eq!(answer.outcome, Outcome::SUCCESS, "{what}");
        answer.data
    }

    /// One request, which ends with this status.
    pub fn fails(&self, on_loop: usize, request: TestOp, kind: StatusKind) {
        let what = format!("{:?} of {} blocks at {}", request.kind, request.blocks, request.lba);
        let answer = self.run(on_loop, vec![request]).remove(0);
        assert_eq!(answer.outcome.status().kind, kind, "{what}");
        assert!(
            !matches!(answer.outcome, Outcome::MayHaveExecuted { .. }),
            "{what}: the outcome is known"
        );
    }

    /// Writes blocks.
    pub fn write(&self, on_loop: usize, lba: u64, data: &[u8]) {
        self.one(on_loop, self.request(OpKind::Write { fua: false }, lba, data.to_vec()));
    }

    /// Reads blocks, into memory that holds something else before.
    pub fn read(&self, on_loop: usize, lba: u64, blocks: u32) -> Vec<u8> {
        self.one(
            on_loop,
            self.request(OpKind::Read, lba, vec![0xee; blocks as usize * self.block_bytes()]),
        )
    }

    /// Returns written data as it reads: zeroes on a device that keeps nothing.
    pub fn kept(&self, data: &[u8]) -> Vec<u8> {
        if self.plan.keeps_data { data.to_vec() } else { vec![0; data.len()] }
    }

    /// Asks for a request to end early.
    pub fn cancel(&self, on_loop: usize, name: u64) {
        let _ = self.ends[on_loop].commands.send(Command::Cancel(name));
        self.ends[on_loop].wake();
    }

    /// Drops the queue of a loop with all that is in flight, opens another, and waits until all
    /// memory has come back.
    ///
    /// # Panics
    /// If it does not.
    pub fn reopen(&self, on_loop: usize) {
        let (reply, reopened) = channel();
        let _ = self.ends[on_loop].commands.send(Command::Reopen(reply));
        self.ends[on_loop].wake();
        reopened.recv_timeout(PATIENCE).expect("the memory of dropped operations comes back");
    }

    /// Waits for the next change that the device tells a queue.
    ///
    /// # Panics
    /// If there is none.
    pub fn change(&self, on_loop: usize) -> DeviceChange {
        let (reply, change) = channel();
        let _ = self.ends[on_loop].commands.send(Command::Change(reply));
        self.ends[on_loop].wake();
        change.recv_timeout(PATIENCE).expect("the device reports a change")
    }

    /// Ends the loops.
    ///
    /// # Panics
    /// If one of them failed.
    pub fn end(self) {
        for end in &self.ends {
            let _ = end.commands.send(Command::End);
            end.wake();
        }
        for end in self.ends {
            end.thread.join().expect("no loop panics").expect("no loop fails");
        }
    }
}

/// A loop on which nothing lives yet.
type EmptyLoop = ((), RemoteLoop, JoinHandle<std::io::Result<()>>);

fn start_loop(plan: TestPlan, index: usize) -> EmptyLoop {
    let config =
        LoopConfig { name: format!("rig-{index}"), disk: plan.disk, ..LoopConfig::default() };
    weft_io::event_loop::spawn(config, |_| ()).expect("a loop starts")
}

impl QueueUser {
    fn start(device: &Arc<dyn BlockDevice>, ((), remote, thread): EmptyLoop) -> Self {
        let (commands, inbox) = channel();
        let (outbox, answers) = channel();
        let (give, started) = channel();
        let device = Arc::clone(device);
        remote.post(move |on| {
            let _ = give.send(on.spawn(|id| Worker::new(&device, on, id, inbox, outbox)));
        });
        let driver = started.recv_timeout(PATIENCE).expect("a queue opens");
        Self { driver, remote, commands, answers, next: Cell::new(1), thread }
    }

    fn wake(&self) {
        let driver = self.driver;
        self.remote.post(move |on| on.wake(driver));
    }
}
