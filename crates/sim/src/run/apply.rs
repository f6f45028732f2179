//! Carries out what goes wrong, and ends it again.

use super::Run;
use crate::faults::{Fault, fraction};
use crate::holds;
use crate::scene::Scene;
use crate::serving::ServingHost;
use crate::store::Behaviour;
use core::time::Duration;
use std::net::SocketAddr;
use weft_block::AccessState;
use weft_io::Time;
use weft_io::sim::{Cut, CutAt, HostId, PortAnswer, Side};

/// The end of something that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Partition(HostId, HostId),
    Start(usize),
    StartInitiator(usize),
    Store,
    Deaf(SocketAddr),
    Exhausted(HostId),
    Access(usize),
}

/// The group of every namespace that nobody moved.
const GROUP: u32 = 1;

/// Pause after which a process tries again to lock the store.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// Bytes that the handshake of a connection takes at most in one direction: digests begin behind
/// it.
const HANDSHAKE_BYTES: u64 = 8192;

impl Run {
    /// When the next fault begins or ends.
    pub(super) fn next_fault(&self) -> Option<Time> {
        let begins = self.planned.front().map(|(at, _)| *at);
        self.ending.iter().map(|(at, _)| *at).chain(begins).min()
    }

    /// Begins and ends what is due.
    pub(super) fn apply_due(&mut self) {
        let now = self.world.now();
        self.journal.catch_up(&self.world);
        while let Some((_, fault)) = self.planned.pop_front_if(|(at, _)| *at <= now) {
            self.journal.tell("fault", format_args!("{fault}"));
            self.apply(&fault);
        }
        let (due, later) =
            core::mem::take(&mut self.ending).into_iter().partition(|(at, _)| *at <= now);
        self.ending = later;
        Vec::into_iter(due).for_each(|(_, end)| self.end(end));
    }

    /// Ends everything.
    pub(super) fn heal(&mut self) {
        self.journal.tell("run", format_args!("everything heals"));
        self.planned.clear();
        self.store.behave(Behaviour::SOUND);
        // What was to be cut or damaged later is left alone: from now on nothing goes wrong.
        self.world.connections().iter().for_each(|connection| self.world.spare(connection.id));
        core::mem::take(&mut self.ending).into_iter().for_each(|(_, end)| self.end(end));
    }

    fn later(&mut self, after: Duration, end: End) {
        self.ending.push((self.world.now() + after, end));
    }

    fn end(&mut self, end: End) {
        self.journal.tell("fault", format_args!("ends: {end:?}"));
        match end {
            End::Partition(a, b) => self.world.heal(a, b),
            End::Store => self.store.behave(Behaviour::SOUND),
            End::Deaf(at) => self.world.set_answer(at, PortAnswer::Usual),
            End::Access(n) => self.set_access(n, AccessState::Optimized),
            End::StartInitiator(n) => self.initiators[n].start(&mut self.world),
            End::Exhausted(host) => self.world.set_exhausted(host, false),
            End::Start(n) if n < self.targets.len() && self.store.keeps_out(self.world.now()) => {
                self.later(LOCK_RETRY, End::Start(n))
            }
            End::Start(n) => {
                let Self { world, targets, gateways, journal, .. } = self;
                let server = targets.iter_mut().chain(gateways).nth(n);
                if let Some(server) = server.filter(|server| !server.is_running()) {
                    world.power_on(server.host);
                    self.store.note_start();
                    server.start(world, journal);
                }
            }
        }
    }

    fn apply(&mut self, fault: &Fault) {
        match *fault {
            Fault::Cut(how, which) => {
                if let Some(id) = self.connection(which) {
                    self.world.cut(id, how);
                }
            }
            Fault::CutLater(how, which, bytes) => self.cut_later(how, which, bytes),
            Fault::Partition(which, span) => {
                if let Some((a, b)) = self.neighbours(which) {
                    self.world.partition(a, b);
                    self.later(span, End::Partition(a, b));
                }
            }
            Fault::Pause(which, span) => self.pause(which, span),
            Fault::Kill(which, span) => self.kill(which, span),
            Fault::KillInitiator(which, span) => {
                let n = which as usize % self.initiators.len();
                if self.initiators[n].kill(&mut self.world, &self.journal) {
                    self.later(span, End::StartInitiator(n));
                }
            }
            Fault::PowerFailure(span) => self.power_failure(span),
            Fault::Store(_, span) => self.disturb_store(span),
            Fault::Deaf(which, refuses, span) => {
                let at = self.server(which).at;
                self.world
                    .set_answer(at, if refuses { PortAnswer::Refuse } else { PortAnswer::Never });
                self.later(span, End::Deaf(at));
            }
            Fault::Exhausted(which, span) => {
                let host = self.server(which).host;
                self.world.set_exhausted(host, true);
                self.later(span, End::Exhausted(host));
            }
            Fault::Corrupt(which, side) => self.corrupt(which, side),
            Fault::Jump(which, span) => {
                let host = self.initiators[which as usize % self.initiators.len()].host;
                self.world.jump(host, span);
            }
            Fault::Grow(by) => self.store.grow(by),
            Fault::Access(which, state, span) => {
                let n = which as usize % (self.targets.len() + self.gateways.len());
                self.set_access(n, state);
                self.later(span, End::Access(n));
            }
        }
    }

    fn connection(&self, which: u64) -> Option<u64> {
        let open: Vec<_> =
            self.world.connections().into_iter().filter(|it| it.open).map(|it| it.id).collect();
        (!open.is_empty()).then(|| open[which as usize % open.len()])
    }

    fn cut_later(&mut self, how: Cut, which: u64, bytes: u64) {
        let from = if which.is_multiple_of(2) { Side::Client } else { Side::Server };
        let found = self.world.connections().into_iter().filter(|it| it.open).collect::<Vec<_>>();
        if let Some(connection) = found.get(which as usize % found.len().max(1)) {
            let carried = connection.carried[usize::from(from == Side::Server)];
            self.world.cut_at(connection.id, CutAt { from, after_bytes: carried + bytes, how });
        }
    }

    /// A client and a server that speak to each other.
    fn neighbours(&mut self, which: u64) -> Option<(HostId, HostId)> {
        let connections = self.world.connections();
        let connection = connections.get(which as usize % connections.len().max(1))?;
        let (client, server) =
            (connection.client.ip().to_string(), connection.server.ip().to_string());
        Some((self.world.host(&client), self.world.host(&server)))
    }

    fn server(&self, which: u64) -> &ServingHost {
        let all: Vec<_> = self.targets.iter().chain(&self.gateways).collect();
        all[which as usize % all.len()]
    }

    /// How well a server reaches its data.
    fn set_access(&self, n: usize, state: AccessState) {
        let server = self.targets.iter().chain(&self.gateways).nth(n);
        if let Some(inventory) = server.and_then(ServingHost::inventory) {
            inventory.set_access_state(GROUP, None, state).expect("the group that there is");
        }
    }

    fn pause(&mut self, which: u64, span: Duration) {
        let serving = self.targets.iter().chain(&self.gateways).map(|it| it.loops.clone());
        let using = self.initiators.iter().map(|it| it.loops().collect());
        let all: Vec<Vec<_>> = serving.chain(using).collect();
        for id in &all[which as usize % all.len()] {
            self.world.pause(*id, span);
        }
    }

    fn kill(&mut self, which: u64, span: Duration) {
        let Self { world, targets, gateways, journal, .. } = self;
        let count = targets.len() + gateways.len();
        let n = which as usize % count;
        if let Some(server) =
            targets.iter_mut().chain(gateways).nth(n).filter(|server| server.is_running())
        {
            server.kill(world, journal);
            self.known.borrow_mut().restarted();
            self.later(span, End::Start(n));
        }
    }

    /// The targets share the machine that has the store.
    fn power_failure(&mut self, span: Duration) {
        let Self { world, targets, journal, .. } = self;
        targets.iter_mut().for_each(|target| target.lose_power(world, journal));
        self.store.power_fails();
        self.known.borrow_mut().restarted();
        self.oracle.borrow_mut().power_failed();
        (0..self.targets.len()).for_each(|n| self.later(span, End::Start(n)));
    }

    fn disturb_store(&mut self, span: Duration) {
        let rng = &mut self.rng;
        if matches!(self.config.scene, Scene::LateWrites | Scene::TakenOver) {
            let behaviour = Behaviour {
                hold_one_in: 2,
                hold: self.faults.hold,
                cancel_one_in: *rng.pick(&[0, 2]),
                ..Behaviour::SOUND
            };
            self.store.behave(holds::raise(&self.config, behaviour));
            return self.later(span, End::Store);
        }
        let behaviour = Behaviour {
            delay: (
                Duration::from_micros(rng.magnitude(1000)),
                Duration::from_micros(1000 + rng.magnitude(50_000)),
            ),
            hold_one_in: *rng.pick(&[0, 2, 8]),
            hold: fraction(self.faults.hold, rng),
            error_one_in: if self.faults.disk_errors { *rng.pick(&[0, 4, 20]) } else { 0 },
            cancel_one_in: *rng.pick(&[0, 1, 2]),
            ..Behaviour::SOUND
        };
        let behaviour = holds::raise(&self.config, behaviour);
        self.journal.tell("store", format_args!("{behaviour:?}"));
        self.store.behave(behaviour);
        self.later(span, End::Store);
    }

    fn corrupt(&mut self, which: u64, from: Side) {
        let index = usize::from(from == Side::Server);
        let covered =
            |it: &weft_io::sim::SimConnection| it.open && it.carried[index] >= HANDSHAKE_BYTES;
        let found: Vec<_> = self.world.connections().into_iter().filter(covered).collect();
        if let Some(connection) = found.get(which as usize % found.len().max(1)) {
            let after = connection.carried[index] + self.rng.magnitude(2000);
            self.world.corrupt(connection.id, from, after);
        }
    }
}
