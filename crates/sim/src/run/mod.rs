//! One run: a world is set up, things go wrong for a while, then everything heals and has to go on;
//! at the end nothing may be left.

mod apply;
mod progress;

use self::progress::Progress;
use crate::config::{CONNECT_TIMEOUT, Config, Protocol};
use crate::faults::{Fault, Faults};
use crate::holds;
use crate::initiator::Initiator;
use crate::journal::Journal;
use crate::oracle::Oracle;
use crate::reserving::known::Known;
use crate::reserving::{Reserving, Stage};
use crate::scene::Scene;
use crate::serving::{IQN, NQN, Served, Server};
use crate::stamp::UNIT_BYTES;
use crate::store::Store;
use crate::wanted::{Transport, Wanted};
use crate::workload::{Shared, Workload};
use core::cell::RefCell;
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use weft_endpoint::ConnectOptions;
use weft_endpoint::identity::Identities;
use weft_io::Time;
use weft_io::sim::{NetConfig, Rng, World};
use weft_proto::nvme::types::Nqn;

/// How often whoever is outside of the loops is looked after.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// How long all operations of a run together take at most, whatever the options. A run is over long
/// before.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(3600);

/// How long it takes at most until nothing is left of any connection: TCP gives one up after 127 s
/// that nobody ended.
pub(crate) const QUIET: Duration = Duration::from_secs(300);

/// How a run went.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The set-up, in a line.
    pub setup: String,
    /// What was wrong.
    pub violation: Option<String>,
    /// Operations that ended, and how many of them without success.
    pub operations: [u64; 2],
    /// Devices that initiators opened.
    pub opened: u64,
    /// The longest that an operation took after everything had healed, and the longest that the
    /// options allow.
    pub longest: [Duration; 2],
    /// Gateways of a group that ended because they had lost the cluster.
    pub losses: u64,
    /// Virtual time.
    pub span: Duration,
    /// Hash of all that happened.
    pub hash: u64,
    /// What happened, if somebody listened.
    pub trace: Vec<String>,
}

impl Report {
    /// The report of a run that has come to its end, by its seed and set-up, the workloads and the
    /// devices that were opened for them.
    pub(crate) fn of<'a>(
        (seed, setup): (u64, String),
        workloads: impl Iterator<Item = &'a Shared> + Clone,
        opened: u64,
        (world, journal): (&World, &Journal),
    ) -> Self {
        let count =
            |of: fn(&Workload) -> u64| workloads.clone().map(|it| of(&it.borrow())).sum::<u64>();
        Self {
            seed,
            setup,
            violation: journal.first_violation(),
            operations: [count(|it| it.ended), count(|it| it.failed)],
            opened,
            longest: [Duration::ZERO; 2],
            losses: 0,
            span: world.now().since_epoch(),
            hash: world.trace_hash(),
            trace: journal.take_lines(),
        }
    }

    /// The report of a run that did not come to its end.
    pub fn nothing(seed: u64, wanted: Wanted) -> Self {
        let (scene, mut choices) = Scene::of(seed, wanted.scene);
        let (transport, _) = Transport::of(seed, wanted.transport);
        let mut config = Config::of(&mut seeded(seed), (scene, &mut choices), transport);
        holds::shape(seed, &mut config);
        let setup = config.to_string();
        let (violation, trace, longest) = (None, Vec::new(), [Duration::ZERO; 2]);
        Self {
            seed,
            setup,
            violation,
            operations: [0; 2],
            opened: 0,
            longest,
            losses: 0,
            span: Duration::ZERO,
            hash: 0,
            trace,
        }
    }
}

/// The choices of a seed.
pub(crate) fn seeded(seed: u64) -> Rng {
    Rng::new(seed ^ 0x7765_6674)
}

/// Everything that there is in a run.
struct Run {
    config: Config,
    world: World,
    store: Arc<Store>,
    oracle: Rc<RefCell<Oracle>>,
    targets: Vec<Server>,
    gateways: Vec<Server>,
    initiators: Vec<Initiator>,
    /// Who reserves, and what is known of that.
    reserving: Option<Reserving>,
    known: Rc<RefCell<Known>>,
    planned: VecDeque<(Time, Fault)>,
    faults: Faults,
    /// What ends again, and when.
    ending: Vec<(Time, apply::End)>,
    rng: Rng,
    journal: Journal,
    /// The longest that an operation took after everything had healed.
    longest: Duration,
}

/// Runs a seed, with other choices than its own where some are wanted, and tells the journal what
/// happens.
pub fn run(seed: u64, wanted: Wanted, journal: &Journal) -> Report {
    match Scene::of(seed, wanted.scene).0 {
        Scene::Mirror => return crate::mirror::run(seed, wanted, journal),
        Scene::Group | Scene::Stops => return crate::group::run(seed, wanted, journal),
        _ => {}
    }
    let mut run = Run::new(seed, wanted, journal);
    let setup = run.config.to_string();
    journal.tell("run", format_args!("seed {seed}: {setup}"));
    run.whole();
    journal.catch_up(&run.world);
    let workloads = run.initiators.iter().flat_map(|it| &it.workloads);
    let opened = run.initiators.iter().map(|it| it.opened).sum();
    let report = Report::of((seed, setup), workloads, opened, (&run.world, journal));
    Report { longest: [run.longest, run.config.patience()], ..report }
}

impl Run {
    fn new(seed: u64, wanted: Wanted, journal: &Journal) -> Self {
        let mut rng = seeded(seed);
        let (scene, mut choices) = Scene::of(seed, wanted.scene);
        let (transport, mut devices) = Transport::of(seed, wanted.transport);
        let mut config = Config::of(&mut rng, (scene, &mut choices), transport);
        holds::shape(seed, &mut config);
        let faults = Faults::drawn(&config, &mut rng);
        let net = network(&mut rng);
        let mut world = World::with_net(rng.bits(), net);
        // Now and then a connection is lost because its end gets no memory.
        world.set_rdma(|rdma| rdma.refused_one_in = *devices.pick(&[0, 200, 5000]));
        journal.follow(&mut world);
        let store = Store::new(rng.bits(), &config);
        let units = (config.blocks() * config.units()) as usize;
        let new = if config.overlap { Oracle::of_several } else { Oracle::new };
        let oracle = Rc::new(RefCell::new(new(units, config.volatile, config.replay())));
        let planned =
            faults.planned.iter().map(|(at, fault)| (Time::ZERO + *at, fault.clone())).collect();
        let mut run = Self {
            world,
            store,
            oracle,
            targets: Vec::new(),
            gateways: Vec::new(),
            initiators: Vec::new(),
            reserving: None,
            known: Rc::default(),
            planned,
            faults,
            ending: Vec::new(),
            journal: journal.clone(),
            longest: Duration::ZERO,
            config,
            rng,
        };
        run.set_up();
        run
    }

    /// The hosts and what runs on them.
    fn set_up(&mut self) {
        self.set_up_targets();
        if self.config.behind_gateway.is_some() {
            self.set_up_gateways();
        }
        self.set_up_initiators();
        if self.config.scene == Scene::Reservations {
            self.set_up_reserving();
        }
    }

    fn set_up_targets(&mut self) {
        let Self { config, world, rng, journal, .. } = self;
        let inner = config.inner();
        for n in 0..config.targets {
            let served = Served::Own(self.store.clone());
            let (name, ip) = (format!("target-{n}"), format!("10.0.0.{}", n + 1));
            let mut target = Server::new(world, &name, &ip, inner, served, config, rng.bits());
            match config.scene {
                Scene::Shared => target.share(n as u16),
                Scene::Reservations => target.serve_also(match inner {
                    Protocol::Iscsi => Protocol::NvmeTcp,
                    _ => Protocol::Iscsi,
                }),
                _ => {}
            }
            target.start(world, journal);
            self.targets.push(target);
        }
    }

    fn set_up_gateways(&mut self) {
        let Self { config, world, rng, journal, .. } = self;
        let urls: Vec<_> = self.targets.iter().map(Server::url).collect();
        // Who writes the same blocks comes by other ways.
        for n in 0..if config.overlap { config.initiators } else { 1 } {
            let options = ConnectOptions {
                paths: config.paths(&urls[1..]),
                ..options(config, config.inner(), config.quiesce)
            };
            let served = Served::Remote(urls.clone(), Box::new(options));
            let (name, ip) = (format!("gateway-{n}"), format!("10.0.2.{}", n + 1));
            let mut gateway =
                Server::new(world, &name, &ip, config.protocol, served, config, rng.bits());
            gateway.start(world, journal);
            self.gateways.push(gateway);
        }
    }

    fn set_up_initiators(&mut self) {
        let Self { config, world, rng, journal, .. } = self;
        let serving = if self.gateways.is_empty() { &self.targets } else { &self.gateways };
        let urls: Vec<_> = serving.iter().map(Server::url).collect();
        let options = ConnectOptions {
            paths: config.paths(if config.overlap { &[] } else { &urls[1..] }),
            ..options(config, config.protocol, config.initiators_quiesce())
        };
        let may_fail =
            !config.reconnects || self.faults.disk_errors || config.unflushed_bytes.is_some();
        for n in 0..config.initiators {
            let mut initiator = Initiator::new(
                world,
                n,
                config,
                options.clone(),
                &self.oracle,
                journal,
                rng.fork(),
            );
            let own = if config.overlap { n % urls.len() } else { 0 };
            // Further paths are among the options.
            initiator.set_urls(if config.reconnects {
                urls[own..=own].to_vec()
            } else {
                urls.clone()
            });
            for workload in &initiator.workloads {
                workload.borrow_mut().plan.may_fail = may_fail;
            }
            self.initiators.push(initiator);
        }
    }

    /// Hosts that reserve what the initiators use.
    fn set_up_reserving(&mut self) {
        let Self { config, world, rng, journal, known, .. } = self;
        let by_nvme = config.protocol.is_nvme();
        let names = self.initiators.iter().filter(|_| by_nvme);
        let hosts: Vec<_> = names.map(|it| it.identities.host().expect("a seeded name")).collect();
        let own = u64::from(config.blocks_per_queue()) * config.queues as u64;
        for (n, initiator) in self.initiators.iter().enumerate() {
            for workload in &initiator.workloads {
                workload.borrow_mut().reservations = Some((Rc::clone(known), by_nvme.then_some(n)));
            }
        }
        let target = &self.targets[0];
        let stage = Stage {
            doors: vec![(target.place_of(Protocol::NvmeTcp), target.place_of(Protocol::Iscsi))],
            subsystem: Nqn::new(NQN).expect("a name"),
            target: IQN.into(),
            blocks: (0..hosts.len() as u64).map(|n| (n * own, own)).collect(),
            hosts,
            stranger: Identities::seeded(rng.bits()).host().expect("a seeded name"),
            free: u64::from(config.blocks()),
            cluster: None,
            store: Arc::clone(&self.store),
        };
        self.reserving = Some(Reserving::start(world, (0, stage), known, journal, rng.fork()));
    }

    fn whole(&mut self) {
        let trouble = Time::ZERO + self.config.trouble;
        self.phase(trouble, |_| false);
        self.heal();
        if let Some(reserving) = &self.reserving {
            reserving.stop();
        }
        if !self.goes_on(|run| run.reserving.as_ref().is_none_or(Reserving::is_over)) {
            return;
        }
        if !self.goes_on(|run| run.initiators.iter().all(Initiator::is_over)) {
            return;
        }
        self.initiators.iter_mut().for_each(Initiator::begin_sweep);
        if !self.goes_on(|run| run.initiators.iter().all(Initiator::is_over)) {
            return;
        }
        check_store(
            &self.store,
            (&self.config, &self.oracle.borrow()),
            self.world.now(),
            &self.journal,
        );
        self.initiators.iter_mut().for_each(Initiator::close);
        self.phase(self.world.now() + QUIET, |run| run.left().is_empty());
        let left = self.left();
        if !left.is_empty() {
            self.journal.violation(format!(
                "after {QUIET:?} without any device there are still {}",
                left.join("; ")
            ));
        }
    }

    /// Lets time pass until then or until a condition holds; whether it does. Ends as soon as
    /// something is wrong.
    fn phase(&mut self, end: Time, holds: impl Fn(&Self) -> bool) -> bool {
        while self.world.now() < end && !self.journal.is_violated() {
            if holds(self) {
                return true;
            }
            let tick = (self.world.now() + TICK).min(end);
            while let Some(at) = self.next_fault().filter(|at| *at <= tick) {
                self.pass(at);
                self.apply_due();
            }
            self.pass(tick);
            self.journal.catch_up(&self.world);
            let Self { world, targets, gateways, initiators, journal, .. } = self;
            targets.iter_mut().chain(gateways).for_each(|server| server.look_after(world, journal));
            initiators.iter_mut().for_each(|it| it.look_after(world, journal));
        }
        holds(self)
    }

    fn pass(&mut self, until: Time) {
        let span = until - self.world.now();
        self.world.run_for(span);
    }

    /// Lets time pass until a condition holds, while nothing goes wrong and everything goes on;
    /// whether it holds.
    fn goes_on(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        let patience = self.config.patience();
        // A workload that has lost its device waits for the others of its initiator, and then for
        // another device.
        let mut progress = Progress::new(patience, patience * 2 + self.config.think);
        let end = self.world.now() + STANDSTILL;
        while !holds(self) && !self.journal.is_violated() {
            let tick = self.world.now() + TICK;
            self.phase(tick, |_| false);
            let late = progress.look(self.world.now(), &self.initiators);
            let late = late.or_else(|| {
                (self.world.now() > end).then(|| "somebody else has not come to an end".to_owned())
            });
            if let Some(who) = late {
                self.journal.violation(format!(
                    "nothing goes wrong any more, and the options allow {patience:.1?}: {who}"
                ));
            }
        }
        self.longest = self.longest.max(progress.longest);
        holds(self) && !self.journal.is_violated()
    }

    /// What is left of connections, tasks and buffers, in words.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        // A gateway keeps its own connections to the targets as long as it runs.
        let edge = if self.gateways.is_empty() { &self.targets } else { &self.gateways };
        // The listener, and on a gateway what keeps its device.
        let counts_drivers = self.gateways.is_empty();
        left.extend(edge.iter().filter_map(|it| it.remains(&self.world, counts_drivers)));
        left.extend(self.initiators.iter().filter_map(|it| it.remains(&self.world)));
        left
    }
}

/// Tells the journal where a store does not hold what the oracle expects, looked at directly.
pub(crate) fn check_store(
    store: &Store,
    (config, oracle): (&Config, &Oracle),
    now: Time,
    journal: &Journal,
) {
    let units = u64::from(config.units());
    for lba in 0..u64::from(config.blocks()) {
        let content = store.peek(lba, now);
        for (unit, part) in (lba * units..).zip(content.chunks(UNIT_BYTES)) {
            if let Err(text) = oracle.check_stored(unit, part) {
                journal.violation(text);
            }
        }
    }
}

/// The options of everybody who opens something.
pub(crate) fn options(config: &Config, protocol: Protocol, quiesce: Duration) -> ConnectOptions {
    let has_digests = protocol != Protocol::NvmeRdma;
    ConnectOptions {
        nr_io_queues: config.queues as u16,
        queue_size: config.queue_size,
        hdr_digest: config.header_digest && has_digests,
        data_digest: config.data_digest && has_digests,
        keep_alive_ms: config.keep_alive_ms,
        quiesce_time: quiesce,
        io_timeout: config.io_timeout,
        connect_timeout: CONNECT_TIMEOUT,
        ..ConnectOptions::default()
    }
}

/// A network that is drawn from the seed: delays of every order, differing from connection to
/// connection, and pieces of every size.
pub(crate) fn network(rng: &mut Rng) -> NetConfig {
    let mut net = NetConfig::drawn(rng);
    // Slower ones only cost time.
    net.turn = (Duration::from_micros(1), Duration::from_micros(1 + rng.magnitude(20)));
    if let weft_io::sim::Chunking::AtMost(bytes) = net.chunking {
        net.chunking = weft_io::sim::Chunking::AtMost(bytes.max(64));
    }
    net
}
