//! Who asks for what: one host after the other connects, asks, looks whether it may write, and leaves.

use super::iscsi::Initiator;
use super::known::Known;
use super::link::{Lost, Place};
use super::model::{Action, Answer, KINDS, State, Who};
use super::nvme::NvmeHost;
use super::{BLOCK, Ended};
use crate::journal::Journal;
use crate::store::Store;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use weft_endpoint::identity::HostIdentity;
use weft_io::sim::{LoopId, Rng, World};
use weft_io::{Activity, Driver, Handle, LoopConfig};
use weft_proto::nvme::types::Nqn;

/// Longest pause between two hosts.
const PAUSE: Duration = Duration::from_millis(1200);

/// A host is given up that has not done everything within this time.
const VISIT: Duration = Duration::from_secs(4);

/// For controllers of hosts that went silent.
const KEEP_ALIVE_MS: u32 = 5000;

/// For messages.
const NAME: &str = "reserving";

/// By what a host asks.
enum Way {
    Nvme(HostIdentity),
    Iscsi(String),
}

/// What the hosts ask, and of whom.
pub struct Stage {
    /// The NVMe/TCP port of the target.
    pub nvme: SocketAddr,
    /// Its iSCSI port.
    pub iscsi: SocketAddr,
    /// The subsystem.
    pub subsystem: Nqn,
    /// The iSCSI target.
    pub target: String,
    /// Initiators with workloads that are NVMe hosts; the first `n` hosts ask in their names.
    pub hosts: Vec<HostIdentity>,
    /// Another host.
    pub stranger: HostIdentity,
    /// The blocks that each of the initiators has, first and number.
    pub blocks: Vec<(u64, u64)>,
    /// The first block that nobody has.
    pub free: u64,
    /// The store.
    pub store: Arc<Store>,
}

/// The hosts that reserve.
pub struct Reserving {
    on: LoopId,
    stopping: Rc<Cell<bool>>,
    over: Rc<Cell<bool>>,
}

impl Reserving {
    /// Starts them on a host of their own.
    pub fn start(world: &mut World, stage: Stage, known: &Rc<RefCell<Known>>, journal: &Journal, rng: Rng) -> Self {
        let host = world.host("10.0.3.1");
        let on = world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
        let (stopping, over) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let mut ways: Vec<_> = stage.hosts.iter().chain([&stage.stranger]).cloned().map(Way::Nvme).collect();
        ways.push(Way::Iscsi("iqn.2026-01.example.weft:reserving".into()));
        let (stops, ends) = (Rc::clone(&stopping), Rc::clone(&over));
        let (known, journal) = (Rc::clone(known), journal.clone());
        let handle = world.handle(on);
        let driver = handle.spawn(|driver| {
            let place = Place { on: handle.clone(), driver };
            let script = Script { place, stage, ways, known, journal, rng, stopping: stops, written: 0 };
            Runner { over: ends, script: Box::pin(script.play()) }
        });
        handle.wake(driver);
        Self { on, stopping, over }
    }

    /// From now on nothing new is reserved, and what there is is cleared.
    pub fn stop(&self) {
        self.stopping.set(true);
    }

    /// Whether everything is cleared.
    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Drivers that are left.
    pub fn left(&self, world: &World) -> usize {
        world.handle(self.on).live_drivers()
    }
}

struct Runner {
    over: Rc<Cell<bool>>,
    script: Pin<Box<dyn Future<Output = ()>>>,
}

impl Driver for Runner {
    fn work(&mut self, on: &Handle) -> Activity {
        if !self.over.get() && self.script.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.over.set(true);
        }
        let _ = on;
        Activity::Idle
    }
}

/// One host's connection.
enum Host {
    Nvme(NvmeHost),
    Iscsi(Initiator),
}

const fn key(who: Who) -> u64 {
    0x1000 + who as u64
}

impl Host {
    async fn reserve(&mut self, who: Who, action: Action) -> Result<Ended, Lost> {
        match self {
            Self::Nvme(host) => host.reserve(action, key(who), key).await,
            Self::Iscsi(initiator) => initiator.reserve(action, key(who), key).await,
        }
    }

    async fn write(&mut self, lba: u64, content: &[u8; BLOCK]) -> Result<Ended, Lost> {
        match self {
            Self::Nvme(host) => host.write(lba, content).await,
            Self::Iscsi(initiator) => initiator.write(lba, content).await,
        }
    }
}

struct Script {
    place: Place,
    stage: Stage,
    ways: Vec<Way>,
    known: Rc<RefCell<Known>>,
    journal: Journal,
    rng: Rng,
    stopping: Rc<Cell<bool>>,
    /// Writes so far, by which each is another one.
    written: u64,
}

impl Script {
    async fn play(mut self) {
        while !self.stopping.get() || self.known.borrow().certain().is_none_or(|state| !state.is_empty()) {
            let pause = Duration::from_nanos(self.rng.within(0, PAUSE.as_nanos() as u64));
            self.place.sleep_until(self.place.on.now() + pause).await;
            let who = self.rng.below(self.ways.len() as u64) as Who;
            if self.visit(who).await.is_err() {
                self.note(format_args!("host {who} is lost"));
            }
        }
    }

    fn note(&self, what: core::fmt::Arguments<'_>) {
        self.journal.note(self.place.on.now(), NAME, what);
    }

    async fn visit(&mut self, who: Who) -> Result<(), Lost> {
        let limit = self.place.on.now() + VISIT;
        let stage = &self.stage;
        let mut host = match &self.ways[who] {
            Way::Nvme(host) => {
                Host::Nvme(NvmeHost::open(&self.place, stage.nvme, host, &stage.subsystem, KEEP_ALIVE_MS, limit).await?)
            }
            Way::Iscsi(name) => Host::Iscsi(Initiator::open(&self.place, stage.iscsi, name, &stage.target, limit).await?),
        };
        if self.stopping.get() {
            self.ask(&mut host, who, Action::Register).await?;
            return self.ask(&mut host, who, Action::Clear).await;
        }
        for _ in 0..self.rng.within(1, 3) {
            let action = self.draw(who);
            self.ask(&mut host, who, action).await?;
        }
        if self.rng.one_in(2) {
            self.probe(&mut host, who).await?;
        }
        Ok(())
    }

    fn draw(&mut self, who: Who) -> Action {
        let idle = matches!(self.ways[who], Way::Iscsi(_));
        let is_registered = self.known.borrow().states().iter().any(|state| state.is_registered(who));
        if !is_registered && !self.rng.one_in(8) {
            return Action::Register;
        }
        let kind = *self.rng.pick(&KINDS);
        match self.rng.below(12) {
            0 => Action::Register,
            1 => Action::Unregister { idle },
            2..=5 => Action::Acquire(kind),
            6 => Action::Clear,
            7 => Action::Release(kind),
            _ => {
                let victim = (who + self.rng.within(1, self.ways.len() as u64 - 1) as usize) % self.ways.len();
                Action::Preempt { victim, kind, abort: self.rng.one_in(2) }
            }
        }
    }

    /// Has one command executed, and learns from the answer.
    async fn ask(&mut self, host: &mut Host, who: Who, action: Action) -> Result<(), Lost> {
        let before = self.known.borrow().certain().cloned();
        self.known.borrow_mut().begin(who, action, self.place.on.now());
        self.note(format_args!("host {who} asks: {action:?}"));
        let ended = host.reserve(who, action).await;
        self.note(format_args!("host {who} is answered: {ended:?}"));
        let now = self.place.on.now();
        let answer = match ended {
            Ok(Ended::Done) => Some(Answer::Done),
            Ok(Ended::Conflict) => Some(Answer::Conflict),
            Ok(Ended::Invalid) => Some(Answer::Invalid),
            Ok(Ended::NotExecuted) => {
                self.known.borrow_mut().not_executed();
                return Ok(());
            }
            Err(_) => None,
        };
        if let Err(text) = self.known.borrow_mut().end(answer, now) {
            self.journal.violation(text);
        }
        if let (Some(before), Some(Answer::Done), Action::Preempt { victim, abort: true, .. }) = (before, answer, action) {
            self.check_aborted(&before, victim);
        }
        ended.map(drop)
    }

    /// A host was preempted whose commands are aborted, and may write no more: the disk has none of its writes when that is answered.
    fn check_aborted(&self, before: &State, victim: Who) {
        let known = self.known.borrow();
        let is_out = known.certain().is_some_and(|after| !after.allows(Some(victim), true));
        let Some((first, count)) = self.stage.blocks.get(victim).filter(|_| is_out && before.is_registered(victim)) else {
            return;
        };
        if let Some(lba) = self.stage.store.held_write(*first..*first + *count, self.place.on.now()) {
            let text = format!(
                "initiator-{victim} was preempted and its commands aborted, but the disk still has its write to block {lba}"
            );
            self.journal.violation(text);
        }
    }

    /// Writes to a block of its own: that is done, or refused and not done.
    async fn probe(&mut self, host: &mut Host, who: Who) -> Result<(), Lost> {
        let lba = self.stage.free + who as u64;
        self.written += 1;
        let mut content = [0; BLOCK];
        crate::stamp::write(&mut content, lba, self.written);
        let mark = self.known.borrow().mark();
        let ended = host.write(lba, &content).await?;
        self.note(format_args!("host {who} writes: {ended:?}"));
        let fate = self.known.borrow().fate(mark, Some(who), true);
        let is_there = self.stage.store.peek(lba, self.place.on.now()) == content;
        let text = match ended {
            Ended::Done if !fate.executed => "was executed though a reservation forbids it",
            Ended::Conflict if !fate.refused => "was refused though no reservation forbids it",
            Ended::Conflict if is_there => "was refused, and executed",
            _ => return Ok(()),
        };
        self.journal.violation(format!("a write of host {who} {text}: {:?}", self.known.borrow().states()));
        Ok(())
    }
}
