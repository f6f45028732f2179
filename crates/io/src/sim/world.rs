//! Hosts, loops and the passing of time.

use super::config::{Cut, CutAt, NetConfig, PortAnswer, Side};
use super::disk::{DiskConfig, Disks, SimDisk};
use super::net::{SharedNet, SimConnection};
use super::rdma::{RdmaConfig, RdmaCounts, SimQueuePair, SimQueuePairListener};
use super::stream::{Registry, SimListener, SimStream};
use super::trace::TraceRecord;
use crate::event_loop::{Activity, Backend, Handle, Loop, LoopConfig, Ready, RegistryRef};
use crate::rdma::{QueuePair, QueuePairListener};
use crate::rng::Rng;
use crate::stream::{Listener, Stream};
use crate::time::Time;
use core::cell::RefCell;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// A host of a [`World`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId(usize);

/// A loop of a [`World`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopId(pub(super) usize);

struct SimulatedLoop {
    host: HostId,
    /// None once it has ended.
    event_loop: Option<Loop>,
    /// The turn before this one takes until then.
    free_at: Time,
}

/// The next event.
#[derive(Clone, Copy)]
enum Next {
    Event,
    Turn(usize),
}

/// Hosts with loops, the network between them, and their common clock.
pub struct World {
    seed: u64,
    net: SharedNet,
    loops: Vec<SimulatedLoop>,
    /// By host.
    disks: BTreeMap<usize, Rc<RefCell<Disks>>>,
    /// Decides the order of what happens at one time.
    order: Rng,
}

impl World {
    /// A world whose network is drawn from the seed ([`NetConfig::drawn`]).
    pub fn new(seed: u64) -> Self {
        Self::with_net(seed, NetConfig::drawn(&mut Rng::new(seed ^ 0x6e65_7477_6f72_6b00)))
    }

    /// A world with this network; the seed decides the rest.
    pub fn with_net(seed: u64, net: NetConfig) -> Self {
        let mut rng = Rng::new(seed);
        let order = rng.fork();
        Self {
            seed,
            net: SharedNet::new(rng.bits(), net),
            loops: Vec::new(),
            disks: BTreeMap::new(),
            order,
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Changes how the network behaves from now on.
    pub fn set_net(&mut self, change: impl FnOnce(&mut NetConfig)) {
        change(&mut self.net.lock().config);
    }

    /// Changes how the devices for RDMA behave from now on. At first they are drawn from the seed
    /// ([`RdmaConfig::drawn`]).
    pub fn set_rdma(&mut self, change: impl FnOnce(&mut RdmaConfig)) {
        change(&mut self.net.lock().rdma.config);
    }

    /// Returns the counts of all queue pairs so far.
    pub fn rdma_counts(&self) -> RdmaCounts {
        self.net.lock().rdma.counts
    }

    /// The host with this address; it is there from the first call on.
    ///
    /// # Panics
    /// If `ip` is not an IP address.
    pub fn host(&mut self, ip: &str) -> HostId {
        let ip: IpAddr = ip.parse().expect("an IP address");
        HostId(self.net.lock().host(ip))
    }

    /// Adds a loop to a host.
    pub fn add_loop(&mut self, host: HostId, config: &LoopConfig) -> LoopId {
        let index = self.net.lock().add_loop();
        let backend = SimBackend { net: self.net.clone(), host: host.0, registry: Registry(index) };
        let event_loop = Loop::with_backend(config, Box::new(backend));
        let disk = SimDisk::new(Rc::clone(self.disks(host)));
        event_loop.handle().disk().set_backend(Rc::new(disk));
        let free_at = self.now();
        self.loops.push(SimulatedLoop { host, event_loop: Some(event_loop), free_at });
        LoopId(index)
    }

    fn disks(&mut self, host: HostId) -> &Rc<RefCell<Disks>> {
        self.disks.entry(host.0).or_insert_with(|| {
            let rng = Rng::new(self.seed ^ 0x6469_736b ^ (host.0 as u64) << 32);
            Rc::new(RefCell::new(Disks::new(host.0, self.net.clone(), rng)))
        })
    }

    /// Changes how the disks of a host behave from now on. At first they are drawn from the seed
    /// ([`DiskConfig::drawn`]).
    pub fn set_disk(&mut self, host: HostId, change: impl FnOnce(&mut DiskConfig)) {
        change(&mut self.disks(host).borrow_mut().config);
    }

    /// Returns the handle of a loop for everything that lives on it.
    ///
    /// # Panics
    /// If the loop has ended.
    pub fn handle(&self, id: LoopId) -> Handle {
        self.loops[id.0].event_loop.as_ref().expect("the loop has ended").handle().clone()
    }

    /// Returns whether a loop still runs: it was not stopped, and its host neither stopped nor
    /// crashed.
    pub fn is_running(&self, id: LoopId) -> bool {
        self.loops[id.0].event_loop.is_some()
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.net.lock().now()
    }

    /// Lets the next thing happen: a delivery, a loop's turn. Time jumps to it. `false` when
    /// nothing is left to happen.
    pub fn step(&mut self) -> bool {
        self.step_before(Time::from_nanos(u64::MAX))
    }

    /// Steps until `condition` holds. `false` when `limit` of virtual time passes first or nothing
    /// is left to happen.
    #[must_use]
    pub fn run_until(&mut self, mut condition: impl FnMut(&Self) -> bool, limit: Duration) -> bool {
        let end = self.now() + limit;
        while !condition(self) {
            if !self.step_before(end) {
                return condition(self);
            }
        }
        true
    }

    /// Lets `span` of virtual time pass.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now() + span;
        while self.step_before(end) {}
        self.net.lock().set_now(end);
    }

    /// A step, if something is left to happen by `end`.
    fn step_before(&mut self, end: Time) -> bool {
        let Some((at, next)) = self.next().filter(|(at, _)| *at <= end) else { return false };
        self.net.lock().set_now(at);
        match next {
            Next::Event => self.net.lock().happen(),
            Next::Turn(index) => self.turn(index),
        }
        true
    }

    /// Returns the next event and its time; by chance among those that are due at one time.
    fn next(&mut self) -> Option<(Time, Next)> {
        let net = self.net.lock();
        // What another thread causes, while this one lets time pass, may be due already.
        let event = net.next_event().map(|at| (at.max(net.now()), Next::Event));
        let turns = self.loops.iter().enumerate().filter_map(|(index, slot)| {
            let event_loop = slot.event_loop.as_ref()?;
            let has_work = event_loop.has_work() || net.is_ready(index);
            let wanted = if has_work {
                net.now()
            } else {
                net.of_world(slot.host.0, event_loop.next_timer()?)
            };
            Some((wanted.max(slot.free_at).max(net.now()), Next::Turn(index)))
        });
        let mut first = None;
        let mut equals = 1;
        for (at, next) in event.into_iter().chain(turns) {
            match first {
                Some((earliest, _)) if at > earliest => continue,
                Some((earliest, _)) if at == earliest => equals += 1,
                _ => equals = 1,
            }
            if self.order.one_in(equals) {
                first = Some((at, next));
            }
        }
        first
    }

    fn turn(&mut self, index: usize) {
        let slot = &mut self.loops[index];
        let Some(event_loop) = &mut slot.event_loop else { return };
        let activity = event_loop.turn(true).expect("a simulated poller does not fail");
        let stopping = event_loop.handle().is_stopping();
        let mut net = self.net.lock();
        net.record("turn", index as u64, u64::from(activity == Activity::Busy));
        slot.free_at = net.now() + net.turn_cost();
        drop(net);
        if stopping {
            slot.event_loop = None;
        }
    }

    /// Keeps a loop from running for a while, as a busy machine does.
    pub fn pause(&mut self, id: LoopId, span: Duration) {
        let slot = &mut self.loops[id.0];
        slot.free_at = slot.free_at.max(self.net.lock().now() + span);
    }

    /// The connections that some end still holds, those of queue pairs among them, in the order in
    /// which they were begun.
    pub fn connections(&self) -> Vec<SimConnection> {
        let net = self.net.lock();
        let mut all: Vec<_> = net.connections().chain(net.rdma_connections()).collect();
        all.sort_by_key(|connection| connection.id);
        all
    }

    /// Returns a view of the network for drivers and their parts.
    pub fn view(&self) -> WorldView {
        WorldView(self.net.clone())
    }

    /// Cuts a connection now.
    pub fn cut(&mut self, connection: u64, how: Cut) {
        let mut net = self.net.lock();
        if !net.rdma_cut(connection, how) {
            net.cut(connection, how);
        }
    }

    /// Cuts a connection behind a byte.
    pub fn cut_at(&mut self, connection: u64, cut: CutAt) {
        let mut net = self.net.lock();
        if !net.rdma_cut_at(connection, cut) {
            net.cut_at(connection, cut);
        }
    }

    /// Plans the fate of the next connection to `server` for which nothing is planned yet: a cut,
    /// or none, whatever chance would have had for it.
    pub fn plan(&mut self, server: SocketAddr, cut: Option<CutAt>) {
        self.net.lock().plan(server, cut);
    }

    /// Sets the answer of a port to later connections.
    pub fn set_answer(&mut self, at: SocketAddr, answer: PortAnswer) {
        self.net.lock().set_answer(at, answer);
    }

    /// Takes from a host all descriptors that are free, or gives them back: it neither connects nor
    /// accepts without.
    pub fn set_exhausted(&mut self, host: HostId, exhausted: bool) {
        self.net.lock().set_exhausted(host.0, exhausted);
    }

    /// Lets nothing pass between two hosts. Both repeat what is lost until they give up.
    pub fn partition(&mut self, a: HostId, b: HostId) {
        let mut net = self.net.lock();
        net.wall(a.0, b.0);
        net.wall(b.0, a.0);
    }

    /// Ends partitions between two hosts.
    pub fn heal(&mut self, a: HostId, b: HostId) {
        let mut net = self.net.lock();
        net.unwall(a.0, b.0);
        net.unwall(b.0, a.0);
    }

    /// Ends the processes on a host: its loops are dropped, its connections closed as the system
    /// closes those of the dead. What they wrote stays; what they were about to write was done or
    /// not, sector by sector.
    pub fn kill(&mut self, host: HostId) {
        for slot in self.loops.iter_mut().filter(|s| s.host == host) {
            slot.event_loop = None;
        }
    }

    /// Cuts the power of a host: its loops and connections are gone, and no peer is notified. Data
    /// that its disks had not made durable is lost or kept, sector by sector. The host is dark
    /// until [`World::power_on`].
    ///
    /// # Panics
    /// If the system cannot write to the files of the disks.
    pub fn crash(&mut self, host: HostId) {
        self.net.lock().power_off(host.0);
        self.kill(host);
        self.disks(host).borrow_mut().crash().expect("the files of the simulation can be written");
    }

    /// Starts a crashed host, without any loop. Hosts that still send to it get a reset.
    pub fn power_on(&mut self, host: HostId) {
        self.net.lock().power_on(host.0);
    }

    /// Moves the clock of a host forward by `by` at once, as on a machine that was asleep. Nothing
    /// else happens on it in that time.
    pub fn jump(&mut self, host: HostId, by: Duration) {
        self.net.lock().jump(host.0, by);
    }

    /// Flips a bit of the first byte from this end that arrives after this many others (counted
    /// from the beginning of the connection). Does nothing to queue pairs, which have checksums of
    /// their own.
    pub fn corrupt(&mut self, connection: u64, from: Side, after_bytes: u64) {
        self.net.lock().corrupt(connection, from, after_bytes);
    }

    /// Takes back what [`World::cut_at`] and [`World::corrupt`] have in store for a connection.
    pub fn spare(&mut self, connection: u64) {
        self.net.lock().spare(connection);
    }

    /// Has `watcher` called with everything that happens, as it happens. It must not use the world.
    pub fn watch(&mut self, watcher: impl FnMut(&TraceRecord) + Send + 'static) {
        self.net.lock().trace.watch(Box::new(watcher));
    }

    /// Adds to the trace what a test saw, so that it is compared too.
    pub fn note(&mut self, what: &'static str, value: u64) {
        self.net.lock().record(what, u64::MAX, value);
    }

    /// The hash of all that happened. Equal seeds and equal programs give equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.net.lock().trace.hash()
    }

    /// The last things that happened.
    pub fn trace_tail(&self) -> Vec<TraceRecord> {
        self.net.lock().trace.tail().copied().collect()
    }
}

// Queries of a test to the network while drivers run.

/// See [`super::World::view`].
#[derive(Clone)]
pub struct WorldView(pub(super) SharedNet);

impl WorldView {
    /// Clients whose FIN to this server is still in flight, possibly behind data. Also includes
    /// clients whose FIN was in flight when the server last received from them, if that was at most
    /// `ago` earlier.
    pub fn unheard(&self, server: IpAddr, ago: Duration) -> Vec<IpAddr> {
        let net = self.0.lock();
        net.unheard(ago)
            .chain(net.rdma_unheard())
            .filter(|(_, to)| *to == server)
            .map(|(from, _)| from)
            .collect()
    }
}

struct SimBackend {
    net: SharedNet,
    host: usize,
    registry: Registry,
}

impl Backend for SimBackend {
    fn now(&mut self) -> Time {
        self.net.lock().now_on(self.host)
    }

    /// Never waits: the world runs a loop when there is something for it, which is when a wait
    /// would have ended.
    fn poll(&mut self, _: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        self.net.lock().take_ready(self.registry.0, ready);
        Ok(false)
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<Box<dyn Stream>> {
        let (id, local) = self.net.lock().connect(self.host, to)?;
        Ok(Box::new(SimStream {
            net: self.net.clone(),
            id,
            end: 0,
            local,
            peer: to,
            resets: false,
        }))
    }

    fn listen(&mut self, at: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let (at, id) = self.net.lock().listen(self.host, at)?;
        Ok(Box::new(SimListener { net: self.net.clone(), host: self.host, at, id }))
    }

    fn connect_rdma(&mut self, to: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
        let (id, local) = self.net.lock().connect_rdma(self.host, to)?;
        Ok(Box::new(SimQueuePair::new(&self.net, id, 0, (local, to))))
    }

    fn listen_rdma(&mut self, at: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
        let (at, id) = self.net.lock().listen_rdma(self.host, at)?;
        Ok(Box::new(SimQueuePairListener { net: self.net.clone(), host: self.host, at, id }))
    }

    fn registry(&self) -> RegistryRef<'_> {
        RegistryRef::Other(&self.registry)
    }

    /// Nothing to end: what was posted is seen by the world.
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        Arc::new(|| ())
    }
}
