//! Script of requests: one host after the other connects, asks, checks whether it may write, and
//! leaves.

use super::environment::ReservingEnvironment;
use super::iscsi::IscsiSession;
use super::known_reservations::KnownReservations;
use super::link::{PollingDriver, StreamLost};
use super::model::{KINDS, ModelAction, ModelAnswer, ModelState, Who};
use super::nvme::NvmeHost;
use super::{BLOCK, Ended};
use crate::journal::SimJournal;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use std::rc::Rc;
use weft_endpoint::identity::HostIdentity;
use weft_io::sim::{LoopId, Rng, World};
use weft_io::{Activity, Driver, Handle, LoopConfig};

/// Longest pause between two hosts.
const PAUSE: Duration = Duration::from_millis(1200);

/// For messages.
const NAME: &str = "reserving";

/// By what a host asks.
pub(super) enum Way {
    Nvme(HostIdentity),
    Iscsi(String),
}

/// The hosts that reserve.
pub struct Reserving {
    on: LoopId,
    stopping: Rc<Cell<bool>>,
    over: Rc<Cell<bool>>,
}

impl Reserving {
    /// Starts them on a host of their own, the `n`th where several do this at a time.
    pub fn start(
        world: &mut World,
        (n, environment): (u64, ReservingEnvironment),
        known: &Rc<RefCell<KnownReservations>>,
        journal: &SimJournal,
        rng: Rng,
    ) -> Self {
        Self::run(world, (n, environment), known, journal, rng, Script::play)
    }

    /// Makes sure that all gateways of a group report and do the same, and that nothing is
    /// reserved.
    pub fn settle(
        world: &mut World,
        (n, environment): (u64, ReservingEnvironment),
        known: &Rc<RefCell<KnownReservations>>,
        journal: &SimJournal,
        rng: Rng,
    ) -> Self {
        Self::run(world, (n, environment), known, journal, rng, Script::settle)
    }

    fn run<F: Future<Output = ()> + 'static>(
        world: &mut World,
        (n, environment): (u64, ReservingEnvironment),
        known: &Rc<RefCell<KnownReservations>>,
        journal: &SimJournal,
        rng: Rng,
        play: fn(Script) -> F,
    ) -> Self {
        let host = world.host(&format!("10.0.3.{}", n + 1));
        let on =
            world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
        let (stopping, over) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let mut ways: Vec<_> = environment
            .hosts
            .iter()
            .chain([&environment.stranger])
            .cloned()
            .map(Way::Nvme)
            .collect();
        ways.push(Way::Iscsi("iqn.2026-01.example.weft:reserving".into()));
        let (stops, ends) = (Rc::clone(&stopping), Rc::clone(&over));
        let (known, journal) = (Rc::clone(known), journal.clone());
        let handle = world.handle(on);
        let driver = handle.spawn(|driver| {
            let place = PollingDriver { on: handle.clone(), driver };
            let script = Script {
                place,
                n,
                environment,
                ways,
                known,
                journal,
                rng,
                stopping: stops,
                written: n << 32,
            };
            Runner { over: ends, script: Box::pin(play(script)) }
        });
        handle.wake(driver);
        Self { on, stopping, over }
    }

    /// From now on nothing new is reserved, and what there is is cleared.
    pub fn stop(&self) {
        self.stopping.set(true);
    }

    /// Returns whether everything is cleared.
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
        if !self.over.get()
            && self.script.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        {
            self.over.set(true);
        }
        let _ = on;
        Activity::Idle
    }
}

/// One host's connection to a target, or to a gateway of a group.
pub(super) struct Host {
    who: Who,
    gateway: usize,
    link: Protocol,
}

enum Protocol {
    Nvme(NvmeHost),
    Iscsi(IscsiSession),
}

const fn key(who: Who) -> u64 {
    0x1000 + who as u64
}

const fn who_of(key: u64) -> Who {
    key as usize - 0x1000
}

impl Host {
    async fn reserve(&mut self, action: ModelAction) -> Result<Ended, StreamLost> {
        match &mut self.link {
            Protocol::Nvme(host) => host.reserve(action, key(self.who), key).await,
            Protocol::Iscsi(initiator) => initiator.reserve(action, key(self.who), key).await,
        }
    }

    pub(super) async fn write(
        &mut self,
        lba: u64,
        content: &[u8; BLOCK],
    ) -> Result<Ended, StreamLost> {
        match &mut self.link {
            Protocol::Nvme(host) => host.write(lba, content).await,
            Protocol::Iscsi(initiator) => initiator.write(lba, content).await,
        }
    }
}

pub(super) struct Script {
    pub(super) place: PollingDriver,
    /// Which one it is of several.
    n: u64,
    pub(super) environment: ReservingEnvironment,
    pub(super) ways: Vec<Way>,
    pub(super) known: Rc<RefCell<KnownReservations>>,
    pub(super) journal: SimJournal,
    rng: Rng,
    stopping: Rc<Cell<bool>>,
    /// Writes so far, by which each is another one.
    written: u64,
}

impl Script {
    async fn play(mut self) {
        let is_group = self.environment.is_group();
        while !self.stopping.get()
            || !is_group && self.known.borrow().certain().is_none_or(|state| !state.is_empty())
        {
            let pause = Duration::from_nanos(self.rng.within(0, PAUSE.as_nanos() as u64));
            self.place.sleep_until(self.place.on.now() + pause).await;
            let who = self.rng.below(self.ways.len() as u64) as Who;
            if self.visit(who).await.is_err() {
                self.note(format_args!("host {who} is lost"));
            }
        }
    }

    pub(super) fn note(&self, what: core::fmt::Arguments<'_>) {
        self.journal.note(self.place.on.now(), NAME, what);
    }

    /// Connects a host to a gateway.
    pub(super) async fn open(&self, who: Who, gateway: usize) -> Result<Host, StreamLost> {
        let (environment, (nvme, iscsi)) = (&self.environment, self.environment.doors[gateway]);
        let (visit, keep_alive_ms) = environment.visit();
        let limit = self.place.on.now() + visit;
        let link = match &self.ways[who] {
            Way::Nvme(host) => Protocol::Nvme(
                NvmeHost::open(
                    &self.place,
                    nvme,
                    host,
                    &environment.subsystem,
                    keep_alive_ms,
                    limit,
                )
                .await?,
            ),
            Way::Iscsi(name) => Protocol::Iscsi(
                IscsiSession::open(
                    &self.place,
                    iscsi,
                    (name, &environment.target),
                    environment.is_group(),
                    limit,
                )
                .await?,
            ),
        };
        Ok(Host { who, gateway, link })
    }

    async fn visit(&mut self, who: Who) -> Result<(), StreamLost> {
        // One target is not drawn, so that the seeds of its scene keep their histories.
        let gateway = if self.environment.doors.len() > 1 {
            self.rng.below(self.environment.doors.len() as u64) as usize
        } else {
            0
        };
        let mut host = self.open(who, gateway).await?;
        if self.stopping.get() && !self.environment.is_group() {
            self.ask(&mut host, ModelAction::Register).await?;
            return self.ask(&mut host, ModelAction::Clear).await;
        }
        for _ in 0..self.rng.within(1, 3) {
            let action = self.draw(who);
            self.ask(&mut host, action).await?;
        }
        if self.environment.is_group() && self.rng.one_in(2) {
            self.report(&mut host).await?;
        }
        if self.rng.one_in(2) {
            self.probe(&mut host).await?;
        }
        Ok(())
    }

    fn draw(&mut self, who: Who) -> ModelAction {
        let idle = matches!(self.ways[who], Way::Iscsi(_));
        let is_registered =
            self.known.borrow().states().iter().any(|state| state.is_registered(who));
        if !is_registered && !self.rng.one_in(8) {
            return ModelAction::Register;
        }
        let kind = *self.rng.pick(&KINDS);
        match self.rng.below(12) {
            0 => ModelAction::Register,
            1 => ModelAction::Unregister { idle },
            2..=5 => ModelAction::Acquire(kind),
            6 => ModelAction::Clear,
            7 => ModelAction::Release(kind),
            _ => {
                let victim = (who + self.rng.within(1, self.ways.len() as u64 - 1) as usize)
                    % self.ways.len();
                ModelAction::Preempt { victim, kind, abort: self.rng.one_in(2) }
            }
        }
    }

    /// Has one command executed, and learns from the answer.
    pub(super) async fn ask(
        &mut self,
        host: &mut Host,
        action: ModelAction,
    ) -> Result<(), StreamLost> {
        let Host { who, gateway, .. } = *host;
        let (before, mark) = (self.known.borrow().certain().cloned(), self.known.borrow().mark());
        let command = self.known.borrow_mut().begin(who, action, (gateway, self.place.on.now()));
        self.note(format_args!("host {who} asks gateway {gateway}: {action:?}"));
        let ended = host.reserve(action).await;
        self.note(format_args!("host {who} is answered: {ended:?}"));
        let answer = match ended {
            Ok(Ended::Done) => Some(ModelAnswer::Done),
            Ok(Ended::Conflict) => Some(ModelAnswer::Conflict),
            Ok(Ended::Invalid) => Some(ModelAnswer::Invalid),
            Ok(Ended::NotExecuted) => {
                self.known.borrow_mut().not_executed(command);
                return Ok(());
            }
            Ok(Ended::Unknown) | Err(_) => None,
        };
        let was_alone = self.known.borrow().is_newest(command);
        self.learn(command, answer.clone());
        if let (Some(ModelAnswer::Done), ModelAction::Preempt { victim, abort: true, .. }) =
            (answer, action)
        {
            let was_there = before.is_some_and(|before| before.is_registered(victim));
            if was_there || was_alone && self.environment.is_group() {
                self.check_aborted(victim, mark);
            }
        }
        ended.map(drop)
    }

    /// Has the state reported, which only an NVMe host can.
    pub(super) async fn report(
        &mut self,
        host: &mut Host,
    ) -> Result<Option<(u32, ModelState)>, StreamLost> {
        let Host { who, gateway, link: Protocol::Nvme(link) } = host else { return Ok(None) };
        let command = self.known.borrow_mut().begin(
            *who,
            ModelAction::Report,
            (*gateway, self.place.on.now()),
        );
        let shown = link.report(who_of).await;
        self.note(format_args!("gateway {gateway} reports to host {who}: {shown:?}"));
        match shown {
            Ok(Some((generation, state))) => {
                let told = self.known.borrow_mut().check_generation(command, generation);
                told.unwrap_or_else(|text| self.journal.violation(text));
                self.learn(command, Some(ModelAnswer::Shows(state.clone())));
                Ok(Some((generation, state)))
            }
            // It changes nothing.
            Ok(None) => {
                self.known.borrow_mut().not_executed(command);
                Ok(None)
            }
            Err(lost) => {
                self.known.borrow_mut().not_executed(command);
                Err(lost)
            }
        }
    }

    fn learn(&self, command: u64, answer: Option<ModelAnswer>) {
        if let Err(text) = self.known.borrow_mut().end(command, answer, self.place.on.now()) {
            self.journal.violation(text);
        }
    }

    /// A host was preempted whose commands are aborted, and may write no more: the disk has none of
    /// its writes when that is answered. While nobody had reserved, it could still write, as a host
    /// that is not registered.
    fn check_aborted(&self, victim: Who, mark: usize) {
        let known = self.known.borrow();
        let was_out = !known.fate(mark, None, true).executed;
        let is_out =
            was_out && known.states().iter().all(|after| !after.allows(Some(victim), true));
        let Some((first, count)) = self.environment.blocks.get(victim).filter(|_| is_out) else {
            return;
        };
        let (blocks, now) = (*first..*first + *count, self.place.on.now());
        let held = match &self.environment.cluster {
            None => self.environment.store.held_write(blocks, now),
            Some(writes) => {
                let held = self
                    .environment
                    .store
                    .held_write_of(blocks.clone(), now, |client| writes.counts(client));
                held.or_else(|| writes.waiting(blocks))
            }
        };
        if let Some(lba) = held {
            let text = format!(
                "initiator-{victim} was preempted and its commands aborted, but the disk still has its write to block {lba}"
            );
            self.journal.violation(text);
        }
    }

    /// A block where only this host of this script writes, and something new to write.
    pub(super) fn next_write(&mut self, who: Who) -> (u64, [u8; BLOCK]) {
        let lba = self.environment.free + self.n * self.ways.len() as u64 + who as u64;
        self.written += 1;
        let mut content = [0; BLOCK];
        crate::stamp::write(&mut content, lba, self.written);
        (lba, content)
    }

    /// Writes to a block of its own: that is done, or refused and not done.
    async fn probe(&mut self, host: &mut Host) -> Result<(), StreamLost> {
        let who = host.who;
        let (lba, content) = self.next_write(who);
        let mark = self.known.borrow().mark();
        let ended = host.write(lba, &content).await?;
        self.note(format_args!("host {who} writes: {ended:?}"));
        let fate = self.known.borrow().fate(mark, Some(who), true);
        let is_there = self.environment.store.peek(lba, self.place.on.now()) == content;
        let text = match ended {
            Ended::Done if !fate.executed => "was executed though a reservation forbids it",
            Ended::Conflict if !fate.refused => "was refused though no reservation forbids it",
            Ended::Conflict if is_there => "was refused, and executed",
            _ => return Ok(()),
        };
        self.journal
            .violation(format!("a write of host {who} {text}: {:?}", self.known.borrow().states()));
        Ok(())
    }
}
