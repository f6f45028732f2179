//! One run: a world is set up, things go wrong for a while, then everything heals and has to go on;
//! at the end nothing may be left.

mod apply;

use crate::config::{Config, SimProtocol};
pub use crate::every_run::SimReport;
use crate::every_run::{QUIET, STANDSTILL, TICK, check_store, network, options, seeded};
use crate::faults::{Fault, Faults};
use crate::holds;
use crate::initiator::SimInitiator;
use crate::journal::SimJournal;
use crate::oracle::Oracle;
use crate::reserving::known_reservations::KnownReservations;
use crate::reserving::{Reserving, ReservingEnvironment};
use crate::scene::Scene;
use crate::serving::{IQN, NQN, ServedContents, ServingHost};
use crate::store::BlockStore;
use crate::wanted::{Transport, Wanted};
use core::cell::RefCell;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use weft_endpoint::ConnectOptions;
use weft_endpoint::identity::Identities;
use weft_io::Time;
use weft_io::sim::{Rng, World};
use weft_proto::nvme::types::Nqn;

/// Everything that there is in a run.
struct Run {
    config: Config,
    world: World,
    store: Arc<BlockStore>,
    oracle: Rc<RefCell<Oracle>>,
    targets: Vec<ServingHost>,
    gateways: Vec<ServingHost>,
    initiators: Vec<SimInitiator>,
    /// Who reserves, and what is known of that.
    reserving: Option<Reserving>,
    known: Rc<RefCell<KnownReservations>>,
    planned: VecDeque<(Time, Fault)>,
    faults: Faults,
    /// What ends again, and when.
    ending: Vec<(Time, apply::End)>,
    rng: Rng,
    journal: SimJournal,
    /// The longest that an operation took after everything had healed.
    longest: Duration,
}

/// Runs a seed, with other choices than its own where some are wanted, and tells the journal what
/// happens.
pub fn run(seed: u64, wanted: Wanted, journal: &SimJournal) -> SimReport {
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
    let report = SimReport::of((seed, setup), workloads, opened, (&run.world, journal));
    SimReport { longest: [run.longest, run.config.patience()], ..report }
}

impl Run {
    fn new(seed: u64, wanted: Wanted, journal: &SimJournal) -> Self {
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
        let store = BlockStore::new(rng.bits(), &config);
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
            let served = ServedContents::Own(self.store.clone());
            let (name, ip) = (format!("target-{n}"), format!("10.0.0.{}", n + 1));
            let mut target = ServingHost::new(world, &name, &ip, inner, served, config, rng.bits());
            match config.scene {
                Scene::Shared => target.share(n as u16),
                Scene::Reservations => target.serve_also(match inner {
                    SimProtocol::Iscsi => SimProtocol::NvmeTcp,
                    _ => SimProtocol::Iscsi,
                }),
                _ => {}
            }
            target.start(world, journal);
            self.targets.push(target);
        }
    }

    fn set_up_gateways(&mut self) {
        let Self { config, world, rng, journal, .. } = self;
        let urls: Vec<_> = self.targets.iter().map(ServingHost::url).collect();
        // Who writes the same blocks comes by other ways.
        for n in 0..if config.overlap { config.initiators } else { 1 } {
            let options = ConnectOptions {
                paths: config.paths(&urls[1..]),
                ..options(config, config.inner(), config.quiesce)
            };
            let served = ServedContents::Remote(urls.clone(), Box::new(options));
            let (name, ip) = (format!("gateway-{n}"), format!("10.0.2.{}", n + 1));
            let mut gateway =
                ServingHost::new(world, &name, &ip, config.protocol, served, config, rng.bits());
            gateway.start(world, journal);
            self.gateways.push(gateway);
        }
    }

    fn set_up_initiators(&mut self) {
        let Self { config, world, rng, journal, .. } = self;
        let serving = if self.gateways.is_empty() { &self.targets } else { &self.gateways };
        let urls: Vec<_> = serving.iter().map(ServingHost::url).collect();
        let options = ConnectOptions {
            paths: config.paths(if config.overlap { &[] } else { &urls[1..] }),
            ..options(config, config.protocol, config.initiators_quiesce())
        };
        let may_fail =
            !config.reconnects || self.faults.disk_errors || config.unflushed_bytes.is_some();
        for n in 0..config.initiators {
            let mut initiator = SimInitiator::new(
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
        let environment = ReservingEnvironment {
            doors: vec![(
                target.place_of(SimProtocol::NvmeTcp),
                target.place_of(SimProtocol::Iscsi),
            )],
            subsystem: Nqn::new(NQN).expect("a name"),
            target: IQN.into(),
            blocks: (0..hosts.len() as u64).map(|n| (n * own, own)).collect(),
            hosts,
            stranger: Identities::seeded(rng.bits()).host().expect("a seeded name"),
            free: u64::from(config.blocks()),
            cluster: None,
            store: Arc::clone(&self.store),
        };
        self.reserving =
            Some(Reserving::start(world, (0, environment), known, journal, rng.fork()));
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
        if !self.goes_on(|run| run.initiators.iter().all(SimInitiator::is_over)) {
            return;
        }
        self.initiators.iter_mut().for_each(SimInitiator::begin_sweep);
        if !self.goes_on(|run| run.initiators.iter().all(SimInitiator::is_over)) {
            return;
        }
        check_store(
            &self.store,
            (&self.config, &self.oracle.borrow()),
            self.world.now(),
            &self.journal,
        );
        self.initiators.iter_mut().for_each(SimInitiator::close);
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
                    "the faults are over, and the options allow {patience:.1?}: {who}"
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

// Checks progress once the faults are over: no operation is older than the options allow, and no
// workload stands still.

/// What is waited for: the operation of a workload of an initiator, or the next one where there is
/// none.
type Waiting = (usize, usize, Option<u64>);

/// Watches the operations of all initiators, by the time of the world.
struct Progress {
    /// The longest that an operation may take.
    patience: Duration,
    /// The longest that a workload may be without one.
    pause: Duration,
    since: BTreeMap<Waiting, Time>,
    /// The longest that an operation took so far.
    pub longest: Duration,
}

impl Progress {
    /// Operations that are under way already are as if they began now.
    pub fn new(patience: Duration, pause: Duration) -> Self {
        Self { patience, pause, since: BTreeMap::new(), longest: Duration::ZERO }
    }

    /// Looks at all operations; who waits too long, in words.
    pub fn look(&mut self, now: Time, initiators: &[SimInitiator]) -> Option<String> {
        let waiting = waiting(initiators);
        self.since.retain(|waits, _| waiting.contains(waits));
        let mut late = None;
        for waits @ (initiator, workload, operation) in waiting {
            let age = now - *self.since.entry(waits).or_insert(now);
            let name = || format!("{}/{workload}", initiators[initiator].name);
            match operation {
                Some(operation) => {
                    self.longest = self.longest.max(age);
                    if age > self.patience {
                        late = Some(format!("{}: operation {operation} is under way", name()));
                    }
                }
                None if age > self.pause => {
                    late = Some(format!("{}: nothing is under way", name()))
                }
                None => {}
            }
        }
        late
    }
}

fn waiting(initiators: &[SimInitiator]) -> Vec<Waiting> {
    let mut all = Vec::new();
    for (n, initiator) in initiators.iter().enumerate() {
        for (m, workload) in initiator.workloads.iter().enumerate() {
            let workload = workload.borrow();
            let before = all.len();
            all.extend(workload.under_way().map(|operation| (n, m, Some(operation))));
            if all.len() == before && (workload.running || !workload.is_over()) {
                all.push((n, m, None));
            }
        }
    }
    all
}
