//! A host that uses what others serve: it opens a device, runs its workloads on it, and opens
//! another one when the device is lost.

use crate::config::Config;
use crate::every_run::{control, loops};
use crate::journal::SimJournal;
use crate::oracle::Oracle;
use crate::scene::Scene;
use crate::workload::{self, Shared, SharedWorkload, WorkloadPlan};
use core::cell::RefCell;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::{Device, Opening};
use weft_endpoint::ConnectOptions;
use weft_endpoint::identity::Identities;
use weft_endpoint::settle::{LateWriter, LateWrites, Stopping, Watch};
use weft_io::Time;
use weft_io::sim::{HostId, LoopId, Rng, World};

/// Longest pause before a device is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// Returns the address of the `n`th one.
pub fn address(n: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 1, n as u8 + 1).into()
}

/// What it does at present.
enum State {
    /// No process runs.
    Down,
    Waiting(Time),
    Opening(Pin<Box<Opening>>),
    /// What a process before has left is stopped, or waited for.
    TakingOver(Device, Stopping, Time),
    Open(Device),
    Closed,
}

/// A host with workloads.
pub struct SimInitiator {
    /// For the journal.
    pub name: String,
    /// The host.
    pub host: HostId,
    /// Its names.
    pub identities: Identities,
    control_loop: LoopId,
    io_loops: Vec<LoopId>,
    /// What its process keeps for the next one, as a disk of this system does.
    kept: Arc<Lock<LateWrites>>,
    /// Keeps that.
    watch: Option<Watch>,
    /// By I/O loop.
    pub workloads: Vec<Shared>,
    urls: Vec<String>,
    options: ConnectOptions,
    state: State,
    rng: Rng,
    /// Devices opened so far.
    pub opened: u64,
}

impl SimInitiator {
    /// The `n`th initiator, which reaches its blocks by any of these URLs.
    pub fn new(
        world: &mut World,
        n: usize,
        config: &Config,
        options: ConnectOptions,
        oracle: &Rc<RefCell<Oracle>>,
        journal: &SimJournal,
        mut rng: Rng,
    ) -> Self {
        let name = format!("initiator-{n}");
        let host = world.host(&address(n).to_string());
        let mut io_loops = loops(world, host, 1 + config.queues);
        let control_loop = io_loops.remove(0);
        let identities = Identities::seeded(rng.bits());
        let control = control(world, control_loop, identities.clone());
        let (per_queue, overlap) = (config.blocks_per_queue() * config.units(), config.overlap);
        let own = per_queue * config.queues as u32;
        let first = u64::from(own) * n as u64;
        let workloads = (0..config.queues).map(|q| {
            let plan = WorkloadPlan {
                name: format!("{name}/{q}"),
                host: n,
                first: if overlap { 0 } else { first + u64::from(per_queue) * q as u64 },
                slots: config.slots,
                slot_units: config.slot_blocks * config.units(),
                overlap,
                flushes: if overlap { (0, config.blocks() * config.units()) } else { (first, own) },
                is_cached: config.volatile,
                think: config.think,
                is_taken_over: config.scene == Scene::TakenOver,
                may_fail: true,
            };
            SharedWorkload::new(plan, config.operations, rng.fork(), oracle, journal)
        });
        Self {
            workloads: workloads.collect(),
            name,
            host,
            identities,
            control_loop,
            io_loops,
            kept: Arc::default(),
            watch: None,
            urls: Vec::new(),
            options: ConnectOptions { control, ..options },
            state: State::Waiting(Time::ZERO),
            rng,
            opened: 0,
        }
    }

    /// Gives it the URLs that lead to its blocks.
    pub fn set_urls(&mut self, urls: Vec<String>) {
        self.urls = urls;
    }

    /// Goes on: opens, starts workloads, notices that a device is lost.
    pub fn look_after(&mut self, world: &mut World, journal: &SimJournal) {
        match &mut self.state {
            State::Waiting(until) if *until <= world.now() => self.open(journal),
            State::Opening(opening) => {
                match opening.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(device)) => self.take_over(world, device, journal),
                    Poll::Ready(Err(e)) => {
                        journal.tell(&self.name, format_args!("cannot open: {e}"));
                        self.wait(world);
                    }
                }
            }
            State::TakingOver(device, stopping, until)
                if stopping.wait(Duration::ZERO) || *until <= world.now() =>
            {
                let device = Arc::clone(device);
                journal.tell(&self.name, format_args!("takes over"));
                self.run(world, device, journal);
            }
            State::Open(device) => {
                let idle = self.workloads.iter().all(|it| !it.borrow().running);
                let lost = self.workloads.iter().any(|it| it.borrow().lost);
                if lost {
                    self.workloads.iter().for_each(|it| it.borrow_mut().lost = true);
                }
                if idle && lost {
                    self.wait(world);
                } else if idle && self.workloads.iter().any(|it| it.borrow().left > 0) {
                    let device = device.clone();
                    self.run(world, device, journal);
                }
            }
            _ => {}
        }
    }

    fn wait(&mut self, world: &World) {
        let pause = Duration::from_nanos(self.rng.within(0, REOPEN.as_nanos() as u64));
        self.state = State::Waiting(world.now() + pause);
    }

    fn open(&mut self, journal: &SimJournal) {
        let url = self.rng.pick(&self.urls);
        journal.tell(&self.name, format_args!("opens {url}"));
        let opening =
            weft_endpoint::begin(url, &self.options).unwrap_or_else(|e| Opening::ready(Err(e)));
        self.state = State::Opening(Box::pin(opening));
    }

    /// Goes on with a device, when nothing of a process before this one is executed any more.
    fn take_over(&mut self, world: &World, device: Device, journal: &SimJournal) {
        if self.watch.is_some() {
            return self.run(world, device, journal);
        }
        let kept = self.kept.lock();
        let stopping = self.options.control.late_writers().stop(&kept);
        let until = world.now() + kept.bound();
        self.state = State::TakingOver(device, stopping, until);
    }

    /// Starts the workloads on a device.
    fn run(&mut self, world: &World, device: Device, journal: &SimJournal) {
        self.opened += 1;
        self.keep(&device);
        journal.tell(&self.name, format_args!("has {}", device.url()));
        for (id, workload) in self.io_loops.iter().zip(&self.workloads) {
            if workload.borrow().is_over() {
                continue;
            }
            if let Err(e) = workload::start(&world.handle(*id), device.as_ref(), workload) {
                journal.tell(&self.name, format_args!("gets no queue: {e}"));
                workload.borrow_mut().lost = true;
            }
        }
        self.state = State::Open(device);
    }

    /// Keeps what the next process has to know.
    fn keep(&mut self, device: &Device) {
        let kept = Arc::clone(&self.kept);
        *kept.lock() = LateWrites::of(device.as_ref());
        let watcher = Box::new(move |all: &[LateWriter]| {
            kept.lock().late_writers = all.to_vec();
        });
        self.watch = Some(self.options.control.late_writers().watch(watcher));
    }

    /// Its process ends at once; whether there was one.
    pub fn kill(&mut self, world: &mut World, journal: &SimJournal) -> bool {
        if matches!(self.state, State::Down | State::Closed) {
            return false;
        }
        journal.tell(&self.name, format_args!("is killed"));
        // What it keeps, it has kept.
        self.watch = None;
        self.state = State::Down;
        world.kill(self.host);
        self.workloads.iter().for_each(|it| it.borrow_mut().left_to_next());
        true
    }

    /// A process starts, and takes over.
    pub fn start(&mut self, world: &mut World) {
        self.io_loops = loops(world, self.host, 1 + self.io_loops.len());
        self.control_loop = self.io_loops.remove(0);
        self.options.control = control(world, self.control_loop, self.identities.clone());
        self.state = State::Waiting(world.now());
    }

    /// Returns whether all workloads are done.
    pub fn is_over(&self) -> bool {
        self.workloads.iter().all(|it| it.borrow().is_over() && !it.borrow().running)
    }

    /// Has every block read once more.
    pub fn begin_sweep(&mut self) {
        self.workloads.iter().for_each(|it| it.borrow_mut().begin_sweep());
    }

    /// Lets go of the device.
    pub fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Returns a text with the remains on its loops.
    pub fn remains(&self, world: &World) -> Option<String> {
        let (drivers, bytes) = self.left(world);
        (drivers > 0 || bytes > 0)
            .then(|| format!("{drivers} drivers and {bytes} bytes of memory on {}", self.name))
    }

    /// Drivers and memory on its loops.
    fn left(&self, world: &World) -> (usize, usize) {
        let loops = || self.io_loops.iter().chain([&self.control_loop]).map(|&id| world.handle(id));
        (loops().map(|on| on.live_drivers()).sum(), loops().map(|on| on.pool().taken_bytes()).sum())
    }

    /// All its loops.
    pub fn loops(&self) -> impl Iterator<Item = LoopId> {
        self.io_loops.iter().copied().chain([self.control_loop])
    }
}
